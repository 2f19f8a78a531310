// A matmul in the syntax of the XeTile RFC whose operands pass through a ring of two stages in shared memory.
#left = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 16]>
#right = #xetile.wg_map<sg_layout = [2, 2], sg_data = [16, 32]>
#out = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 32]>
#copy_left = #xetile.wg_map<sg_layout = [4, 1], sg_data = [16, 16]>
#copy_right = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 64]>

func.func @matmul(%x: memref<2048x1024xf16>, %y: memref<1024x4096xf16>, %z: memref<2048x4096xf32>) {
  scf.for %row = %c0 to %c2048 step %c64 {
    scf.for %column = %c0 to %c4096 step %c64 {
      %x_first = init_tile %x[%row, %c0] : memref<2048x1024xf16> -> tile<64x16xf16, #copy_left>
      %y_first = init_tile %y[%c0, %column] : memref<1024x4096xf16> -> tile<16x64xf16, #copy_right>
      %x_next = init_tile %x[%row, %c16] : memref<2048x1024xf16> -> tile<64x16xf16, #copy_left>
      %y_next = init_tile %y[%c16, %column] : memref<1024x4096xf16> -> tile<16x64xf16, #copy_right>

      %x_stage = init_tile %x[%row, %c0] : memref<2048x1024xf16, slm> -> tile<64x16xf16, #copy_left>
      %y_stage = init_tile %y[%c0, %column] : memref<1024x4096xf16, slm> -> tile<16x64xf16, #copy_right>
      %x_fill = init_tile %x[%row, %c16] : memref<2048x1024xf16, slm> -> tile<64x16xf16, #copy_left>
      %y_fill = init_tile %y[%c16, %column] : memref<1024x4096xf16, slm> -> tile<16x64xf16, #copy_right>
      %x_read = init_tile %x[%row, %c0] : memref<2048x1024xf16, slm> -> tile<64x16xf16, #left>
      %y_read = init_tile %y[%c0, %column] : memref<1024x4096xf16, slm> -> tile<16x64xf16, #right>
      %zs = init_tile %z[%row, %column] : memref<2048x4096xf32> -> tile<64x64xf32, #out>

      %vx_first = load_tile %x_first : tile<64x16xf16, #copy_left> -> vector<64x16xf16>
      %vy_first = load_tile %y_first : tile<16x64xf16, #copy_right> -> vector<16x64xf16>
      store_tile %vx_first, %x_stage : tile<64x16xf16, #copy_left>, vector<64x16xf16>
      store_tile %vy_first, %y_stage : tile<16x64xf16, #copy_right>, vector<16x64xf16>
      gpu.barrier

      %stage = 0
      scf.for %depth = %c0 to %c1024 step %c16 {
        %vx_next = load_tile %x_next : tile<64x16xf16, #copy_left> -> vector<64x16xf16>
        %vy_next = load_tile %y_next : tile<16x64xf16, #copy_right> -> vector<16x64xf16>
        %vx = load_tile %x_read : tile<64x16xf16, #left> -> vector<64x16xf16>
        %vy = load_tile %y_read : tile<16x64xf16, #right> -> vector<16x64xf16>
        %stage = add %stage, %c16
        %stage = mod %stage, %c32
        %x_read = update_tile_offset %x_read, %c0, %stage : tile<64x16xf16, #left>
        %y_read = update_tile_offset %y_read, %stage, %c0 : tile<16x64xf16, #right>
        %x_next = update_tile_offset %x_next, %c0, %c16 : tile<64x16xf16, #copy_left>
        %y_next = update_tile_offset %y_next, %c16, %c0 : tile<16x64xf16, #copy_right>
        %x_fill' = update_tile_offset %x_fill, %c0, %stage : tile<64x16xf16, #copy_left>
        %y_fill' = update_tile_offset %y_fill, %stage, %c0 : tile<16x64xf16, #copy_right>
        %vz = tile_mma %vx, %vy {#left #right #out} : (vector<64x16xf16>, vector<16x64xf16>) -> vector<64x64xf32>
        gpu.barrier
        store_tile %vx_next, %x_fill : tile<64x16xf16, #copy_left>, vector<64x16xf16>
        store_tile %vy_next, %y_fill : tile<16x64xf16, #copy_right>, vector<16x64xf16>
        %x_fill = %x_fill'
        %y_fill = %y_fill'
      }
      store_tile %zs, %vz : (tile<64x64xf32, #out>, vector<64x64xf32>)
    }
  }
}

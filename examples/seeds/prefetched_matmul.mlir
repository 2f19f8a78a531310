// A matmul in the syntax of the XeTile RFC: four warps hold 128x64, and prefetch two steps ahead by maps of their own.
#left = #xetile.wg_map<sg_layout = [2, 2], sg_data = [64, 32]>
#right = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 32]>
#out = #xetile.wg_map<sg_layout = [2, 2], sg_data = [64, 32]>
#left_ahead = #xetile.wg_map<sg_layout = [4, 1], sg_data = [32, 32]>
#right_ahead = #xetile.wg_map<sg_layout = [4, 1], sg_data = [8, 64]>

func.func @matmul(%x: memref<2048x1024xf16>, %y: memref<1024x4096xf16>, %z: memref<2048x4096xf32>) {
  scf.for %row = %c0 to %c2048 step %c128 {
    scf.for %column = %c0 to %c4096 step %c64 {
      %xs = init_tile %x[%row, %c0] : memref<2048x1024xf16> -> tile<128x32xf16, #left>
      %ys = init_tile %y[%c0, %column] : memref<1024x4096xf16> -> tile<32x64xf16, #right>
      %xs_ahead = init_tile %x[%row, %c64] : memref<2048x1024xf16> -> tile<128x32xf16, #left_ahead>
      %ys_ahead = init_tile %y[%c64, %column] : memref<1024x4096xf16> -> tile<32x64xf16, #right_ahead>
      %zs = init_tile %z[%row, %column] : memref<2048x4096xf32> -> tile<128x64xf32, #out>
      scf.for %depth = %c0 to %c1024 step %c32 {
        prefetch_tile %xs_ahead : tile<128x32xf16, #left_ahead>
        prefetch_tile %ys_ahead : tile<32x64xf16, #right_ahead>
        %vx = load_tile %xs : tile<128x32xf16, #left> -> vector<128x32xf16>
        %vy = load_tile %ys : tile<32x64xf16, #right> -> vector<32x64xf16>
        %vz = tile_mma %vx, %vy {#left #right #out} : (vector<128x32xf16>, vector<32x64xf16>) -> vector<128x64xf32>
        %xs = update_tile_offset %xs, %c0, %c32 : tile<128x32xf16, #left>
        %ys = update_tile_offset %ys, %c32, %c0 : tile<32x64xf16, #right>
        %xs_ahead = update_tile_offset %xs_ahead, %c0, %c32 : tile<128x32xf16, #left_ahead>
        %ys_ahead = update_tile_offset %ys_ahead, %c32, %c0 : tile<32x64xf16, #right_ahead>
      }
      store_tile %zs, %vz : (tile<128x64xf32, #out>, vector<128x64xf32>)
    }
  }
}

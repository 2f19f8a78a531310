// A matmul in the syntax of the XeTile RFC with prefetches into two caches: wide tiles into L2 at every fourth step,
// narrow tiles into L1 at each.
#left = #xetile.wg_map<sg_layout = [2, 2], sg_data = [64, 16]>
#right = #xetile.wg_map<sg_layout = [2, 2], sg_data = [16, 32]>
#out = #xetile.wg_map<sg_layout = [2, 2], sg_data = [64, 32]>
#left_l2 = #xetile.wg_map<sg_layout = [4, 1], sg_data = [32, 64]>
#right_l2 = #xetile.wg_map<sg_layout = [4, 1], sg_data = [16, 64]>
#left_l1 = #xetile.wg_map<sg_layout = [4, 1], sg_data = [32, 16]>
#right_l1 = #xetile.wg_map<sg_layout = [4, 1], sg_data = [4, 64]>

func.func @matmul(%x: memref<2048x1024xf16>, %y: memref<1024x4096xf16>, %z: memref<2048x4096xf32>) {
  scf.for %row = %c0 to %c2048 step %c128 {
    scf.for %column = %c0 to %c4096 step %c64 {
      %x_l2 = init_tile %x[%row, %c64] : memref<2048x1024xf16> -> tile<128x64xf16, #left_l2>
      %y_l2 = init_tile %y[%c64, %column] : memref<1024x4096xf16> -> tile<64x64xf16, #right_l2>
      %x_l1 = init_tile %x[%row, %c32] : memref<2048x1024xf16> -> tile<128x16xf16, #left_l1>
      %y_l1 = init_tile %y[%c32, %column] : memref<1024x4096xf16> -> tile<16x64xf16, #right_l1>
      %xs = init_tile %x[%row, %c0] : memref<2048x1024xf16> -> tile<128x16xf16, #left>
      %ys = init_tile %y[%c0, %column] : memref<1024x4096xf16> -> tile<16x64xf16, #right>
      %zs = init_tile %z[%row, %column] : memref<2048x4096xf32> -> tile<128x64xf32, #out>
      scf.for %depth = %c0 to %c1024 step %c16 {
        scf.if (%depth % 4 == 0) {
          prefetch_tile %x_l2 locality<2> : tile<128x64xf16, #left_l2>
          prefetch_tile %y_l2 locality<2> : tile<64x64xf16, #right_l2>
          %x_l2 = update_tile_offset %x_l2, %c0, %c64 : tile<128x64xf16, #left_l2>
          %y_l2 = update_tile_offset %y_l2, %c64, %c0 : tile<64x64xf16, #right_l2>
        }
        prefetch_tile %x_l1 locality<3> : tile<128x16xf16, #left_l1>
        prefetch_tile %y_l1 locality<3> : tile<16x64xf16, #right_l1>
        %x_l1 = update_tile_offset %x_l1, %c0, %c16 : tile<128x16xf16, #left_l1>
        %y_l1 = update_tile_offset %y_l1, %c16, %c0 : tile<16x64xf16, #right_l1>
        %vx = load_tile %xs : tile<128x16xf16, #left> -> vector<128x16xf16>
        %vy = load_tile %ys : tile<16x64xf16, #right> -> vector<16x64xf16>
        %xs = update_tile_offset %xs, %c0, %c16 : tile<128x16xf16, #left>
        %ys = update_tile_offset %ys, %c16, %c0 : tile<16x64xf16, #right>
        %vz = tile_mma %vx, %vy {#left #right #out} : (vector<128x16xf16>, vector<16x64xf16>) -> vector<128x64xf32>
      }
      store_tile %zs, %vz : (tile<128x64xf32, #out>, vector<128x64xf32>)
    }
  }
}

// Row totals of x @ y^T + bias, in the syntax of the XeTile RFC: y is transposed between two maps, the product is
// converted so that a warp holds whole rows, and all blocks of a row add to its total.
#left = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 32]>
#right = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 64]>
#turned = #xetile.wg_map<sg_layout = [2, 2], sg_data = [64, 32]>
#out = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 64]>
#bias = #xetile.wg_map<sg_layout = [2, 2], sg_data = [1, 64]>
#rows = #xetile.wg_map<sg_layout = [4, 1], sg_data = [16, 128]>
#totals = #xetile.wg_map<sg_layout = [4, 1], sg_data = [16, 1]>

func.func @row_totals(%x: memref<2048x1024xf16>, %y: memref<4096x1024xf16>, %bias: memref<4096xf32>,
    %totals: memref<2048xf32>) {
  scf.for %row = %c0 to %c2048 step %c64 {
    scf.for %column = %c0 to %c4096 step %c128 {
      %xs = init_tile %x[%row, %c0] : memref<2048x1024xf16> -> tile<64x32xf16, #left>
      %ys = init_tile %y[%column, %c0] : memref<4096x1024xf16> -> tile<128x32xf16, #turned>
      %line = memref.cast %bias : memref<4096xf32> -> memref<1x4096xf32>
      %biases = init_tile %line[%column] : memref<1x4096xf32> -> tile<1x128xf32, #bias>
      %each = memref.cast %totals : memref<2048xf32> -> memref<2048x1xf32>
      %sums = init_tile %each[%row] : memref<2048x1xf32> -> tile<64x1xf32, #totals>
      scf.for %depth = %c0 to %c1024 step %c32 {
        %vx = load_tile %xs : tile<64x32xf16, #left> -> vector<64x32xf16>
        %vt = load_tile %ys : tile<128x32xf16, #turned> -> vector<128x32xf16>
        %vy = transpose %vt {#turned #right} : vector<128x32xf16> -> vector<32x128xf16>
        %vz = tile_mma %vx, %vy {#left #right #out} : (vector<64x32xf16>, vector<32x128xf16>) -> vector<64x128xf32>
        %xs = update_tile_offset %xs, %c0, %c32 : tile<64x32xf16, #left>
        %ys = update_tile_offset %ys, %c0, %c32 : tile<128x32xf16, #turned>
      }
      %b = load_tile %biases : tile<1x128xf32, #bias> -> vector<1x128xf32>
      %wide = broadcast {#bias #out} %b [0] : vector<1x128xf32> => vector<64x128xf32>
      %biased = add %vz, %wide : vector<64x128xf32>
      %whole = convert_layout {#out #rows} %biased : vector<64x128xf32>
      %sum = reduction {#rows #totals} <add> %whole [1] : vector<64x128xf32> => vector<64x1xf32>
      store_tile %sums, %sum : (tile<64x1xf32, #totals>, vector<64x1xf32>)
    }
  }
}

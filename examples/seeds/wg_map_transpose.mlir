// XeTile RFC (intel/mlir-extensions, Apache-2.0 with LLVM exceptions), transpose with a wg_map, scaled to 128x64.
   #wg_map_a = #xetile.wg_map<sg_layout = [4, 8], sg_data = [16, 16]>
   %vector_a = xetile.transpose %vector_b {#wg_map_a}: vector<128x64xfloat> into vector<64x128xfloat>

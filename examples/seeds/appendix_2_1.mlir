// XeTile RFC (intel/mlir-extensions, Apache-2.0 with LLVM exceptions), appendix 2.1, in its own spelling, with tiles and
// maps scaled to what an SM holds: halved along m.
#mp_a     = #wg_map<sg_layout=[4,4], sg_data=[32,32]>
#mp_a_pfh = #wg_map<sg_layout=[16,1], sg_data=[8,32]>
#mp_b     = #wg_map<sg_layout=[4,4], sg_data=[32,64]>
#mp_b_pfh = #wg_map<sg_layout=[4,4], sg_data=[8,64]>
#mp_c     = #wg_map<sg_layout=[4,4], sg_data=[32,64]>

func.func @test_gemm(%a : memref<4096x4096xf16>,
       %b: memref<4096x4096xf16>,
       %c: memref<4096xf32> ) {
  scf.for %i = %c0 to %c4096 step %c128 {
    scf.for %j = %c0 to %c4096 step %c256 {
       %1 = init_tile %a[%i, %c0] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a>
       %2 = init_tile %b[%c0, %j] : memref<4096x4096xf16> -> tile<32x256xf16, #mp_b>
       %1p = init_tile %a[%i, %c96] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a_pfh]> 
       %2p = init_tile %b[%c96, %j] : memref<4096x4096xf16> -> tile<32x256xf16, #mp_b_pfh

       %3 = init_tile %c[%i, %j] : memref<4096x4096xf32> -> tile<128x256xf32, #mp_c>           

       scf.for %k= %c0 to %c4096 step %c32 {
           %4  = load_tile %1 : tile<128x32xf16  #mp_a > -> vector<128x32xf16>
           %10 = load_tile %2  : tile<32x256xf16 #mp_b> -> vector<32x256xf16>
          
           prefetch_tile %1 : tile<128x32xf16, #mp_a_pfh>             			      
           prefetch_tile %2  : tile<32x256xf16, #mp_a_pfh>             
           %6 = tile_mma %4, %10 {#mp_a #mp_b #mp_c} : (vector<128x32xf16>, vector<32x256xf16>) -> vector<128x256xf32>
           %1 = update_tile_offset   %1, %c0, %c32tile<128x32xf16, #mp_a>
           %2 = update_tile_offset   %2, %c32, %c0tile<32x256xf16, #mp_b>
           %1p = update_tile_offset   %1p, %c0, %c32tile<128x32xf16, #mp_a_pft>
           %2p = update_tile_offset   %2p, %c32, %c0tile<32x256xf16, #mp_b_pft>
         } 
         store_tile %3, %6: (tile<128x256xf32, #mp_c>, vector<128x256xf32>)          
    } 
  }

// XeTile RFC (intel/mlir-extensions, Apache-2.0 with LLVM exceptions), appendix 2.2, in its own spelling, with tiles and
// maps scaled to what an SM holds: halved along m.
#mp_a     = #wg_map<sg_layout=[4,4], sg_data=[32,32]>
#mp_a_pfh = #wg_map<sg_layout=[16,1], sg_data=[8,32]>
#mp_b     = #wg_map<sg_layout=[4,4], sg_data=[32,64]>
#mp_bt    = #wg_map<sg_layout=[4,4], sg_data=[64,32]>
#mp_bt_pfh = #wg_map<sg_layout=[16,1], sg_data=[16,32]>
#mp_c     = #wg_map<sg_layout=[4,4], sg_data=[32,64]>

#mp_bcast = #wg_map<sg_layout=[4, 4], sg_data=[1,64]>
#mp_reduce= #wg_map<sg_layout=[16, 1], sg_data=[8, 1]>
#mp_reduce2= #wg_map<sg_layout=[16, 1], sg_data=[8, 256]>

func.func @test_gemm(%a : memref<4096x4096xf16>,
       %b: memref<4096x4096xf16>,
       %bcast: memref<4096xf32>
       %res: memref<4096xf32> ) {
  scf.for %i = %c0 to %c4096 step %c128 {
    scf.for %j = %c0 to %c4096 step %c256 {
       %1 = init_tile %a[%i, %c0] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a>
       %2 = init_tile %bt[%j, %c0] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_bt>
       %1p = init_tile %a[%i, %c192] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a_pfh]> 
       %2p = init_tile %bt[%j, %c192] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_bt_pfh

       %bcast'= memref.cast %bcast: memref<4096xf32> -> memref<1x4096xf32>
       %7 = init_tile %bcast'[%j] : memref<1x4096xf32> -> tile<1x256xf32, #mp_bast

       %res'= memref.cast %res: memref<4096xf32> -> memref<4096x1xf32>
       %3 = init_tile %res'[%i] : memref<4096x1xf32> -> tile<128x1xf32, #mp_reduce>           

       scf.for %k= %c0 to %c4096 step %c32 {
           %4  = load_tile %1 : tile<128x32xf16  #mp_a > -> vector<128x32xf16>
           %10 = load_tile %2  : tile<256x32xf16 #mp_bt> -> vector<256x32xf16>
           %5  = transpose %10 {#mp_bt #mp_b}: vector<256x32xf16> -> vector<32x256xf16

           prefetch_tile %1 : tile<128x32xf16, #mp_a_pfh>             			      
           prefetch_tile %2  : tile<128x32xf16, #mp_a_pfh>             
           %6 = tile_mma %4, %5 {#mp_a #mp_b #mp_c} : (vector<128x32xf16>, vector<32x256xf16>) -> vector<128x256xf32>
           %1 = update_tile_offset   %1, %c0, %c32tile<128x32xf16, #mp_a>
           %2 = update_tile_offset   %2, %c0, %c32tile<256x32xf16, #mp_bt>
           %1p = update_tile_offset   %1p, %c0, %c32tile<128x32xf16, #mp_a_pft>
           %2p = update_tile_offset   %2p, %c32, %c0tile<256x32xf16, #mp_bt_pft>
         } 

         %12  = load_tile %7  : tile<1x256xf32, #mp_bcast> -> vector<1x256xf16>    
         %13 = broadcast {#mp_bcast #mp_c} %12 [0]: vector<1x256xf32> => vector<128x256xf32>   	 
         %14 = add %6, %13 : vector<128x256xf32>
         %15 = convert_layout {#mp_c #mp_reduce2} %14 :  vector<128x256xf32>				 
         %16 = reduction {#mp_reduce2 #mp_reduce} <add> %15 [1]: vector<128x256xf32> => vector<128x1xf32>  
       store_tile %3, %7: (tile<128x1xf32, #mp_reduce>, vector<128x1xf32>)          
    } 
  }

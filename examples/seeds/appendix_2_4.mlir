// XeTile RFC (intel/mlir-extensions, Apache-2.0 with LLVM exceptions), appendix 2.4, in its own spelling, with tiles and
// maps scaled to what an SM holds: 16 subgroups on 128x128.
#mp_a     = #wg_map<sg_layout=[4,4], sg_data=[32,32]>
#mp_a_cop = #wg_map<sg_layout=[16,1], sg_data=[8,32]>
#mp_b     = #wg_map<sg_layout=[4,4], sg_data=[32,32]>
#mp_b_cop = #wg_map<sg_layout=[4,4], sg_data=[8,32]>
#mp_c     = #wg_map<sg_layout=[4,4], sg_data=[32,32]>

func.func @test_gemm(%a : memref<4096x4096xf16>,
       %b: memref<4096x4096xf16>,
       %c: memref<4096xf32> ) {
  scf.for %i = %c0 to %c4096 step %c128 {
    scf.for %j = %c0 to %c4096 step %c128 {
       %a1_glb = init_tile %a[%i, %c0] : memref<4096x4096xf16 > -> tile<128x32xf16, #mp_a_cop >
       %b1_glb = init_tile %b[%c0, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_cop >
       %a2_glb = init_tile %a[%i, %c32] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a_cop]>
       %b2_glb = init_tile %b [%c32, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_cop>
       %a3_glb = init_tile %a[%i, %c64] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a_cop]>
       %b3_glb = init_tile %b [%c64, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_cop>
       %a4_glb = init_tile %a[%i, %c96] : memref<4096x4096xf16> -> tile<128x32xf16, #mp_a_cop]>
       %b4_glb = init_tile %b [%c96, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_cop>

       %a1_slm = init_tile %a[%i, %c0] : memref<4096x4096xf16, slm> -> tile<128x32xf16, #mp_a_cop >
       %b1_slm = init_tile %b[%c0, %j] : memref<4096x4096xf16, slm > -> tile<32x128xf16, #mp_b_cop >
       %a2_slm = init_tile %a[%i, %c32] : memref<4096x4096xf16, slm > -> tile<128x32xf16, #mp_a_cop]>
       %b2_slm = init_tile %b [%c32, %j] : memref<4096x4096xf16, slm > -> tile<32x128xf16, #mp_b_cop>
       %a3_slm = init_tile %a[%i, %c64] : memref<4096x4096xf16, slm > -> tile<128x32xf16, #mp_a_cop]>
       %b3_slm = init_tile %b [%c64, %j] : memref<4096x4096xf16, slm > -> tile<32x128xf16, #mp_b_cop>
       %a4_slm = init_tile %a[%i, %c96] : memref<4096x4096xf16, slm > -> tile<128x32xf16, #mp_a_cop]>
       %b4_slm = init_tile %b [%c96, %j] : memref<4096x4096xf16, slm > -> tile<32x128xf16, #mp_b_cop>

       %a1_r  = load_tile %a1_glb : tile<128x32xf16  #mp_a_cop > -> vector<128x32xf16>
       %b1_r = load_tile %b1_glb : tile<32x128xf16 #mp_b_cop> -> vector<32x128xf16>
       %a2_r  = load_tile %a2_glb : tile<128x32xf16  #mp_a_cop > -> vector<128x32xf16>
       %b2_r = load_tile %b2_glb  : tile<32x128xf16 #mp_b_cop> -> vector<32x128xf16>
       %a3_r  = load_tile %a3_glb : tile<128x32xf16  #mp_a_cop > -> vector<128x32xf16>
       %b3_r = load_tile %b3_glb  : tile<32x128xf16 #mp_b_cop> -> vector<32x128xf16>

       gpu.barrier
       store_tile %a1_r, %a1_slm: tile<128x32xf16, #mp_a_cop>, vector<128x128xf32>
       store_tile %b1_r, %b1_slm: tile<32x128xf16, #mp_b_cop>, vector<128x128xf32>
       store_tile %a2_r, %a2_slm: tile<128x32xf16, #mp_a_cop>, vector<128x128xf32>
       store_tile %b2_r, %b2_slm: tile<32x128xf16, #mp_b_cop>, vector<128x128xf32>
       store_tile %a3_r, %a3_slm: tile<128x32xf16, #mp_a_cop>, vector<128x128xf32>
       store_tile %b3_r, %b3_slm: tile<32x128xf16, #mp_b_cop>, vector<128x128xf32>

       gpu.barrier

       %a1_load = init_tile %a[%i, %c0] : memref<4096x4096xf16, slm> -> tile<128x32xf16, #mp_a >
       %b1_load = init_tile %b[%c0, %j] : memref<4096x4096xf16, slm > -> tile<32x128xf16, #mp_b >

       %c_glb = init_tile %c[%i, %j] : memref<4096x4096xf32> -> tile<128x128xf32, #mp_c>

       %slm_offset = 0

       scf.for %k= %c0 to %c4096 step %c32 {

           %a4_r  = load_tile %a4_glb : tile<128x32xf16#mp_a_cop > -> vector<128x32xf16>
           %b4_r = load_tile %b4_glb: tile<32x128xf16 #mp_b_cop> -> vector<32x128xf16>


           %a1_rr  = load_tile %a1_load : tile<128x32xf16  #mp_a > -> vector<128x32xf16>
           %b1_rr = load_tile %b1_load : tile<32x128xf16 #mp_b> -> vector<32x128xf16>

           %slm_offset = add %slm_offset,  %c32
           %slm_offset = mod %slm_offset,  %c128

           %a1_load = update_tile_offset  %a1_load, %c0, %slm_offset :  tile<128x32xf16, #mp_a>
           %b1_load = update_tile_offset  %b1_load, %slm_offset, %c0 :  tile<32x128xf16, #mp_b>
           %a4_glb = update_tile_offset   %a4_glb, %c0, %c32 : tile<128x32xf16, #mp_a_pft>
           %b4_glb = update_tile_offset   %b4_glb, %c32, %c0 : tile<32x128xf16, #mp_b_pft>
           %a4_slm’ = update_tile_offset  %a4_slm, %c0, %slm_offset: tile<128x32xf16, #mp_a_pft>
           %b4_slm’ = update_tile_offset  %b4_slm, %slm_offset, %c0 : tile<32x128xf16, #mp_b_pft>

           %c_r = tile_mma %a1_rr, %b1_rr {#mp_a #mp_b #mp_c}:
                   (vector<128x32xf16>, vector<32x128xf16>) -> vector<128x128xf32>

           gpu.barrier


	   store_tile %a4_r, %a4_slm: tile<128x32xf16, #mp_a_cop>, vector<128x128xf32>
           store_tile %b4_r, %b4_slm: tile<32x128x f16, #mp_b_cop>, vector<128x128xf32>

           %a4_slm = %a4_slm%b4_slm = %b4_slm’
        }
        store_tile %c_r, %c_glb: (tile<128x128xf32, #mp_c>, vector<128x128xf32>)          
    }
  }
}

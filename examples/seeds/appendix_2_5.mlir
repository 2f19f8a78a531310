// XeTile RFC (intel/mlir-extensions, Apache-2.0 with LLVM exceptions), appendix 2.5, in its own spelling, with tiles and
// maps scaled to what an SM holds: 4x2 subgroups of 64x64 on 256x128.
#mp_a = #wg_map<sg_layout=[4,2], sg_data=[64,32]>
#mp_b = #wg_map<sg_layout=[4,2], sg_data=[32,64]>
#mp_c = #wg_map<sg_layout=[4,2], sg_data=[64,64]>

#mp_a_copl2 = #wg_map<sg_layout=[8,1], sg_data=[32,128]>
#mp_b_copl2 = #wg_map< sg_layout=[8,1], sg_data=[16,128]>

#mp_a_copl1 = #wg_map<sg_layout=[8,1], sg_data=[32,32]>
#mp_b_copl1 = #wg_map< sg_layout=[4, 2], sg_data=[8,64]>

func.func @test_gemm(%a : memref<4096x4096xf16>,
       %b: memref<4096x4096xf16>,
       %c: memref<4096xf32> ) {
   scf.for %i = %c0 to %c4096 step %c256 {
     scf.for %j = %c0 to %c4096 step %c128 {
        %a1_l2 = init_tile %a[%i, %c0] : memref<4096x4096xf16> -> tile<256x128xf16, #mp_a_copl2>
        %b1_l2 = init_tile %b[%c0, %j] : memref<4096x4096xf16> -> tile<128x128xf16, #mp_b_copl2>
        %a2_l2 = init_tile %a[%i, %c256] : memref<4096x4096xf16> -> tile<256x128xf16, #mp_a_copl2>
        %b2_l2 = init_tile %b[%c256, %j] : memref<4096x4096xf16> -> tile<128x128xf16, #mp_b_copl2>

        prefetch_tile %a1_l2 locality<2>: tile<256x128xf16, #mp_a_copl2>
        prefetch_tile %b1_l2 locality<2>: tile<128x128xf16, #mp_b_copl2>
	prefetch_tile %a2_l2 locality<2>: tile<256x128xf16, #mp_a_copl2>
        prefetch_tile %b2_l2 locality<2>: tile<128x128xf16, #mp_b_copl2>
        %a2_l2’ = update_tile_offset   %a2_l2, %c0, %c32 :  tile<256x128xf16, #mp_b_copl2>
        %b2_l2’ = update_tile_offset   %b2_l2, %c32, %c0 :  tile<128x128xf16, #mp_b_copl2>

        %a1_l1 = init_tile %a[%i, %c0] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_a_copl1>
        %b1_l1 = init_tile %b[%c0, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_copl1>
        %a2_l1 = init_tile %a[%i, %c32] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_a_copl1>
        %b2_l1 = init_tile %b[%c32, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_copl1>
        %a3_l1 = init_tile %a[%i, %c64] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_a_copl1>
        %b3_l1 = init_tile %b[%c64, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_copl1>
        %a4_l1 = init_tile %a[%i, %c96] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_a_copl1>
        %b4_l1 = init_tile %b[%c96, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b_copl1>

        prefetch_tile %a1_l1 locality<3>: tile<256x32xf16, #mp_a_copl1>
        prefetch_tile %b1_l1 locality<3>: tile<32x128xf16, #mp_b_copl1>
        prefetch_tile %a2_l1 locality<3>: tile<256x32xf16, #mp_a_copl1>
        prefetch_tile %b2_l1 locality<3>: tile<32x128xf16, #mp_b_copl1>
        prefetch_tile %a3_l1 locality<3>: tile<256x32xf16, #mp_a_copl1>
        prefetch_tile %b3_l1 locality<3>: tile<32x128xf16, #mp_b_copl1>
        prefetch_tile %a4_l1 locality<3>: tile<256x32xf16, #mp_a_copl1>
        prefetch_tile %b4_l1 locality<3>: tile<32x128xf16, #mp_b_copl1>
        %a4_l1’ = update_tile_offset   % a4_l1, %c0, %c128 :  tile<256x32xf16, #mp_a_copl1>
        %b4_l1’ = update_tile_offset   % b4_l1, %c128, %c0 :  tile<32x128xf16, #mp_b_copl1>

        %a1_load = init_tile %a[%i, %c0] : memref<4096x4096xf16> -> tile<256x32xf16, #mp_a>
        %b1_load = init_tile %b[%c0, %j] : memref<4096x4096xf16> -> tile<32x128xf16, #mp_b>

        %c_tile = init_tile %c[%i, %j] : memref<4096x4096xf32> -> tile<256x128xf32, #mp_c>

        scf.for %k= %c0 to %c4096 step %c32 {
            %a1_r = load_tile %a1_load : tile<256x32xf16  #mp_a > -> vector<256x32xf16>
            %b1_r = load_tile %b1_load  : tile<32x128xf16 #mp_b> -> vector<32x128xf16>

            Scf.if (%k %4 == 0) {
                gpu.barrier
                prefetch_tile %a2_l2locality<2>: tile<256x128xf16, #mp_a_copl2>
                prefetch_tile %b2_l2locality<2>: tile<128x128xf16, #mp_b_copl2>
                %a2_l2’ = update_tile_offset   %a2_l2’, %c0, %c128 :  tile<256x128xf16, #mp_a_copl2>
                %b2_l2’ = update_tile_offset   %b2_l2’, %c128, %c0 :  tile<128x128xf16, #mp_b_copl2>
            }
            prefetch_tile %a4_l1locality<3>: tile<256x32xf16, #mp_a_copl1>
            prefetch_tile %b4_l1locality<3>: tile<32x128xf16, #mp_b_copl1>
            %a4_l1’ = update_tile_offset   %a4_l1’, %c0, %c32 :  tile<256x32xf16, #mp_a_copl1>
            %b4_l1’ = update_tile_offset   %b4_l1’, %c32, %c0 :  tile<32x128xf16, #mp_b_copl1>

            %a1_load = update_tile_offset   %a1_load, %c0, %c32 :  tile<256x32xf16, #mp_a>
            %a2_load = update_tile_offset   %b1_load, %c32, %c0 :  tile<32x128xf16, #mp_b>

            %6 = tile_mma %a1_r, %b1_r {#mp_a #mp_b #mp_c} : (vector<256x32xf16>, vector<32x128xf16>) -> vector<256x128xf32>
        }
       store_tile %c_tile, %6: (tile<256x128xf32, #mp_c>, vector<256x128xf32>)
     }
   }
}

// XeTile RFC (intel/mlir-extensions, Apache-2.0 with LLVM exceptions), appendix 1: B stored transposed and viewed with order = [0, 1].
   BF16 A[M][K], BT[N, K], C[M][N];    // C = MM(A, BT)
   For i = 0, M-1, M_tile  Do
    For j = 0, N-1, N_tile Do
        For k = 0, K-1, K_tile  Do
            %a = init_tile &A, [i, k], [M, K], [K, 1] : tile<64x32xbf16>;                	// M_tile=64, K_tile=32
            %b = init_tile &BT, [k, j], [K, N], [1, K] : tile<32x64xbf16, order = [0, 1]>;  	// K_tile =32, N_tile=64
            %c = init_tile &C, [i, j], [M, N], [N, 1] : tile<64x64xbf16>;               	// M_tile=64, N_tile=64
            %va = load_tile %a : vector<64x32xbf16>;
             %vb = load_tile %b : vector<32x64x bf16>;
             %vc = tile_mma %va, %vb : vector<64x32xbf16>, vector<32x64x bf16> into vector<64x64xbf16>;

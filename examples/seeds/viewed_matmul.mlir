// A matmul in the pseudocode of the XeTile RFC: y is stored transposed, and its tiles view it with order = [0, 1].
F16 X[R][D], YT[S, D], Z[R][S];
For r = 0, R-1, R_tile Do
  For s = 0, S-1, S_tile Do
    For d = 0, D-1, D_tile Do
      %x = init_tile &X, [r, d], [R, D], [D, 1] : tile<64x16xf16>;  // R_tile=64, D_tile=16
      %y = init_tile &YT, [d, s], [D, S], [1, D] : tile<16x32xf16, order = [0, 1]>;  // S_tile=32
      %z = init_tile &Z, [r, s], [R, S], [S, 1] : tile<64x32xf16>;
      %vx = load_tile %x : vector<64x16xf16>;
      %vy = load_tile %y : vector<16x32xf16>;
      %vz = tile_mma %vx, %vy : vector<64x16xf16>, vector<16x32xf16> into vector<64x32xf16>;

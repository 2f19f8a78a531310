// The matvec with its reduction expanded, 128 -> 32 x 4: a thread adds up its vector in the loop, and carries one sum a row.
%dots = linalg.generic {
    indexing_maps = [affine_map<(m, n, k, v) -> (m, k, v)>, affine_map<(m, n, k, v) -> (n, k, v)>,
      affine_map<(m, n, k, v) -> (m, n)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%xs, %ws : tensor<6x2048x4xf16>, tensor<3072x2048x4xf16>) outs(%zeros : tensor<6x3072xf32>)
    attrs = {lowering_config = #iree_gpu.lowering_config<{workgroup = [3, 1, 0], thread = [0, 0, 0, 4],
      subgroup_basis = [[1, 1, 1, 1], [0, 1, 2, 3]], lane_basis = [[1, 1, 32, 1], [0, 1, 2, 3]],
      expand_dims = [0, 0, 0, 4], partial_reduction = [0, 0, 32, 0]}>} {
^bb0(%a: f16, %b: f16, %sum: f32):
  %wide_a = arith.extf %a : f16 to f32
  %wide_b = arith.extf %b : f16 to f32
  %product = arith.mulf %wide_a, %wide_b : f32
  %next = arith.addf %sum, %product : f32
  linalg.yield %next : f32
} -> tensor<6x3072xf32>

// A matvec as linalg.generic with an iree_gpu.lowering_config: three rows a block, a warp steps along k by 128.
#row = affine_map<(m, n, k) -> (m, k)>
#line = affine_map<(m, n, k) -> (n, k)>
#dot = affine_map<(m, n, k) -> (m, n)>
%dots = linalg.generic {indexing_maps = [#row, #line, #dot], iterator_types = ["parallel", "parallel", "reduction"]}
  ins(%x, %w : tensor<6x8192xf16>, tensor<3072x8192xf16>) outs(%zeros : tensor<6x3072xf32>)
  attrs = {lowering_config = #iree_gpu.lowering_config<{workgroup = [3, 1, 0], thread = [0, 0, 4],
    subgroup_basis = [[1, 1, 1], [0, 1, 2]], lane_basis = [[1, 1, 32], [0, 1, 2]], partial_reduction = [0, 0, 128]}>} {
^bb0(%a: f16, %b: f16, %sum: f32):
  %wide_a = arith.extf %a : f16 to f32
  %wide_b = arith.extf %b : f16 to f32
  %product = arith.mulf %wide_a, %wide_b : f32
  %next = arith.addf %sum, %product : f32
  linalg.yield %next : f32
} -> tensor<6x3072xf32>

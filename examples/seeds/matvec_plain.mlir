// IREE issue 22153: a matvec with partial_reduction = [0, 0, 512].
 %7 = linalg.generic {indexing_maps = [#map, #map1, #map2],
 iterator_types = ["parallel", "parallel", "reduction"]}
 ins(%3, %4 : tensor<4x16384xf16>, tensor<6656x16384xf16>)
 outs(%6 : tensor<4x6656xf32>)
 attrs =  {lowering_config =
 #iree_gpu.lowering_config<{
 lane_basis = [[1, 1, 64], [0, 1, 2]],
 partial_reduction = [0, 0, 512],
 subgroup_basis = [[1, 1, 1], [0, 1, 2]],
 thread = [0, 0, 8],
 workgroup = [2, 1, 0]}} {
^bb0(%in: f16, %in_0: f16, %out: f32):
            %8 = arith.extf %in : f16 to f32
            %9 = arith.extf %in_0 : f16 to f32
            %10 = arith.mulf %8, %9 : f32
            %11 = arith.addf %out, %10 : f32
            linalg.yield %11 : f32
} -> tensor<4x6656xf32>

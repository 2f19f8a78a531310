// A vector that two warps hold by a nested_layout of IREE's VectorExt, through shared memory.
#spread = #iree_vector_ext.nested_layout<subgroup_tile = [1, 2], batch_tile = [2, 1], outer_tile = [2, 1],
  thread_tile = [4, 8], element_tile = [1, 2], subgroup_strides = [0, 1], thread_strides = [8, 1]>
%spread = iree_vector_ext.to_layout %values to layout(#spread) {shared_memory_conversion} : vector<16x32xf16>

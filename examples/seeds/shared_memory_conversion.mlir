// IREE VectorExt: the full example of nested_layout, through shared memory.
#full = #iree_vector_ext.nested_layout<subgroup_tile = [2, 1], batch_tile = [2, 4], outer_tile = [1, 1],
  thread_tile = [16, 4], element_tile = [1, 4], subgroup_strides = [1, 0], thread_strides = [1, 16]>
%output = iree_vector_ext.to_layout %input to layout(#full) {shared_memory_conversion} : vector<64x64xf16>

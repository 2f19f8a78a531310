// grid (8, 1, 1), block (32, 1, 1), 768 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  using T = autosched::f16;
  using Out = autosched::f16;
  static constexpr int m = 1;
  static constexpr int n = 9;
  static constexpr int k = 333;
  static constexpr int row_classes = 8;
  static constexpr int tile_m = 1;
  static constexpr int tile_n = 4;
  static constexpr int vector_w = 4;
  static constexpr int lanes_n = 4;
  static constexpr int lanes_k = 8;
  static constexpr int subgroups_n = 1;
  static constexpr int subgroups_k = 1;
  static constexpr int tile_k = 64;
  static constexpr autosched::Choice expand_dims = "yes";
  static constexpr autosched::Choice intrinsic = "fma";
  static constexpr int unroll = 1;
  static constexpr int split_k = 1;
  static constexpr autosched::Choice x_operand_source = "shared";
  static constexpr autosched::Choice cache_hint_w = "no_allocate_l2_256b";
  static constexpr int min_blocks = 1;
  static constexpr int tiles_m = 1;
  static constexpr int tiles_n = 1;
  static constexpr int tiles_k = 6;
  static constexpr int tiles_of_split = 6;
  static constexpr int blocks = 8;
  static constexpr int threads = 32;
  static constexpr int access = 4;
  static constexpr int rows_n = 1;
  static constexpr int batches_k = 2;
  static constexpr int rows_x = 1;
  static constexpr int vectors = 2;
  static constexpr int carried = 1;
  static constexpr int accumulators = 2;
  static constexpr int multiplies = 8;
  static constexpr int split_elements = 384;
  static constexpr int line_bytes = 768;
  static constexpr int slab_bytes = 768;
  static constexpr int sums_bytes = 0;
  static constexpr int shared_bytes = 768;
  static constexpr int registers = 24;
};

extern "C" __global__ void __launch_bounds__(32, 1)
autosched_matvec(const autosched::f16* __restrict__ x, const autosched::f16* __restrict__ w, autosched::f16* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}

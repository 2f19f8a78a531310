// grid (6, 1, 1), block (64, 1, 1), 17472 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  using T = autosched::f16;
  using Out = float;
  static constexpr int m = 13;
  static constexpr int n = 70;
  static constexpr int k = 1000;
  static constexpr int row_classes = 1;
  static constexpr int tile_m = 13;
  static constexpr int tile_n = 32;
  static constexpr int vector_w = 8;
  static constexpr int lanes_n = 8;
  static constexpr int lanes_k = 4;
  static constexpr int subgroups_n = 1;
  static constexpr int subgroups_k = 2;
  static constexpr int tile_k = 128;
  static constexpr autosched::Choice expand_dims = "yes";
  static constexpr autosched::Choice intrinsic = "mma_m16n8k16_f16";
  static constexpr int unroll = 2;
  static constexpr int split_k = 2;
  static constexpr autosched::Choice x_operand_source = "shared";
  static constexpr autosched::Choice cache_hint_w = "no_allocate";
  static constexpr int min_blocks = 1;
  static constexpr int tiles_m = 1;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 8;
  static constexpr int tiles_of_split = 4;
  static constexpr int blocks = 6;
  static constexpr int threads = 64;
  static constexpr int access = 8;
  static constexpr int rows_n = 4;
  static constexpr int batches_k = 2;
  static constexpr int rows_x = 2;
  static constexpr int vectors = 8;
  static constexpr int carried = 1;
  static constexpr int accumulators = 32;
  static constexpr int multiplies = 16;
  static constexpr int split_elements = 512;
  static constexpr int line_bytes = 1088;
  static constexpr int slab_bytes = 14144;
  static constexpr int sums_bytes = 3328;
  static constexpr int shared_bytes = 17472;
  static constexpr int registers = 114;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_matvec(const autosched::f16* __restrict__ x, const autosched::f16* __restrict__ w, float* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::matvec<Config>(x, w, out, partials, counters);
}

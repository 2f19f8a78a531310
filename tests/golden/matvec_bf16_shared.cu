// grid (6, 1, 1), block (128, 1, 1), 2688 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  using T = autosched::bf16;
  using Out = autosched::bf16;
  static constexpr int m = 5;
  static constexpr int n = 37;
  static constexpr int k = 328;
  static constexpr int row_classes = 1;
  static constexpr int tile_m = 3;
  static constexpr int tile_n = 16;
  static constexpr int vector_w = 4;
  static constexpr int lanes_n = 4;
  static constexpr int lanes_k = 8;
  static constexpr int subgroups_n = 2;
  static constexpr int subgroups_k = 2;
  static constexpr int tile_k = 128;
  static constexpr autosched::Choice expand_dims = "no";
  static constexpr autosched::Choice intrinsic = "fma";
  static constexpr int unroll = 2;
  static constexpr int split_k = 1;
  static constexpr autosched::Choice x_operand_source = "shared";
  static constexpr autosched::Choice cache_hint_w = "no_allocate";
  static constexpr int min_blocks = 2;
  static constexpr int tiles_m = 2;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 3;
  static constexpr int tiles_of_split = 3;
  static constexpr int blocks = 6;
  static constexpr int threads = 128;
  static constexpr int access = 4;
  static constexpr int rows_n = 2;
  static constexpr int batches_k = 2;
  static constexpr int rows_x = 3;
  static constexpr int vectors = 4;
  static constexpr int carried = 4;
  static constexpr int accumulators = 48;
  static constexpr int multiplies = 48;
  static constexpr int split_elements = 384;
  static constexpr int line_bytes = 768;
  static constexpr int slab_bytes = 2304;
  static constexpr int sums_bytes = 384;
  static constexpr int shared_bytes = 2688;
  static constexpr int registers = 82;
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matvec(const autosched::bf16* __restrict__ x, const autosched::bf16* __restrict__ w, autosched::bf16* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}

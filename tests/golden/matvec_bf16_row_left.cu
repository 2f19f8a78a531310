// grid (16, 1, 1), block (32, 1, 1), 1600 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  using T = autosched::bf16;
  using Out = autosched::bf16;
  static constexpr int m = 3;
  static constexpr int n = 21;
  static constexpr int k = 333;
  static constexpr int row_classes = 8;
  static constexpr int tile_m = 2;
  static constexpr int tile_n = 16;
  static constexpr int vector_w = 4;
  static constexpr int lanes_n = 8;
  static constexpr int lanes_k = 4;
  static constexpr int subgroups_n = 1;
  static constexpr int subgroups_k = 1;
  static constexpr int tile_k = 16;
  static constexpr autosched::Choice expand_dims = "yes";
  static constexpr autosched::Choice intrinsic = "mma_m16n8k16_bf16";
  static constexpr int unroll = 4;
  static constexpr int split_k = 1;
  static constexpr autosched::Choice x_operand_source = "shared";
  static constexpr autosched::Choice cache_hint_w = "no_allocate";
  static constexpr int min_blocks = 1;
  static constexpr int tiles_m = 2;
  static constexpr int tiles_n = 1;
  static constexpr int tiles_k = 22;
  static constexpr int tiles_of_split = 22;
  static constexpr int blocks = 16;
  static constexpr int threads = 32;
  static constexpr int access = 4;
  static constexpr int rows_n = 2;
  static constexpr int batches_k = 1;
  static constexpr int rows_x = 1;
  static constexpr int vectors = 2;
  static constexpr int carried = 1;
  static constexpr int accumulators = 4;
  static constexpr int multiplies = 1;
  static constexpr int split_elements = 352;
  static constexpr int line_bytes = 800;
  static constexpr int slab_bytes = 1600;
  static constexpr int sums_bytes = 0;
  static constexpr int shared_bytes = 1600;
  static constexpr int registers = 38;
};

extern "C" __global__ void __launch_bounds__(32, 1)
autosched_matvec(const autosched::bf16* __restrict__ x, const autosched::bf16* __restrict__ w, autosched::bf16* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}

// grid (2, 1, 1), block (64, 1, 1), 0 bytes of dynamic shared memory
#include <autosched/kernels/copy.cuh>

struct Config {
  using Word = unsigned char;
  static constexpr int bytes = 9797;
  static constexpr int threads = 64;
  static constexpr int vector_x = 16;
  static constexpr int unroll = 4;
  static constexpr int rounds = 2;
  static constexpr autosched::Choice order = "block";
  static constexpr autosched::Choice copy_x = "ld.global";
  static constexpr int stages = 1;
  static constexpr autosched::Choice cache_hint_x = "no_allocate_l2_256b";
  static constexpr autosched::Choice cache_hint_out = "streaming";
  static constexpr int min_blocks = 1;
  static constexpr int blocks = 2;
  static constexpr int staged = 16;
  static constexpr int registers = 32;
  static constexpr int shared_bytes = 0;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_copy(const unsigned char* __restrict__ x, unsigned char* __restrict__ out) {
  autosched::copy<Config>(x, out);
}

// grid (17, 1, 1), block (64, 1, 1), 3072 bytes of dynamic shared memory
#include <autosched/kernels/copy.cuh>

struct Config {
  using Word = unsigned short;
  static constexpr int bytes = 137082;
  static constexpr int threads = 64;
  static constexpr int vector_x = 8;
  static constexpr int unroll = 2;
  static constexpr int rounds = 8;
  static constexpr autosched::Choice order = "grid";
  static constexpr autosched::Choice copy_x = "cp.async";
  static constexpr int stages = 3;
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 1;
  static constexpr int blocks = 17;
  static constexpr int staged = 4;
  static constexpr int registers = 20;
  static constexpr int shared_bytes = 3072;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_copy(const unsigned short* __restrict__ x, unsigned short* __restrict__ out) {
  autosched::copy<Config>(x, out);
}

// grid (17, 1, 1), block (64, 1, 1), 3072 bytes of dynamic shared memory
#include <autosched/kernels/copy.cuh>

struct Config {
  using Word = unsigned short;
  static constexpr long long bytes = 137082ll;
  static constexpr int threads = 64;
  static constexpr int vector_bytes = 8;
  static constexpr int unroll = 2;
  static constexpr int rounds = 8;
  static constexpr int stages = 3;
  static constexpr int blocks = 17;
  static constexpr bool grid_order = true;
  static constexpr bool async = true;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::none;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::none;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_copy(const unsigned short* __restrict__ x, unsigned short* __restrict__ out) {
  autosched::copy<Config>(x, out);
}

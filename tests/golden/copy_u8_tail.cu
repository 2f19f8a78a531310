// grid (2, 1, 1), block (64, 1, 1), 0 bytes of dynamic shared memory
#include <autosched/kernels/copy.cuh>

struct Config {
  using Word = unsigned char;
  static constexpr long long bytes = 9797ll;
  static constexpr int threads = 64;
  static constexpr int vector_bytes = 16;
  static constexpr int unroll = 4;
  static constexpr int rounds = 2;
  static constexpr int stages = 1;
  static constexpr int blocks = 2;
  static constexpr bool grid_order = false;
  static constexpr bool async = false;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::no_allocate_l2_256b;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::streaming;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_copy(const unsigned char* __restrict__ x, unsigned char* __restrict__ out) {
  autosched::copy<Config>(x, out);
}

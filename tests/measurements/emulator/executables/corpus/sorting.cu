// Sorts of thrust and CUB: one-sweep radix sort, pairs as in torch.sort, segmented sort, and merge sort.
#include <thrust/device_vector.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <numeric>
#include <random>

#include "check.h"
struct Pair {
  int major, minor;
};
struct Less {
  __host__ __device__ bool operator()(const Pair& a, const Pair& b) const {
    return a.major != b.major ? a.major < b.major : a.minor < b.minor;
  }
};
template <class T>
std::vector<T> back(const thrust::device_vector<T>& d) {
  std::vector<T> h(d.size());
  thrust::copy(d.begin(), d.end(), h.begin());
  return h;
}
template <class Do>
void with_workspace(Do work) {
  std::size_t bytes = 0;
  CHECK(work(nullptr, bytes));
  thrust::device_vector<char> space(bytes);
  CHECK(work(thrust::raw_pointer_cast(space.data()), bytes));
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 20000;
  std::mt19937 random(5);
  bool good = true;

  std::vector<unsigned> keys(n);
  for (unsigned& k : keys) k = random();
  thrust::device_vector<unsigned> d(keys.begin(), keys.end());
  thrust::sort(d.begin(), d.end());
  std::sort(keys.begin(), keys.end());
  good = good && back(d) == keys;

  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 1000)) - 500;  // many keys are equal
  std::vector<long long> order(n);
  std::iota(order.begin(), order.end(), 0);
  thrust::device_vector<float> from(values.begin(), values.end()), to(n);
  thrust::device_vector<long long> places(order.begin(), order.end()), sorted(n);
  with_workspace([&](void* space, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairsDescending(space, bytes, thrust::raw_pointer_cast(from.data()), thrust::raw_pointer_cast(to.data()),
                                                     thrust::raw_pointer_cast(places.data()), thrust::raw_pointer_cast(sorted.data()), n);
  });
  std::stable_sort(order.begin(), order.end(), [&](long long a, long long b) { return values[a] > values[b]; });
  good = good && back(sorted) == order;

  const int rows = 7;
  std::vector<int> begins(rows + 1);
  for (int r = 0; r <= rows; ++r) begins[r] = static_cast<int>(static_cast<long long>(n) * r * r / (rows * rows));
  thrust::device_vector<int> segments(begins.begin(), begins.end());
  with_workspace([&](void* space, std::size_t& bytes) {
    return cub::DeviceSegmentedSort::StableSortKeys(space, bytes, thrust::raw_pointer_cast(from.data()), thrust::raw_pointer_cast(to.data()), n, rows,
                                                    thrust::raw_pointer_cast(segments.data()), thrust::raw_pointer_cast(segments.data()) + 1);
  });
  for (int r = 0; r < rows; ++r) std::sort(values.begin() + begins[r], values.begin() + begins[r + 1]);
  good = good && back(to) == values;

  std::vector<Pair> pairs(n);
  for (Pair& p : pairs) p = {static_cast<int>(random() % 100), static_cast<int>(random())};
  thrust::device_vector<Pair> merged(pairs.begin(), pairs.end());
  thrust::stable_sort(merged.begin(), merged.end(), Less());
  std::stable_sort(pairs.begin(), pairs.end(), Less());
  const std::vector<Pair> result = back(merged);
  for (int i = 0; i < n; ++i) good = good && result[i].major == pairs[i].major && result[i].minor == pairs[i].minor;
  return verdict(good);
}

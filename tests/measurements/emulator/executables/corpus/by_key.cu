// Scans, reductions and selections of thrust, in which blocks look back at values that earlier blocks have published.
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/unique.h>

#include <random>

#include "check.h"
struct Even {
  __host__ __device__ bool operator()(int x) const { return x % 2 == 0; }
};
template <class T>
std::vector<T> back(const thrust::device_vector<T>& d) {
  std::vector<T> h(d.size());
  thrust::copy(d.begin(), d.end(), h.begin());
  return h;
}
int main() {
  const int n = 20000;
  std::mt19937 random(7);
  std::vector<int> keys(n), values(n);
  for (int i = 0; i < n; ++i) {
    keys[i] = i == 0 ? 0 : keys[i - 1] + (random() % 5 == 0);
    values[i] = static_cast<int>(random() % 100);
  }
  const thrust::device_vector<int> k(keys.begin(), keys.end()), v(values.begin(), values.end());
  int sum = 0;
  std::vector<int> sums(n), runs, of_runs, even;
  for (int i = 0; i < n; ++i) {
    sums[i] = sum += values[i];
    if (i == 0 || keys[i] != keys[i - 1]) {
      runs.push_back(keys[i]);
      of_runs.push_back(0);
    }
    of_runs.back() += values[i];
    if (Even()(values[i])) even.push_back(values[i]);
  }
  bool good = thrust::reduce(v.begin(), v.end()) == sum;
  thrust::device_vector<int> out(n), more(n);
  thrust::inclusive_scan(v.begin(), v.end(), out.begin());
  good = good && back(out) == sums;
  const auto ends = thrust::reduce_by_key(k.begin(), k.end(), v.begin(), out.begin(), more.begin());
  more.resize(ends.second - more.begin());
  good = good && back(more) == of_runs;
  out.resize(thrust::unique_copy(k.begin(), k.end(), out.begin()) - out.begin());
  good = good && back(out) == runs;
  out.resize(n);
  out.resize(thrust::copy_if(v.begin(), v.end(), out.begin(), Even()) - out.begin());
  good = good && back(out) == even;
  return verdict(good);
}

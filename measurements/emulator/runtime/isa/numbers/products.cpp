#include "isa/numbers/products.hpp"

#include <cstring>

namespace autosched::emulator {
namespace {

template <class T, class Sum>
void add(unsigned rows, unsigned columns, unsigned k, const T* a, const T* b, Sum* d) {
  constexpr unsigned width = 8;  // columns computed at a time; their sums stay in registers
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned first = 0; first < columns; first += width) {
      Sum sum[width];
      std::memcpy(sum, d + r * columns + first, sizeof sum);
      for (unsigned l = 0; l < k; ++l) {
        const T x = a[r * k + l];
        const T* y = b + l * columns + first;
        for (unsigned e = 0; e < width; ++e) sum[e] = static_cast<Sum>(sum[e] + x * y[e]);
      }
      std::memcpy(d + r * columns + first, sum, sizeof sum);
    }
  }
}

}  // namespace

void add_products(unsigned rows, unsigned columns, unsigned k, const float* a, const float* b, float* d) {
  add(rows, columns, k, a, b, d);
}
void add_products(unsigned rows, unsigned columns, unsigned k, const double* a, const double* b, float* d) {
  add(rows, columns, k, a, b, d);
}
void add_products(unsigned rows, unsigned columns, unsigned k, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* d) {
  add(rows, columns, k, a, b, d);
}

}  // namespace autosched::emulator

// Products of matrices whose values are taken from memory. Compiled as code that loops, not as a handful of handlers.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// d[row][n] += a[row][k] * b[k][n], products one by one in the order of k, each sum rounded to f32. Columns are a multiple
// of 8. ``T``: float, double where products of f32 would not be exact, or std::uint32_t, whose sums wrap.
void add_products(unsigned rows, unsigned columns, unsigned k, const float* a, const float* b, float* d);
void add_products(unsigned rows, unsigned columns, unsigned k, const double* a, const double* b, float* d);
void add_products(unsigned rows, unsigned columns, unsigned k, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* d);

}  // namespace autosched::emulator

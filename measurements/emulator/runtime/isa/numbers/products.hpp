// Products of matrices in memory, as loops that are shared by several instructions.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// d[row][n] += a[row][k] * b[k][n], products one by one in the order of k, each sum rounded to f32. The number of
// columns is a multiple of 8. ``T``: float, double if products of f32 would not be exact, or std::uint32_t, whose sums
// wrap.
void add_products(unsigned rows, unsigned columns, unsigned k, const float* a, const float* b, float* d);
void add_products(unsigned rows, unsigned columns, unsigned k, const double* a, const double* b, float* d);
void add_products(unsigned rows, unsigned columns, unsigned k, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* d);

}  // namespace autosched::emulator

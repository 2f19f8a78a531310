// Matrix products of operands in memory. Several instructions use these functions.
#pragma once
#include <cstdint>

namespace autosched::emulator {

// Computes d[row][n] += a[row][k] * b[k][n]. Products are added one by one in the order of k, and each sum is rounded
// to f32. The number of columns is a multiple of 8. The elements of a and b have type float, double (if products would
// not be exact in f32) or std::uint32_t (for sums that wrap around).
void add_products(unsigned rows, unsigned columns, unsigned k, const float* a, const float* b, float* d);
void add_products(unsigned rows, unsigned columns, unsigned k, const double* a, const double* b, float* d);
void add_products(unsigned rows, unsigned columns, unsigned k, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* d);

}  // namespace autosched::emulator

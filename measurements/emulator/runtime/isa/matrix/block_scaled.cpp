// mma.sync with block scales: PTX ISA 9.7.14.3, "Block scaling". The function that executes an instruction is called
// when all lanes of the warp have arrived.
#include <cmath>

#include "isa/matrix/matrix.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace block_scaled_instructions {

// The order must equal the order of _ELEMENTS in measurements/emulator/ptx/families/mma.py.
enum Narrow { narrow_e4m3, narrow_e5m2, narrow_e2m1, narrow_e2m3, narrow_e3m2 };

double narrow_value(std::int64_t type, unsigned code, bool in_byte) {
  switch (type) {
    case narrow_e4m3: return decode(e4m3_format, code);
    case narrow_e5m2: return decode(e5m2_format, code);
    case narrow_e2m1: return in_byte ? matrix::value_in_byte(e2m1_format, code) : decode(e2m1_format, code);
    case narrow_e2m3: return matrix::value_in_byte(e2m3_format, code);
    default: return matrix::value_in_byte(e3m2_format, code);
  }
}

// ue8m0: a power of two, or NaN. ue4m3: e4m3 without a sign.
double scale_value(bool ue4m3, unsigned byte) {
  if (ue4m3) return decode(e4m3_format, byte & 0x7fu);
  return byte == 0xffu ? NAN : std::ldexp(1.0, static_cast<int>(byte) - 127);
}

// Immediates: see block_scaled_form. In each group of four lanes, they select the pair of lanes that holds the scales
// of A, and the lane that holds the scales of B. In the group of lanes 4 g to 4 g + 3, the lower lane of the pair has
// the scales of row g of A, and the upper lane has the scales of row g + 8. The lane for B has the scales of column g.
void mma_block_scale(Warp& w, const Instruction& i, Lanes) {
  constexpr unsigned m = 16, n = 8, most_k = 64;
  const auto k = static_cast<unsigned>(i.immediate[1]), scales = static_cast<unsigned>(i.immediate[4]);
  const std::int64_t a_type = i.immediate[2], b_type = i.immediate[3];
  const bool ue4m3 = i.immediate[5] != 0;
  const auto byte_a = static_cast<unsigned>(i.immediate[6]), pair_a = static_cast<unsigned>(i.immediate[7]);
  const auto byte_b = static_cast<unsigned>(i.immediate[8]), lane_b = static_cast<unsigned>(i.immediate[9]);
  const std::uint32_t* ra = i.operand + i.destinations;
  const std::uint32_t *rb = ra + 4, *rc = rb + 2, *rs = rc + 4;
  // values per register, bits per value, values per scale
  const unsigned run = k / 8, bits = 32 / run, block = k / scales;
  const unsigned mask = (1u << bits) - 1;
  double a[m][most_k], b[most_k][n];
  const std::uint32_t *scale_a = w.values<std::uint32_t>(rs[0]), *scale_b = w.values<std::uint32_t>(rs[1]);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const unsigned group = lane / 4, within = lane % 4;
    for (unsigned reg = 0; reg < 4; ++reg) {
      const unsigned row = group + 8 * (reg % 2);
      const std::uint32_t word = w.values<std::uint32_t>(ra[reg])[lane];
      const std::uint32_t factors = scale_a[4 * group + 2 * pair_a + reg % 2];
      for (unsigned v = 0; v < run; ++v) {
        const unsigned col = within * run + v + 4 * run * (reg / 2);
        a[row][col] = narrow_value(a_type, word >> (bits * v) & mask, bits == 8) *
                      scale_value(ue4m3, factors >> (8 * (byte_a + col / block)) & 0xffu);
      }
    }
    for (unsigned reg = 0; reg < 2; ++reg) {
      const std::uint32_t word = w.values<std::uint32_t>(rb[reg])[lane];
      const std::uint32_t factors = scale_b[4 * group + lane_b];
      for (unsigned v = 0; v < run; ++v) {
        const unsigned row = within * run + v + 4 * run * reg;
        b[row][group] = narrow_value(b_type, word >> (bits * v) & mask, bits == 8) *
                        scale_value(ue4m3, factors >> (8 * (byte_b + row / block)) & 0xffu);
      }
    }
  }
  float d[4][warp_size];
  for (unsigned v = 0; v < 4; ++v) {
    const float* c = w.values<float>(rc[v]);
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned row = lane / 4 + 8 * (v / 2), col = lane % 4 * 2 + v % 2;
      float sum = c[lane];  // exact products are added in the order of k, and each sum is rounded to f32
      for (unsigned l = 0; l < k; ++l) sum = static_cast<float>(sum + a[row][l] * b[l][col]);
      d[v][lane] = sum;
    }
  }
  for (unsigned v = 0; v < 4; ++v) {
    float* to = w.values<float>(i.destination(v));
    for (unsigned lane = 0; lane < warp_size; ++lane) to[lane] = d[v][lane];
  }
}

constexpr Row rows[] = {
    {"mma.block_scale", mma_block_scale, 0, "*:*", Flow::collective},
};

}  // namespace block_scaled_instructions
}  // namespace

const Rows block_scaled_rows{std::begin(block_scaled_instructions::rows), std::end(block_scaled_instructions::rows)};

}  // namespace autosched::emulator::ptx

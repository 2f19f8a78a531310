// mma.sync.m8n8k4 of f16, as on Volta: PTX ISA 9.7.14.5.1. A warp computes four products. Each is computed by two quads
// of lanes, which are 16 lanes apart. The instruction is executed for the whole warp, once all its lanes have arrived.
#include "isa/matrix/matrix.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace quad_mma_instructions {

using namespace matrix;

constexpr unsigned products = 4, side = 8, depth = 4;

// Row of a lane in a row-major A and in C of f16, or its column in a column-major B: 0 to 3 for lanes 0 to 15, and 4 to 7
// for the other lanes.
unsigned across(unsigned lane) { return lane % 4 + (lane < 16 ? 0 : 4); }

// Position of a lane's value v in c or d, for f16 and for f32.
Position position_f16(unsigned v, unsigned lane) { return {across(lane), v}; }
Position position_f32(unsigned v, unsigned lane) {
  return {lane % 2 + (v & 2u) + (lane < 16 ? 0 : 4), (v & 4u) + (lane & 2u) + v % 2};
}

std::uint16_t half(Warp& w, const std::uint32_t* registers, unsigned v, unsigned lane) {
  return w.values<std::uint16_t>(registers[v / 2])[lane * 2 + v % 2];
}

// Immediates: 1 (whole warp); whether d is f32, and whether c is; whether a is row-major, and whether b is.
void multiply_quads(Warp& w, const Instruction& i, Lanes) {
  const bool wide_d = i.immediate[1] != 0, wide_c = i.immediate[2] != 0, a_by_row = i.immediate[3] != 0,
             b_by_row = i.immediate[4] != 0;
  const std::uint32_t* const a = i.operand + i.destinations;
  const std::uint32_t *const b = a + 2, *const c = b + 2;
  float left[products][side][depth], right[products][depth][side], sum[products][side][side];
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const unsigned p = lane % 16 / 4, line = across(lane), first = lane < 16 ? 0 : 4;
    for (unsigned v = 0; v < depth; ++v) {
      const float x = f32_of_f16(half(w, a, v, lane)), y = f32_of_f16(half(w, b, v, lane));
      a_by_row ? left[p][line][v] = x : left[p][first + v][lane % 4] = x;
      b_by_row ? right[p][lane % 4][first + v] = y : right[p][v][line] = y;
    }
    for (unsigned v = 0; v < side; ++v) {
      const Position at = wide_c ? position_f32(v, lane) : position_f16(v, lane);
      sum[p][at.row][at.col] = wide_c ? w.values<float>(c[v])[lane] : f32_of_f16(half(w, c, v, lane));
    }
  }
  for (unsigned p = 0; p < products; ++p) multiply(side, side, depth, left[p][0], right[p][0], sum[p][0]);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < side; ++v) {
      const Position at = wide_d ? position_f32(v, lane) : position_f16(v, lane);
      const float y = sum[lane % 16 / 4][at.row][at.col];
      if (wide_d) {
        w.values<float>(i.destination(v))[lane] = y;
      } else {
        w.values<std::uint16_t>(i.destination(v / 2))[lane * 2 + v % 2] = f16_of_f32(y);
      }
    }
  }
}

constexpr Row rows[] = {
    {"mma.m8n8k4", multiply_quads, 0, "*:*", Flow::collective, true},
};

}  // namespace quad_mma_instructions
}  // namespace

const Rows quad_mma_rows{std::begin(quad_mma_instructions::rows), std::end(quad_mma_instructions::rows)};

}  // namespace autosched::emulator::ptx

// mma.sync: PTX ISA 9.7.14. The function that implements an instruction runs when all lanes of the warp have arrived.
#include <cmath>

#include "isa/matrix/matrix.hpp"
#include "isa/values/undefined.hpp"

namespace autosched::emulator::ptx {
namespace {

using namespace matrix;

struct Tiles {
  alignas(32) float a[16 * 64], b[64 * 16], d[16 * 16];
};

// A row of eight floats. Vector operations on rows compute the same sums as `multiply`, but faster.
using Row8 = float __attribute__((vector_size(32)));

// Fast path for m16n8k8 and m16n8k16 of f16 or bf16 with f32 accumulators, the most frequent matrix instructions.
template <float (*Decode)(unsigned short)>
void mma_16_bit(Warp& w, const Instruction& i, unsigned k, const std::uint32_t* ra, const std::uint32_t* rb,
                const std::uint32_t* rc) {
  float a[16][16];
  alignas(32) float b[16][8];
  alignas(32) float d[16][8];
  for (unsigned reg = 0; reg < k / 4; ++reg) {
    const std::uint16_t* halves = w.values<std::uint16_t>(ra[reg]);
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      float* to = &a[lane / 4 + 8 * (reg % 2)][lane % 4 * 2 + 8 * (reg / 2)];
      to[0] = Decode(halves[2 * lane]), to[1] = Decode(halves[2 * lane + 1]);
    }
  }
  for (unsigned reg = 0; reg < k / 8; ++reg) {
    const std::uint16_t* halves = w.values<std::uint16_t>(rb[reg]);
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned row = lane % 4 * 2 + 8 * reg;
      b[row][lane / 4] = Decode(halves[2 * lane]), b[row + 1][lane / 4] = Decode(halves[2 * lane + 1]);
    }
  }
  for (unsigned v = 0; v < 4; ++v) {
    const float* values = w.values<float>(rc[v]);
    for (unsigned lane = 0; lane < warp_size; ++lane) d[lane / 4 + 8 * (v / 2)][lane % 4 * 2 + v % 2] = values[lane];
  }
  for (unsigned row = 0; row < 16; ++row) {
    Row8 sum;
    std::memcpy(&sum, d[row], sizeof sum);
    for (unsigned l = 0; l < k; ++l) {
      Row8 line;
      std::memcpy(&line, b[l], sizeof line);
      sum += a[row][l] * line;
    }
    std::memcpy(d[row], &sum, sizeof sum);
  }
  for (unsigned v = 0; v < 4; ++v) {
    float* values = w.values<float>(i.destination(v));
    for (unsigned lane = 0; lane < warp_size; ++lane) values[lane] = d[lane / 4 + 8 * (v / 2)][lane % 4 * 2 + v % 2];
  }
}

// Immediates: 1 (whole warp); m, n, k; types of d, a, b, c; numbers of registers of d, a, b, c; whether bits are
// combined by xor.
void mma(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  const auto m = static_cast<unsigned>(i.immediate[1]), n = static_cast<unsigned>(i.immediate[2]),
             k = static_cast<unsigned>(i.immediate[3]);
  const std::int64_t d_type = i.immediate[4], a_type = i.immediate[5], b_type = i.immediate[6], c_type = i.immediate[7];
  const auto a_registers = static_cast<unsigned>(i.immediate[9]), b_registers = static_cast<unsigned>(i.immediate[10]);
  const std::uint32_t* ra = i.operand + i.destinations;
  const std::uint32_t *rb = ra + a_registers, *rc = rb + b_registers;
  const unsigned width = a_type == f64 ? 8 : 4;
  const unsigned run = 8 * width / bits_of(a_type);
  const unsigned a_values = m * k / 32, b_values = k * n / 32, c_values = m * n / 32;
  const unsigned c_width = c_type == f64 ? 8 : 4;
  if (m == 16 && n == 8 && c_type == f32 && d_type == f32 && a_type == b_type && (a_type == f16 || a_type == bf16)) {
    a_type == f16 ? mma_16_bit<f32_of_f16>(w, i, k, ra, rb, rc) : mma_16_bit<f32_of_bf16>(w, i, k, ra, rb, rc);
    return;
  }
  if (a_type == f64) {
    double a[16 * 16], b[16 * 8], d[16 * 8];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < a_values; ++v) {
        const Position p = position_a(m, run, v, lane);
        a[p.row * k + p.col] = value_of(a_type, element_bits(w, ra, width, a_type, v, lane));
      }
      for (unsigned v = 0; v < b_values; ++v) {
        const Position p = position_b(run, v, lane);
        b[p.row * n + p.col] = value_of(b_type, element_bits(w, rb, width, b_type, v, lane));
      }
      for (unsigned v = 0; v < c_values; ++v) {
        const Position p = position_c(v, lane);
        d[p.row * n + p.col] = value_of(f64, element_bits(w, rc, c_width, f64, v, lane));
      }
    }
    for (unsigned r = 0; r < m; ++r) {
      for (unsigned l = 0; l < k; ++l) {
        for (unsigned j = 0; j < n; ++j) d[r * n + j] = std::fma(a[r * k + l], b[l * n + j], d[r * n + j]);
      }
    }
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < c_values; ++v) {
        const Position p = position_c(v, lane);
        w.values<double>(i.destination(v))[lane] = d[p.row * n + p.col];
      }
    }
    return;
  }
  if (is_integer(a_type)) {
    static std::int32_t a[16 * 256], b[256 * 8], d[16 * 8];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < a_values; ++v) {
        const Position p = position_a(m, run, v, lane);
        a[p.row * k + p.col] = static_cast<std::int32_t>(value_of(a_type, element_bits(w, ra, 4, a_type, v, lane)));
      }
      for (unsigned v = 0; v < b_values; ++v) {
        const Position p = position_b(run, v, lane);
        b[p.row * n + p.col] = static_cast<std::int32_t>(value_of(b_type, element_bits(w, rb, 4, b_type, v, lane)));
      }
      for (unsigned v = 0; v < c_values; ++v) {
        const Position p = position_c(v, lane);
        d[p.row * n + p.col] = w.values<std::int32_t>(rc[v])[lane];
      }
    }
    multiply_integers(m, n, k, a, b, d, i.immediate[12] != 0, (i.flags & satfinite) != 0);
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < c_values; ++v) {
        const Position p = position_c(v, lane);
        w.values<std::int32_t>(i.destination(v))[lane] = d[p.row * n + p.col];
      }
    }
    return;
  }
  Tiles t;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < a_values; ++v) {
      const Position p = position_a(m, run, v, lane);
      const std::uint64_t bits = element_bits(w, ra, 4, a_type, v, lane);
      if (a_type == tf32) check_tf32(machine, i, bits);
      t.a[p.row * k + p.col] = static_cast<float>(value_of(a_type, bits));
    }
    for (unsigned v = 0; v < b_values; ++v) {
      const Position p = position_b(run, v, lane);
      const std::uint64_t bits = element_bits(w, rb, 4, b_type, v, lane);
      if (b_type == tf32) check_tf32(machine, i, bits);
      t.b[p.row * n + p.col] = static_cast<float>(value_of(b_type, bits));
    }
    for (unsigned v = 0; v < c_values; ++v) {
      const Position p = position_c(v, lane);
      t.d[p.row * n + p.col] = c_type == f32 ? w.values<float>(rc[v])[lane]
                                             : f32_of_f16(w.values<std::uint16_t>(rc[v / 2])[lane * 2 + v % 2]);
    }
  }
  multiply(m, n, k, t.a, t.b, t.d);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < c_values; ++v) {
      const Position p = position_c(v, lane);
      const float y = t.d[p.row * n + p.col];
      if (d_type == f32) {
        w.values<float>(i.destination(v))[lane] = y;
      } else {
        w.values<std::uint16_t>(i.destination(v / 2))[lane * 2 + v % 2] = f16_of_f32(y);
      }
    }
  }
}

constexpr std::uint64_t ones(unsigned bits) { return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

// True if all bits of value `index` of a lane's operand are known. `registers` points to the operand's first register.
bool knows_value(Warp& w, const std::uint32_t* registers, unsigned width, std::int64_t type, unsigned index, unsigned lane) {
  const unsigned bits = bits_of(type), per = 8 * width / bits;
  const std::uint64_t all = known_bits(w, registers[index / per], width, lane) >> (bits * (index % per));
  return (~all & ones(bits)) == 0;
}

constexpr Row mma_table[] = {
    {"mma", mma, satfinite, "*:*", Flow::collective},
};

}  // namespace

const Rows mma_rows{std::begin(mma_table), std::end(mma_table)};

void multiply_unknown(Warp& w, const Instruction& i, SiteIndex origin) {
  const auto m = static_cast<unsigned>(i.immediate[1]), n = static_cast<unsigned>(i.immediate[2]),
             k = static_cast<unsigned>(i.immediate[3]);
  const std::int64_t d_type = i.immediate[4], a_type = i.immediate[5], b_type = i.immediate[6], c_type = i.immediate[7];
  const std::uint32_t* const a = i.operand + i.destinations;
  const std::uint32_t *const b = a + i.immediate[9], *const c = b + i.immediate[10];
  const unsigned width = a_type == f64 ? 8 : 4, c_width = c_type == f64 ? 8 : 4, values = m * n / 32;
  const unsigned run = 8 * width / bits_of(a_type);
  bool row[16], column[8], of_c[warp_size][4];
  std::fill_n(row, 16, true);
  std::fill_n(column, 8, true);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < m * k / 32; ++v) row[position_a(m, run, v, lane).row] &= knows_value(w, a, width, a_type, v, lane);
    for (unsigned v = 0; v < k * n / 32; ++v) column[position_b(run, v, lane).col] &= knows_value(w, b, width, b_type, v, lane);
    for (unsigned v = 0; v < values; ++v) of_c[lane][v] = knows_value(w, c, c_width, c_type, v, lane);
  }
  i.execute(w, i, all_lanes);
  const unsigned bits = bits_of(d_type), per = 8 * i.width_of_destination(0) / bits;
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned d = 0; d < i.destinations; ++d) {
      std::uint64_t known = 0;
      for (unsigned v = 0; v < per; ++v) {
        const Position p = position_c(d * per + v, lane);
        if (row[p.row] && column[p.col] && of_c[lane][d * per + v]) known |= ones(bits) << (bits * v);
      }
      set_known(w, i.destination(d), i.width_of_destination(d), lane, known, origin);
    }
  }
}

}  // namespace autosched::emulator::ptx

// Elements and products of matrices, for mma and wmma.
#pragma once
#include <algorithm>
#include <cstdint>

#include "isa/numbers/encodings.hpp"
#include "isa/numbers/round.hpp"
#include "isa/program.hpp"

namespace autosched::emulator::ptx::matrix {

// The order must equal the order of MULTIPLIED in measurements/emulator/ptx/forms.py.
enum Element { f16, bf16, tf32, f64, s8, u8, f32, s32, e4m3, e5m2, s4, u4, b1, e2m1, e2m3, e3m2 };
constexpr unsigned bits_of(std::int64_t t) {
  constexpr unsigned bits[] = {16, 16, 32, 64, 8, 8, 32, 32, 8, 8, 4, 4, 1, 8, 8, 8};
  return bits[t];
}
constexpr bool is_integer(std::int64_t t) { return t == s8 || t == u8 || t == s4 || t == u4 || t == b1; }

// Values of 4 and 6 bits are stored in bytes: 4-bit values in bits 2 to 5, 6-bit values in bits 0 to 5 (PTX ISA
// 9.7.14.5, and the shifts in CUTLASS).
inline double value_in_byte(const Format& format, unsigned byte) {
  return decode(format, format.exponent_bits + format.mantissa_bits == 3 ? byte >> 2 & 15u : byte & 63u);
}

inline double value_of(std::int64_t type, std::uint64_t bits) {
  switch (type) {
    case f16: return f32_of_f16(static_cast<unsigned short>(bits));
    case bf16: return f32_of_bf16(static_cast<unsigned short>(bits));
    case f64: return __builtin_bit_cast(double, bits);
    case s8: return static_cast<signed char>(bits);
    case u8: return static_cast<unsigned char>(bits);
    case s4: return static_cast<int>((bits & 15u) ^ 8u) - 8;
    case u4: return static_cast<double>(bits & 15u);
    case b1: return static_cast<double>(bits & 1u);
    case s32: return static_cast<std::int32_t>(bits);
    case e4m3: return decode(e4m3_format, static_cast<unsigned>(bits));
    case e5m2: return decode(e5m2_format, static_cast<unsigned>(bits));
    case e2m1: return value_in_byte(e2m1_format, static_cast<unsigned>(bits));
    case e2m3: return value_in_byte(e2m3_format, static_cast<unsigned>(bits));
    case e3m2: return value_in_byte(e3m2_format, static_cast<unsigned>(bits));
    default: return from_bits(static_cast<unsigned>(bits) & 0xffffe000u);
  }
}

// Value `index` of a lane's operand. `registers` points to the operand's first register.
inline std::uint64_t element_bits(Warp& w, const std::uint32_t* registers, unsigned width, std::int64_t type, unsigned index,
                           unsigned lane) {
  const unsigned bits = bits_of(type), per = 8 * width / bits;
  const std::uint64_t all = read_bits(w, registers[index / per], width, lane);
  return bits == 64 ? all : all >> (bits * (index % per)) & ((std::uint64_t{1} << bits) - 1);
}

// Reports an operand that is not rounded to tf32. In a kernel that rounds no operand, the finding is a note, because
// such kernels rely on the truncation. CUTLASS, for example, first adds half a unit in the last place, so that the
// truncation rounds.
inline void check_tf32(Machine& machine, const Instruction& i, std::uint64_t bits) {
  if (!machine.program.truncates_tf32 && (bits & 0x1fffu) != 0 && (bits & 0x7fffffffu) <= 0x7f800000u) {
    FINDING_OF_TWO(machine.report, unrounded_tf32, machine.program.rounds_tf32 ? Grade::fault : Grade::note, i.site, 0,
                   "operand %08llx is not rounded to tf32: the tensor core drops its low 13 bits%s",
                   static_cast<unsigned long long>(bits), machine.program.rounds_tf32 ? "" : "; this kernel rounds none");
  }
}

// Row and column of the element that a lane holds as its value number `index`, in fragments of mma.m16n8 and
// m8n8k4.f64.
struct Position {
  unsigned row, col;
};
// A: a lane has rows lane / 4 and lane / 4 + 8. A 32-bit register holds `run` adjacent elements along k. The next
// registers hold the other row, then the other half of k.
inline Position position_a(unsigned m, unsigned run, unsigned index, unsigned lane) {
  const unsigned reg = index / run, rows = m / 8;
  const unsigned row = lane / 4 + 8 * (reg % rows);
  return {row, lane % 4 * run + index % run + 4 * run * (reg / rows)};
}
inline Position position_b(unsigned run, unsigned index, unsigned lane) {
  return {lane % 4 * run + index % run + 4 * run * (index / run), lane / 4};
}
inline Position position_c(unsigned index, unsigned lane) {
  return {lane / 4 + 8 * (index / 2), lane % 4 * 2 + index % 2};
}

// d = a * b + c of tiles in row-major order. Products of floats are exact. They are added one by one in the order of k,
// and each sum is rounded to the accumulator's type. A tensor core instead adds several products at a time in an
// unspecified order, with more bits, and truncates.
template <class T>
void multiply(unsigned m, unsigned n, unsigned k, const T* a, const T* b, T* d) {
  for (unsigned i = 0; i < m; ++i) {
    for (unsigned l = 0; l < k; ++l) {
      const T x = a[i * k + l];
      for (unsigned j = 0; j < n; ++j) d[i * n + j] += x * b[l * n + j];
    }
  }
}

// d = a * b + c of integers. `differ`: for 1-bit values, bits are combined by XOR instead of AND.
inline void multiply_integers(unsigned m, unsigned n, unsigned k, const std::int32_t* a, const std::int32_t* b, std::int32_t* d,
                       bool differ, bool saturates) {
  for (unsigned r = 0; r < m; ++r) {
    for (unsigned j = 0; j < n; ++j) {
      std::int64_t sum = d[r * n + j];
      for (unsigned l = 0; l < k; ++l) {
        const std::int64_t x = a[r * k + l], y = b[l * n + j];
        sum += differ ? x ^ y : x * y;
      }
      if (saturates) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
      d[r * n + j] = static_cast<std::int32_t>(sum);
    }
  }
}

}  // namespace autosched::emulator::ptx::matrix

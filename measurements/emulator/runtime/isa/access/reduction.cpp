// Reductions of elements in memory by bulk copies: PTX ISA 9.7.9.25.4.2 and 9.7.9.27.1.3.
#include "isa/access/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "isa/numbers/round.hpp"
#include "memory/global/memory.hpp"

namespace autosched::emulator::ptx {
namespace {

using Operation = Reducing::Operation;

// Minimum or maximum of two numbers. If one of them is NaN, the result is the other number.
template <class T>
T chosen(Operation o, T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  return (o == Operation::min) == (b < a) ? b : a;
}

template <class T>
T reduced(Operation o, T a, T b) {
  switch (o) {
    case Operation::add: return static_cast<T>(a + b);
    case Operation::min: return std::min(a, b);
    case Operation::max: return std::max(a, b);
    case Operation::inc: return a >= b ? T{0} : static_cast<T>(a + 1);
    case Operation::dec: return a == 0 || a > b ? b : static_cast<T>(a - 1);
    case Operation::both: return a & b;
    case Operation::either: return a | b;
    default: return a ^ b;
  }
}
template <>
float reduced(Operation o, float a, float b) {
  return o == Operation::add ? canonical(a + b) : chosen(o, a, b);  // does not flush subnormals, unlike red
}
template <>
double reduced(Operation o, double a, double b) {
  return o == Operation::add ? a + b : chosen(o, a, b);
}
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};
template <class T>
T of_format(Operation o, const Format& f, T a, T b) {
  const double x = decode(f, a.bits), y = decode(f, b.bits);
  if (o == Operation::add) return {static_cast<std::uint16_t>(encode(f, add_odd(x, y), Rounding::nearest))};
  if (x != x && y != y) return {static_cast<std::uint16_t>(f.nan)};
  // for zeros, the minimum is -0 and the maximum is +0
  if (x == y) return (a.bits >> 15 != 0) == (o == Operation::min) ? a : b;
  return chosen(o, x, y) == x ? a : b;
}
template <>
F16 reduced(Operation o, F16 a, F16 b) {
  return of_format(o, f16_format, a, b);
}
template <>
BF16 reduced(Operation o, BF16 a, BF16 b) {
  return of_format(o, bf16_format, a, b);
}

template <class T>
void apply(unsigned char* to, const unsigned char* from, Operation o) {
  T a, b;
  std::memcpy(&a, to, sizeof a);
  std::memcpy(&b, from, sizeof b);
  const T result = reduced(o, a, b);
  std::memcpy(to, &result, sizeof result);
}

// Only minimum and maximum differ between signed and unsigned integers. Other operations use unsigned arithmetic, in
// which sums may overflow.
template <class Signed, class Unsigned>
void apply_integer(unsigned char* to, const unsigned char* from, Reducing r) {
  const bool extreme = r.operation == Operation::min || r.operation == Operation::max;
  extreme && r.kind == ElementKind::signed_integer ? apply<Signed>(to, from, r.operation) : apply<Unsigned>(to, from, r.operation);
}

}  // namespace

void reduce(unsigned char* to, const unsigned char* from, Reducing r) {
  switch (r.kind) {
    case ElementKind::f16: return apply<F16>(to, from, r.operation);
    case ElementKind::bf16: return apply<BF16>(to, from, r.operation);
    case ElementKind::f32: return apply<float>(to, from, r.operation);
    case ElementKind::f64: return apply<double>(to, from, r.operation);
    default: break;
  }
  switch (r.bytes) {
    case 1: return apply_integer<std::int8_t, std::uint8_t>(to, from, r);
    case 2: return apply_integer<std::int16_t, std::uint16_t>(to, from, r);
    case 4: return apply_integer<std::int32_t, std::uint32_t>(to, from, r);
    default: return apply_integer<std::int64_t, std::uint64_t>(to, from, r);
  }
}

void reduce_global(Machine& machine, std::uint64_t to, const unsigned char* from, std::uint32_t bytes, Reducing r,
                   const char* name) {
  for (std::uint32_t at = 0; at < bytes; at += r.bytes) {
    unsigned char* p = update_global(machine, reinterpret_cast<void*>(to + at), static_cast<int>(r.bytes), name);
    if (p == nullptr) return;
    reduce(p, from + at, r);
  }
}

}  // namespace autosched::emulator::ptx

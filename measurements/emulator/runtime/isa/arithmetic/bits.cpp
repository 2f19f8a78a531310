// Logic, shifts, bit fields and predicates: PTX ISA 9.7.1 and 9.7.8.
#include "isa/numbers/bits.hpp"

#include "isa/map.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace bit_instructions {

using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;

template <class T>
constexpr T all_of(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
constexpr T any_of(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
constexpr T one_of(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
constexpr T inverted(T a) {
  return static_cast<T>(~a);
}
template <class T>
constexpr T is_zero(T a) {
  return a == 0;
}
// Shifts by more than the width give 0, or copies of the sign for signed right shifts.
template <class T>
constexpr T shift_left(T a, u32 n) {
  return n >= bits_of<T> ? T{0} : static_cast<T>(static_cast<u64>(a) << n);
}
template <class T>
constexpr T shift_right(T a, u32 n) {
  if (n >= bits_of<T>) n = std::is_signed_v<T> ? bits_of<T> - 1 : bits_of<T>;
  return n == bits_of<T> ? T{0} : static_cast<T>(a >> n);
}
template <class T>
constexpr u32 count_ones(T a) {
  return static_cast<u32>(__builtin_popcountll(a));
}
template <class T>
constexpr u32 leading_zeros(T a) {
  if (a == 0) return bits_of<T>;
  return static_cast<u32>(__builtin_clzll(a)) - (64 - bits_of<T>);
}
// bfind: the position of the most significant bit that is not a sign bit. With AsShift: the shift that moves this bit
// to the most significant position.
template <class T, bool AsShift>
constexpr u32 find_leading(T a) {
  using U = std::make_unsigned_t<T>;
  const U x = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
  if (x == 0) return ~0u;
  const u32 zeros = leading_zeros<U>(x);
  return AsShift ? zeros : bits_of<T> - 1 - zeros;
}
template <class T>
constexpr T reversed(T a) {
  T y = 0;
  for (unsigned k = 0; k < bits_of<T>; ++k) y |= static_cast<T>(a >> k & 1u) << (bits_of<T> - 1 - k);
  return y;
}
template <class T>
constexpr T mask_of(u32 position, u32 length, bool clamp) {
  const u32 pos = clamp ? std::min(position, 32u) : position & 31u, len = clamp ? std::min(length, 32u) : length & 31u;
  T y = 0;
  for (u32 k = pos; k < 32 && k < pos + len; ++k) y |= T{1} << k;
  return y;
}

void execute_lop3(Warp& w, const Instruction& i, Lanes active) {
  const auto table = static_cast<u32>(i.immediate[0]);
  const u32 *a = w.values<u32>(i.source(0)), *b = w.values<u32>(i.source(1)), *c = w.values<u32>(i.source(2));
  u32* d = w.values<u32>(i.destination(0));
  for_lanes(active, [&](unsigned k) {
    const u32 x = a[k], y = b[k], z = c[k];
    u32 r = 0;
    if (table & 0x01u) r |= ~x & ~y & ~z;
    if (table & 0x02u) r |= ~x & ~y & z;
    if (table & 0x04u) r |= ~x & y & ~z;
    if (table & 0x08u) r |= ~x & y & z;
    if (table & 0x10u) r |= x & ~y & ~z;
    if (table & 0x20u) r |= x & ~y & z;
    if (table & 0x40u) r |= x & y & ~z;
    if (table & 0x80u) r |= x & y & z;
    d[k] = r;
  });
}

// lop3 with a predicate result: d|p, p = (d != 0) op q. Immediates: the truth table; 1 if op is `and`, 0 if it is `or`;
// 1 if q is negated.
void execute_lop3_joined(Warp& w, const Instruction& i, Lanes active) {
  execute_lop3(w, i, active);
  const u32* d = w.values<u32>(i.destination(0));
  Lanes set = 0;
  for_lanes(active, [&](unsigned k) { set |= static_cast<Lanes>(d[k] != 0) << k; });
  const Lanes bits = w.head(i.source(3)).bits, other = i.immediate[2] != 0 ? ~bits : bits;
  Lanes& p = w.head(i.destination(1)).bits;
  p = (p & ~active) | ((i.immediate[1] != 0 ? set & other : set | other) & active);
}

void execute_insert(Warp& w, const Instruction& i, Lanes active, bool wide) {
  for_lanes(active, [&](unsigned k) {
    const u32 position = w.values<u32>(i.source(2))[k], length = w.values<u32>(i.source(3))[k];
    if (wide) {
      w.values<u64>(i.destination(0))[k] =
          insert<u64>(w.values<u64>(i.source(0))[k], w.values<u64>(i.source(1))[k], position, length);
    } else {
      w.values<u32>(i.destination(0))[k] =
          insert<u32>(w.values<u32>(i.source(0))[k], w.values<u32>(i.source(1))[k], position, length);
    }
  });
}

void execute_prmt(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    w.values<u32>(i.destination(0))[k] = permute(w.values<u32>(i.source(0))[k], w.values<u32>(i.source(1))[k],
                                                 w.values<u32>(i.source(2))[k], i.immediate[0]);
  });
}

// fns: the position of the n-th set bit of a, counted from position b upwards, or downwards if n is negative.
constexpr u32 find_nth(u32 a, u32 b, s32 n) {
  const s32 step = n < 0 ? -1 : 1;
  s32 left = n == 0 ? 1 : n < 0 ? -n : n;
  if (n == 0) return a >> (b & 31u) & 1u ? b : ~0u;
  for (s32 k = static_cast<s32>(b); k >= 0 && k < 32; k += step) {
    if (a >> k & 1u && --left == 0) return static_cast<u32>(k);
  }
  return ~0u;
}

void execute_sign_extend(Warp& w, const Instruction& i, Lanes active) {
  const bool clamp = i.immediate[0] != 0, is_signed = i.immediate[1] != 0;
  for_lanes(active, [&](unsigned k) {
    const u32 a = w.values<u32>(i.source(0))[k], b = w.values<u32>(i.source(1))[k];
    const u32 n = clamp ? std::min(b, 32u) : b & 31u;
    u32 y = n == 0 ? 0u : n >= 32 ? a : a & ((1u << n) - 1u);
    if (is_signed && n > 0 && n < 32 && a >> (n - 1) & 1u) y |= ~0u << n;
    w.values<u32>(i.destination(0))[k] = y;
  });
}
void execute_bit_mask(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    w.values<u32>(i.destination(0))[k] =
        mask_of<u32>(w.values<u32>(i.source(0))[k], w.values<u32>(i.source(1))[k], i.immediate[0] != 0);
  });
}

// The values of a predicate in all lanes are stored as one mask.
template <class F>
void on_predicates(Warp& w, const Instruction& i, Lanes active, F f) {
  const Lanes a = w.head(i.source(0)).bits, b = i.sources > 1 ? w.head(i.source(1)).bits : 0;
  Lanes& d = w.head(i.destination(0)).bits;
  d = (d & ~active) | (f(a, b) & active);
}
// `deciding`: the value of one operand that alone determines the result (false for `and`, true for `or`). The other
// operand may then be undefined, because compilers may skip its evaluation.
template <class F>
void on_deciding(Warp& w, const Instruction& i, Lanes active, Lanes deciding, F f) {
  const Register a = w.head(i.source(0)), b = w.head(i.source(1));
  const Lanes decided = (a.defined & ~(a.bits ^ deciding)) | (b.defined & ~(b.bits ^ deciding));
  const Lanes undefined = active & ~(decided | (a.defined & b.defined));
  on_predicates(w, i, active, f);
  Register& d = w.head(i.destination(0));
  if (undefined != 0) {
    const Register& r = (undefined & ~a.defined) != 0 ? a : b;
    d.origin = r.origin != 0 ? r.origin : i.site;
  }
  d.defined = (d.defined | active) & ~undefined;
}
void and_pred(Warp& w, const Instruction& i, Lanes l) { on_deciding(w, i, l, 0, [](Lanes a, Lanes b) { return a & b; }); }
void or_pred(Warp& w, const Instruction& i, Lanes l) { on_deciding(w, i, l, all_lanes, [](Lanes a, Lanes b) { return a | b; }); }
void xor_pred(Warp& w, const Instruction& i, Lanes l) { on_predicates(w, i, l, [](Lanes a, Lanes b) { return a ^ b; }); }
void not_pred(Warp& w, const Instruction& i, Lanes l) { on_predicates(w, i, l, [](Lanes a, Lanes) { return ~a; }); }
void mov_pred(Warp& w, const Instruction& i, Lanes l) { on_predicates(w, i, l, [](Lanes a, Lanes) { return a; }); }

#define BITWISE(NAME, F)                                                      \
  {NAME ".b16", map2<F<u16>, u16, u16>, 0, "2:22"},                           \
  {NAME ".b32", map2<F<u32>, u32, u32>, 0, "4:44"},                           \
  {NAME ".b64", map2<F<u64>, u64, u64>, 0, "8:88"}

constexpr Row rows[] = {
    BITWISE("and", all_of), BITWISE("or", any_of), BITWISE("xor", one_of),
    {"and.pred", and_pred, 0, "0:00", Flow::plain, false, true}, {"or.pred", or_pred, 0, "0:00", Flow::plain, false, true},
    {"xor.pred", xor_pred, 0, "0:00"},
    {"not.pred", not_pred, 0, "0:0"}, {"mov.pred", mov_pred, 0, "0:0"},
    {"not.b16", map1<inverted<u16>, u16, u16>, 0, "2:2"}, {"not.b32", map1<inverted<u32>, u32, u32>, 0, "4:4"},
    {"not.b64", map1<inverted<u64>, u64, u64>, 0, "8:8"},
    {"cnot.b16", map1<is_zero<u16>, u16, u16>, 0, "2:2"}, {"cnot.b32", map1<is_zero<u32>, u32, u32>, 0, "4:4"},
    {"cnot.b64", map1<is_zero<u64>, u64, u64>, 0, "8:8"},
    {"shl.b16", map2<shift_left<u16>, u16, u16, u32>, 0, "2:24"},
    {"shl.b32", map2<shift_left<u32>, u32, u32, u32>, 0, "4:44"},
    {"shl.b64", map2<shift_left<u64>, u64, u64, u32>, 0, "8:84"},
    {"shr.s16", map2<shift_right<s16>, s16, s16, u32>, 0, "2:24"},
    {"shr.u16", map2<shift_right<u16>, u16, u16, u32>, 0, "2:24"},
    {"shr.b16", map2<shift_right<u16>, u16, u16, u32>, 0, "2:24"},
    {"shr.s32", map2<shift_right<s32>, s32, s32, u32>, 0, "4:44"},
    {"shr.u32", map2<shift_right<u32>, u32, u32, u32>, 0, "4:44"},
    {"shr.b32", map2<shift_right<u32>, u32, u32, u32>, 0, "4:44"},
    {"shr.s64", map2<shift_right<s64>, s64, s64, u32>, 0, "8:84"},
    {"shr.u64", map2<shift_right<u64>, u64, u64, u32>, 0, "8:84"},
    {"shr.b64", map2<shift_right<u64>, u64, u64, u32>, 0, "8:84"},
    {"shf.l.wrap.b32", map3<funnel<true, false>, u32, u32>, 0, "4:444"},
    {"shf.l.clamp.b32", map3<funnel<true, true>, u32, u32>, 0, "4:444"},
    {"shf.r.wrap.b32", map3<funnel<false, false>, u32, u32>, 0, "4:444"},
    {"shf.r.clamp.b32", map3<funnel<false, true>, u32, u32>, 0, "4:444"},
    {"lop3.b32", execute_lop3, 0, "4:444"}, {"lop3.joined", execute_lop3_joined, 0, "40:4440"},
    {"prmt.b32", execute_prmt, 0, "4:444"},
    {"popc.b32", map1<count_ones<u32>, u32, u32>, 0, "4:4"}, {"popc.b64", map1<count_ones<u64>, u32, u64>, 0, "4:8"},
    {"clz.b32", map1<leading_zeros<u32>, u32, u32>, 0, "4:4"},
    {"clz.b64", map1<leading_zeros<u64>, u32, u64>, 0, "4:8"},
    {"brev.b32", map1<reversed<u32>, u32, u32>, 0, "4:4"}, {"brev.b64", map1<reversed<u64>, u64, u64>, 0, "8:8"},
    {"bfind.u32", map1<find_leading<u32, false>, u32, u32>, 0, "4:4"},
    {"bfind.s32", map1<find_leading<s32, false>, u32, s32>, 0, "4:4"},
    {"bfind.u64", map1<find_leading<u64, false>, u32, u64>, 0, "4:8"},
    {"bfind.s64", map1<find_leading<s64, false>, u32, s64>, 0, "4:8"},
    {"bfind.shiftamt.u32", map1<find_leading<u32, true>, u32, u32>, 0, "4:4"},
    {"bfind.shiftamt.s32", map1<find_leading<s32, true>, u32, s32>, 0, "4:4"},
    {"bfind.shiftamt.u64", map1<find_leading<u64, true>, u32, u64>, 0, "4:8"},
    {"bfind.shiftamt.s64", map1<find_leading<s64, true>, u32, s64>, 0, "4:8"},
    {"bfe.u32", map3<extract<u32>, u32, u32, u32, u32>, 0, "4:444"},
    {"bfe.s32", map3<extract<s32>, s32, s32, u32, u32>, 0, "4:444"},
    {"bfe.u64", map3<extract<u64>, u64, u64, u32, u32>, 0, "8:844"},
    {"bfe.s64", map3<extract<s64>, s64, s64, u32, u32>, 0, "8:844"},
    {"bfi.b32", [](Warp& w, const Instruction& i, Lanes l) { execute_insert(w, i, l, false); }, 0, "4:4444"},
    {"bfi.b64", [](Warp& w, const Instruction& i, Lanes l) { execute_insert(w, i, l, true); }, 0, "8:8844"},
    {"fns.b32", map3<find_nth, u32, u32, u32, s32>, 0, "4:444"},
    {"szext", execute_sign_extend, 0, "4:44"},
    {"bmsk", execute_bit_mask, 0, "4:44"},
};

}  // namespace bit_instructions
}  // namespace

const Rows bit_rows{std::begin(bit_instructions::rows), std::end(bit_instructions::rows)};

}  // namespace autosched::emulator::ptx

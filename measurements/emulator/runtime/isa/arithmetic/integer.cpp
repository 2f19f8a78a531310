// Integer arithmetic: PTX ISA 9.7.1 and 9.7.2.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "isa/numbers/bits.hpp"
#include "isa/map.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace integer_instructions {

using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, s128, u128>>>;

template <class T>
constexpr T add(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b)));
}
template <class T>
constexpr T sub(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b)));
}
template <class T>
constexpr T clamp_to(Wide<T> x) {
  return static_cast<T>(std::clamp<Wide<T>>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}
template <class T>
constexpr T mul_lo(T a, T b) {
  return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <class T>
constexpr T mul_hi(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> bits_of<T>);
}
template <class T>
constexpr Wide<T> mul_wide(T a, T b) {
  return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b);
}
template <class T>
constexpr T mad_lo(T a, T b, T c) {
  return add<T>(mul_lo<T>(a, b), c);
}
template <class T>
constexpr T mad_hi(T a, T b, T c) {
  return add<T>(mul_hi<T>(a, b), c);
}
template <class T>
constexpr Wide<T> mad_wide(T a, T b, Wide<T> c) {
  using U = std::make_unsigned_t<Wide<T>>;
  return static_cast<Wide<T>>(static_cast<U>(mul_wide<T>(a, b)) + static_cast<U>(c));
}
// The PTX ISA leaves quotient and remainder of a division by zero unspecified. On an H100 both are all ones.
template <class T>
constexpr T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return sub<T>(0, a);
  }
  return static_cast<T>(a / b);
}
template <class T>
constexpr T remainder_of(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <class T>
constexpr T absolute(T a) {
  return a < 0 ? sub<T>(0, a) : a;
}
template <class T>
constexpr T negated(T a) {
  return sub<T>(0, a);
}
template <class T>
constexpr T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T greatest(T a, T b) {
  return a < b ? b : a;
}
constexpr s16 least_not_negative(s16 a, s16 b) { return greatest<s16>(least<s16>(a, b), 0); }
constexpr s16 greatest_not_negative(s16 a, s16 b) { return greatest<s16>(greatest<s16>(a, b), 0); }
template <class T>
constexpr T sum_of_differences(T a, T b, T c) {
  return add<T>(c, a < b ? sub<T>(b, a) : sub<T>(a, b));
}
template <bool Signed>
constexpr u32 mul24_lo(u32 a, u32 b) {
  if constexpr (Signed) {
    return static_cast<u32>(static_cast<u64>((static_cast<s64>(static_cast<u64>(a) << 40) >> 40) *
                                             (static_cast<s64>(static_cast<u64>(b) << 40) >> 40)));
  }
  return static_cast<u32>(static_cast<u64>(a & 0xffffffu) * (b & 0xffffffu));
}
template <bool Signed>
constexpr u32 mul24_hi(u32 a, u32 b) {
  if constexpr (Signed) {
    return static_cast<u32>(static_cast<u64>(((static_cast<s64>(static_cast<u64>(a) << 40) >> 40) *
                                              (static_cast<s64>(static_cast<u64>(b) << 40) >> 40)) >>
                                             16));
  }
  return static_cast<u32>(static_cast<u64>(a & 0xffffffu) * (b & 0xffffffu) >> 16);
}
template <bool Signed>
constexpr u32 mad24_lo(u32 a, u32 b, u32 c) {
  return mul24_lo<Signed>(a, b) + c;
}
template <bool Signed>
constexpr u32 mad24_hi(u32 a, u32 b, u32 c) {
  return mul24_hi<Signed>(a, b) + c;
}
template <bool SignedA, bool SignedB>
constexpr u32 dot4(u32 a, u32 b, u32 c) {
  for (unsigned k = 0; k < 4; ++k) {
    const u32 x = a >> 8 * k & 0xffu, y = b >> 8 * k & 0xffu;
    const s32 p = SignedA ? static_cast<signed char>(x) : static_cast<s32>(x);
    const s32 q = SignedB ? static_cast<signed char>(y) : static_cast<s32>(y);
    c += static_cast<u32>(p * q);
  }
  return c;
}
template <bool SignedA, bool SignedB, unsigned First>
constexpr u32 dot2(u32 a, u32 b, u32 c) {
  for (unsigned k = 0; k < 2; ++k) {
    const u32 x = a >> 16 * k & 0xffffu, y = b >> 8 * (First + k) & 0xffu;
    const s32 p = SignedA ? static_cast<s16>(x) : static_cast<s32>(x);
    const s32 q = SignedB ? static_cast<signed char>(y) : static_cast<s32>(y);
    c += static_cast<u32>(p * q);
  }
  return c;
}
// Applies F to both 16-bit halves of the operands.
template <auto F, class T>
constexpr u32 pairwise(u32 a, u32 b) {
  const auto low = static_cast<u16>(F(static_cast<T>(a), static_cast<T>(b)));
  const auto high = static_cast<u16>(F(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return low | static_cast<u32>(high) << 16;
}

// Executes F, or Saturating if the instruction has .sat (s32 only).
template <auto F, auto Saturating, class T>
void with_saturation(Warp& w, const Instruction& i, Lanes active) {
  i.flags& sat ? map2<Saturating, T, T>(w, i, active) : map2<F, T, T>(w, i, active);
}
constexpr s32 add_saturating(s32 a, s32 b) { return clamp_to<s32>(static_cast<s64>(a) + b); }
constexpr s32 sub_saturating(s32 a, s32 b) { return clamp_to<s32>(static_cast<s64>(a) - b); }
constexpr s32 mad_hi_saturating(s32 a, s32 b, s32 c) {
  return clamp_to<s32>((static_cast<s64>(a) * b >> 32) + static_cast<s64>(c));
}
void execute_mad_hi_s32(Warp& w, const Instruction& i, Lanes active) {
  i.flags& sat ? map3<mad_hi_saturating, s32, s32>(w, i, active) : map3<mad_hi<s32>, s32, s32>(w, i, active);
}
template <auto F, auto NotNegative>
void execute_pairs(Warp& w, const Instruction& i, Lanes active) {
  i.flags& relu ? map2<pairwise<NotNegative, s16>, u32, u32>(w, i, active) : map2<pairwise<F, s16>, u32, u32>(w, i, active);
}
constexpr u32 mad24_hi_saturating(u32 a, u32 b, u32 c) {
  return static_cast<u32>(clamp_to<s32>(s64{static_cast<s32>(mul24_hi<true>(a, b))} + static_cast<s32>(c)));
}
void execute_mad24_hi_s32(Warp& w, const Instruction& i, Lanes active) {
  i.flags& sat ? map3<mad24_hi_saturating, u32, u32>(w, i, active) : map3<mad24_hi<true>, u32, u32>(w, i, active);
}
void execute_not_relu(Warp& w, const Instruction& i, Lanes active, bool smallest) {
  for_lanes(active, [&](unsigned k) {
    const s32 a = w.values<s32>(i.source(0))[k], b = w.values<s32>(i.source(1))[k];
    const s32 y = smallest ? std::min(a, b) : std::max(a, b);
    w.values<s32>(i.destination(0))[k] = i.flags & relu ? std::max(y, 0) : y;
  });
}
void execute_min_s32(Warp& w, const Instruction& i, Lanes active) {
  i.flags& relu ? execute_not_relu(w, i, active, true) : map2<least<s32>, s32, s32>(w, i, active);
}
void execute_max_s32(Warp& w, const Instruction& i, Lanes active) {
  i.flags& relu ? execute_not_relu(w, i, active, false) : map2<greatest<s32>, s32, s32>(w, i, active);
}

// Extended-precision arithmetic with the carry flag. Op: 0 = add, 1 = subtract, 2 = multiply-add with the product's low
// half, 3 = multiply-add with its high half. WithCarry: adds the carry flag.
template <class T, int Op, bool WithCarry>
void execute_chain(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    T a = w.values<T>(i.source(0))[k], b = w.values<T>(i.source(1))[k];
    if constexpr (Op >= 2) {
      const Wide<T> product = static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b);
      a = static_cast<T>(Op == 2 ? product : product >> bits_of<T>);
      b = w.values<T>(i.source(2))[k];
    }
    const Wide<T> in = WithCarry ? w.carry >> k & 1u : Op == 1;
    // ptxas subtracts by adding the complement, so the carry flag is 1 if there is no borrow
    if constexpr (Op == 1) b = static_cast<T>(~b);
    const Wide<T> wide = static_cast<Wide<T>>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b) + in);
    w.values<T>(i.destination(0))[k] = static_cast<T>(wide);
    if (i.flags & carry_out) {
      const Lanes bit = static_cast<Lanes>(static_cast<Lanes>(wide >> bits_of<T>) & 1u) << k;
      w.carry = (w.carry & ~(1u << k)) | bit;
    }
  });
}

#define EACH_2(NAME, F)                                                       \
  {NAME ".s16", map2<F<s16>, s16, s16>, 0, "2:22"},                           \
  {NAME ".u16", map2<F<u16>, u16, u16>, 0, "2:22"},                           \
  {NAME ".s32", map2<F<s32>, s32, s32>, 0, "4:44"},                           \
  {NAME ".u32", map2<F<u32>, u32, u32>, 0, "4:44"},                           \
  {NAME ".s64", map2<F<s64>, s64, s64>, 0, "8:88"},                           \
  {NAME ".u64", map2<F<u64>, u64, u64>, 0, "8:88"}
#define WRAPPING_2(NAME, F)                                                   \
  {NAME ".s16", map2<F<u16>, u16, u16>, 0, "2:22"},                           \
  {NAME ".u16", map2<F<u16>, u16, u16>, 0, "2:22"},                           \
  {NAME ".u32", map2<F<u32>, u32, u32>, 0, "4:44"},                           \
  {NAME ".s64", map2<F<u64>, u64, u64>, 0, "8:88"},                           \
  {NAME ".u64", map2<F<u64>, u64, u64>, 0, "8:88"}
#define EACH_3(NAME, F)                                                       \
  {NAME ".s16", map3<F<s16>, s16, s16>, 0, "2:222"},                          \
  {NAME ".u16", map3<F<u16>, u16, u16>, 0, "2:222"},                          \
  {NAME ".u32", map3<F<u32>, u32, u32>, 0, "4:444"},                          \
  {NAME ".s64", map3<F<s64>, s64, s64>, 0, "8:888"},                          \
  {NAME ".u64", map3<F<u64>, u64, u64>, 0, "8:888"}
#define CHAIN(NAME, OP, WITH, SOURCES)                                                       \
  {NAME ".u32", execute_chain<u32, OP, WITH>, carry_out, "4:" SOURCES},                     \
  {NAME ".s32", execute_chain<u32, OP, WITH>, carry_out, "4:" SOURCES}
#define CHAIN_64(NAME, OP, WITH)                                                             \
  {NAME ".u64", execute_chain<u64, OP, WITH>, carry_out, "8:88"},                           \
  {NAME ".s64", execute_chain<u64, OP, WITH>, carry_out, "8:88"}
#define PAIRS(NAME, F)                                                        \
  {NAME ".s16x2", map2<pairwise<F<s16>, s16>, u32, u32>, 0, "4:44"},          \
  {NAME ".u16x2", map2<pairwise<F<u16>, u16>, u32, u32>, 0, "4:44"}

constexpr Row rows[] = {
    WRAPPING_2("add", add),
    {"add.s32", with_saturation<add<s32>, add_saturating, s32>, sat, "4:44"},
    WRAPPING_2("sub", sub),
    {"sub.s32", with_saturation<sub<s32>, sub_saturating, s32>, sat, "4:44"},
    PAIRS("add", add), PAIRS("sub", sub),
    {"min.u16x2", map2<pairwise<least<u16>, u16>, u32, u32>, 0, "4:44"},
    {"max.u16x2", map2<pairwise<greatest<u16>, u16>, u32, u32>, 0, "4:44"},
    {"min.s16x2", execute_pairs<least<s16>, least_not_negative>, relu, "4:44"},
    {"max.s16x2", execute_pairs<greatest<s16>, greatest_not_negative>, relu, "4:44"},
    EACH_2("mul.lo", mul_lo), EACH_2("mul.hi", mul_hi),
    {"mul.wide.s16", map2<mul_wide<s16>, s32, s16>, 0, "4:22"},
    {"mul.wide.u16", map2<mul_wide<u16>, u32, u16>, 0, "4:22"},
    {"mul.wide.s32", map2<mul_wide<s32>, s64, s32>, 0, "8:44"},
    {"mul.wide.u32", map2<mul_wide<u32>, u64, u32>, 0, "8:44"},
    EACH_3("mad.lo", mad_lo), {"mad.lo.s32", map3<mad_lo<s32>, s32, s32>, 0, "4:444"},
    EACH_3("mad.hi", mad_hi), {"mad.hi.s32", execute_mad_hi_s32, sat, "4:444"},
    {"mad.wide.s16", map3<mad_wide<s16>, s32, s16, s16, s32>, 0, "4:224"},
    {"mad.wide.u16", map3<mad_wide<u16>, u32, u16, u16, u32>, 0, "4:224"},
    {"mad.wide.s32", map3<mad_wide<s32>, s64, s32, s32, s64>, 0, "8:448"},
    {"mad.wide.u32", map3<mad_wide<u32>, u64, u32, u32, u64>, 0, "8:448"},
    {"mul24.lo.s32", map2<mul24_lo<true>, u32, u32>, 0, "4:44"},
    {"mul24.lo.u32", map2<mul24_lo<false>, u32, u32>, 0, "4:44"},
    {"mul24.hi.s32", map2<mul24_hi<true>, u32, u32>, 0, "4:44"},
    {"mul24.hi.u32", map2<mul24_hi<false>, u32, u32>, 0, "4:44"},
    {"mad24.lo.s32", map3<mad24_lo<true>, u32, u32>, 0, "4:444"},
    {"mad24.lo.u32", map3<mad24_lo<false>, u32, u32>, 0, "4:444"},
    {"mad24.hi.s32", execute_mad24_hi_s32, sat, "4:444"},
    {"mad24.hi.u32", map3<mad24_hi<false>, u32, u32>, 0, "4:444"},
    EACH_2("div", divide), EACH_2("rem", remainder_of),
    EACH_3("sad", sum_of_differences), {"sad.s32", map3<sum_of_differences<s32>, s32, s32>, 0, "4:444"},
    {"abs.s16", map1<absolute<s16>, s16, s16>, 0, "2:2"}, {"abs.s32", map1<absolute<s32>, s32, s32>, 0, "4:4"},
    {"abs.s64", map1<absolute<s64>, s64, s64>, 0, "8:8"},
    {"neg.s16", map1<negated<s16>, s16, s16>, 0, "2:2"}, {"neg.s32", map1<negated<s32>, s32, s32>, 0, "4:4"},
    {"neg.s64", map1<negated<s64>, s64, s64>, 0, "8:8"},
    {"min.s16", map2<least<s16>, s16, s16>, 0, "2:22"}, {"min.u16", map2<least<u16>, u16, u16>, 0, "2:22"},
    {"min.s32", execute_min_s32, relu, "4:44"}, {"min.u32", map2<least<u32>, u32, u32>, 0, "4:44"},
    {"min.s64", map2<least<s64>, s64, s64>, 0, "8:88"}, {"min.u64", map2<least<u64>, u64, u64>, 0, "8:88"},
    {"max.s16", map2<greatest<s16>, s16, s16>, 0, "2:22"}, {"max.u16", map2<greatest<u16>, u16, u16>, 0, "2:22"},
    {"max.s32", execute_max_s32, relu, "4:44"}, {"max.u32", map2<greatest<u32>, u32, u32>, 0, "4:44"},
    {"max.s64", map2<greatest<s64>, s64, s64>, 0, "8:88"}, {"max.u64", map2<greatest<u64>, u64, u64>, 0, "8:88"},
    CHAIN("add.cc", 0, false, "44"), CHAIN("addc", 0, true, "44"), CHAIN_64("add.cc", 0, false),
    CHAIN_64("addc", 0, true), CHAIN("sub.cc", 1, false, "44"), CHAIN("subc", 1, true, "44"),
    CHAIN_64("sub.cc", 1, false), CHAIN_64("subc", 1, true),
    CHAIN("mad.lo.cc", 2, false, "444"), CHAIN("madc.lo", 2, true, "444"),
    {"mad.hi.cc.u32", execute_chain<u32, 3, false>, carry_out, "4:444"},
    {"madc.hi.u32", execute_chain<u32, 3, true>, carry_out, "4:444"},
    {"mad.hi.cc.s32", execute_chain<s32, 3, false>, carry_out, "4:444"},
    {"madc.hi.s32", execute_chain<s32, 3, true>, carry_out, "4:444"},
    {"mad.lo.cc.u64", execute_chain<u64, 2, false>, carry_out, "8:888"},
    {"mad.lo.cc.s64", execute_chain<u64, 2, false>, carry_out, "8:888"},
    {"madc.lo.u64", execute_chain<u64, 2, true>, carry_out, "8:888"},
    {"madc.lo.s64", execute_chain<u64, 2, true>, carry_out, "8:888"},
    {"mad.hi.cc.u64", execute_chain<u64, 3, false>, carry_out, "8:888"},
    {"madc.hi.u64", execute_chain<u64, 3, true>, carry_out, "8:888"},
    {"mad.hi.cc.s64", execute_chain<s64, 3, false>, carry_out, "8:888"},
    {"madc.hi.s64", execute_chain<s64, 3, true>, carry_out, "8:888"},
    {"dp4a.u32.u32", map3<dot4<false, false>, u32, u32>, 0, "4:444"},
    {"dp4a.s32.s32", map3<dot4<true, true>, u32, u32>, 0, "4:444"},
    {"dp4a.u32.s32", map3<dot4<false, true>, u32, u32>, 0, "4:444"},
    {"dp4a.s32.u32", map3<dot4<true, false>, u32, u32>, 0, "4:444"},
    {"dp2a.lo.u32.u32", map3<dot2<false, false, 0>, u32, u32>, 0, "4:444"},
    {"dp2a.lo.s32.s32", map3<dot2<true, true, 0>, u32, u32>, 0, "4:444"},
    {"dp2a.lo.u32.s32", map3<dot2<false, true, 0>, u32, u32>, 0, "4:444"},
    {"dp2a.lo.s32.u32", map3<dot2<true, false, 0>, u32, u32>, 0, "4:444"},
    {"dp2a.hi.u32.u32", map3<dot2<false, false, 2>, u32, u32>, 0, "4:444"},
    {"dp2a.hi.s32.s32", map3<dot2<true, true, 2>, u32, u32>, 0, "4:444"},
    {"dp2a.hi.u32.s32", map3<dot2<false, true, 2>, u32, u32>, 0, "4:444"},
    {"dp2a.hi.s32.u32", map3<dot2<true, false, 2>, u32, u32>, 0, "4:444"},
};

}  // namespace integer_instructions
}  // namespace

const Rows integer_rows{std::begin(integer_instructions::rows), std::end(integer_instructions::rows)};

}  // namespace autosched::emulator::ptx

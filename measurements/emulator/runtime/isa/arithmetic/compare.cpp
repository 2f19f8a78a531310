// Comparison and selection: PTX ISA 9.7.5 to 9.7.7. Immediates: the comparison; the operator that combines the
// comparison's result with a predicate operand (0: none); whether this predicate is negated; for `set`, also the type
// of the result.
#include <cmath>
#include <type_traits>

#include "isa/map.hpp"
#include "isa/numbers/round.hpp"
#include "isa/values/undefined.hpp"
#include "memory/poison.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace compare_instructions {

// The order must equal the order of COMPARISONS in measurements/emulator/ptx/forms.py.
enum Comparison { eq, ne, lt, le, gt, ge, lo, ls, hi, hs, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T, class F>
Lanes lanes_where(const T* a, const T* b, Lanes active, F f) {
  Lanes result = 0;
  if (active == all_lanes) {
    unsigned char each[warp_size];
    for (unsigned k = 0; k < warp_size; ++k) each[k] = f(a[k], b[k]);
    for (unsigned k = 0; k < warp_size; ++k) result |= static_cast<Lanes>(each[k]) << k;
    return result;
  }
  for_lanes(active, [&](unsigned k) { result |= static_cast<Lanes>(f(a[k], b[k])) << k; });
  return result;
}

template <class T>
Lanes compare(const T* a, const T* b, Lanes active, std::int64_t comparison) {
  const auto unordered = [](T x, T y) { return x != x || y != y; };
  switch (comparison) {
    case eq: return lanes_where(a, b, active, [](T x, T y) { return x == y; });
    case ne: return lanes_where(a, b, active, [&](T x, T y) { return x != y && !unordered(x, y); });
    case lt: case lo: return lanes_where(a, b, active, [](T x, T y) { return x < y; });
    case le: case ls: return lanes_where(a, b, active, [](T x, T y) { return x <= y; });
    case gt: case hi: return lanes_where(a, b, active, [](T x, T y) { return x > y; });
    case ge: case hs: return lanes_where(a, b, active, [](T x, T y) { return x >= y; });
    case equ: return lanes_where(a, b, active, [&](T x, T y) { return x == y || unordered(x, y); });
    case neu: return lanes_where(a, b, active, [](T x, T y) { return x != y; });
    case ltu: return lanes_where(a, b, active, [](T x, T y) { return !(x >= y); });
    case leu: return lanes_where(a, b, active, [](T x, T y) { return !(x > y); });
    case gtu: return lanes_where(a, b, active, [](T x, T y) { return !(x <= y); });
    case geu: return lanes_where(a, b, active, [](T x, T y) { return !(x < y); });
    case num: return lanes_where(a, b, active, [&](T x, T y) { return !unordered(x, y); });
    default: return lanes_where(a, b, active, [&](T x, T y) { return unordered(x, y); });
  }
}

// Converts values for a comparison: half floats to f32, flushed subnormals to zero.
template <class T>
void load(Warp& w, const Instruction& i, unsigned source, T* to) {
  const T* from = w.values<T>(i.source(source));
  for (unsigned k = 0; k < warp_size; ++k) {
    to[k] = from[k];
    if constexpr (std::is_same_v<T, float>) {
      if (i.flags & ftz) to[k] = flush(to[k]);
    }
  }
}
template <float (*Convert)(unsigned short)>
void load_half(Warp& w, const Instruction& i, unsigned source, unsigned values, unsigned which, float* to) {
  const auto* from = w.values<std::uint16_t>(i.source(source));
  for (unsigned k = 0; k < warp_size; ++k) to[k] = Convert(from[k * values + which]);
}

// Result of a comparison, combined with the predicate operand if there is one, and the lanes in which this result is
// defined. If the comparison alone or the predicate alone determines the result (PTX ISA 9.7.6: BoolOp), the other one
// may be undefined.
struct Joined {
  Lanes value, defined;
};
// Lanes in which both operands are defined.
Lanes knowing(Warp& w, const Instruction& i) { return w.head(i.source(0)).defined & w.head(i.source(1)).defined; }
// The operands are pairs of 16-bit values. Returns the lanes in which half `which` of both operands is defined.
Lanes knowing_half(Warp& w, const Instruction& i, Lanes active, unsigned which) {
  Lanes lanes = knowing(w, i);
  for (Lanes left = active & ~lanes; left != 0; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    const std::uint64_t known = known_bits(w, i.source(0), 4, k) & known_bits(w, i.source(1), 4, k);
    if ((known >> 16 * which & 0xffffu) == 0xffffu) lanes |= 1u << k;
  }
  return lanes;
}
Joined join(Warp& w, const Instruction& i, Lanes result, Lanes own) {
  if (i.immediate[1] == 0) return {result, own};
  const Register& predicate = w.head(i.source(2));
  const Lanes other = i.immediate[2] != 0 ? ~predicate.bits : predicate.bits, known = predicate.defined;
  switch (i.immediate[1]) {
    case 1: return {result & other, (own & known) | (own & ~result) | (known & ~other)};
    case 2: return {result | other, (own & known) | (own & result) | (known & other)};
    default: return {result ^ other, own & known};
  }
}

SiteIndex origin(Warp& w, const Instruction& i, Lanes undefined) {
  for (unsigned s = 0; s < i.sources; ++s) {
    if ((undefined & ~w.head(i.source(s)).defined) != 0) return origin_of(w, i.source(s), i);
  }
  return i.site;
}

void define(Warp& w, const Instruction& i, Lanes active, unsigned which, Lanes defined) {
  const Lanes undefined = active & ~defined;
  const SiteIndex from = undefined != 0 ? origin(w, i, undefined) : SiteIndex{0};
  w.head(i.destination(which)).defined |= active & ~undefined;
  if (undefined != 0) undefine(w, i.destination(which), i.width_of_destination(which), undefined, from);
}

// Result of a comparison in each lane. If poisoning is enabled, lanes with undefined operands get a result that depends
// on the poison pattern.
Lanes answer(Machine& machine, Joined result) {
  const Lanes unknown = machine.poison != 0 ? ~result.defined : 0;
  return unknown == 0 ? result.value : (result.value & ~unknown) | (poison_answers(machine) & unknown);
}

void set_predicate(Warp& w, const Instruction& i, Lanes active, unsigned which, Joined result) {
  define(w, i, active, which, result.defined);
  // undefined lanes keep their poison
  const Lanes answered = w.machine->poison != 0 ? active & result.defined : active;
  Lanes& d = w.head(i.destination(which)).bits;
  d = (d & ~answered) | (result.value & answered);
}

void set_joined(Warp& w, const Instruction& i, Lanes active, Joined a, Joined b) {
  set_predicate(w, i, active, 0, a);
  if (i.destinations > 1) set_predicate(w, i, active, 1, b);
}
// Both results are computed before either is written, because a destination may also be the predicate operand.
void set_predicates(Warp& w, const Instruction& i, Lanes active, Lanes first, Lanes second) {
  const Lanes known = knowing(w, i);
  set_joined(w, i, active, join(w, i, first, known), join(w, i, second, known));
}

template <class T>
void setp(Warp& w, const Instruction& i, Lanes active) {
  if constexpr (std::is_same_v<T, float>) {
    T a[warp_size], b[warp_size];
    load(w, i, 0, a);
    load(w, i, 1, b);
    const Lanes result = compare(a, b, active, i.immediate[0]);
    set_predicates(w, i, active, result, ~result);
  } else {
    const Lanes result = compare(w.values<T>(i.source(0)), w.values<T>(i.source(1)), active, i.immediate[0]);
    set_predicates(w, i, active, result, ~result);
  }
}
template <float (*Convert)(unsigned short), unsigned Values>
void setp_half(Warp& w, const Instruction& i, Lanes active) {
  Lanes result[2];
  for (unsigned which = 0; which < Values; ++which) {
    float a[warp_size], b[warp_size];
    load_half<Convert>(w, i, 0, Values, which, a);
    load_half<Convert>(w, i, 1, Values, which, b);
    result[which] = compare(a, b, active, i.immediate[0]);
  }
  if constexpr (Values == 1) {
    set_predicates(w, i, active, result[0], ~result[0]);
  } else {
    set_joined(w, i, active, join(w, i, result[0], knowing_half(w, i, active, 0)),
               join(w, i, result[1], knowing_half(w, i, active, 1)));
  }
}

// `set` writes all ones, or 1.0, if the comparison is true. immediate[3]: 0 for an integer result, otherwise the bits
// of 1.0 in the result's type.
template <class T>
void set(Warp& w, const Instruction& i, Lanes active) {
  T a[warp_size], b[warp_size];
  load(w, i, 0, a);
  load(w, i, 1, b);
  const Joined joined = join(w, i, compare(a, b, active, i.immediate[0]), knowing(w, i));
  define(w, i, active, 0, joined.defined);
  const Lanes result = answer(*w.machine, joined);
  const std::uint64_t one = i.immediate[3] == 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(i.immediate[3]);
  for_lanes(active, [&](unsigned k) {
    write_bits(w, i.destination(0), i.width_of_destination(0), k, result >> k & 1u ? one : 0);
  });
}
template <float (*Convert)(unsigned short), unsigned Values>
void set_half(Warp& w, const Instruction& i, Lanes active) {
  const auto one = static_cast<std::uint16_t>(i.immediate[3] == 0 ? -1 : i.immediate[3]);
  Joined joined[2];
  for (unsigned which = 0; which < Values; ++which) {
    float a[warp_size], b[warp_size];
    load_half<Convert>(w, i, 0, Values, which, a);
    load_half<Convert>(w, i, 1, Values, which, b);
    joined[which] =
        join(w, i, compare(a, b, active, i.immediate[0]), Values == 1 ? knowing(w, i) : knowing_half(w, i, active, which));
  }
  if constexpr (Values == 1) {
    define(w, i, active, 0, joined[0].defined);
  } else {
    const Lanes undefined = active & ~(joined[0].defined & joined[1].defined);
    const SiteIndex from = undefined != 0 ? origin(w, i, undefined) : SiteIndex{0};
    w.head(i.destination(0)).defined |= active & ~undefined;
    for_lanes(undefined, [&](unsigned k) {
      const std::uint64_t low = joined[0].defined >> k & 1u ? 0xffffu : 0u, high = joined[1].defined >> k & 1u ? 0xffff0000u : 0u;
      set_known(w, i.destination(0), i.width_of_destination(0), k, low | high, from);
    });
  }
  for (unsigned which = 0; which < Values; ++which) {
    const Lanes result = answer(*w.machine, joined[which]);
    for_lanes(active, [&](unsigned k) {
      if (Values == 1 && i.width_of_destination(0) != 2) {
        write_bits(w, i.destination(0), i.width_of_destination(0), k,
                   result >> k & 1u ? (i.immediate[3] == 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(i.immediate[3])) : 0);
      } else {
        w.values<std::uint16_t>(i.destination(0))[k * Values + which] = result >> k & 1u ? one : std::uint16_t{0};
      }
    });
  }
}

// The operand that is not selected may be undefined.
void define_chosen(Warp& w, const Instruction& i, Lanes active, Lanes first) {
  const Register &a = w.head(i.source(0)), &b = w.head(i.source(1)), &c = w.head(i.source(2));
  const Lanes undefined = active & ~(((a.defined & first) | (b.defined & ~first)) & c.defined);
  const Lanes decided = c.defined, defined = active & ~undefined;
  for_lanes(undefined, [&](unsigned k) {
    const unsigned chosen = first >> k & 1u ? 0 : 1, width = i.width_of_source(chosen);
    const bool known = decided >> k & 1u;
    set_known(w, i.destination(0), width, k, known ? known_bits(w, i.source(chosen), width, k) : 0,
              origin_of(w, i.source(known ? chosen : 2), i));
  });
  w.head(i.destination(0)).defined |= defined;
}
template <class T>
void selp(Warp& w, const Instruction& i, Lanes active) {
  const Lanes first = w.head(i.source(2)).bits;
  T* d = w.values<T>(i.destination(0));
  const T *a = w.values<T>(i.source(0)), *b = w.values<T>(i.source(1));
  for_lanes(active, [&](unsigned k) { d[k] = first >> k & 1u ? a[k] : b[k]; });
  define_chosen(w, i, active, first);
}
template <class T, class C>
void slct(Warp& w, const Instruction& i, Lanes active) {
  Lanes first = 0;
  for_lanes(active, [&](unsigned k) {
    C c = w.values<C>(i.source(2))[k];
    if constexpr (std::is_same_v<C, float>) {
      if (i.flags & ftz) c = flush(c);
    }
    const bool chosen = c >= 0;
    first |= static_cast<Lanes>(chosen) << k;
    w.values<T>(i.destination(0))[k] = w.values<T>(i.source(chosen ? 0 : 1))[k];
  });
  define_chosen(w, i, active, first);
}

using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;

#define COMPARE(NAME, T, WIDTH)                                                    \
  {"setp." NAME, setp<T>, ftz, "*:" WIDTH WIDTH "*", Flow::plain, false, true},    \
  {"set." NAME, set<T>, ftz, "*:" WIDTH WIDTH "*", Flow::plain, false, true}
#define COMPARE_HALF(NAME, CONVERT, VALUES, WIDTH)                                 \
  {"setp." NAME, setp_half<CONVERT, VALUES>, ftz, "*:" WIDTH WIDTH "*", Flow::plain, false, true}, \
  {"set." NAME, set_half<CONVERT, VALUES>, ftz, "*:" WIDTH WIDTH "*", Flow::plain, false, true}
#define SELECT(NAME, T, WIDTH)                                                     \
  {"selp." NAME, selp<T>, 0, WIDTH ":" WIDTH WIDTH "0", Flow::plain, false, true}, \
  {"slct." NAME ".s32", slct<T, s32>, 0, WIDTH ":" WIDTH WIDTH "4", Flow::plain, false, true}, \
  {"slct." NAME ".f32", slct<T, float>, ftz, WIDTH ":" WIDTH WIDTH "4", Flow::plain, false, true}

constexpr Row rows[] = {
    COMPARE("s16", s16, "2"), COMPARE("u16", u16, "2"), COMPARE("b16", u16, "2"),
    COMPARE("s32", s32, "4"), COMPARE("u32", u32, "4"), COMPARE("b32", u32, "4"),
    COMPARE("s64", s64, "8"), COMPARE("u64", u64, "8"), COMPARE("b64", u64, "8"),
    COMPARE("f32", float, "4"), COMPARE("f64", double, "8"),
    COMPARE_HALF("f16", f32_of_f16, 1, "2"), COMPARE_HALF("f16x2", f32_of_f16, 2, "4"),
    COMPARE_HALF("bf16", f32_of_bf16, 1, "2"), COMPARE_HALF("bf16x2", f32_of_bf16, 2, "4"),
    SELECT("b16", u16, "2"), SELECT("b32", u32, "4"), SELECT("b64", u64, "8"),
};

}  // namespace compare_instructions
}  // namespace

const Rows compare_rows{std::begin(compare_instructions::rows), std::end(compare_instructions::rows)};

}  // namespace autosched::emulator::ptx

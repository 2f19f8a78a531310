// Compares two values that the same store instruction writes. A PTX store has no number format, so the format is
// derived from the instructions that compute the stored values. The analysis goes backwards from the store's registers
// through moves, shuffles and bit operations to instructions with a type.
#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "memory/nearly_equal.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "isa/numbers/round.hpp"
#include "isa/program.hpp"

namespace autosched::emulator {

// Number formats of the values that each store writes, as far as they can be derived.
struct NearlyEqualStores {
  enum NumberFormat : unsigned { f32, f64, f16, bf16, e4m3, e5m2, num_formats };
  using Formats = unsigned;  // one bit per format
  // A register that holds a term of a stored sum.
  struct Term {
    std::uint32_t slot;
    unsigned width;
    NumberFormat format;
  };
  struct Stored {
    Formats formats = 0;
    bool is_known = true;  // false: the format is unknown, and words that may be f32 are compared as f32
    std::vector<Term> terms;  // terms of the sum, the last one first
    NumberFormat coarsest = f64;
    double largest[num_formats] = {};
  };
  std::unordered_map<SiteIndex, Stored> by_site;
};

namespace {
using enum NearlyEqualStores::NumberFormat;
using NumberFormat = NearlyEqualStores::NumberFormat;
using Formats = NearlyEqualStores::Formats;
using Term = NearlyEqualStores::Term;
using Stored = NearlyEqualStores::Stored;

using ptx::Instruction;

constexpr Formats only(NumberFormat format) { return 1u << format; }

// Allowed difference of two sums of the same terms. `ulps` and `relative` are relative to the sum. `of_largest` is
// relative to the largest value that the instruction has stored or, for 16-bit formats, to the largest term of this
// sum: if large terms cancel, sums may differ by a few units in the last place of these terms.
struct Tolerance {
  int bytes;
  std::int64_t ulps;
  double relative, of_largest;
};
constexpr Tolerance tolerances[num_formats] = {
    {4, 64, 0x1p-12, 0x1p-18}, {8, 64, 0x1p-41, 0x1p-47},          // f32, f64
    // f16, bf16: every partial sum is rounded to the format
    {2, 2, 0x1p-8, 0x1p-8},    {2, 2, 0x1p-5, 0x1p-5},
    {1, 1, 0, 0},              {1, 1, 0, 0},                       // e4m3, e5m2: a sum is rounded to the format once
};

double value_of(NumberFormat format, std::uint64_t bits) {
  switch (format) {
    case f64: return __builtin_bit_cast(double, bits);
    case f16: return f32_of_f16(static_cast<unsigned short>(bits));
    case bf16: return f32_of_bf16(static_cast<unsigned short>(bits));
    case e4m3: return ptx::decode(ptx::e4m3_format, static_cast<unsigned>(bits));
    case e5m2: return ptx::decode(ptx::e5m2_format, static_cast<unsigned>(bits));
    default: return from_bits(static_cast<unsigned>(bits));
  }
}

// True if two numbers may be sums of the same terms in different orders. A difference in the last bits (up to `ulps`)
// is always allowed. Between two integers, no larger difference is allowed, because sums of integers are exact.
// `coarsest`: the coarsest format to which any term has been rounded. `largest`: the largest value so far, which is
// updated.
bool are_one_sum(NumberFormat format, NumberFormat coarsest, std::uint64_t a, std::uint64_t b, double& largest) {
  if (a == b) return true;
  const Tolerance& own = tolerances[format];
  const Tolerance& coarse = tolerances[coarsest];
  const double x = value_of(format, a), y = value_of(format, b);
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  largest = std::fmax(largest, std::fmax(std::fabs(x), std::fabs(y)));
  if (std::abs(static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b)) <= own.ulps) return true;
  if (std::nearbyint(x) == x && std::nearbyint(y) == y) return false;
  const double apart = std::fabs(x - y);
  return apart <= std::fmax(own.relative, coarse.relative) * std::fmax(std::fabs(x), std::fabs(y)) ||
         apart <= std::fmax(own.of_largest, coarse.of_largest) * largest;
}

// Formats of the types in CONVERTED and in MULTIPLIED (measurements/emulator/ptx/forms.py), in the same order.
constexpr std::int64_t last_integer = 7;
constexpr std::array<Formats, 17> converted{0, 0, 0, 0, 0, 0, 0, 0, only(f16), only(bf16), only(f32), only(f64), only(f32),
                                            only(f16), only(bf16), only(e4m3), only(e5m2)};
constexpr std::array<Formats, 8> multiplied{only(f16), only(bf16), only(f32), only(f64), 0, 0, only(f32), 0};

bool starts_with_one_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  for (const auto begin : beginnings) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

// The contents of an instruction's result: numbers of certain formats, bits of its sources (`passes_on`), or neither.
// `adds`: the instruction is an integer addition. On GPUs before sm_80, compilers round f32 to bf16 by an integer
// addition, and keep the upper half of the sum.
struct Making {
  Formats formats = 0;
  bool passes_on = false, adds = false;
};

Making making_of(const Instruction& i) {
  const std::string_view name = i.row->name;
  const auto at = [&](std::size_t k) { return i.immediates > k ? i.immediate[k] : -1; };
  const auto in = [](const auto& table, std::int64_t k) {
    return k >= 0 && k < static_cast<std::int64_t>(table.size()) ? table[static_cast<std::size_t>(k)] : Formats{0};
  };
  if (name == "cvt" || (name.starts_with("cvt.") && i.immediates == 2)) {
    return {in(converted, at(0)), at(0) <= last_integer && at(1) <= last_integer};
  }
  if (name == "mma") return {in(multiplied, at(4)), false};
  if (name == "mma.sp") return {in(multiplied, at(2)), false};
  if (name.ends_with(".mixed")) return {only(f32), false};
  if (starts_with_one_of(name, {"mov", "selp.", "slct.", "shfl", "prmt.", "and.b", "or.b", "xor.b", "not.b", "lop3.", "shl.",
                                "shr.", "shf.", "bfe.", "bfi."})) {
    return {0, true};
  }
  if (name == "add.s32" || name == "add.u32") return {0, true, true};
  if (starts_with_one_of(name, {"ld", "atom", "setp.", "set.", "testp."})) return {};
  std::string_view type = name.substr(name.rfind('.') + 1);
  if (type.ends_with("x2")) type.remove_suffix(2);
  if (type == "f16") return {only(f16), false};
  if (type == "bf16") return {only(bf16), false};
  if (type == "f32") return {only(f32), false};
  if (type == "f64") return {only(f64), false};
  return {};
}

// Index of the first source that is a term of the result; all later sources are terms, too. All sources of sums,
// differences, minima, and changes of sign or format are terms. So is the addend of a multiply-add. Other instructions
// have no terms, because factors and exponents do not bound the size of the result.
unsigned first_term(const Instruction& i) {
  const std::string_view name = i.row->name;
  if (starts_with_one_of(name, {"add.", "sub.", "min", "max", "neg.", "abs.", "cvt"})) return 0;
  const unsigned added = starts_with_one_of(name, {"fma.", "mad."}) ? 1u : name.starts_with("mma") ? i.destinations : 0u;
  return i.sources - std::min<unsigned>(i.sources, added);
}

constexpr std::size_t most_terms = 256;

// Number format and terms of a stored value, derived from its registers.
Stored stored_by(Machine& machine, SiteIndex site) {
  std::unordered_multimap<std::uint32_t, const Instruction*> makers;
  std::deque<std::uint32_t> open, computed;
  for (const Instruction& i : machine.program.code) {
    for (unsigned d = 0; d < i.destinations; ++d) makers.emplace(i.destination(d), &i);
    if (i.site == site && i.destinations == 0) open.insert(open.end(), i.operand, i.operand + i.sources);
  }
  Stored stored;
  bool adds = false;
  std::unordered_set<std::uint32_t> seen(open.begin(), open.end());
  const auto go_back = [&](std::deque<std::uint32_t>& slots, auto&& visit) {
    while (!slots.empty() && stored.terms.size() < most_terms) {
      const auto [begin, end] = makers.equal_range(slots.front());
      const std::uint32_t slot = slots.front();
      slots.pop_front();
      for (auto maker = begin; maker != end; ++maker) {
        const Instruction& i = *maker->second;
        for (unsigned s = visit(i, making_of(i), slot); s < i.sources; ++s) {
          if (seen.insert(i.source(s)).second) slots.push_back(i.source(s));
        }
      }
    }
  };
  // `visit` returns an index of a source. The search continues at this source and all later sources of the instruction.
  go_back(open, [&](const Instruction& i, const Making& making, std::uint32_t slot) {
    stored.formats |= making.formats;
    adds = adds || making.adds;
    if (making.formats != 0) computed.push_back(slot);
    return making.passes_on ? 0u : i.sources;
  });
  if (adds && stored.formats == only(f32)) {
    stored.formats |= only(bf16);
    stored.coarsest = bf16;
  }
  stored.is_known = stored.formats != 0;
  if (!stored.is_known) stored.formats = only(f32);
  go_back(computed, [&](const Instruction& i, const Making& making, std::uint32_t slot) {
    if (making.formats != 0) {
      const auto format = static_cast<NumberFormat>(std::countr_zero(making.formats));
      const auto d = static_cast<unsigned>(std::find(i.operand, i.operand + i.destinations, slot) - i.operand);
      stored.terms.push_back({slot, i.width_of_destination(d), format});
    }
    return making.passes_on ? 0u : first_term(i);
  });
  for (const Term& term : stored.terms) {
    const bool is_half = term.format == f16 || term.format == bf16;
    if (is_half && tolerances[term.format].relative > tolerances[stored.coarsest].relative) stored.coarsest = term.format;
  }
  if (stored.coarsest == f64) stored.terms.clear();
  return stored;
}

// Largest magnitude of the terms whose sums the running lanes store.
double largest_term(Machine& machine, const Stored& stored) {
  ptx::Warp& warp = machine.warps.all[machine.self->warp];
  double largest = 0;
  for (const Term& term : stored.terms) {
    const unsigned bits = 8 * static_cast<unsigned>(tolerances[term.format].bytes);
    if (8 * term.width < bits) continue;
    ptx::for_lanes(warp.head(term.slot).defined & lanes_of(machine.self->agent), [&](unsigned lane) {
      const std::uint64_t all = ptx::read_bits(warp, term.slot, term.width, lane);
      for (unsigned at = 0; at < 8 * term.width; at += bits) {
        const double x = std::fabs(value_of(term.format, bits == 64 ? all : all >> at & ((std::uint64_t{1} << bits) - 1)));
        if (std::isfinite(x)) largest = std::fmax(largest, x);
      }
    });
  }
  return largest;
}

const unsigned char* bytes_of(const void* p, int at) { return static_cast<const unsigned char*>(p) + at; }

// True unless the bits would be a subnormal f32: such values are more likely small integers.
bool may_be_f32(std::uint64_t bits) { return (bits >> 23 & 0xffu) != 0; }

bool are_sums(NumberFormat format, const void* one, const void* other, int bytes, const Stored& stored, double& largest) {
  const int each = tolerances[format].bytes;
  if (bytes % each != 0) return false;
  for (int at = 0; at < bytes; at += each) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, bytes_of(one, at), static_cast<std::size_t>(each));
    std::memcpy(&b, bytes_of(other, at), static_cast<std::size_t>(each));
    if (!stored.is_known && a != b && !may_be_f32(a)) return false;
    if (!are_one_sum(format, stored.coarsest, a, b, largest)) return false;
  }
  return true;
}

}  // namespace

bool nearly_equal(Machine& machine, const void* one, const void* other, int bytes, SiteIndex site) {
  auto entry = machine.nearly_equal_stores.by_site.find(site);
  if (entry == machine.nearly_equal_stores.by_site.end())
    entry = machine.nearly_equal_stores.by_site.emplace(site, stored_by(machine, site)).first;
  Stored& stored = entry->second;
  const double term = largest_term(machine, stored);
  for (unsigned format = 0; format < num_formats; ++format) {
    if ((stored.formats >> format & 1u) == 0) continue;
    // If the terms of this sum are known, the largest term is used instead of the largest value stored so far.
    double own = term;
    double& largest = stored.terms.empty() ? stored.largest[format] : own;
    if (are_sums(static_cast<NumberFormat>(format), one, other, bytes, stored, largest)) return true;
  }
  return false;
}

}  // namespace autosched::emulator

AUTOSCHED_PART(NearlyEqualStores);

// atom and red of all types: PTX ISA 9.7.13. The lanes of a warp perform their updates one after another.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "isa/numbers/round.hpp"
#include "isa/access/memory.hpp"
#include "memory/counting.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/memory.hpp"
#include "order/block_order.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace atomic_instructions {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;

struct u128 {
  u64 low, high;
  bool operator==(const u128&) const = default;
};

// old value, operands -> new value
template <class T>
using Update = T (*)(T, T, T);

template <class T>
T add(T old, T b, T) {
  return static_cast<T>(old + b);
}
template <class T>
T smaller(T old, T b, T) {
  return b < old ? b : old;
}
template <class T>
T larger(T old, T b, T) {
  return old < b ? b : old;
}
template <class T>
T both(T old, T b, T) {
  return old & b;
}
template <class T>
T either(T old, T b, T) {
  return old | b;
}
template <class T>
T differ(T old, T b, T) {
  return old ^ b;
}
template <class T>
T exchange(T, T b, T) {
  return b;
}
template <class T>
T compare_and_swap(T old, T b, T c) {
  return old == b ? c : old;
}
u32 increment(u32 old, u32 b, u32) { return old >= b ? 0 : old + 1; }
u32 decrement(u32 old, u32 b, u32) { return old == 0 || old > b ? b : old - 1; }
float add_f32(float old, float b, float) { return add_in_global(old, b); }
float add_f32_subnormal(float old, float b, float) { return canonical(old + b); }

template <const Format& F>
u16 half_sum(u16 a, u16 b) {
  return static_cast<u16>(encode(F, add_odd(decode(F, a), decode(F, b)), Rounding::nearest));
}
template <const Format& F>
u16 add_half(u16 old, u16 b, u16) {
  return half_sum<F>(old, b);
}
template <const Format& F>
u32 add_pair(u32 old, u32 b, u32) {
  const u32 low = half_sum<F>(static_cast<u16>(old), static_cast<u16>(b));
  return low | static_cast<u32>(half_sum<F>(static_cast<u16>(old >> 16), static_cast<u16>(b >> 16))) << 16;
}

// The name of an atomic operation in messages and counts, such as "atom.global.add".
const char* name_of(const Row* row, Space space) {
  static std::map<std::pair<const Row*, Space>, std::string> names;
  std::string& name = names[{row, space}];
  if (name.empty()) {
    std::string whole = std::string(row->name).substr(5);
    if (whole.rfind("vector.", 0) == 0) whole = whole.substr(7);
    name = "atom." + (space == Space::generic ? "" : std::string(space_name(space)) + ".") + whole.substr(0, whole.find('.'));
  }
  return name.c_str();
}

// Immediates: offset, space.
template <class T, auto F>
void update(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto space = static_cast<Space>(i.immediate[1]);
  const char* name = name_of(i.row, space);
  Location locations[warp_size];
  u64 addresses[warp_size] = {};
  Lanes global = 0, shared = 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    locations[k] = resolve(machine, space, address_of(w, i, 0, i.immediate[0], k), name);
    addresses[k] = locations[k].offset;
    if (!locations[k].good) return;
    if (locations[k].space == Space::global) global |= 1u << k;
    if (locations[k].space == Space::shared) shared |= 1u << k;
  });
  if (global != 0) count_global_request(machine, i.site, name_of(i.row, Space::global), sizeof(T), global, addresses);
  if (shared != 0) count_shared_request(machine, i.site, name_of(i.row, Space::shared), sizeof(T), shared, addresses);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    const T b = w.values<T>(i.source(1))[k], c = i.sources > 2 ? w.values<T>(i.source(2))[k] : b;
    T old;
    std::memset(&old, 0xff, sizeof old);
    unsigned char* at = nullptr;
    before_access(machine, i);
    if (!locations[k].good) {
    } else if (locations[k].space == Space::global) {
      at = update_global(machine, reinterpret_cast<void*>(locations[k].offset), sizeof(T), name,
                         (i.flags & block_scope) != 0);
    } else if (locations[k].space == Space::shared) {
      at = update_shared(machine, static_cast<unsigned>(locations[k].offset), sizeof(T), name);
    } else {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: %s on %s memory", describe_self(machine).c_str(), name,
              space_name(locations[k].space));
    }
    if (at != nullptr) {
      const std::uint64_t flag = locations[k].space == Space::shared
                                     ? flag_in_shared(machine, static_cast<unsigned>(locations[k].offset))
                                     : flag_in_global(at);
      read_flag(machine, flag);
      write_flag(machine, flag, true, (i.flags & block_scope) != 0);
      std::memcpy(&old, at, sizeof old);
      const T result = F(old, b, c);
      if (std::memcmp(&old, &result, sizeof old) != 0) machine.idle_polls = 0;
      std::memcpy(at, &result, sizeof result);
    }
    after_access(machine, i);
    if (i.destinations != 0) w.values<T>(i.destination(0))[k] = old;
  });
}

// Updates adjacent elements. The update of each element is atomic, but the update of all elements together is not (PTX
// ISA, atom). Sources: address, then the elements.
template <class T, auto F>
void update_vector(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto space = static_cast<Space>(i.immediate[1]);
  const char* name = name_of(i.row, Space::global);
  const unsigned elements = i.sources - 1, bytes = elements * sizeof(T);
  const bool narrow = (i.flags & block_scope) != 0;
  u64 addresses[warp_size] = {};
  Lanes good = 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const Location location = resolve(machine, space, address_of(w, i, 0, i.immediate[0], k), name);
    addresses[k] = location.offset;
    if (!location.good) return;
    if (location.space != Space::global) {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: %s of a vector on %s memory",
              describe_self(machine).c_str(), name, space_name(location.space));
      return;
    }
    good |= 1u << k;
    if (location.offset % bytes != 0) {
      FINDING(machine.report, misaligned_access, machine.self->site, "%s: %s of %u bytes is not aligned to its size",
              describe_self(machine).c_str(), name, bytes);
    }
  });
  if (good != 0) count_global_request(machine, i.site, name, static_cast<int>(bytes), good, addresses);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    before_access(machine, i);
    for (unsigned e = 0; e < elements; ++e) {
      T old;
      std::memset(&old, 0xff, sizeof old);
      unsigned char* at = nullptr;
      if (good >> k & 1u)
        at = update_global(machine, reinterpret_cast<void*>(addresses[k] + e * sizeof(T)), sizeof(T), name, narrow);
      if (at != nullptr) {
        read_flag(machine, flag_in_global(at));
        write_flag(machine, flag_in_global(at), true, narrow);
        std::memcpy(&old, at, sizeof old);
        const T b = w.values<T>(i.source(1 + e))[k], result = F(old, b, b);
        machine.idle_polls = 0;
        std::memcpy(at, &result, sizeof result);
      }
      if (i.destinations != 0) w.values<T>(i.destination(e))[k] = old;
    }
    after_access(machine, i);
  });
}

template <const Format& F, bool Larger>
u16 extreme_half(u16 a, u16 b, u16) {
  const double x = decode(F, a), y = decode(F, b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y) ? u16{0x7fff} : std::isnan(x) ? b : a;
  if (x == y) return Larger ? a & b : a | b;  // the minimum of +0 and -0 is -0, and the maximum is +0
  return (x < y) == Larger ? b : a;
}
template <const Format& F, bool Larger>
u32 extreme_pair(u32 a, u32 b, u32) {
  const auto one = [&](unsigned shift) -> u32 {
    return extreme_half<F, Larger>(static_cast<u16>(a >> shift), static_cast<u16>(b >> shift), 0);
  };
  return one(0) | one(16) << 16;
}

constexpr std::uint32_t orders = acquire | release | block_scope;
#define ATOMIC(NAME, T, F, OPERANDS) {"atom." NAME, update<T, F>, orders, "*:*" OPERANDS, Flow::yields, true}

#define WIDE_ATOMIC(NAME, F, OPERANDS) {"atom." NAME, update<u128, F>, orders, "*:*" OPERANDS, Flow::yields, true}

#define VECTOR(NAME, T, F) {"atom.vector." NAME, update_vector<T, F>, orders, "*:**", Flow::yields, true}
#define VECTOR_OF_HALVES(NAME, FORMAT) \
  VECTOR("add." NAME, u16, add_half<FORMAT>), VECTOR("add." NAME "x2", u32, add_pair<FORMAT>), \
  VECTOR("min." NAME, u16, (extreme_half<FORMAT, false>)), VECTOR("min." NAME "x2", u32, (extreme_pair<FORMAT, false>)), \
  VECTOR("max." NAME, u16, (extreme_half<FORMAT, true>)), VECTOR("max." NAME "x2", u32, (extreme_pair<FORMAT, true>))

constexpr Row rows[] = {
    VECTOR("add.f32", float, add_f32), VECTOR_OF_HALVES("f16", f16_format), VECTOR_OF_HALVES("bf16", bf16_format),
    ATOMIC("add.u32", u32, add<u32>, "4"), ATOMIC("add.s32", u32, add<u32>, "4"),
    ATOMIC("add.u64", u64, add<u64>, "8"), ATOMIC("add.s64", u64, add<u64>, "8"),
    ATOMIC("add.f32", float, add_f32_subnormal, "4"), ATOMIC("add.ftz.f32", float, add_f32, "4"),
    ATOMIC("add.f64", double, add<double>, "8"),
    ATOMIC("add.f16", u16, add_half<f16_format>, "2"), ATOMIC("add.f16x2", u32, add_pair<f16_format>, "4"),
    ATOMIC("add.bf16", u16, add_half<bf16_format>, "2"), ATOMIC("add.bf16x2", u32, add_pair<bf16_format>, "4"),
    ATOMIC("min.u32", u32, smaller<u32>, "4"), ATOMIC("min.s32", s32, smaller<s32>, "4"),
    ATOMIC("min.u64", u64, smaller<u64>, "8"), ATOMIC("min.s64", s64, smaller<s64>, "8"),
    ATOMIC("max.u32", u32, larger<u32>, "4"), ATOMIC("max.s32", s32, larger<s32>, "4"),
    ATOMIC("max.u64", u64, larger<u64>, "8"), ATOMIC("max.s64", s64, larger<s64>, "8"),
    ATOMIC("and.b32", u32, both<u32>, "4"), ATOMIC("and.b64", u64, both<u64>, "8"),
    ATOMIC("or.b32", u32, either<u32>, "4"), ATOMIC("or.b64", u64, either<u64>, "8"),
    ATOMIC("xor.b32", u32, differ<u32>, "4"), ATOMIC("xor.b64", u64, differ<u64>, "8"),
    ATOMIC("exch.b32", u32, exchange<u32>, "4"), ATOMIC("exch.b64", u64, exchange<u64>, "8"),
    ATOMIC("cas.b16", u16, compare_and_swap<u16>, "22"), ATOMIC("cas.b32", u32, compare_and_swap<u32>, "44"),
    ATOMIC("cas.b64", u64, compare_and_swap<u64>, "88"),
    WIDE_ATOMIC("exch.b128", exchange<u128>, "*"), WIDE_ATOMIC("cas.b128", compare_and_swap<u128>, "**"),
    ATOMIC("inc.u32", u32, increment, "4"), ATOMIC("dec.u32", u32, decrement, "4"),
};

}  // namespace atomic_instructions
}  // namespace

const Rows atomic_rows{std::begin(atomic_instructions::rows), std::end(atomic_instructions::rows)};

}  // namespace autosched::emulator::ptx

// Warp-wide instructions: shuffles, votes, match, redux, elect: PTX ISA 9.7.9 and 9.7.13. Source 0 is the mask. A
// handler runs when all lanes of the mask have arrived; lanes may arrive at different instructions of the same kind.
#include <algorithm>
#include <cmath>

#include "isa/warps.hpp"
#include "isa/values/undefined.hpp"
#include "memory/poison.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace warp_instructions {

using u32 = std::uint32_t;
using s32 = std::int32_t;

const Instruction& of(Warp& w, unsigned lane) { return *w.waiting[lane]; }

void set_predicate(Warp& w, std::uint32_t at, unsigned lane, bool value) {
  Lanes& d = w.head(at).bits;
  d = (d & ~(1u << lane)) | static_cast<Lanes>(value) << lane;
}
void define(Warp& w, const Instruction& i, unsigned lane) {
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).defined |= 1u << lane;
}

// shfl. Sources: mask; value; lane or distance; clamp and segment mask. Immediate 1: 0 up, 1 down, 2 bfly, 3 idx.
void shuffle(Warp& w, const Instruction&, Lanes lanes) {
  Machine& machine = *w.machine;
  if (!machine.clocks.alone[w.index].empty()) machine.clocks.share_flags(w.index, lanes);
  u32 values[warp_size] = {};
  std::uint64_t known[warp_size] = {};
  SiteIndex origins[warp_size] = {};
  // for each lane: origin of undefined bits in the operands that select its source lane; 0 if there are none
  SiteIndex undecided[warp_size] = {};
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    for (const unsigned s : {2u, 3u}) {
      if ((~known_bits(w, i.source(s), 4, k) & (s == 2 ? 0x1fu : 0x1f1fu)) != 0) undecided[k] = origin_of(w, i.source(s), i);
    }
    values[k] = w.values<u32>(i.source(1))[k];
    known[k] = known_bits(w, i.source(1), 4, k);
    origins[k] = w.head(i.source(1)).origin;
  });
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    const u32 b = w.values<u32>(i.source(2))[k] & 31u, c = w.values<u32>(i.source(3))[k];
    const u32 clamp = c & 31u, segments = c >> 8 & 31u;
    const u32 last = (k & segments) | (clamp & ~segments), first = k & segments;
    s32 source = 0;
    bool inside = false;
    switch (i.immediate[1]) {
      case 0: source = static_cast<s32>(k) - static_cast<s32>(b), inside = source >= static_cast<s32>(last); break;
      case 1: source = static_cast<s32>(k + b), inside = source <= static_cast<s32>(last); break;
      case 2: source = static_cast<s32>(k ^ b), inside = source <= static_cast<s32>(last); break;
      default: source = static_cast<s32>(first | (b & ~segments)), inside = source <= static_cast<s32>(last);
    }
    const u32 from = inside ? static_cast<u32>(source) : k;
    const bool takes_part = lanes >> from & 1u;
    u32& to = w.values<u32>(i.destination(0))[k];
    to = takes_part ? values[from] : ~0u;
    if (!takes_part && machine.poison != 0) fill_poison(machine, &to, sizeof to);
    if (i.destinations > 1) set_predicate(w, i.destination(1), k, inside);
    define(w, i, k);
    // The result is undefined if the source lane does not participate, or if its register is undefined.
    const bool has_origin = takes_part && origins[from] != 0;
    if (undecided[k] == 0) {
      set_known(w, i.destination(0), 4, k, takes_part ? known[from] : 0, has_origin ? origins[from] : i.site);
    } else {
      set_known(w, i.destination(0), 4, k, 0, undecided[k]);
      if (i.destinations > 1) undefine(w, i.destination(1), 0, 1u << k, undecided[k]);
    }
  });
}

// vote. Sources: mask, predicate. Immediate 1: 0 all, 1 any, 2 uni, 3 ballot; immediate 2: whether the predicate is
// negated.
void vote(Warp& w, const Instruction&, Lanes lanes) {
  Lanes ballot = 0;
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    const bool value = (w.head(i.source(1)).bits >> k & 1u) != (i.immediate[2] != 0);
    ballot |= static_cast<Lanes>(value) << k;
  });
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    switch (i.immediate[1]) {
      case 0: set_predicate(w, i.destination(0), k, ballot == lanes); break;
      case 1: set_predicate(w, i.destination(0), k, ballot != 0); break;
      case 2: set_predicate(w, i.destination(0), k, ballot == lanes || ballot == 0); break;
      default: w.values<u32>(i.destination(0))[k] = ballot;
    }
    define(w, i, k);
  });
}

// match. Sources: mask, value. Immediate 1: 0 any, 1 all.
void match(Warp& w, const Instruction&, Lanes lanes) {
  std::uint64_t values[warp_size] = {};
  for_lanes(lanes, [&](unsigned k) {
    values[k] = read_bits(w, of(w, k).source(1), of(w, k).width_of_source(1), k);
  });
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    Lanes equal = 0;
    for_lanes(lanes, [&](unsigned l) { equal |= static_cast<Lanes>(values[l] == values[k]) << l; });
    const bool all = equal == lanes;
    w.values<u32>(i.destination(0))[k] = i.immediate[1] == 0 ? equal : all ? lanes : 0;
    if (i.destinations > 1) set_predicate(w, i.destination(1), k, all);
    define(w, i, k);
  });
}

// redux. Sources: mask, value. Immediate 1: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor; immediate 2: whether values are
// signed.
void reduce(Warp& w, const Instruction&, Lanes lanes) {
  u32 result = 0;
  bool first = true;
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    const u32 x = w.values<u32>(i.source(1))[k];
    const bool less = i.immediate[2] != 0 ? static_cast<s32>(x) < static_cast<s32>(result) : x < result;
    if (first) {
      result = x;
    } else {
      switch (i.immediate[1]) {
        case 0: result += x; break;
        case 1: result = less ? x : result; break;
        case 2: result = less ? result : x; break;
        case 3: result &= x; break;
        case 4: result |= x; break;
        default: result ^= x;
      }
    }
    first = false;
  });
  for_lanes(lanes, [&](unsigned k) {
    w.values<u32>(of(w, k).destination(0))[k] = result;
    define(w, of(w, k), k);
  });
}

// redux of f32 (sm_100a). Immediate 1: 0 min, 1 max; immediate 2: whether absolute values are compared. With .NaN, the
// result is NaN if any value is NaN; without it, only if all values are NaN.
void reduce_f32(Warp& w, const Instruction&, Lanes lanes) {
  float result = 0;
  bool first = true, any_nan = false;
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    float x = w.values<float>(i.source(1))[k];
    if (i.immediate[2] != 0) x = std::fabs(x);
    if (x != x) {
      any_nan = true;
    } else if (first || (i.immediate[1] != 0 ? x > result || (x == result && !std::signbit(x))
                                             : x < result || (x == result && std::signbit(x)))) {
      result = x;
      first = false;
    }
  });
  for_lanes(lanes, [&](unsigned k) {
    const bool nan = first || (any_nan && (of(w, k).flags & nan_wins) != 0);
    w.values<u32>(of(w, k).destination(0))[k] = nan ? 0x7fffffffu : __builtin_bit_cast(u32, result);
    define(w, of(w, k), k);
  });
}

void elect(Warp& w, const Instruction&, Lanes lanes) {
  const auto leader = static_cast<unsigned>(__builtin_ctz(lanes));
  for_lanes(lanes, [&](unsigned k) {
    const Instruction& i = of(w, k);
    if (i.destinations > 1) w.values<u32>(i.destination(1))[k] = leader;
    set_predicate(w, i.destination(0), k, k == leader);
    define(w, i, k);
  });
}

// bar.warp.sync: orders the lanes that synchronise with each other. The clocks of other lanes are unchanged.
void synchronize(Warp& w, const Instruction&, Lanes lanes) {
  Machine& machine = *w.machine;
  if (lanes == live_lanes(w)) {
    machine.clocks.advance(w.index);
  } else {
    // The mask may contain lanes that have exited. Their actions are ordered before the synchronisation.
    const auto first = static_cast<unsigned>(__builtin_ctz(lanes));
    machine.clocks.share(w.index, w.values<u32>(of(w, first).source(0))[first] | lanes, live_lanes(w));
  }
}

void active_mask(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) { w.values<u32>(i.destination(0))[k] = active; });
}

constexpr Row rows[] = {
    {"shfl", shuffle, 0, "*:4444", Flow::collective, false, true},
    {"vote", vote, 0, "*:40", Flow::collective, true, true},
    {"match", match, 0, "*:4*", Flow::collective, true, true},
    {"redux", reduce, 0, "4:44", Flow::collective, true, true},
    {"redux.f32", reduce_f32, nan_wins, "4:44", Flow::collective, true, true},
    {"elect", elect, 0, "*:4", Flow::collective, true, true},
    {"bar.warp.sync", synchronize, 0, ":4", Flow::collective, true},
    {"activemask", active_mask, 0, "4:"},
};

}  // namespace warp_instructions
}  // namespace

const Rows warp_rows{std::begin(warp_instructions::rows), std::end(warp_instructions::rows)};

}  // namespace autosched::emulator::ptx

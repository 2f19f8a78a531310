// Decides whether the value of a load has an effect, if the load races with a write of another lane. Some code loads
// values that it does not use: in Triton's layouts, several lanes may load the same data, and only one of them stores
// it; prefetching code may load too much. A race of such a load is harmless.
//
// The analysis of the kernel's code starts at the load and follows the loaded value through registers. The effects of a
// value are the instructions through which it leaves a lane's registers: stores, atomics, warp-wide matrix products.
// Shuffles move the value to other lanes. A value is dropped if no lane that may hold it has executed an effect of the
// value since the load. A compare-and-swap is not an effect if it compares the value with the contents of the load's
// location, because it changes memory only if the value is still there. The analysis follows all paths through the
// code, because code that loads fragments one iteration ahead reuses registers: an effect only counts if the registers
// have not been overwritten before. The analysis ignores the order of the instructions if it cannot follow all paths, or
// if a compare-and-swap compares the value.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "isa/values/dropped.hpp"
#include "isa/values/skipped.hpp"
#include "isa/program.hpp"
#include "memory/global/shadow.hpp"
#include "memory/watched_reads.hpp"

namespace autosched::emulator {

using namespace ptx;

// Racing reads whose values may be dropped, and the results of the analysis.
struct DroppedValues : Unit {
  using Unit::Unit;

  // How a loaded value is used. ``lost``: the analysis cannot follow some use of the value (for example in an address,
  // a branch or a device function), so the value may have an effect. ``reach``: shuffles may move the value to lanes
  // whose numbers differ in these bits.
  struct Use {
    bool decides = false, lost = false;
    std::uint32_t reach = 0;
    std::vector<std::uint32_t> effects;
    std::vector<Guard> skipped;  // guards of the instructions that are skipped by branches on the value
    // loads after which the value has no further use, because its registers have been overwritten
    std::vector<const Instruction*> ends;
  };
  struct Watched {
    Kind kind;
    SiteIndex site, load;  // sites of the finding and of the load
    const Instruction* instruction;  // the load instruction if known, otherwise nullptr
    Agent reader;
    std::uint32_t lanes;  // the lanes of the reader's warp that executed the load
    std::uint64_t since;
  };
  PerBlock<std::vector<Watched>> watched{parking};
  std::uint64_t begun = 0;  // time at which the running blocks started
  std::uint64_t effects_so_far = 0;
  // for each kind and site of a finding: true if any of its races is a fault
  std::unordered_map<std::uint64_t, bool> races;
  Parked<std::uint64_t> parked_begun{parking, begun};

  // Cached properties of the kernel's loads and stores.
  std::unordered_map<SiteIndex, Use> uses_of_sites;
  std::unordered_map<const Instruction*, Use> uses_of_loads;
  std::unordered_map<std::uint64_t, bool> stored_before;
  std::unordered_map<SiteIndex, bool> signalled_before, constant_stores;
  std::unordered_map<SiteIndex, std::vector<bool>> behind_barriers;
};

namespace {
using Use = DroppedValues::Use;
using Watched = DroppedValues::Watched;
}  // namespace

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto begin) { return name.starts_with(begin); });
}

bool is_shuffle(const Instruction& i) { return std::string_view(i.row->name) == "shfl"; }

// The union of the bits of all constants that a register may contain, or nothing if it may contain anything else.
std::optional<std::uint64_t> bits_of(Machine& machine, std::uint32_t slot) {
  if (const auto number = constant_number(machine, slot)) return number;
  std::optional<std::uint64_t> bits;
  for (const Instruction& i : machine.program.code) {
    if (std::find(i.operand, i.operand + i.destinations, slot) == i.operand + i.destinations) continue;
    const auto moved = i.copies ? constant_number(machine, i.source(0)) : std::nullopt;
    if (!moved) return std::nullopt;
    bits = bits.value_or(0) | *moved;
  }
  return bits;
}

// The bits in which the source lane and the destination lane of a shuffle may differ.
std::uint32_t reach_of(Machine& machine, const Instruction& shuffle) {
  constexpr std::int64_t butterfly = 2;  // ptx/forms.py
  constexpr std::uint32_t all = warp_size - 1;
  return shuffle.immediate[1] == butterfly ? static_cast<std::uint32_t>(bits_of(machine, shuffle.source(2)).value_or(all)) & all
                                           : all;
}

bool is_load(const Instruction& i) { return is_one_of(i.row->name, {"ld"}) && i.flow != Flow::branch; }

// Records that the value decides whether an instruction executes.
void decide(Machine& machine, const Instruction& i, Use& use) {
  use.decides = true;
  const auto guards = i.flow == Flow::branch
                          ? guards_of_skipped(machine, static_cast<std::size_t>(&i - machine.program.code.data()))
                          : std::nullopt;
  if (guards) {
    use.skipped.insert(use.skipped.end(), guards->begin(), guards->end());
  } else {
    use.lost = true;
  }
}

bool has_effect(const Instruction& i) {
  const std::string_view name = i.row->name;
  if (is_one_of(name, {"ld", "call", "bra", "brx", "ret", "exit", "trap"})) return false;
  return i.flow != Flow::plain || i.destinations == 0 || is_one_of(name, {"st", "atom", "red", "cp."});
}

// Registers that contain the loaded value, the result of a compare-and-swap that compares with the loaded value, or
// values computed from the loaded value.
struct Flowing {
  std::unordered_set<std::uint32_t> loaded, checked, tainted;
};

bool is_check(const Instruction& i, const Instruction& load, const Flowing& flowing) {
  return std::string_view(i.row->name).starts_with("atom.cas") && i.source(0) == load.source(0) &&
         i.immediate[0] == load.immediate[0] && flowing.loaded.contains(i.source(1));
}

// True if an instruction is a compare-and-swap with the loaded value, or tests the result of one.
bool checks(const Instruction& i, const Instruction& load, const Flowing& flowing) {
  if (is_check(i, load, flowing)) return true;
  constexpr int equal = 0, different = 1;  // codes of comparisons, as in forms.py
  if (!is_one_of(i.row->name, {"setp."}) || (i.immediate[0] != equal && i.immediate[0] != different)) return false;
  const std::uint32_t a = i.source(0), b = i.source(1);
  return (flowing.loaded.contains(a) && flowing.checked.contains(b)) || (flowing.loaded.contains(b) && flowing.checked.contains(a));
}

void find_checks(Machine& machine, const Instruction& load, Flowing& flowing) {
  if (load.destinations != 1 || load.sources == 0 || load.immediates == 0) return;
  flowing.loaded.insert(load.operand[0]);
  for (std::size_t before = 0; before != flowing.loaded.size() + flowing.checked.size();) {
    before = flowing.loaded.size() + flowing.checked.size();
    for (const Instruction& i : machine.program.code) {
      if (i.destinations == 0) continue;
      if (i.copies && flowing.loaded.contains(i.source(0))) flowing.loaded.insert(i.destination(0));
      if (is_check(i, load, flowing) || (i.copies && flowing.checked.contains(i.source(0))))
        flowing.checked.insert(i.destination(0));
    }
  }
}

void follow(Machine& machine, const Instruction& i, const Instruction& load, Flowing& flowing, Use& use) {
  if (checks(i, load, flowing)) return;
  std::unordered_set<std::uint32_t>& tainted = flowing.tainted;
  const auto is_tainted = [&](std::uint32_t at) { return tainted.contains(at); };
  if (i.guard != 0 && is_tainted(i.guard)) decide(machine, i, use);
  const std::uint32_t* const sources = i.operand + i.destinations;
  if (std::none_of(sources, sources + i.sources, is_tainted)) return;
  if (is_shuffle(i)) {
    use.reach |= reach_of(machine, i);
  } else if (i.effect != 0) {
    if (std::find(use.effects.begin(), use.effects.end(), i.effect) == use.effects.end()) use.effects.push_back(i.effect);
    if (i.flow == Flow::plain) return;
  } else if (i.flow != Flow::plain || is_one_of(i.row->name, {"ld", "st", "call"})) {
    use.lost = true;
    return;
  }
  tainted.insert(i.operand, sources);
}

using Slots = std::vector<std::uint32_t>;  // offsets of registers, in ascending order

bool holds(const Slots& slots, std::uint32_t slot) { return std::binary_search(slots.begin(), slots.end(), slot); }

bool takes(const Instruction& i, const Slots& slots) {
  return std::any_of(i.operand + i.destinations, i.operand + i.destinations + i.sources,
                     [&](std::uint32_t at) { return holds(slots, at); });
}

// The registers that contain the value, or values computed from it, after an instruction. `held`: the registers before
// the instruction.
Slots pass(Machine& machine, const Instruction& i, Slots held, Use& use) {
  if (i.guard != 0 && holds(held, i.guard)) decide(machine, i, use);
  const std::uint32_t* const sources = i.operand + i.destinations;
  if (takes(i, held)) {
    if (is_shuffle(i)) {
      use.reach |= reach_of(machine, i);
    } else if (i.effect != 0) {
      if (std::find(use.effects.begin(), use.effects.end(), i.effect) == use.effects.end()) use.effects.push_back(i.effect);
      return held;
    } else if (i.flow != Flow::plain || is_one_of(i.row->name, {"ld", "st", "call"})) {
      use.lost = true;
    }
    held.insert(held.end(), i.operand, sources);
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());
  } else if (i.guard == 0 && (i.flow == Flow::plain || i.flow == Flow::collective)) {
    std::erase_if(held, [&](std::uint32_t at) { return std::find(i.operand, sources, at) != sources; });
  }
  return held;
}

// An instruction on a path from the load, and the registers that hold the value before this instruction.
using Step = std::pair<std::size_t, Slots>;

// Follows the value on all possible paths from the loads. Returns nothing if there are too many steps, or an indirect
// jump.
std::optional<Use> trace_ways(Machine& machine, const std::vector<const Instruction*>& loads) {
  constexpr std::size_t most_steps = 1 << 16;
  Use use;
  std::map<Step, std::vector<const Step*>> steps;  // steps and their predecessors
  std::vector<const Step*> open, effects;
  const auto reach = [&](const Step* from, std::size_t pc, Slots slots) {
    if (pc >= machine.program.code.size() || slots.empty()) return;
    const auto [at, is_new] = steps.try_emplace({pc, std::move(slots)});
    if (from != nullptr) at->second.push_back(from);
    if (is_new) open.push_back(&at->first);
  };
  for (const Instruction* const load : loads) {
    if (loads.size() > 1 && only_computes(*load)) continue;
    Slots slots(load->operand, load->operand + load->destinations);
    std::sort(slots.begin(), slots.end());
    reach(nullptr, static_cast<std::size_t>(load - machine.program.code.data()) + 1, std::move(slots));
  }
  while (!open.empty() && !use.lost) {
    if (steps.size() > most_steps) return std::nullopt;
    const Step* const step = open.back();
    open.pop_back();
    const auto& [pc, held] = *step;
    const Instruction& i = machine.program.code[pc];
    if (i.flow == Flow::indexed) return std::nullopt;
    const bool decides = i.guard != 0 && holds(held, i.guard);
    if (decides || (takes(i, held) && (i.effect != 0 || is_shuffle(i)))) effects.push_back(step);
    const Slots behind = pass(machine, i, held, use);
    if (i.flow == Flow::branch) reach(step, static_cast<std::size_t>(i.immediate[0]), behind);
    const bool leaves = i.flow == Flow::branch || i.flow == Flow::leave || i.flow == Flow::exit || i.flow == Flow::trap;
    if (!leaves || i.guard != 0) reach(step, pc + 1, behind);
  }
  std::unordered_set<const Step*> lead(effects.begin(), effects.end());  // steps that lead to an effect
  while (!effects.empty()) {
    const Step* const step = effects.back();
    effects.pop_back();
    for (const Step* const before : steps[*step]) {
      if (lead.insert(before).second) effects.push_back(before);
    }
  }
  for (auto first = steps.begin(); first != steps.end();) {
    const std::size_t pc = first->first.first;
    const auto last = std::find_if(first, steps.end(), [&](const auto& s) { return s.first.first != pc; });
    const bool may_lead = std::any_of(first, last, [&](const auto& s) { return lead.contains(&s.first); });
    if (is_load(machine.program.code[pc]) && !may_lead) use.ends.push_back(&machine.program.code[pc]);
    first = last;
  }
  return use;
}

// Analyses the use of the value of one load, or of all loads of a source line.
Use trace(Machine& machine, const std::vector<const Instruction*>& loads) {
  Use use;
  Flowing flowing;
  for (const Instruction* const at : loads) {
    const Instruction& i = *at;
    if (loads.size() > 1 && only_computes(i)) continue;
    flowing.tainted.insert(i.operand, i.operand + i.destinations);
    // Atomics, and copies from memory to memory such as TMA copies, are effects. A tensor-map update by a whole warp
    // is not an effect: it waits for the lanes that have written, so that a missing bar.warp.sync is harmless.
    if ((i.destinations == 0 && i.flow == Flow::plain) || is_one_of(i.row->name, {"atom", "red"})) use.lost = true;
  }
  if (loads.empty()) return use;
  const Instruction& from = *loads.front();
  if (!use.lost) find_checks(machine, from, flowing);
  if (!use.lost && flowing.checked.empty()) {
    if (const auto on_the_ways = trace_ways(machine, loads)) return *on_the_ways;
  }
  for (std::size_t before = 0; before != flowing.tainted.size();) {
    before = flowing.tainted.size();
    for (const Instruction& i : machine.program.code) follow(machine, i, from, flowing, use);
  }
  return use;
}

std::vector<const Instruction*> at_site(Machine& machine, SiteIndex site) {
  std::vector<const Instruction*> all;
  for (const Instruction& i : machine.program.code) {
    if (i.site == site) all.push_back(&i);
  }
  return all;
}

const Use& use_of(Machine& machine, SiteIndex load) {
  const auto [at, is_new] = machine.dropped.uses_of_sites.try_emplace(load);
  if (is_new) at->second = trace(machine, at_site(machine, load));
  return at->second;
}

const Use& use_of(Machine& machine, const Instruction& load) {
  const auto [at, is_new] = machine.dropped.uses_of_loads.try_emplace(&load);
  if (is_new) at->second = trace(machine, {&load});
  return at->second;
}

constexpr std::size_t most_watched = 1 << 16;  // maximum number of watched reads of the running blocks

std::uint64_t race_of(Kind kind, SiteIndex site) { return static_cast<std::uint64_t>(kind) << 32 | site; }

bool is_used(Machine& machine, const Watched& one) {
  const Use& use = one.instruction != nullptr ? use_of(machine, *one.instruction) : use_of(machine, one.load);
  if (use.lost) return true;
  ptx::Warp& w = machine.warps.all[warp_of(one.reader)];
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    bool reached = false;
    for (std::uint32_t lanes = one.lanes; lanes != 0 && !reached; lanes &= lanes - 1) {
      reached = ((lane ^ static_cast<unsigned>(__builtin_ctz(lanes))) & ~use.reach) == 0;
    }
    if (!reached) continue;
    if (std::any_of(use.skipped.begin(), use.skipped.end(), [&](const Guard& guard) { return may_meet(w, guard, lane); }))
      return true;
    for (const std::uint32_t effect : use.effects) {
      if (w.effects[effect].of(lane) > one.since) return true;
    }
  }
  return false;
}

bool goes_nowhere(const Use& use) { return !use.lost && use.effects.empty() && use.skipped.empty(); }

// True if it must still be determined whether a racing read at a line has an effect.
bool may_be_dropped(Machine& machine, Kind kind, SiteIndex load, Agent reader) {
  const auto [race, is_new] = machine.dropped.races.try_emplace(race_of(kind, machine.self->site), false);
  if (race->second || goes_nowhere(use_of(machine, load))) return false;
  race->second = machine.dropped.watched.size() >= most_watched || warp_of(reader) >= machine.warp_count;
  return !race->second;
}

// The lanes of a recorded read that race with the running thread. A recorded read may combine several lanes. If the
// running thread is one of these lanes and has read earlier, it is excluded, because a thread does not race with
// itself.
std::uint32_t racing_lanes(Machine& machine, Agent reader, bool just_now) {
  const std::uint32_t lanes = lanes_of(reader);
  const Agent self = machine.self->agent;
  return !just_now && warp_of(self) == warp_of(reader) ? lanes & ~lanes_of(self) : lanes;
}

}  // namespace

bool goes_nowhere(Machine& machine, SiteIndex load) { return goes_nowhere(use_of(machine, load)); }

void watch_read(Machine& machine, Kind kind, SiteIndex load, Agent reader, bool just_now, const char* address,
                unsigned bytes) {
  if (!may_be_dropped(machine, kind, load, reader)) return;
  const std::uint32_t lanes = racing_lanes(machine, reader, just_now);
  const Watched of_line{kind,
                        machine.self->site,
                        load,
                        just_now ? machine.loading : nullptr,
                        reader,
                        lanes,
                        just_now ? machine.dropped.effects_so_far : machine.dropped.begun};
  if (just_now || address == nullptr || std::popcount(lanes) != 1) {
    machine.dropped.watched.push_back(of_line);
    return;
  }
  // Watches each load at the site `load` that has read this location. The watch starts at the time at which the load
  // began to read this location, or at the start of the running blocks if that time is unknown.
  const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
  const auto first = reinterpret_cast<std::uint64_t>(address);
  bool any = false;
  for (const Instruction* const i : at_site(machine, load)) {
    if (only_computes(*i)) continue;
    if (i->reading == 0) {
      machine.dropped.watched.push_back(of_line);
      return;
    }
    const Reading* const r = machine.warps.all[warp_of(reader)].readings[i->reading].get();
    if (r == nullptr || r->lowest[lane] >= first + bytes || r->highest[lane] + r->bytes <= first) continue;
    const bool overlaps = r->address[lane] < first + bytes && first < r->address[lane] + r->bytes;
    const bool is_known = overlaps && (r->returned >> lane & 1u) == 0;
    machine.dropped.watched.push_back(
        {kind, machine.self->site, load, i, reader, lanes, is_known ? r->since[lane] : machine.dropped.begun});
    any = true;
  }
  if (!any) machine.dropped.watched.push_back(of_line);
}

void watch_earlier_read(Machine& machine, SiteIndex load, Agent reader, Agent writer, unsigned address) {
  if (!may_be_dropped(machine, Kind::shared_race, load, reader)) return;
  const Watched of_line{Kind::shared_race,    machine.self->site, load, nullptr, reader,
                        racing_lanes(machine, reader, false), machine.dropped.begun};
  const ptx::Warp& w = machine.warps.all[warp_of(reader)];
  bool any = false;
  for (const Instruction* const i : at_site(machine, load)) {
    if (only_computes(*i)) continue;
    const LastRead* const r = i->reading == 0 ? nullptr : w.last_reads[i->reading].get();
    if (i->reading != 0 && r == nullptr) continue;
    // If the previous execution of the load is not ordered before the write, it is unknown which execution read the
    // value.
    const Agent reader_warp = agent_of(warp_of(reader), whole_warp);
    const bool is_known = r != nullptr && (r->before == 0 || machine.clocks.ordered(reader_warp, r->before, writer));
    if (is_known && !r->holds(address)) continue;
    Watched one = of_line;
    one.instruction = i;
    if (is_known) one.since = r->tick;
    machine.dropped.watched.push_back(one);
    any = true;
  }
  if (!any) machine.dropped.watched.push_back(of_line);
}

void confirm_race(Machine& machine, Kind kind, SiteIndex site) { machine.dropped.races[race_of(kind, site)] = true; }

void settle_watched_reads(Machine& machine) {
  for (const Watched& one : machine.dropped.watched) {
    bool& is_fault = machine.dropped.races[race_of(one.kind, one.site)];
    is_fault = is_fault || is_used(machine, one);
  }
  machine.dropped.watched.clear();
}

void lower_harmless_races(Machine& machine) {
  for (const auto& [race, is_fault] : machine.dropped.races) {
    if (!is_fault)
      lower_to_note(machine.report, static_cast<Kind>(race >> 32), static_cast<SiteIndex>(race),
                    "the value that was read has no effect");
  }
}

namespace {

// Index of the first instruction in the kernel's code that uses the loaded value for an effect or a decision.
std::size_t first_use(Machine& machine, std::size_t load) {
  const Instruction& from = machine.program.code[load];
  std::unordered_set<std::uint32_t> tainted(from.operand, from.operand + from.destinations);
  const auto is_tainted = [&](std::uint32_t at) { return tainted.contains(at); };
  for (std::size_t pc = load + 1; pc < machine.program.code.size(); ++pc) {
    const Instruction& i = machine.program.code[pc];
    if (i.guard != 0 && is_tainted(i.guard)) return pc;
    const std::uint32_t* const sources = i.operand + i.destinations;
    if (std::none_of(sources, sources + i.sources, is_tainted)) continue;
    if (i.effect != 0) return pc;
    tainted.insert(i.operand, sources);
  }
  return machine.program.code.size();
}

template <class Condition>
bool any_between(Machine& machine, std::size_t begin, std::size_t end, Condition condition) {
  return begin < end && std::any_of(machine.program.code.begin() + static_cast<std::ptrdiff_t>(begin),
                                    machine.program.code.begin() + static_cast<std::ptrdiff_t>(end), condition);
}

// True if condition(index of the load, index of its first use) holds for all loads of a line.
template <class Condition>
bool all_loads(Machine& machine, SiteIndex load, Condition condition) {
  bool any = false;
  for (std::size_t pc = 0; pc < machine.program.code.size(); ++pc) {
    const Instruction& i = machine.program.code[pc];
    if (i.site != load || !is_load(i)) continue;
    any = true;
    if (!condition(pc, first_use(machine, pc))) return false;
  }
  return any;
}

}  // namespace

bool used_before_store(Machine& machine, SiteIndex load, SiteIndex store, bool same_thread) {
  const auto [at, is_new] =
      machine.dropped.stored_before.try_emplace((std::uint64_t{load} << 16 | store) << 1 | std::uint64_t{same_thread}, false);
  if (!is_new) return at->second;
  at->second = all_loads(machine, load, [&](std::size_t from, std::size_t use) {
    bool any = false;
    for (std::size_t pc = from + 1; pc < machine.program.code.size(); ++pc) {
      const Instruction& i = machine.program.code[pc];
      if (i.site != store || i.destinations != 0 || i.sources == 0) continue;
      any = true;
      const bool in_time =
          same_thread ? use <= pc
                      : any_between(machine, use + 1, pc, [](const Instruction& b) { return b.flow == Flow::barrier; });
      if (!in_time) return false;
    }
    return any;
  });
  return at->second;
}

bool used_before_signal(Machine& machine, SiteIndex load) {
  const auto [at, is_new] = machine.dropped.signalled_before.try_emplace(load, false);
  if (!is_new) return at->second;
  at->second = all_loads(machine, load, [&machine](std::size_t, std::size_t use) {
    return any_between(machine, use + 1, machine.program.code.size(), [](const Instruction& i) {
      return is_one_of(i.row->name, {"atom", "red"}) || (is_one_of(i.row->name, {"st"}) && (i.flags & by_l2) != 0);
    });
  });
  return at->second;
}

// Code after a barrier is the code that can be reached from the barrier by forward branches.
bool skipped_barrier(Machine& machine, const Thread& thread, SiteIndex barrier) {
  const auto at_site = [&machine](SiteIndex site) {
    const auto instruction = std::find_if(machine.program.code.begin(), machine.program.code.end(),
                                          [&](const Instruction& i) { return i.site == site; });
    return static_cast<std::size_t>(instruction - machine.program.code.begin());
  };
  const std::size_t from = at_site(barrier), last = at_site(thread.site);
  if (from >= machine.program.code.size() || last >= machine.program.code.size()) return false;
  const std::uint32_t effect = machine.program.code[from].effect;
  if (machine.warps.all[thread.warp].effects[effect].of(thread.lane) > machine.dropped.begun)
    return false;  // the thread has executed the barrier earlier
  std::vector<bool>& reached = machine.dropped.behind_barriers[barrier];
  if (reached.empty()) {
    reached.resize(machine.program.code.size());
    if (from + 1 < reached.size()) reached[from + 1] = true;
    for (std::size_t pc = from + 1; pc < reached.size(); ++pc) {
      if (!reached[pc]) continue;
      const Instruction& i = machine.program.code[pc];
      const bool ends =
          i.guard == 0 && (i.flow == Flow::branch || i.flow == Flow::leave || i.flow == Flow::exit || i.flow == Flow::trap);
      if (!ends && pc + 1 < reached.size()) reached[pc + 1] = true;
      if (i.flow == Flow::branch && static_cast<std::size_t>(i.immediate[0]) > pc)
        reached[static_cast<std::size_t>(i.immediate[0])] = true;
    }
  }
  return reached[last];
}

bool stores_constant(Machine& machine, SiteIndex store) {
  const auto [at, is_new] = machine.dropped.constant_stores.try_emplace(store, false);
  if (!is_new) return at->second;
  const auto moves_constant = [&machine](std::uint32_t slot) {
    bool any = false;
    for (const Instruction& i : machine.program.code) {
      if (std::find(i.operand, i.operand + i.destinations, slot) == i.operand + i.destinations) continue;
      if (!i.copies || !is_constant(machine, i.source(0))) return false;
      any = true;
    }
    return any;
  };
  for (const Instruction& i : machine.program.code) {
    if (i.site != store || i.sources < 2) continue;
    at->second = true;
    for (unsigned s = 1; s < i.sources; ++s)
      at->second = at->second && (is_constant(machine, i.source(s)) || moves_constant(i.source(s)));
  }
  return at->second;
}

bool decides(Machine& machine, SiteIndex load) { return use_of(machine, load).decides; }

namespace ptx {

void number_effects(Machine& machine) {
  for (Instruction& i : machine.program.code) {
    if (has_effect(i)) i.effect = ++machine.program.effects;
    const bool is_followed = is_load(i) && i.immediates > 3 && i.sources == 1 && i.destinations != 0 && (i.flags & read_only) == 0;
    if (is_followed && machine.program.readings < most_readings) i.reading = ++machine.program.readings;
  }
}

void note_reading(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned bytes) {
  std::unique_ptr<Reading>& at = w.readings[i.reading];
  if (at == nullptr) {
    at = std::make_unique<Reading>();
    std::fill_n(at->lowest, warp_size, ~std::uint64_t{0});
  }
  Reading& r = *at;
  r.bytes = bytes;
  if (r.address[lane] == address) return;
  if (address >= r.lowest[lane] && address <= r.highest[lane]) r.returned |= 1u << lane;
  r.address[lane] = address;
  r.since[lane] = w.machine->dropped.effects_so_far;
  r.lowest[lane] = std::min(r.lowest[lane], address);
  r.highest[lane] = std::max(r.highest[lane], address);
}

void note_last_read(Warp& w, const Instruction& i, Lanes lanes, const unsigned* addresses, unsigned bytes) {
  Machine& machine = *w.machine;
  if (i.reading == 0) return;
  std::unique_ptr<LastRead>& at = w.last_reads[i.reading];
  if (at == nullptr) at = std::make_unique<LastRead>();
  at->before = at->epoch;
  at->epoch = machine.clocks.now[w.index];
  at->tick = machine.dropped.effects_so_far;
  at->lanes = lanes;
  at->bytes = bytes;
  for_lanes(lanes, [&](unsigned k) { at->address[k] = addresses[k]; });
}

void settle_overwritten(const Warp& w, const Instruction& load, Lanes lanes) {
  Machine& machine = *w.machine;
  constexpr std::size_t most_looked_at = 1 << 10;
  if (machine.dropped.watched.size() > most_looked_at) return;
  std::erase_if(machine.dropped.watched, [&](const Watched& one) {
    if (one.instruction == nullptr || warp_of(one.reader) != w.index || (one.lanes & ~lanes) != 0) return false;
    const Use& use = use_of(machine, *one.instruction);
    if (use.reach != 0 || std::find(use.ends.begin(), use.ends.end(), &load) == use.ends.end()) return false;
    bool& is_fault = machine.dropped.races[race_of(one.kind, one.site)];
    is_fault = is_fault || is_used(machine, one);
    return true;
  });
}

bool watches_reads(Machine& machine) { return !machine.dropped.watched.empty(); }

void note_effect(Warp& w, const Instruction& i, Lanes lanes) {
  Effect& effect = w.effects[i.effect];
  if (effect.lanes != lanes) {
    for_lanes(effect.lanes, [&](unsigned k) { effect.last[k] = effect.tick; });
    effect.lanes = lanes;
  }
  effect.tick = ++w.machine->dropped.effects_so_far;
}

void start_block_effects(Machine& machine) {
  machine.dropped.begun = machine.dropped.effects_so_far;
  for (Warp& w : machine.warps.all) {
    for (auto& reading : w.readings) reading.reset();
    for (auto& read : w.last_reads) read.reset();
  }
  machine.dropped.watched.clear();
}

}  // namespace ptx

}  // namespace autosched::emulator

AUTOSCHED_PART(DroppedValues);

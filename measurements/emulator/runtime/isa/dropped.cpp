// What comes of values that lanes load while others write them. Lanes that hold copies of what others store, as those of
// Triton's layouts do, and code that reads ahead, load what they then drop: such a race harms nothing.
//
// Where a value may go is read off the program: forwards from the load through registers, whatever the order of the
// instructions. Its effects are the instructions by which it leaves registers: stores, atomics, products of a whole warp.
// Shuffles take it to other lanes. It is dropped where no lane that it may have come to has executed an effect since.
// A compare-and-swap at the place of the load that compares with the value is none: it does nothing unless the value is there.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "isa/interpreter.hpp"
#include "memory/global/shadow.hpp"

namespace autosched::emulator {

using namespace ptx;

namespace {

// Where a value goes. ``lost``: further than is followed here, as into an address, a decision, or a device function.
// ``reach``: it comes to lanes whose numbers differ from its own in these bits.
struct Use {
  bool decides = false, lost = false;
  std::uint32_t reach = 0;
  std::vector<std::uint32_t> effects;
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto begin) { return name.starts_with(begin); });
}

bool is_shuffle(const Instruction& i) { return std::string_view(i.row->name) == "shfl"; }

// The bits that are set in any of the numbers that a register may hold; nothing where they are not constants.
std::optional<std::uint64_t> bits_of(std::uint32_t slot) {
  if (const auto number = constant_number(slot)) return number;
  std::optional<std::uint64_t> bits;
  for (const Instruction& i : program.code) {
    if (std::find(i.operand, i.operand + i.destinations, slot) == i.operand + i.destinations) continue;
    const auto moved = i.copies ? constant_number(i.source(0)) : std::nullopt;
    if (!moved) return std::nullopt;
    bits = bits.value_or(0) | *moved;
  }
  return bits;
}

// The bits of the numbers of lanes in which a shuffle's reader differs from its source.
std::uint32_t reach_of(const Instruction& shuffle) {
  constexpr std::int64_t butterfly = 2;  // ptx/forms.py
  constexpr std::uint32_t all = warp_size - 1;
  return shuffle.immediate[1] == butterfly ? static_cast<std::uint32_t>(bits_of(shuffle.source(2)).value_or(all)) & all : all;
}

bool has_effect(const Instruction& i) {
  const std::string_view name = i.row->name;
  if (is_one_of(name, {"ld", "call", "bra", "brx", "ret", "exit", "trap"})) return false;
  return i.flow != Flow::plain || i.destinations == 0 || is_one_of(name, {"st", "atom", "red", "cp."});
}

// Registers that hold what was loaded, what a compare-and-swap that checks it has returned, and what was made of it.
struct Flowing {
  std::unordered_set<std::uint32_t> loaded, checked, tainted;
};

bool is_check(const Instruction& i, const Instruction& load, const Flowing& flowing) {
  return std::string_view(i.row->name).starts_with("atom.cas") && i.source(0) == load.source(0) &&
         i.immediate[0] == load.immediate[0] && flowing.loaded.contains(i.source(1));
}

// Whether an instruction is a check, or looks whether that has found the value.
bool checks(const Instruction& i, const Instruction& load, const Flowing& flowing) {
  if (is_check(i, load, flowing)) return true;
  constexpr int equal = 0, different = 1;  // of forms.py's comparisons
  if (!is_one_of(i.row->name, {"setp."}) || (i.immediate[0] != equal && i.immediate[0] != different)) return false;
  const std::uint32_t a = i.source(0), b = i.source(1);
  return (flowing.loaded.contains(a) && flowing.checked.contains(b)) || (flowing.loaded.contains(b) && flowing.checked.contains(a));
}

void find_checks(const Instruction& load, Flowing& flowing) {
  if (load.destinations != 1 || load.sources == 0 || load.immediates == 0) return;
  flowing.loaded.insert(load.operand[0]);
  for (std::size_t before = 0; before != flowing.loaded.size() + flowing.checked.size();) {
    before = flowing.loaded.size() + flowing.checked.size();
    for (const Instruction& i : program.code) {
      if (i.destinations == 0) continue;
      if (i.copies && flowing.loaded.contains(i.source(0))) flowing.loaded.insert(i.destination(0));
      if (is_check(i, load, flowing) || (i.copies && flowing.checked.contains(i.source(0)))) flowing.checked.insert(i.destination(0));
    }
  }
}

void follow(const Instruction& i, const Instruction& load, Flowing& flowing, Use& use) {
  if (checks(i, load, flowing)) return;
  std::unordered_set<std::uint32_t>& tainted = flowing.tainted;
  const auto is_tainted = [&](std::uint32_t at) { return tainted.contains(at); };
  if (i.guard != 0 && is_tainted(i.guard)) use.decides = use.lost = true;
  const std::uint32_t* const sources = i.operand + i.destinations;
  if (std::none_of(sources, sources + i.sources, is_tainted)) return;
  if (is_shuffle(i)) {
    use.reach |= reach_of(i);
  } else if (i.effect != 0) {
    if (std::find(use.effects.begin(), use.effects.end(), i.effect) == use.effects.end()) use.effects.push_back(i.effect);
    if (i.flow == Flow::plain) return;
  } else if (i.flow != Flow::plain || is_one_of(i.row->name, {"ld", "st", "call"})) {
    use.lost = true;
    return;
  }
  tainted.insert(i.operand, sources);
}

const Use& use_of(SiteIndex load) {
  static std::unordered_map<SiteIndex, Use> known;
  const auto [at, is_new] = known.try_emplace(load);
  Use& use = at->second;
  if (!is_new) return use;
  Flowing flowing;
  for (const Instruction& i : program.code) {
    if (i.site != load) continue;
    flowing.tainted.insert(i.operand, i.operand + i.destinations);
    // A copy from memory to memory, such as one of TMA, and an atomic take the value on by themselves. Not so that of a
    // tensor map by a whole warp: it waits for the lanes that have written, so that a missing bar.warp.sync harms nothing.
    if ((i.destinations == 0 && i.flow == Flow::plain) || is_one_of(i.row->name, {"atom", "red"})) use.lost = true;
  }
  const auto from = std::find_if(program.code.begin(), program.code.end(), [&](const Instruction& i) { return i.site == load; });
  if (from == program.code.end()) return use;
  if (!use.lost) find_checks(*from, flowing);
  for (std::size_t before = 0; before != flowing.tainted.size();) {
    before = flowing.tainted.size();
    for (const Instruction& i : program.code) follow(i, *from, flowing, use);
  }
  return use;
}

struct Watched {
  Kind kind;
  SiteIndex site, load;  // of the finding, and of the read
  Who reader;
  std::uint32_t lanes;  // of the reader's warp
  std::uint64_t since;
};
constexpr std::size_t most_watched = 1 << 16;  // of the running blocks
std::vector<Watched> watched;
std::uint64_t begun = 0;  // the running blocks
const Parked<decltype(watched)> parked_watched{watched};
const Parked<std::uint64_t> parked_begun{begun};
std::uint64_t effects_so_far = 0;

std::unordered_map<std::uint64_t, bool> races;  // by kind and site: whether one of them is a fault
std::uint64_t race_of(Kind kind, SiteIndex site) { return static_cast<std::uint64_t>(kind) << 32 | site; }

bool is_used(const Watched& one) {
  const Use& use = use_of(one.load);
  if (use.lost) return true;
  const ptx::Warp& w = machine[warp_of(one.reader)];
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    bool reached = false;
    for (std::uint32_t lanes = one.lanes; lanes != 0 && !reached; lanes &= lanes - 1) {
      reached = ((lane ^ static_cast<unsigned>(__builtin_ctz(lanes))) & ~use.reach) == 0;
    }
    if (!reached) continue;
    for (const std::uint32_t effect : use.effects) {
      if (w.effects[effect].of(lane) > one.since) return true;
    }
  }
  return false;
}

}  // namespace

bool goes_nowhere(SiteIndex load) {
  const Use& use = use_of(load);
  return !use.lost && use.effects.empty();
}

void watch_read(Kind kind, SiteIndex load, Who reader, bool just_now) {
  const auto [race, is_new] = races.try_emplace(race_of(kind, self->site), false);
  if (race->second || goes_nowhere(load)) return;
  if (watched.size() >= most_watched || warp_of(reader) >= warp_count) {
    race->second = true;
    return;
  }
  std::uint32_t lanes = lanes_of(reader);
  // Who writes later has read what it was: that is no race, though it stands with the reads of other lanes.
  if (!just_now && warp_of(self->who) == warp_of(reader)) lanes &= ~lanes_of(self->who);
  watched.push_back({kind, self->site, load, reader, lanes, just_now ? effects_so_far : begun});
}

void confirm_race(Kind kind, SiteIndex site) { races[race_of(kind, site)] = true; }

void settle_watched_reads() {
  for (const Watched& one : watched) {
    bool& is_fault = races[race_of(one.kind, one.site)];
    is_fault = is_fault || is_used(one);
  }
  watched.clear();
}

void lower_harmless_races() {
  for (const auto& [race, is_fault] : races) {
    if (!is_fault) lower_to_note(static_cast<Kind>(race >> 32), static_cast<SiteIndex>(race), "nothing comes of the value that is read");
  }
}

// Behind a barrier is what can be reached from it without going back.
bool skipped_barrier(const Thread& thread, SiteIndex barrier) {
  static std::unordered_map<SiteIndex, std::vector<bool>> behind;
  const auto at_site = [](SiteIndex site) {
    const auto found = std::find_if(program.code.begin(), program.code.end(), [&](const Instruction& i) { return i.site == site; });
    return static_cast<std::size_t>(found - program.code.begin());
  };
  const std::size_t from = at_site(barrier), last = at_site(thread.site);
  if (from >= program.code.size() || last >= program.code.size()) return false;
  const std::uint32_t effect = program.code[from].effect;
  if (machine[thread.warp].effects[effect].of(thread.lane) > begun) return false;  // it has been there before
  std::vector<bool>& reached = behind[barrier];
  if (reached.empty()) {
    reached.resize(program.code.size());
    if (from + 1 < reached.size()) reached[from + 1] = true;
    for (std::size_t pc = from + 1; pc < reached.size(); ++pc) {
      if (!reached[pc]) continue;
      const Instruction& i = program.code[pc];
      const bool ends = i.guard == 0 && (i.flow == Flow::branch || i.flow == Flow::leave || i.flow == Flow::exit || i.flow == Flow::trap);
      if (!ends && pc + 1 < reached.size()) reached[pc + 1] = true;
      if (i.flow == Flow::branch && static_cast<std::size_t>(i.immediate[0]) > pc) reached[static_cast<std::size_t>(i.immediate[0])] = true;
    }
  }
  return reached[last];
}

bool stores_constant(SiteIndex store) {
  static std::unordered_map<SiteIndex, bool> known;
  const auto [at, is_new] = known.try_emplace(store, false);
  if (!is_new) return at->second;
  const auto moves_constant = [](std::uint32_t slot) {
    bool any = false;
    for (const Instruction& i : program.code) {
      if (std::find(i.operand, i.operand + i.destinations, slot) == i.operand + i.destinations) continue;
      if (!i.copies || !is_constant(i.source(0))) return false;
      any = true;
    }
    return any;
  };
  for (const Instruction& i : program.code) {
    if (i.site != store || i.sources < 2) continue;
    at->second = true;
    for (unsigned s = 1; s < i.sources; ++s) at->second = at->second && (is_constant(i.source(s)) || moves_constant(i.source(s)));
  }
  return at->second;
}

bool decides(SiteIndex load) { return use_of(load).decides; }

namespace ptx {

void number_effects() {
  for (Instruction& i : program.code) {
    if (has_effect(i)) i.effect = ++program.effects;
  }
}

void note_effect(Warp& w, const Instruction& i, Lanes lanes) {
  Effect& effect = w.effects[i.effect];
  if (effect.lanes != lanes) {
    for_lanes(effect.lanes, [&](unsigned k) { effect.last[k] = effect.tick; });
    effect.lanes = lanes;
  }
  effect.tick = ++effects_so_far;
}

void start_block_effects() {
  begun = effects_so_far;
  watched.clear();
}

}  // namespace ptx

}  // namespace autosched::emulator

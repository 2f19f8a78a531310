#include "isa/values/skipped.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "isa/program.hpp"

namespace autosched::emulator::ptx {
namespace {

constexpr std::size_t most_skipped = 256;  // maximum number of skipped instructions
constexpr std::size_t most_steps = 256;    // maximum number of instructions that compute a guard

bool reads_any(const Instruction& i, const std::unordered_set<std::uint32_t>& slots) {
  const std::uint32_t* const sources = i.operand + i.destinations;
  return slots.contains(i.guard) || std::any_of(sources, sources + i.sources, [&](std::uint32_t at) { return slots.contains(at); });
}

// The instruction that writes each register; nullptr if several instructions write it.
using Makers = std::unordered_map<std::uint32_t, const Instruction*>;
Makers makers_of(const std::vector<Instruction>& code) {
  Makers makers;
  for (const Instruction& i : code) {
    for (unsigned d = 0; d < i.destinations; ++d) {
      const auto [at, is_new] = makers.try_emplace(i.destination(d), &i);
      if (!is_new && at->second != &i) at->second = nullptr;
    }
  }
  return makers;
}

// Appends to `steps` the instructions that compute a register, in the order of their execution. Returns false if the
// register depends on anything except constants and special registers. ``met``: registers that have been visited.
bool add_steps(const Makers& makers, std::uint32_t slot, std::unordered_map<std::uint32_t, bool>& met,
               std::vector<const Instruction*>& steps) {
  const auto maker_entry = makers.find(slot);
  if (maker_entry == makers.end()) return true;  // a constant or a special register
  // A register that depends on itself is visited again while its entry is still false.
  const auto [known, is_new] = met.try_emplace(slot, false);
  if (!is_new) return known->second;
  const Instruction* const maker = maker_entry->second;
  if (maker == nullptr || maker->guard != 0 || !only_computes(*maker) || met.size() > most_steps) return false;
  for (unsigned s = 0; s < maker->sources; ++s) {
    if (!add_steps(makers, maker->source(s), met, steps)) return false;
  }
  for (unsigned d = 0; d < maker->destinations; ++d) met[maker->destination(d)] = true;
  steps.push_back(maker);
  return true;
}

// The instructions that compute a guard from the thread's indices, or nothing if the guard depends on anything else.
std::optional<std::vector<const Instruction*>> steps_of(const Makers& makers, std::uint32_t slot) {
  std::unordered_map<std::uint32_t, bool> met;
  std::vector<const Instruction*> steps;
  return add_steps(makers, slot, met, steps) ? std::optional(steps) : std::nullopt;
}

}  // namespace

bool only_computes(const Instruction& i) {
  const std::string_view name = i.row->name;
  const auto reads = {"ld", "tex", "tld", "su"};
  return i.effect == 0 && i.flow == Flow::plain && i.destinations != 0 &&
         std::none_of(reads.begin(), reads.end(), [&](std::string_view beginning) { return name.starts_with(beginning); });
}

std::optional<std::vector<Guard>> guards_of_skipped(Machine& machine, std::size_t branch) {
  const auto target = static_cast<std::size_t>(machine.program.code[branch].immediate[0]);
  if (target <= branch || target - branch > most_skipped) return std::nullopt;
  std::vector<Guard> guards;
  const Makers makers = makers_of(machine.program.code);
  std::unordered_set<std::uint32_t> written;
  for (std::size_t pc = branch + 1; pc < target; ++pc) {
    const Instruction& i = machine.program.code[pc];
    if (i.guard != 0 && i.flow == Flow::plain) {
      guards.push_back({i.guard, i.negated, steps_of(makers, i.guard)});
    } else if (i.guard == 0 && only_computes(i)) {
      written.insert(i.operand, i.operand + i.destinations);
    } else {
      return std::nullopt;
    }
  }
  for (std::size_t pc = 0; pc < machine.program.code.size(); ++pc) {
    if ((pc <= branch || pc >= target) && reads_any(machine.program.code[pc], written)) return std::nullopt;
  }
  return guards;
}

bool may_meet(Warp& w, const Guard& guard, unsigned lane) {
  if (!guard.steps) return true;
  for (const Instruction* step : *guard.steps) step->execute(w, *step, Lanes{1} << lane);
  return ((w.head(guard.slot).bits >> lane & 1u) != 0) != guard.negated;
}

}  // namespace autosched::emulator::ptx

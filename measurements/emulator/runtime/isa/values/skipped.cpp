#include "isa/values/skipped.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_set>

#include "isa/program.hpp"

namespace autosched::emulator::ptx {
namespace {

constexpr std::size_t most_skipped = 256;  // instructions
constexpr unsigned most_depth = 16;        // of what a guard is computed from

bool reads_any(const Instruction& i, const std::unordered_set<std::uint32_t>& slots) {
  const std::uint32_t* const sources = i.operand + i.destinations;
  return slots.contains(i.guard) || std::any_of(sources, sources + i.sources, [&](std::uint32_t at) { return slots.contains(at); });
}

// Computes a register of a lane that may not have come to where it is computed; false where more than constants go into it.
bool computed(Warp& w, std::uint32_t slot, unsigned lane, unsigned depth) {
  const Instruction* maker = nullptr;
  for (const Instruction& i : w.machine->program.code) {
    if (std::find(i.operand, i.operand + i.destinations, slot) == i.operand + i.destinations) continue;
    if (maker != nullptr) return false;
    maker = &i;
  }
  if (maker == nullptr) return true;  // a constant, or a special register
  if (depth == 0 || maker->guard != 0 || !only_computes(*maker)) return false;
  for (unsigned s = 0; s < maker->sources; ++s) {
    if (!computed(w, maker->source(s), lane, depth - 1)) return false;
  }
  maker->execute(w, *maker, Lanes{1} << lane);
  return true;
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
  std::unordered_set<std::uint32_t> made;
  for (std::size_t pc = branch + 1; pc < target; ++pc) {
    const Instruction& i = machine.program.code[pc];
    if (i.guard != 0 && i.flow == Flow::plain) {
      guards.push_back({i.guard, i.negated});
    } else if (i.guard == 0 && only_computes(i)) {
      made.insert(i.operand, i.operand + i.destinations);
    } else {
      return std::nullopt;
    }
  }
  for (std::size_t pc = 0; pc < machine.program.code.size(); ++pc) {
    if ((pc <= branch || pc >= target) && reads_any(machine.program.code[pc], made)) return std::nullopt;
  }
  return guards;
}

bool may_meet(Warp& w, const Guard& guard, unsigned lane) {
  if (!computed(w, guard.slot, lane, most_depth)) return true;
  return ((w.head(guard.slot).bits >> lane & 1u) != 0) != guard.negated;
}

}  // namespace autosched::emulator::ptx

// Tracks values that are loaded from global memory, moved between registers, and stored unchanged. If two threads store
// a value that they loaded from the same location, and the launch never writes this location, they store the same
// value.
#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "machine/part.hpp"
#include "isa/values/copies.hpp"
#include "isa/program.hpp"

namespace autosched::emulator::ptx {

// Storage of Instruction::followed for all instructions.
struct Copies {
  std::deque<std::vector<std::uint32_t>> numbers;
};

namespace {

constexpr std::size_t most_followed = 256;  // maximum number of tracked registers per kernel
// a location is an address; its upper bits, starting at bit size_shift, contain the size of the loaded value
constexpr unsigned size_shift = 56;

bool is_global(const Instruction& i) { return i.immediates > 3 && i.immediate[3] < 2; }  // global or generic address
bool is_load(const Instruction& i) {
  return std::string_view(i.row->name).starts_with("ld") && is_global(i) && (i.flags & by_l2) == 0;
}
bool is_store(const Instruction& i) {
  return std::string_view(i.row->name) == "st" && is_global(i) && i.sources - 1 <= Copied::most;
}
bool moves(const Instruction& i) {
  return i.copies && i.destinations == 1 && i.sources == 1 && i.width_of_destination(0) == i.width_of_source(0);
}

using Registers = std::unordered_map<std::uint32_t, std::uint32_t>;  // number of each tracked register, by offset

template <class Step>
void until_all(Machine& machine, Registers& registers, Step step) {
  for (std::size_t before = registers.size() + 1; before != registers.size();) {
    before = registers.size();
    for (const Instruction& i : machine.program.code) step(i);
  }
}

// Finds the registers that stores read, and the registers whose values are moved to them. Results of warp-wide
// instructions are excluded.
Registers stored_registers(Machine& machine) {
  Registers stored;
  until_all(machine, stored, [&](const Instruction& i) {
    if (is_store(i)) {
      for (unsigned s = 1; s < i.sources; ++s) stored.try_emplace(i.source(s), 0);
    } else if (moves(i) && stored.contains(i.destination(0)) && !is_constant(machine, i.source(0))) {
      stored.try_emplace(i.source(0), 0);
    }
  });
  for (const Instruction& i : machine.program.code) {
    if (i.flow == Flow::plain || i.flow == Flow::yields || i.flow == Flow::polls) continue;
    for (unsigned d = 0; d < i.destinations; ++d) stored.erase(i.destination(d));
  }
  return stored;
}

}  // namespace

void find_copies(Machine& machine) {
  // nothing is tracked in kernels with device functions, whose calls save and restore registers
  if (machine.program.functions.size() > 1) return;
  const Registers stored = stored_registers(machine);
  Registers followed;
  const auto follow = [&](std::uint32_t at) {
    if (stored.contains(at) && followed.size() < most_followed) {
      followed.try_emplace(at, static_cast<std::uint32_t>(followed.size()) + 1);
    }
  };
  until_all(machine, followed, [&](const Instruction& i) {
    if (is_load(i)) std::for_each(i.operand, i.operand + i.destinations, follow);
    if (moves(i) && followed.contains(i.source(0))) follow(i.destination(0));
  });
  const auto number = [&](std::uint32_t at) { return followed.contains(at) ? followed.at(at) : 0; };
  for (Instruction& i : machine.program.code) {
    const std::uint32_t* const sources = i.operand + i.destinations;
    const bool writes = std::any_of(i.operand, sources, number),
               takes = is_store(i) && std::any_of(sources, sources + i.sources, number);
    if (!writes && !takes) continue;
    std::vector<std::uint32_t>& all = machine.copies.numbers.emplace_back(i.destinations + i.sources);
    std::transform(i.operand, sources + i.sources, all.begin(), number);
    i.followed = all.data();
  }
  machine.program.followed = static_cast<std::uint32_t>(followed.size());
}

void follow_copies(Warp& w, const Instruction& i, Lanes active) {
  for (unsigned d = 0; d < i.destinations; ++d) {
    if (i.followed[d] == 0) continue;
    const std::uint32_t from = moves(i) ? i.followed[1] : 0;
    for_lanes(active, [&](unsigned k) { w.loaded_from[i.followed[d]][k] = w.loaded_from[from][k]; });
  }
}

void note_copied(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned element_bytes) {
  for (unsigned d = 0; d < i.destinations; ++d) {
    if (i.followed[d] == 0) continue;
    w.loaded_from[i.followed[d]][lane] = (address + std::uint64_t{d} * element_bytes) | std::uint64_t{element_bytes} << size_shift;
  }
}

Copied copied_by(const Warp& w, const Instruction& store, unsigned lane, unsigned element_bytes) {
  Copied result{element_bytes, {}};
  const std::uint32_t* const numbers = store.followed + store.destinations + 1;
  for (unsigned s = 0; s + 1 < store.sources; ++s) {
    const std::uint64_t location = w.loaded_from[numbers[s]][lane];
    if (location >> size_shift == element_bytes) result.from[s] = location & ((std::uint64_t{1} << size_shift) - 1);
  }
  return result;
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Copies);

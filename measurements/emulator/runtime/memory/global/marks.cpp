// Marks of words with several cells. A word has a single mark if its cells have equal marks, or the marks of
// consecutive lanes. Otherwise, its cells have separate marks until their marks are equal again.
#include <vector>

#include "memory/global/shadow.hpp"

namespace autosched::emulator::global_shadow {
namespace {

using Parts = GlobalUses::Parts;
constexpr unsigned most_cells = GlobalUses::most_cells;

// Computes the single mark of a word from the marks of its cells. Returns false if there is none.
bool join(const Mark* parts, unsigned count, Mark& word) {
  bool same = true, side_by_side = parts[0] != 0 && (parts[0] >> lane_shift & (warp_size - 1)) + count <= warp_size;
  for (unsigned p = 1; p < count; ++p) {
    same = same && parts[p] == parts[0];
    side_by_side = side_by_side && parts[p] == parts[0] + (p << lane_shift);
  }
  word = same ? parts[0] : parts[0] | spread;
  return same || side_by_side;
}

}  // namespace

Mark Buffer::mark_kept_apart(Machine& machine, unsigned which, std::size_t cell) const {
  return machine.global_uses.kept_apart[marks[0][cell / cells_of_word] & numbers].marks[which][cell % cells_of_word];
}

void Buffer::set_mark_in_word(Machine& machine, unsigned which, std::size_t cell, Mark mark) {
  if (this->mark(machine, which, cell) == mark) return;
  const std::size_t word = cell / cells_of_word;
  Mark index = marks[0][word] & numbers;
  if (!is_apart(marks[0][word])) {
    if (machine.global_uses.unused.empty()) {
      machine.global_uses.unused.push_back(static_cast<Mark>(machine.global_uses.kept_apart.size()));
      machine.global_uses.kept_apart.push_back({});
    }
    index = machine.global_uses.unused.back();
    machine.global_uses.unused.pop_back();
    for (unsigned k = 0; k < 3; ++k) {
      for (unsigned p = 0; p < cells_of_word; ++p)
        machine.global_uses.kept_apart[index].marks[k][p] = mark_of_part(marks[k][word], p);
    }
    marks[0][word] = apart | index;
  }
  Parts& parts = machine.global_uses.kept_apart[index];
  parts.marks[which][cell % cells_of_word] = mark;
  Mark joined[3];
  for (unsigned k = 0; k < 3; ++k) {
    if (!join(parts.marks[k], cells_of_word, joined[k])) return;
  }
  for (unsigned k = 0; k < 3; ++k) {
    if (marks[k][word] != joined[k]) marks[k][word] = joined[k];
  }
  parts = {};
  machine.global_uses.unused.push_back(index);
}

void Buffer::forget_marks(Machine& machine) {
  for (std::size_t word = 0; word < words(); ++word) {
    if (cells_of_word == 1 || !is_apart(marks[0][word])) continue;
    machine.global_uses.kept_apart[marks[0][word] & numbers] = {};
    machine.global_uses.unused.push_back(marks[0][word] & numbers);
  }
  std::fill_n(marks[0], 3 * words(), Mark{0});
}

void for_marks_apart(Machine& machine, const std::function<void(Mark*, std::size_t)>& visit) {
  if (!machine.global_uses.kept_apart.empty())
    visit(machine.global_uses.kept_apart[0].marks[0], machine.global_uses.kept_apart.size() * (sizeof(Parts) / sizeof(Mark)));
}

}  // namespace autosched::emulator::global_shadow

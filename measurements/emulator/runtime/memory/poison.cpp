#include "memory/poison.hpp"

#include <cstdlib>
#include <cstring>

#include "machine/report.hpp"

namespace autosched::emulator {
namespace {

struct Bytes {
  unsigned char byte;
  bool answer;
};
// Poison patterns, each of which repeats one byte. Read as floating-point values, they are zero, NaN, a large, a tiny
// and a large negative value, and (for f32 and f64) two values near the largest magnitude. Read as unsigned integers,
// they include the smallest and the largest integer.
constexpr Bytes of_one_kind[] = {{0x00, false}, {0xff, true},  {0x77, true}, {0x88, false},
                                 {0xf7, true},  {0x7f, false}, {0xfe, true}};
constexpr unsigned kinds = sizeof of_one_kind / sizeof *of_one_kind;

std::uint64_t next_random(Machine& machine) {  // splitmix64
  if (machine.poison_state == 0) machine.poison_state = machine.poison;
  std::uint64_t x = machine.poison_state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

void fill_poison(Machine& machine, void* to, std::size_t bytes) {
  if (machine.poison <= kinds) {
    std::memset(to, of_one_kind[machine.poison - 1].byte, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t random = next_random(machine);
    std::memcpy(static_cast<unsigned char*>(to) + at, &random, bytes - at < 8 ? bytes - at : 8);
  }
}

std::uint32_t poison_answers(Machine& machine) {
  if (machine.poison <= kinds) return of_one_kind[machine.poison - 1].answer ? ~0u : 0;
  return static_cast<std::uint32_t>(next_random(machine));
}

void leave_undecided(Machine& machine) {
  if (machine.poison == 0) return;
  report_end(machine.report, "timeout", 0, "this launch cannot show whether a result depends on memory that was never written");
  std::_Exit(0);
}

}  // namespace autosched::emulator

// Undefined values: bits of registers that a lane has never written, and values computed from them. Moving undefined
// values is not a fault. A finding is reported when a decision or a store depends on one.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// A mask of all bits of a register of `width` bytes, or of the single bit of a predicate (width 0).
constexpr std::uint64_t ones_of(unsigned width) {
  return width == 0 ? 1 : width >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * width) - 1;
}

// A mask of the bits of a register that are known in a lane.
inline std::uint64_t known_bits(Warp& w, std::uint32_t at, unsigned width, unsigned lane) {
  if (w.head(at).defined >> lane & 1u) return ones_of(width);
  std::uint64_t bits = 0;
  if (width <= 8) std::memcpy(&bits, w.known_at(at) + std::size_t{lane} * width, width);
  return bits;
}
// Records that a lane has written a register, and which bits are known. `origin` is the source of the unknown bits.
void set_known(Warp& w, std::uint32_t at, unsigned width, unsigned lane, std::uint64_t bits, SiteIndex origin);
// Fills a register with poison, if poisoning is enabled.
void leave_poison(Warp& w, const Span& r, Lanes lanes);
void undefine(Warp& w, std::uint32_t at, unsigned width, Lanes lanes, SiteIndex origin);
// Site from which a register's unknown bits come, or the site of instruction `i` if this is not recorded.
SiteIndex origin_of(Warp& w, std::uint32_t at, const Instruction& i);

// Executes an instruction whose sources are undefined in the lanes `undefined`. A strict instruction causes a finding.
// For other instructions, a result bit is known if no unknown source bit can change it.
void execute_undefined(Warp& w, const Instruction& i, Lanes active, Lanes undefined);
// Report that an instruction, such as a store or a branch, depends on undefined values in some lanes.
void report_undefined(Warp& w, const Instruction& i, SiteIndex origin, unsigned lane);
void report_undefined_sources(Warp& w, const Instruction& i, Lanes undefined);
void report_undefined_guard(Warp& w, const Instruction& i, Lanes undefined);
// Handles a branch on an undefined predicate, if both paths of the branch only write registers. These registers become
// unknown, neither path is executed, and execution continues at `end`. Returns false if the branch decides more than
// register contents.
bool choose_unknown(Warp& w, const Instruction& i, Lanes undefined, std::size_t& end);

// The known bits of the result of cvt in a lane (isa/arithmetic/convert.cpp).
std::uint64_t known_of_conversion(Warp& w, const Instruction& i, unsigned lane);
// Executes mma.sync with operands that are partly unknown (isa/matrix/mma.cpp). An element of the product is known if
// the whole row of a, the whole column of b and the element of c are known.
void multiply_unknown(Warp& w, const Instruction& i, SiteIndex origin);

}  // namespace autosched::emulator::ptx

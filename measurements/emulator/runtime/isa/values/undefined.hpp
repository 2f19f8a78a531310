// Undefined values: bits of registers that a lane has never written, and values computed from them. Moving them is not
// a fault; a finding is reported where a decision or a store depends on them.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// All bits of a register of `width` bytes; one for a predicate.
constexpr std::uint64_t ones_of(unsigned width) {
  return width == 0 ? 1 : width >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * width) - 1;
}

// The bits of a register that a lane knows.
inline std::uint64_t known_bits(Warp& w, std::uint32_t at, unsigned width, unsigned lane) {
  if (w.head(at).defined >> lane & 1u) return ones_of(width);
  std::uint64_t bits = 0;
  if (width <= 8) std::memcpy(&bits, w.known_at(at) + std::size_t{lane} * width, width);
  return bits;
}
// Records that a lane has written a register, of which it knows these bits; `origin` is the source of the others.
void set_known(Warp& w, std::uint32_t at, unsigned width, unsigned lane, std::uint64_t bits, SiteIndex origin);
// Fills a register with poison, if poisoning is enabled.
void leave_poison(Warp& w, const Span& r, Lanes lanes);
void undefine(Warp& w, std::uint32_t at, unsigned width, Lanes lanes, SiteIndex origin);
// Source of a register's unknown bits: the instruction that first read them, or else this one.
SiteIndex origin_of(Warp& w, std::uint32_t at, const Instruction& i);

// Executes an instruction whose sources are undefined in the lanes `undefined`. A strict instruction causes a finding.
// For others, result bits that no unknown source bit can change are known.
void execute_undefined(Warp& w, const Instruction& i, Lanes active, Lanes undefined);
// Reports that a decision or a store of lanes depends on undefined values.
void report_undefined(Warp& w, const Instruction& i, SiteIndex origin, unsigned lane);
void report_undefined_sources(Warp& w, const Instruction& i, Lanes undefined);
void report_undefined_guard(Warp& w, const Instruction& i, Lanes undefined);
// Handles a decision on undefined values that only chooses register contents: these become unknown, the branch is not
// taken, and execution continues at `end`. Returns false if the decision has other effects.
bool choose_unknown(Warp& w, const Instruction& i, Lanes undefined, std::size_t& end);

// The bits of cvt's result that a lane knows (isa/arithmetic/convert.cpp).
std::uint64_t known_of_conversion(Warp& w, const Instruction& i, unsigned lane);
// mma.sync if lanes do not know all of its operands: they know an element of the product if the whole row of a, the
// whole column of b and the element of c are known (isa/matrix/mma.cpp).
void multiply_unknown(Warp& w, const Instruction& i, SiteIndex origin);

}  // namespace autosched::emulator::ptx

// What a lane does not know: bits of registers that it has never written, and what is made of them. Moving them is no
// fault; a finding is made where they decide something.
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
// A lane has written a register, and knows these bits of it; `origin` says where the others come from.
void set_known(Warp& w, std::uint32_t at, unsigned width, unsigned lane, std::uint64_t bits, SiteIndex origin);
// Garbage in a register, where there is any.
void leave_garbage(Warp& w, const Span& r, Lanes lanes);
void undefine(Warp& w, std::uint32_t at, unsigned width, Lanes lanes, SiteIndex origin);
// Where a register's unknown bits come from: the instruction that first read them, or else this one.
SiteIndex origin_of(Warp& w, std::uint32_t at, const Instruction& i);

// Executes what has sources that not all lanes know, at `undefined` lanes. A strict instruction makes a finding; of
// another one's results those bits are known that no unknown bit of a source can change.
void execute_undefined(Warp& w, const Instruction& i, Lanes active, Lanes undefined);
// The finding that lanes decide upon, or keep, what they do not know.
void report_undefined(Warp& w, const Instruction& i, SiteIndex origin, unsigned lane);
void report_undefined_sources(Warp& w, const Instruction& i, Lanes undefined);
void report_undefined_guard(Warp& w, const Instruction& i, Lanes undefined);
// A decision on what lanes do not know that does nothing but choose what registers hold makes these unknown: it need not be
// taken, and all goes on at `end`. False where it does more.
bool choose_unknown(Warp& w, const Instruction& i, Lanes undefined, std::size_t& end);

// The bits of cvt's result that a lane knows (isa/arithmetic/convert.cpp).
std::uint64_t known_of_conversion(Warp& w, const Instruction& i, unsigned lane);
// mma.sync where lanes do not know all of its operands: they know an element of the product where all of the row of a, the
// column of b and the element of c is known that it is made of (isa/matrix/mma.cpp).
void multiply_unknown(Warp& w, const Instruction& i, SiteIndex origin);

}  // namespace autosched::emulator::ptx

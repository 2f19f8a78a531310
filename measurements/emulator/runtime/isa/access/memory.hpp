// Resolves the address of one lane to a state space.
#pragma once
#include "isa/program.hpp"
#include "isa/ptx.hpp"
#include "order/block_order.hpp"
#include "order/global_order.hpp"

namespace autosched::emulator::ptx {

// The order must equal the order of SPACES in measurements/emulator/ptx/forms.py.
enum class Space : std::uint8_t { generic, global, shared, local, param };
const char* space_name(Space space);

struct Location {
  Space space;
  std::uint64_t offset;  // offset in the window of the state space; the host address for global memory
  bool good = true;
};
// Slow path of `resolve`. If `space` is generic, resolves the address, and reports a finding if it is in no state
// space. For any other space, reports a finding, because the address is outside of the space's window.
Location resolve_window(Machine& machine, Space space, std::uint64_t address, const char* instruction);
// Resolves `address` for an instruction that accesses `space`. Reports a finding if the address belongs to another
// state space.
inline Location resolve(Machine& machine, Space space, std::uint64_t address, const char* instruction) {
  const bool plain = space == Space::global ? (address & window_mask) == 0
                                            : space == Space::param || (space != Space::generic && address >> 32 == 0);
  return plain ? Location{space, address & ~window_mask} : resolve_window(machine, space, address, instruction);
}

// One element of a load or a store.
struct Datum {
  unsigned bytes;
  bool is_signed = false;
};
// Writes an element to a register, which may be wider than the element. `put_known` sets the known bits.
void put_widened(Warp& w, const Instruction& i, unsigned which, unsigned lane, const unsigned char* value, Datum e);
inline void put(Warp& w, const Instruction& i, unsigned which, unsigned lane, const unsigned char* value, Datum e) {
  if (e.bytes == 4 && i.width_of_destination(which) == 4) {  // the common case
    std::memcpy(w.values<std::uint32_t>(i.destination(which)) + lane, value, 4);
  } else {
    put_widened(w, i, which, lane, value, e);
  }
}
void put_known(Warp& w, const Instruction& i, unsigned which, unsigned lane, const unsigned char* known, Datum e,
               SiteIndex origin);

// The address that a lane accesses: the value of a register of 4 or 8 bytes, plus an offset.
inline std::uint64_t address_of(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned lane) {
  const std::uint64_t base = read_bits(w, i.source(source), i.width_of_source(source), lane);
  const std::uint64_t sum = base + static_cast<std::uint64_t>(offset);
  return i.width_of_source(source) == 4 ? sum & 0xffffffffu : sum;
}

// Fences that order the access of an instruction: before_access for `.release`, after_access for `.acquire`.
inline void fence_thread(Machine& machine, bool narrow) {
  fence_block(machine, narrow);
  if (!narrow) fence_device(machine);
}
inline void before_access(Machine& machine, const Instruction& i) {
  if (i.flags & release) fence_thread(machine, (i.flags & block_scope) != 0);
}
inline void after_access(Machine& machine, const Instruction& i) {
  if (i.flags & acquire) fence_thread(machine, (i.flags & block_scope) != 0);
}

}  // namespace autosched::emulator::ptx

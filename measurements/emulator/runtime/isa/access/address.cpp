// Addresses and their state spaces: cvta, isspacep, and the conversion of an instruction's address (PTX ISA 9.7.9).
#include "isa/access/memory.hpp"
#include "isa/program.hpp"
#include "memory/global/buffers.hpp"

namespace autosched::emulator::ptx {

const char* space_name(Space space) {
  constexpr const char* names[] = {"generic", "global", "shared", "local", "param"};
  return names[static_cast<int>(space)];
}

namespace {

constexpr Space space_of_window(std::uint64_t address) {
  constexpr Space spaces[] = {Space::global, Space::shared, Space::local, Space::param};
  const auto window = address >> 60;
  return window < 4 ? spaces[window] : Space::generic;
}

const char* kind_of_pointer(Machine& machine, std::uint64_t address) {
  if (is_generic_of(function_base, address)) return "the address of a function";
  const Space space = space_of_window(address);
  if (space == Space::shared) return "a generic address of shared memory";
  if (space == Space::local) return "a generic address of local memory";
  if (space == Space::param) return "a generic address of a parameter";
  return locate_global(machine, reinterpret_cast<const void*>(address)).empty() ? "no address" : "an address of global memory";
}

constexpr std::uint64_t base_of(Space space) {
  return space == Space::shared ? shared_base : space == Space::local ? local_base : space == Space::param ? param_base : 0;
}

}  // namespace

Location resolve_window(Machine& machine, Space space, std::uint64_t address, const char* instruction) {
  if (space == Space::generic) {
    const Space window_space = space_of_window(address);
    if (window_space == Space::generic) {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: %s takes %s", describe_self(machine).c_str(), instruction,
              kind_of_pointer(machine, address));
      return {window_space, address, false};
    }
    return {window_space, offset_in(base_of(window_space), address)};
  }
  FINDING(machine.report, wrong_state_space, machine.self->site, "%s: %s takes %#llx, which is %s",
          describe_self(machine).c_str(), instruction, static_cast<unsigned long long>(address),
          kind_of_pointer(machine, address));
  return {space, address, false};
}

namespace {

void to_generic(Warp& w, const Instruction& i, Lanes active) {
  const auto space = static_cast<Space>(i.immediate[0]);
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    w.values<std::uint64_t>(i.destination(0))[k] = a + base_of(space);
  });
}

void from_generic(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto space = static_cast<Space>(i.immediate[0]);
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = w.values<std::uint64_t>(i.source(0))[k];
    const bool fits = is_generic_of(base_of(space), a);
    if (!fits && a != 0) {
      run_as(w, k);
      machine.self->site = i.site;
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: cvta.to.%s takes %s", describe_self(machine).c_str(),
              space_name(space), kind_of_pointer(machine, a));
    }
    w.values<std::uint64_t>(i.destination(0))[k] = fits ? offset_in(base_of(space), a) : a & ~window_mask;
  });
}

void is_space(Warp& w, const Instruction& i, Lanes active) {
  const auto space = static_cast<Space>(i.immediate[0]);
  Lanes result = 0;
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = w.values<std::uint64_t>(i.source(0))[k];
    result |= static_cast<Lanes>(is_generic_of(base_of(space), a)) << k;
  });
  Lanes& d = w.head(i.destination(0)).bits;
  d = (d & ~active) | result;
}

// The address of a function's local variable. Immediates: the function, and the variable's offset in the function's
// frame.
void local_address(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t base = w.local_base[k][static_cast<std::size_t>(i.immediate[0])];
    write_bits(w, i.destination(0), i.width_of_destination(0), k, base + static_cast<std::uint64_t>(i.immediate[1]));
  });
}

constexpr Row address_table[] = {
    {"cvta", to_generic, 0, "8:*"},
    {"cvta.to", from_generic, 0, "8:8", Flow::plain, true},
    {"isspacep", is_space, 0, "0:8"},
    {"local.address", local_address, 0, "*:"},
};

}  // namespace

const Rows address_rows{std::begin(address_table), std::end(address_table)};

}  // namespace autosched::emulator::ptx

// ld, st, cvta, isspacep, fences, and what reads special places: PTX ISA 9.7.9 and 9.7.13.
#include "ptx_memory.hpp"

#include "mbarrier.hpp"

#include <algorithm>

#include "counting.hpp"

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

const char* kind_of_pointer(std::uint64_t address) {
  if ((address & window_mask) == function_base) return "the address of a function";
  const Space space = space_of_window(address);
  if (space == Space::shared) return "a generic address of shared memory";
  if (space == Space::local) return "a generic address of local memory";
  if (space == Space::param) return "a generic address of a parameter";
  return locate_global(reinterpret_cast<const void*>(address)).empty() ? "no address" : "an address of global memory";
}

}  // namespace

Place resolve(Space space, std::uint64_t address, const char* instruction) {
  const std::uint64_t offset = address & ~window_mask;
  if (space == Space::generic) {
    const Space found = space_of_window(address);
    if (found == Space::generic) {
      FINDING(wrong_state_space, self->site, "%s: %s takes %s", describe_self().c_str(), instruction,
              kind_of_pointer(address));
      return {found, offset, false};
    }
    return {found, offset};
  }
  const bool foreign = space == Space::global ? (address & window_mask) != 0 : space == Space::param ? false : address >> 32 != 0;
  if (foreign) {
    FINDING(wrong_state_space, self->site, "%s: %s takes %#llx, which is %s", describe_self().c_str(), instruction,
            static_cast<unsigned long long>(address), kind_of_pointer(address));
    return {space, address, false};
  }
  return {space, offset};
}

namespace {

bool local_place(Warp& w, unsigned lane, std::uint64_t offset, int bytes, const char* instruction) {
  const std::uint64_t size = w.local[lane].bytes.size();
  if (offset + static_cast<unsigned>(bytes) > size || offset > size) {
    FINDING(out_of_bounds_local, self->site, "%s: %s of %d bytes at byte %lld of %llu bytes of local memory",
            describe_self().c_str(), instruction, bytes, static_cast<long long>(offset),
            static_cast<unsigned long long>(size));
    return false;
  }
  if (offset % static_cast<unsigned>(bytes) != 0) {
    FINDING(misaligned_access, self->site, "%s: %s of %d bytes at byte %llu of local memory is not aligned to its size",
            describe_self().c_str(), instruction, bytes, static_cast<unsigned long long>(offset));
  }
  return true;
}

}  // namespace

bool read_local(Warp& w, unsigned lane, void* to, std::uint64_t offset, int bytes, const char* instruction) {
  if (!local_place(w, lane, offset, bytes, instruction)) {
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return true;
  }
  const Local& local = w.local[lane];
  std::memcpy(to, local.bytes.data() + offset, static_cast<std::size_t>(bytes));
  const auto first = local.written.begin() + static_cast<std::ptrdiff_t>(offset);
  return std::find(first, first + bytes, false) == first + bytes;
}

void write_local(Warp& w, unsigned lane, const void* from, std::uint64_t offset, int bytes, const char* instruction) {
  if (!local_place(w, lane, offset, bytes, instruction)) return;
  Local& local = w.local[lane];
  std::memcpy(local.bytes.data() + offset, from, static_cast<std::size_t>(bytes));
  std::fill_n(local.written.begin() + static_cast<std::ptrdiff_t>(offset), bytes, true);
}

namespace {

// Immediates of ld and st: offset, bytes of an element, whether it is signed, space.
struct Request {
  std::int64_t offset;
  unsigned element, count;
  bool is_signed;
  Space space;
  int bytes() const { return static_cast<int>(element * count); }
};
Request request_of(const Instruction& i, unsigned count) {
  return {i.immediate[0], static_cast<unsigned>(i.immediate[1]), count, i.immediate[2] != 0,
          static_cast<Space>(i.immediate[3])};
}

const char* load_name(const Instruction& i, Space space) {
  switch (space) {
    case Space::global: return i.flags & read_only ? "ld.global.nc" : i.flags & by_l2 ? "ld.global.cg" : "ld.global";
    case Space::shared: return "ld.shared";
    case Space::local: return "ld.local";
    case Space::param: return "ld.param";
    default: return "ld";
  }
}
const char* store_name(Space space) {
  return space == Space::global ? "st.global" : space == Space::shared ? "st.shared" : space == Space::local ? "st.local" : "st";
}

// Counts the requests of one instruction: a generic one may reach several spaces.
void count(const Instruction& i, const Place* places, Lanes active, int bytes, bool store) {
  Lanes global = 0, shared = 0;
  std::uint64_t addresses[warp_size] = {};
  for_lanes(active, [&](unsigned k) {
    addresses[k] = places[k].offset;
    if (!places[k].good) return;
    if (places[k].space == Space::global) global |= 1u << k;
    if (places[k].space == Space::shared) shared |= 1u << k;
  });
  if (global != 0) {
    count_global_request(i.site, store ? store_name(Space::global) : load_name(i, Space::global), bytes, global, addresses);
  }
  if (shared != 0) {
    count_shared_request(i.site, store ? store_name(Space::shared) : load_name(i, Space::shared), bytes, shared, addresses);
  }
}

bool sign_bit(const unsigned char* value, unsigned bytes) { return value[bytes - 1] >> 7 != 0; }

// Puts an element into a register that may be wider.
void put(Warp& w, const Instruction& i, unsigned which, unsigned lane, const unsigned char* value, const Request& r) {
  const unsigned width = i.width_of_destination(which);
  unsigned char* to = value_bytes(w, i.destination(which), width, lane);
  const unsigned n = std::min(width, r.element);
  std::memcpy(to, value, n);
  if (width > n) std::memset(to + n, r.is_signed && sign_bit(value, n) ? 0xff : 0, width - n);
}

void define(Warp& w, const Instruction& i, Lanes active, Lanes undefined) {
  for (unsigned d = 0; d < i.destinations; ++d) {
    Register& r = w.head(i.destination(d));
    r.defined = (r.defined | active) & ~undefined;
    if (undefined != 0) r.origin = i.site;
  }
}

void load(Warp& w, const Instruction& i, Lanes active) {
  const Request r = request_of(i, i.destinations);
  Place places[warp_size];
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    self->site = i.site;
    places[k] = resolve(r.space, address_of(w, i, 0, r.offset, k), load_name(i, r.space));
  });
  count(i, places, active, r.bytes(), false);
  Lanes undefined = 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    const Place& p = places[k];
    alignas(16) unsigned char value[64];
    if (!p.good) {
      std::memset(value, 0xff, static_cast<std::size_t>(r.bytes()));
    } else if (p.space == Space::global) {
      read_global(value, reinterpret_cast<const void*>(p.offset), r.bytes(), load_name(i, Space::global),
                  (i.flags & read_only) != 0, (i.flags & by_l2) != 0);
      if (i.flags & by_l2) read_flag(flag_in_global(reinterpret_cast<const void*>(p.offset)));
    } else if (p.space == Space::shared) {
      const auto address = static_cast<unsigned>(p.offset);
      if (!read_shared(value, address, r.bytes(), "ld.shared", true)) undefined |= 1u << k;
      if (i.flags & by_l2) read_flag(flag_in_shared(address));
    } else if (p.space == Space::local) {
      if (!read_local(w, k, value, p.offset, r.bytes(), "ld.local")) undefined |= 1u << k;
    } else if (p.offset + static_cast<unsigned>(r.bytes()) <= program.parameters.size()) {
      std::memcpy(value, program.parameters.data() + p.offset, static_cast<std::size_t>(r.bytes()));
    } else {
      FINDING(out_of_bounds_local, self->site, "%s: ld.param of %d bytes at byte %llu of %zu bytes of parameters",
              describe_self().c_str(), r.bytes(), static_cast<unsigned long long>(p.offset), program.parameters.size());
      std::memset(value, 0xff, static_cast<std::size_t>(r.bytes()));
    }
    for (unsigned d = 0; d < r.count; ++d) put(w, i, d, k, value + d * r.element, r);
    after_access(i);
  });
  define(w, i, active, undefined);
}

void store(Warp& w, const Instruction& i, Lanes active) {
  const Request r = request_of(i, i.sources - 1);
  Place places[warp_size];
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    self->site = i.site;
    places[k] = resolve(r.space, address_of(w, i, 0, r.offset, k), store_name(r.space));
  });
  count(i, places, active, r.bytes(), true);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    const Place& p = places[k];
    if (!p.good) return;
    alignas(16) unsigned char value[64];
    for (unsigned s = 0; s < r.count; ++s) {
      const unsigned width = i.width_of_source(s + 1);
      std::memcpy(value + s * r.element, value_bytes(w, i.source(s + 1), width, k), r.element);
    }
    before_access(i);
    if (p.space == Space::global) {
      write_global(reinterpret_cast<void*>(p.offset), value, r.bytes(), "st.global", (i.flags & by_l2) != 0);
      if (i.flags & by_l2) write_flag(flag_in_global(reinterpret_cast<const void*>(p.offset)), false, (i.flags & block_scope) != 0);
    } else if (p.space == Space::shared) {
      write_shared(static_cast<unsigned>(p.offset), value, r.bytes(), "st.shared");
      if (i.flags & by_l2) write_flag(flag_in_shared(static_cast<unsigned>(p.offset)), false, (i.flags & block_scope) != 0);
    } else if (p.space == Space::local) {
      write_local(w, k, value, p.offset, r.bytes(), "st.local");
    } else {
      FINDING(wrong_state_space, self->site, "%s: st to a parameter of the kernel", describe_self().c_str());
    }
  });
}

// Kernel parameters at a constant offset: the same bytes for all lanes.
void load_parameter(Warp& w, const Instruction& i, Lanes active) {
  const Request r = request_of(i, i.destinations);
  if (r.offset < 0 || static_cast<std::size_t>(r.offset + r.bytes()) > program.parameters.size()) {
    FINDING(out_of_bounds_local, i.site, "ld.param of %d bytes at byte %lld of %zu bytes of parameters", r.bytes(),
            static_cast<long long>(r.offset), program.parameters.size());
    return;
  }
  const unsigned char* value = program.parameters.data() + r.offset;
  for_lanes(active, [&](unsigned k) {
    for (unsigned d = 0; d < r.count; ++d) put(w, i, d, k, value + d * r.element, r);
  });
}

// Parameters of device functions lie in register files, each lane's bytes together. immediate: offset in the register
// file of the variable, its bytes, offset in it, bytes of an element, signed.
unsigned char* frame_bytes(Warp& w, const Instruction& i, unsigned lane) {
  return w.values<unsigned char>(static_cast<std::uint32_t>(i.immediate[0])) +
         static_cast<std::int64_t>(lane) * i.immediate[1] + i.immediate[2];
}
void load_frame(Warp& w, const Instruction& i, Lanes active) {
  const Request r{0, static_cast<unsigned>(i.immediate[3]), i.destinations, i.immediate[4] != 0, Space::param};
  for_lanes(active, [&](unsigned k) {
    for (unsigned d = 0; d < r.count; ++d) put(w, i, d, k, frame_bytes(w, i, k) + d * r.element, r);
  });
}
void store_frame(Warp& w, const Instruction& i, Lanes active) {
  const auto element = static_cast<unsigned>(i.immediate[3]);
  for_lanes(active, [&](unsigned k) {
    for (unsigned s = 0; s < i.sources; ++s) {
      const unsigned width = i.width_of_source(s);
      std::memcpy(frame_bytes(w, i, k) + s * element, value_bytes(w, i.source(s), width, k), std::min(width, element));
    }
  });
}

constexpr std::uint64_t base_of(Space space) {
  return space == Space::shared ? shared_base : space == Space::local ? local_base : space == Space::param ? param_base : 0;
}

void to_generic(Warp& w, const Instruction& i, Lanes active) {
  const auto space = static_cast<Space>(i.immediate[0]);
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    w.values<std::uint64_t>(i.destination(0))[k] = a | base_of(space);
  });
}

void from_generic(Warp& w, const Instruction& i, Lanes active) {
  const auto space = static_cast<Space>(i.immediate[0]);
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = w.values<std::uint64_t>(i.source(0))[k];
    if ((a & window_mask) != base_of(space) && a != 0) {
      run_as(w, k);
      self->site = i.site;
      FINDING(wrong_state_space, self->site, "%s: cvta.to.%s takes %s", describe_self().c_str(), space_name(space),
              kind_of_pointer(a));
    }
    w.values<std::uint64_t>(i.destination(0))[k] = space == Space::global ? a : a & ~window_mask;
  });
}

void is_space(Warp& w, const Instruction& i, Lanes active) {
  const auto space = static_cast<Space>(i.immediate[0]);
  Lanes result = 0;
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = w.values<std::uint64_t>(i.source(0))[k];
    result |= static_cast<Lanes>((a & window_mask) == base_of(space)) << k;
  });
  Lanes& d = w.head(i.destination(0)).bits;
  d = (d & ~active) | result;
}

// The address of a function's local variable: immediates are the function and the offset in its frame.
void local_address(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t base = w.local_base[k][static_cast<std::size_t>(i.immediate[0])];
    write_bits(w, i.destination(0), i.width_of_destination(0), k, base + static_cast<std::uint64_t>(i.immediate[1]));
  });
}

void fence(Warp& w, const Instruction& i, Lanes active) {
  const bool narrow = (i.flags & block_scope) != 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    self->site = i.site;
    fence_thread(narrow);
  });
  if (!narrow) note_fence(w, active);
}

void nothing(Warp&, const Instruction&, Lanes) {}

// The emulated machine has no time, but a loop that waits for some of it to pass must end.
void clock(Warp& w, const Instruction& i, Lanes active) {
  static std::uint64_t ticks = 0;
  ticks += 100;
  for_lanes(active, [&](unsigned k) { write_bits(w, i.destination(0), i.width_of_destination(0), k, ticks); });
}

constexpr std::uint32_t loads = read_only | by_l2 | acquire | block_scope, stores = by_l2 | release | block_scope;

constexpr Row rows[] = {
    {"ld", load, loads, "*:*", Flow::plain, true, true},
    {"st", store, stores, ":**", Flow::plain, true},
    {"ld.yielding", load, loads, "*:*", Flow::yields, true, true},
    {"ld.parameter", load_parameter, loads, "*:"},
    {"ld.frame", load_frame, loads, "*:"},
    {"st.frame", store_frame, 0, ":*"},
    {"cvta", to_generic, 0, "8:*"},
    {"cvta.to", from_generic, 0, "8:8", Flow::plain, true},
    {"isspacep", is_space, 0, "0:8"},
    {"local.address", local_address, 0, "*:"},
    {"fence", fence, block_scope, ":"},
    {"nothing", nothing, 0, "*:*"},
    {"clock", clock, 0, "*:"},
    {"nanosleep", nothing, 0, ":4", Flow::yields},
};

}  // namespace

const Rows memory_rows{std::begin(rows), std::end(rows)};

}  // namespace autosched::emulator::ptx

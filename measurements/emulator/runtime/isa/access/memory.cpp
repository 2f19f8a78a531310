// ld, st, fences, and reads of special registers: PTX ISA 9.7.9 and 9.7.13.
#include "isa/values/copies.hpp"
#include "isa/values/dropped.hpp"
#include "isa/access/memory.hpp"
#include "isa/program.hpp"
#include "isa/values/undefined.hpp"
#include "memory/counting.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/memory.hpp"
#include "order/block_order.hpp"

#include <algorithm>
#include <bit>

namespace autosched::emulator::ptx {

namespace {

bool check_local(Warp& w, unsigned lane, std::uint64_t offset, int bytes, const char* instruction) {
  Machine& machine = *w.machine;
  const std::uint64_t size = w.local_top[lane], end = offset + static_cast<unsigned>(bytes);
  const std::vector<Local::Gap>& gaps = w.local[lane].gaps;
  const bool is_nobodys = std::any_of(gaps.begin(), gaps.end(), [&](const auto& g) { return offset < g.end && end > g.begin; });
  if (end > size || offset > size || is_nobodys) {
    FINDING(machine.report, out_of_bounds_local, machine.self->site,
            "%s: %s of %d bytes at byte %lld of %llu bytes of local memory", describe_self(machine).c_str(), instruction, bytes,
            static_cast<long long>(offset), static_cast<unsigned long long>(size));
    return false;
  }
  if (offset % static_cast<unsigned>(bytes) != 0) {
    FINDING(machine.report, misaligned_access, machine.self->site,
            "%s: %s of %d bytes at byte %llu of local memory is not aligned to its size", describe_self(machine).c_str(),
            instruction, bytes, static_cast<unsigned long long>(offset));
  }
  return true;
}

constexpr unsigned most_bytes = 64;  // bytes per access

// The known bits of a value that a thread reads or writes. `whole`: all bits are known.
struct Knowledge {
  bool whole = true;
  SiteIndex origin = 0;  // source of the unknown bits
  unsigned char bits[most_bytes];
};

bool are_ones(const unsigned char* bytes, unsigned count) {
  return bytes[0] == 0xff && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Per-thread stack memory.
void read_local(Warp& w, unsigned lane, void* to, std::uint64_t offset, int bytes, Knowledge& known) {
  const auto count = static_cast<unsigned>(bytes);
  if (!check_local(w, lane, offset, bytes, "ld.local")) {
    std::memset(to, 0xff, count);
    return;
  }
  const Local& local = w.local[lane];
  std::memcpy(to, local.bytes.data() + offset, count);
  const unsigned char* bits = local.known.data() + offset;
  if (are_ones(bits, count)) return;
  known.whole = false;
  std::memcpy(known.bits, bits, count);
  known.origin = w.machine->self->site;
  for (unsigned k = 0; k < count; ++k) {
    const auto stored = bits[k] == 0xff ? local.origins.end() : local.origins.find(offset + k);
    if (stored != local.origins.end()) known.origin = stored->second;
  }
}

void write_local(Warp& w, unsigned lane, const void* from, std::uint64_t offset, int bytes, const Knowledge& known) {
  Machine& machine = *w.machine;
  if (!check_local(w, lane, offset, bytes, "st.local")) return;
  const auto count = static_cast<unsigned>(bytes);
  Local& local = w.local[lane];
  if (machine.idle_polls.met() && machine.idle_polls.vain() != 0 && std::memcmp(local.bytes.data() + offset, from, count) != 0)
    machine.idle_polls.move();
  std::memcpy(local.bytes.data() + offset, from, count);
  if (known.whole) {
    std::memset(local.known.data() + offset, 0xff, count);
    return;
  }
  std::memcpy(local.known.data() + offset, known.bits, count);
  for (unsigned k = 0; k < count; ++k) {
    if (known.bits[k] != 0xff) local.origins[offset + k] = known.origin;
  }
}

// Immediates of ld and st: offset, bytes per element, whether elements are signed, state space.
struct Request {
  std::int64_t offset;
  Datum element;
  unsigned count;
  Space space;
  int bytes() const { return static_cast<int>(element.bytes * count); }
};
Request request_of(const Instruction& i, unsigned count) {
  return {i.immediate[0], {static_cast<unsigned>(i.immediate[1]), i.immediate[2] != 0}, count,
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

// Counts a request of lanes that all access global memory. Constant memory is counted separately, because its costs
// differ.
void count_global(Machine& machine, const Instruction& i, Lanes lanes, const std::uint64_t* addresses, int bytes,
                  const char* instruction) {
  if (machine.launch.count && is_in_constant_memory(machine, addresses[__builtin_ctz(lanes)])) {
    count_constant_request(machine, i.site, bytes, lanes, addresses);
  } else {
    count_global_request(machine, i.site, instruction, bytes, lanes, addresses);
  }
}

// Counts the requests of one instruction. An instruction with generic addresses may access several state spaces.
void count(Machine& machine, const Instruction& i, const Location* locations, Lanes active, int bytes, bool store) {
  Lanes global = 0, shared = 0;
  std::uint64_t addresses[warp_size] = {};
  for_lanes(active, [&](unsigned k) {
    addresses[k] = locations[k].offset;
    if (!locations[k].good) return;
    if (locations[k].space == Space::global) global |= 1u << k;
    if (locations[k].space == Space::shared) shared |= 1u << k;
  });
  if (global != 0) {
    count_global(machine, i, global, addresses, bytes, store ? store_name(Space::global) : load_name(i, Space::global));
  }
  if (shared != 0) {
    count_shared_request(machine, i.site, store ? store_name(Space::shared) : load_name(i, Space::shared), bytes, shared,
                         addresses);
  }
}

bool sign_bit(const unsigned char* value, unsigned bytes) { return value[bytes - 1] >> 7 != 0; }

}  // namespace

void put_widened(Warp& w, const Instruction& i, unsigned which, unsigned lane, const unsigned char* value, Datum e) {
  const unsigned width = i.width_of_destination(which);
  unsigned char* to = value_bytes(w, i.destination(which), width, lane);
  const unsigned n = std::min(width, e.bytes);
  std::memcpy(to, value, n);
  if (width > n) std::memset(to + n, e.is_signed && sign_bit(value, n) ? 0xff : 0, width - n);
}

void put_known(Warp& w, const Instruction& i, unsigned which, unsigned lane, const unsigned char* known, Datum e,
               SiteIndex origin) {
  const unsigned width = i.width_of_destination(which), n = std::min(width, e.bytes);
  // Above an unsigned element, all bits are known zeros. Above a signed element, they are copies of the sign bit, and
  // unknown if the sign bit is unknown.
  std::uint64_t bits = e.is_signed && !sign_bit(known, n) ? 0 : ~std::uint64_t{0};
  if (n < 8) {
    bits = n == width ? 0 : bits << 8 * n;
    std::uint64_t own = 0;
    std::memcpy(&own, known, n);
    bits |= own;
  } else {
    bits = are_ones(known, n) ? ~std::uint64_t{0} : 0;
    if (n == 8) std::memcpy(&bits, known, n);
  }
  set_known(w, i.destination(which), width, lane, bits, origin);
}

namespace {

// Gets the lanes' addresses in global memory. Returns false if an address may be in another state space.
bool global_addresses(Warp& w, const Instruction& i, const Request& r, Lanes active, std::uint64_t* addresses) {
  if ((r.space != Space::global && r.space != Space::generic) || i.width_of_source(0) != 8) return false;
  const std::uint64_t* const bases = w.values<std::uint64_t>(i.source(0));
  std::uint64_t any = 0;
  for_lanes(active, [&](unsigned k) {
    addresses[k] = bases[k] + static_cast<std::uint64_t>(r.offset);
    any |= addresses[k];
  });
  return (any & window_mask) == 0;
}

template <class T>
void take(Warp& w, std::uint32_t to, Lanes active, const std::uint64_t* addresses, std::uint64_t offset) {
  T* const values = w.values<T>(to);
  for_lanes(active, [&](unsigned k) {
    std::memcpy(values + k, reinterpret_cast<const unsigned char*>(addresses[k]) + offset, sizeof(T));
  });
}

// Fast path for lanes that all read one array that the kernel never writes, so no race is possible. In all other cases,
// reads nothing and returns false.
bool load_input(Warp& w, const Instruction& i, const Request& r, Lanes active) {
  Machine& machine = *w.machine;
  std::uint64_t addresses[warp_size];
  if ((i.flags & (by_l2 | acquire)) != 0 || !global_addresses(w, i, r, active, addresses) ||
      !read_input(machine, addresses, active, r.bytes())) {
    return false;
  }
  for_lanes(active, [&](unsigned k) { w.thread[k].site = i.site; });  // source line, in case the launch ends here
  run_as(w, static_cast<unsigned>(std::bit_width(active)) - 1);
  count_global(machine, i, active, addresses, r.bytes(), load_name(i, Space::global));
  if (watches_reads(machine)) [[unlikely]] settle_overwritten(w, i, active);
  if (i.followed != nullptr) for_lanes(active, [&](unsigned k) { note_copied(w, i, k, addresses[k], r.element.bytes); });
  // The addresses are recorded even though this array is never written, because the same load may also read other
  // arrays.
  if (i.reading != 0 && w.readings[i.reading] != nullptr) {
    for_lanes(active, [&](unsigned k) { note_reading(w, i, k, addresses[k], static_cast<unsigned>(r.bytes())); });
  }
  for (unsigned d = 0; d < r.count; ++d) {
    const std::uint64_t at = std::uint64_t{d} * r.element.bytes;
    switch (i.width_of_destination(d) == r.element.bytes ? r.element.bytes : 0) {
      case 2: take<std::uint16_t>(w, i.destination(d), active, addresses, at); break;
      case 4: take<std::uint32_t>(w, i.destination(d), active, addresses, at); break;
      case 8: take<std::uint64_t>(w, i.destination(d), active, addresses, at); break;
      default:
        for_lanes(active, [&](unsigned k) {
          put(w, i, d, k, reinterpret_cast<const unsigned char*>(addresses[k]) + at, r.element);
        });
    }
    w.head(i.destination(d)).defined |= active;
  }
  return true;
}

void load_values(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const Request r = request_of(i, i.destinations);
  if (load_input(w, i, r, active)) return;
  Location locations[warp_size];
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    locations[k] = resolve(machine, r.space, address_of(w, i, 0, r.offset, k), load_name(i, r.space));
  });
  count(machine, i, locations, active, r.bytes(), false);
  if (watches_reads(machine)) [[unlikely]] settle_overwritten(w, i, active);
  machine.loading = i.reading != 0 ? &i : nullptr;
  unsigned in_shared[warp_size];
  Lanes sharing = 0, unknown = 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    const Location& location = locations[k];
    alignas(16) unsigned char value[most_bytes];
    Knowledge known;
    if (!location.good) {
      std::memset(value, 0xff, static_cast<std::size_t>(r.bytes()));
    } else if (location.space == Space::global) {
      known.whole = read_global(machine, value, reinterpret_cast<const void*>(location.offset), r.bytes(),
                                load_name(i, Space::global), (i.flags & read_only) != 0, (i.flags & by_l2) != 0,
                                (i.flags & block_scope) != 0, known.bits);
      if (!known.whole) known.origin = i.site;
      if (i.reading != 0) note_reading(w, i, k, location.offset, static_cast<unsigned>(r.bytes()));
      if (i.followed != nullptr) note_copied(w, i, k, location.offset, r.element.bytes);
      if (i.flags & by_l2) read_flag(machine, flag_in_global(reinterpret_cast<const void*>(location.offset)));
    } else if (location.space == Space::shared) {
      const auto address = static_cast<unsigned>(location.offset);
      in_shared[k] = address;
      sharing |= 1u << k;
      known.whole = read_shared(machine, value, address, r.bytes(), "ld.shared", true);
      if (!known.whole) known.origin = known_shared(machine, address, r.bytes(), known.bits);
      if (i.flags & by_l2) read_flag(machine, flag_in_shared(machine, address));
    } else if (location.space == Space::local) {
      read_local(w, k, value, location.offset, r.bytes(), known);
    } else if (location.offset + static_cast<unsigned>(r.bytes()) <= machine.program.parameters.size()) {
      std::memcpy(value, machine.program.parameters.data() + location.offset, static_cast<std::size_t>(r.bytes()));
    } else {
      FINDING(machine.report, out_of_bounds_local, machine.self->site,
              "%s: ld.param of %d bytes at byte %llu of %zu bytes of parameters", describe_self(machine).c_str(), r.bytes(),
              static_cast<unsigned long long>(location.offset), machine.program.parameters.size());
      std::memset(value, 0xff, static_cast<std::size_t>(r.bytes()));
    }
    for (unsigned d = 0; d < r.count; ++d) put(w, i, d, k, value + d * r.element.bytes, r.element);
    if (!known.whole) [[unlikely]] {
      unknown |= 1u << k;
      for (unsigned d = 0; d < r.count; ++d) {
        put_known(w, i, d, k, known.bits + d * r.element.bytes, r.element, known.origin);
      }
    }
    after_access(machine, i);
  });
  machine.loading = nullptr;
  if (sharing != 0) note_last_read(w, i, sharing, in_shared, static_cast<unsigned>(r.bytes()));
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).defined |= active & ~unknown;
}

// The known bits of the elements that a lane stores.
Knowledge known_elements(Warp& w, const Instruction& i, const Request& r, unsigned lane) {
  Knowledge known;
  for (unsigned s = 0; s < r.count; ++s) {
    const unsigned width = i.width_of_source(s + 1);
    const std::uint64_t bits = known_bits(w, i.source(s + 1), width, lane);
    unsigned char* to = known.bits + s * r.element.bytes;
    std::memset(to, bits == ones_of(width) ? 0xff : 0, r.element.bytes);
    std::memcpy(to, &bits, std::min({width, r.element.bytes, 8u}));
    if (!are_ones(to, r.element.bytes) && known.whole) {
      known.whole = false;
      known.origin = origin_of(w, i.source(s + 1), i);
    }
  }
  return known;
}

bool moves_at(Machine& machine, SiteIndex site) {
  return std::any_of(machine.program.code.begin(), machine.program.code.end(),
                     [&](const Instruction& i) { return i.copies && i.site == site; });
}

// True if a vector store has some known elements, and all its other elements come from registers that were never
// written. Elements that are computed from undefined values do not count as padding.
bool is_padding(Machine& machine, const Instruction& i, const Request& r, const Knowledge& known) {
  const unsigned bytes = r.element.bytes;
  const auto whole = [&](unsigned s) { return are_ones(known.bits + s * bytes, bytes); };
  bool knows_one = false;
  for (unsigned s = 0; s < r.count; ++s) knows_one = knows_one || whole(s);
  return knows_one && (known.origin == i.site || moves_at(machine, known.origin));
}

void store_values(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const Request r = request_of(i, i.sources - 1);
  if (const Lanes lost = active & ~w.head(i.source(0)).defined; lost != 0) {
    report_undefined(w, i, origin_of(w, i.source(0), i), static_cast<unsigned>(__builtin_ctz(lost)));
  }
  Lanes unknown = 0;
  for (unsigned s = 1; s < i.sources; ++s) unknown |= active & ~w.head(i.source(s)).defined;
  Location locations[warp_size];
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    locations[k] = resolve(machine, r.space, address_of(w, i, 0, r.offset, k), store_name(r.space));
  });
  count(machine, i, locations, active, r.bytes(), true);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    const Location& location = locations[k];
    if (!location.good) return;
    alignas(16) unsigned char value[most_bytes];
    for (unsigned s = 0; s < r.count; ++s) {
      const unsigned width = i.width_of_source(s + 1);
      std::memcpy(value + s * r.element.bytes, value_bytes(w, i.source(s + 1), width, k), r.element.bytes);
    }
    Knowledge known;
    if (unknown >> k & 1u) [[unlikely]] known = known_elements(w, i, r, k);
    before_access(machine, i);
    if (location.space == Space::global) {
      if (!known.whole) {
        if (is_padding(machine, i, r, known)) {
          FINDING_OF_TWO(
              machine.report, undefined_register, Grade::note, i.site, SiteIndex{0},
              "%s stores a vector with elements never written on the executed path: harmless padding if never read",
              describe_self(machine).c_str());
        } else {
          report_undefined(w, i, known.origin, k);
        }
      }
      Copied elements;
      if (i.followed != nullptr) machine.copied = &(elements = copied_by(w, i, k, r.element.bytes));
      write_global(machine, reinterpret_cast<void*>(location.offset), value, r.bytes(), "st.global",
                   (i.flags & by_l2) != 0, (i.flags & block_scope) != 0);
      machine.copied = nullptr;
      if (i.flags & by_l2) {
        write_flag(machine, flag_in_global(reinterpret_cast<const void*>(location.offset)), false,
                   (i.flags & block_scope) != 0);
      }
    } else if (location.space == Space::shared) {
      const auto address = static_cast<unsigned>(location.offset);
      write_shared(machine, address, value, r.bytes(), "st.shared");
      if (!known.whole) note_unknown_shared(machine, address, r.bytes(), known.bits, known.origin);
      if (i.flags & by_l2)
        write_flag(machine, flag_in_shared(machine, address), false, (i.flags & block_scope) != 0);
    } else if (location.space == Space::local) {
      write_local(w, k, value, location.offset, r.bytes(), known);
    } else {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: st to a parameter of the kernel",
              describe_self(machine).c_str());
    }
  });
}

// ld.param of kernel parameters at a constant offset, where all lanes read the same bytes.
void load_parameter(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const Request r = request_of(i, i.destinations);
  if (r.offset < 0 || static_cast<std::size_t>(r.offset + r.bytes()) > machine.program.parameters.size()) {
    FINDING(machine.report, out_of_bounds_local, i.site, "ld.param of %d bytes at byte %lld of %zu bytes of parameters", r.bytes(),
            static_cast<long long>(r.offset), machine.program.parameters.size());
    return;
  }
  const unsigned char* value = machine.program.parameters.data() + r.offset;
  for_lanes(active, [&](unsigned k) {
    for (unsigned d = 0; d < r.count; ++d) put(w, i, d, k, value + d * r.element.bytes, r.element);
  });
}

// st.bulk: fills shared memory with zeros. Sources: address, number of bytes. Immediates: offset, state space.
void store_zeros(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  constexpr const char* name = "st.bulk";
  constexpr unsigned step = 8;
  constexpr unsigned char zeros[step] = {};
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const Location location =
        resolve(machine, static_cast<Space>(i.immediate[1]), address_of(w, i, 0, i.immediate[0], k), name);
    const std::uint64_t bytes = w.values<std::uint64_t>(i.source(1))[k];
    if (!location.good) return;
    if (location.space != Space::shared) {
      FINDING(machine.report, wrong_state_space, machine.self->site, "%s: %s takes an address of %s memory",
              describe_self(machine).c_str(), name, space_name(location.space));
      return;
    }
    if (bytes % step != 0 || location.offset % step != 0) {
      FINDING(machine.report, misaligned_access, machine.self->site,
              "%s: %s of %llu bytes: sizes and addresses must be multiples of %u", describe_self(machine).c_str(), name,
              static_cast<unsigned long long>(bytes), step);
      return;
    }
    const auto begin = static_cast<unsigned>(location.offset);
    if (bytes != 0 && (bytes >> 24 != 0 || !shared_window_holds(machine, begin, static_cast<int>(bytes)))) {
      // reports the access as out of bounds
      write_shared(machine, begin + static_cast<unsigned>(bytes) - step, zeros, step, name);
      return;
    }
    for (unsigned at = 0; at < bytes; at += step) write_shared(machine, begin + at, zeros, step, name);
  });
}

void nothing(Warp&, const Instruction&, Lanes) {}
void sleep(Warp& w, const Instruction&, Lanes) { ++w.machine->idle_polls; }

// A clock register advances at each read. A loop that waits until some time has passed therefore terminates. The
// register advances faster if all threads only poll.
void clock(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  machine.ticks += 100 + 1000 * machine.idle_polls.vain();
  for_lanes(active, [&](unsigned k) { write_bits(w, i.destination(0), i.width_of_destination(0), k, machine.ticks); });
}

constexpr std::uint32_t load_flags = read_only | by_l2 | acquire | block_scope | is_volatile,
                        store_flags = by_l2 | release | block_scope | is_volatile;

constexpr Row memory_table[] = {
    {"ld", load_values, load_flags, "*:*", Flow::plain, true, true},
    {"st", store_values, store_flags, ":**", Flow::plain, false, true},
    {"ld.yielding", load_values, load_flags, "*:*", Flow::yields, true, true},
    {"ld.parameter", load_parameter, load_flags, "*:"},
    {"st.bulk", store_zeros, 0, ":*8", Flow::plain, true},
    {"nothing", nothing, 0, "*:*"},
    {"clock", clock, 0, "*:"},
    {"nanosleep", sleep, 0, ":4", Flow::yields},
};

}  // namespace

const Rows memory_rows{std::begin(memory_table), std::end(memory_table)};

}  // namespace autosched::emulator::ptx

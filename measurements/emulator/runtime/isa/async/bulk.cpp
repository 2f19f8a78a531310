// Bulk copies without tensor maps, copies in flight that an mbarrier counts, and groups of bulk stores, which read
// shared memory: PTX ISA 9.7.9.25 to 9.7.9.27. The source of a bulk store stays in use until the issuing thread has
// waited for the group of the store.
#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "isa/async/bulk.hpp"
#include "isa/access/reduction.hpp"
#include "memory/counting.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"

#include <algorithm>

namespace autosched::emulator::ptx {

// Bulk loads in flight, and bulk stores whose source is in use.
struct BulkCopies : Unit {
  using Unit::Unit;

  // The bulk stores of a warp are numbered from 1. Store n has completed when the warp's store actor has completed
  // epoch n.
  struct Lane {
    std::vector<std::uint32_t> groups;  // index of the last store of each group
    std::uint32_t last = 0;             // index of the last store, committed or not
    std::uint32_t waited = 0;
    SiteIndex site = 0;
  };
  struct Stores {
    unsigned actor = 0;
    std::uint32_t issued = 0;
    Lane lanes[warp_size];
  };
  PerBlock<std::vector<BulkLoad>> under_way{parking};
  PerBlock<std::vector<Stores>> stores{parking};  // bulk stores of each warp
};

namespace {
using Lane = BulkCopies::Lane;
using Stores = BulkCopies::Stores;

void land(Machine& machine, std::size_t index) {
  const BulkLoad load = std::move(machine.bulk_copies.under_way[index]);
  machine.bulk_copies.under_way.erase(machine.bulk_copies.under_way.begin() + static_cast<std::ptrdiff_t>(index));
  Thread* const asking = machine.self;
  machine.self = load.thread;
  const SiteIndex site = machine.self->site;
  machine.self->site = load.site;
  Mbarrier* m = mbarrier_at(machine, load.mbarrier, "the end of a bulk copy");
  if (m != nullptr) {
    std::size_t at = 0;
    for (const BulkLoad::Piece& piece : load.pieces) {
      const unsigned char* const from = load.data.data() + at;
      if (load.reducing) {
        land_bulk_update(machine, piece.address, static_cast<int>(piece.bytes), m->actor, m->epoch(machine), load.site,
                         [&](unsigned char* to) {
                           for (std::uint32_t k = 0; k < piece.bytes; k += load.reducing->bytes)
                             reduce(to + k, from + k, *load.reducing);
                         });
      } else {
        land_bulk_write(machine, piece.address, from, static_cast<int>(piece.bytes), m->actor, m->epoch(machine), load.site);
      }
      at += piece.bytes;
    }
    if (const unsigned rank = rank_of_address(m->address); rank != machine.self->rank) {
      touch_block(machine, rank, agent_of(m->actor, whole_warp), m->epoch(machine));
    }
    complete_bytes(machine, *m, load.bytes, load.site);
  }
  machine.self->site = site;
  machine.self = asking;
}

Stores& stores_of(Warp& w) {
  Machine& machine = *w.machine;
  Stores& s = machine.bulk_copies.stores[w.index];
  if (s.actor == 0) {
    const std::string warp_text = describe(machine, agent_of(w.index, whole_warp), machine.block_index);
    s.actor = add_actor(machine, "a bulk store of " + warp_text, Kind::bulk_copy_in_flight);
  }
  return s;
}

void commit(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    machine.bulk_copies.stores[w.index].lanes[k].groups.push_back(machine.bulk_copies.stores[w.index].lanes[k].last);
  });
}

// cp.async.bulk.wait_group. Immediate: number of groups that may stay in flight. Waits with and without .read are
// handled alike.
void wait(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto pending = static_cast<std::size_t>(i.immediate[0]);
  Stores& s = machine.bulk_copies.stores[w.index];
  for_lanes(active, [&](unsigned k) {
    Lane& lane = s.lanes[k];
    if (lane.groups.size() <= pending) return;
    lane.waited = std::max(lane.waited, lane.groups[lane.groups.size() - 1 - pending]);
    if (lane.waited != 0) {
      machine.clocks.learn_alone(w.index, 1u << k, live_lanes(w),
                                 std::uint64_t{1} << 63 | std::uint64_t{s.actor} << 32 | lane.waited, Knowledge{}, s.actor,
                                 machine.clocks.first + lane.waited - 1);
    }
  });
}

bool check_size(Machine& machine, std::uint32_t bytes, std::uint64_t shared, std::uint64_t other, const char* name) {
  if (bytes % 16 == 0 && shared % 16 == 0 && other % 16 == 0) return true;
  FINDING(machine.report, misaligned_access, machine.self->site,
          "%s: %s of %u bytes: sizes and addresses must be multiples of 16",
          describe_self(machine).c_str(), name, bytes);
  return false;
}

std::uint64_t global_operand(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned lane, const char* name) {
  const Location location = resolve(*w.machine, Space::global, address_of(w, i, source, offset, lane), name);
  return location.good ? location.offset : 0;
}

void count_global(Machine& machine, SiteIndex site, const char* name, std::uint64_t address, std::uint32_t bytes) {
  for (std::uint32_t done = 0; done < bytes;) {
    std::uint64_t addresses[warp_size] = {};
    Lanes lanes = 0;
    for (unsigned k = 0; k < warp_size && done < bytes; ++k, done += 16) {
      addresses[k] = address + done;
      lanes |= 1u << k;
    }
    count_global_request(machine, site, name, 16, lanes, addresses);
  }
}

// Decodes the immediates of a reduction, from number `first` on: the operation plus 1 (0: no reduction), ElementKind,
// bytes per element.
std::optional<Reducing> reducing(const Instruction& i, unsigned first) {
  if (i.immediate[first] == 0) return std::nullopt;
  return Reducing{static_cast<Reducing::Operation>(i.immediate[first] - 1), static_cast<ElementKind>(i.immediate[first + 1]),
                  static_cast<unsigned>(i.immediate[first + 2])};
}

// Bulk copy to shared memory. Sources: destination, source, number of bytes, mbarrier, and for multicast a bit mask of
// the cluster's blocks. Immediates: offsets of destination, source and mbarrier; whether the source is in shared
// memory; whether the copy is multicast; the reduction.
void load(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const std::optional<Reducing> reduction = reducing(i, 5);
  const char* const name = reduction ? "cp.reduce.async.bulk" : "cp.async.bulk";
  const bool from_shared = i.immediate[3] != 0, multicast = i.immediate[4] != 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t to, barrier, source = 0;
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, to)) return;
    if (!shared_operand(w, i, 3, i.immediate[2], k, name, barrier)) return;
    const std::uint32_t bytes = w.values<std::uint32_t>(i.source(2))[k];
    std::uint64_t from = 0;
    if (from_shared) {
      if (!shared_operand(w, i, 1, i.immediate[1], k, name, source)) return;
    } else {
      from = global_operand(w, i, 1, i.immediate[1], k, name);
      if (from == 0) return;
    }
    if (!check_size(machine, bytes, to, from_shared ? source : from, name) || bytes == 0) return;
    if (!check_shared(machine, to, static_cast<int>(bytes), 16, name)) return;
    const Mbarrier* const counting = mbarrier_at(machine, barrier, name, true);
    if (counting == nullptr) return;
    BulkLoad load{barrier, {{to, bytes}}, std::vector<unsigned char>(bytes), bytes, machine.self, i.site, name,
                  reduction};
    if (from_shared) {
      const unsigned char* data = read_by_engine(machine, source, static_cast<int>(bytes), machine.self->agent,
                                                 counting->actor, counting->epoch(machine), name);
      if (data == nullptr) return;
      std::copy_n(data, bytes, load.data.data());
    } else {
      count_global(machine, i.site, name, from, bytes);
      read_global_bulk(machine, load.data.data(), reinterpret_cast<const void*>(from), static_cast<int>(bytes), name);
    }
    if (!multicast) return start_bulk_load(machine, std::move(load));
    for (Lanes left = blocks_of_multicast(w, i, 4, k, name); left != 0; left &= left - 1) {
      const auto block = static_cast<unsigned>(__builtin_ctz(left));
      BulkLoad one = load;
      one.mbarrier = address_in_block(barrier, block);
      one.pieces[0].address = address_in_block(to, block);
      if (!check_shared(machine, one.pieces[0].address, static_cast<int>(bytes), 16, name)) return;
      if (mbarrier_at(machine, one.mbarrier, name, true) == nullptr) return;
      start_bulk_load(machine, std::move(one));
    }
  });
}

// st.async and red.async. Sources: destination (shared memory), mbarrier, values. Immediates: offsets of destination
// and mbarrier, bytes per value, the reduction.
void store_registers(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const std::optional<Reducing> reduction = reducing(i, 3);
  const char* const name = i.row->name;
  const auto each = static_cast<std::uint32_t>(i.immediate[2]), bytes = each * (i.sources - 2);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t to, barrier;
    if (!machine.launch.clustered) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s: %s in a launch without clusters is an illegal instruction on an H100: add __cluster_dims__(1, 1, 1)",
              describe_self(machine).c_str(), name);
      return;
    }
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, to)) return;
    if (!shared_operand(w, i, 1, i.immediate[1], k, name, barrier)) return;
    if (rank_of_address(to) != rank_of_address(barrier)) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s: %s and its mbarrier are in shared memory of different blocks", describe_self(machine).c_str(), name);
    }
    if (!check_shared(machine, to, static_cast<int>(bytes), static_cast<int>(bytes), name)) return;
    if (mbarrier_at(machine, barrier, name, rank_of_address(barrier) != machine.self->rank) == nullptr) return;
    BulkLoad load{barrier, {{to, bytes}}, std::vector<unsigned char>(bytes), bytes, machine.self, i.site, nullptr,
                  reduction};
    for (unsigned s = 2; s < i.sources; ++s) {
      std::memcpy(load.data.data() + (s - 2) * each, value_bytes(w, i.source(s), i.width_of_source(s), k), each);
    }
    start_bulk_load(machine, std::move(load));
  });
}

// Writes the bytes of `data` that a 16-bit mask selects. The mask applies to each 16 consecutive bytes.
void write_masked(Machine& machine, std::uint64_t to, const unsigned char* data, std::uint32_t bytes, std::uint32_t mask,
                  const char* name) {
  for (std::uint32_t at = 0; at < bytes;) {
    std::uint32_t end = at;
    while (end < bytes && (mask >> end % 16 & 1u) != 0) ++end;
    if (end != at) write_global_bulk(machine, reinterpret_cast<void*>(to + at), data + at, static_cast<int>(end - at), name);
    at = end + 1;
  }
}

// Bulk store to global memory. Sources: destination, source (shared memory), number of bytes, and optionally a byte
// mask. Immediates: offsets of destination and source, the reduction.
void store(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const std::optional<Reducing> reduction = reducing(i, 2);
  const char* name = reduction ? "cp.reduce.async.bulk" : "cp.async.bulk";
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t from;
    const std::uint64_t to = global_operand(w, i, 0, i.immediate[0], k, name);
    if (to == 0 || !shared_operand(w, i, 1, i.immediate[1], k, name, from)) return;
    const std::uint32_t bytes = w.values<std::uint32_t>(i.source(2))[k];
    if (!check_size(machine, bytes, from, to, name) || bytes == 0) return;
    const StoreReader reader = start_bulk_store(w, k, i.site);
    const unsigned char* data = read_by_engine(machine, from, static_cast<int>(bytes), machine.self->agent,
                                               reader.actor, reader.epoch, name);
    if (data == nullptr) return;
    count_global(machine, i.site, name, to, bytes);
    if (reduction) {
      reduce_global(machine, to, data, bytes, *reduction, name);
    } else if (i.sources > 3) {
      write_masked(machine, to, data, bytes,
                   static_cast<std::uint32_t>(read_bits(w, i.source(3), i.width_of_source(3), k)) & 0xffffu, name);
    } else {
      write_global_bulk(machine, reinterpret_cast<void*>(to), data, static_cast<int>(bytes), name);
    }
  });
}

constexpr Row bulk_table[] = {
    {"bulk.load", load, 0, ":**4**", Flow::plain, true},
    {"bulk.reduce", load, 0, ":**4*", Flow::plain, true},
    {"bulk.store", store, 0, ":**4*", Flow::plain, true},
    {"st.async", store_registers, 0, ":****", Flow::plain, true},
    {"red.async", store_registers, 0, ":***", Flow::plain, true},
    {"bulk.commit_group", commit, 0, ":"},
    {"bulk.wait_group", wait, 0, ":"},
};

}  // namespace

Lanes blocks_of_multicast(Warp& w, const Instruction& i, unsigned source, unsigned lane, const char* name) {
  Machine& machine = *w.machine;
  const auto blocks = static_cast<std::uint32_t>(read_bits(w, i.source(source), i.width_of_source(source), lane)) & 0xffffu;
  if (blocks != 0 && blocks >> cluster_blocks(machine) == 0) return blocks;
  FINDING(machine.report, invalid_argument, machine.self->site,
          "%s: %s to blocks (bit mask %#x) that do not exist in a cluster of %u, or to none",
          describe_self(machine).c_str(), name, blocks, cluster_blocks(machine));
  return 0;
}

const Rows bulk_rows{std::begin(bulk_table), std::end(bulk_table)};

StoreReader start_bulk_store(Warp& w, unsigned lane, SiteIndex site) {
  Machine& machine = *w.machine;
  Stores& s = stores_of(w);
  s.lanes[lane].last = ++s.issued;
  s.lanes[lane].site = site;
  machine.clocks.now[s.actor] = machine.clocks.first + s.issued;
  return {s.actor, machine.clocks.first + s.issued - 1};
}

void start_bulk_load(Machine& machine, BulkLoad load) {
  for (const BulkLoad::Piece& piece : load.pieces) {
    const auto start = load.reducing ? start_bulk_update : start_bulk_write;
    start(machine, piece.address, static_cast<int>(piece.bytes), load.async_proxy);
  }
  precede_phase(machine, load.mbarrier);
  machine.bulk_copies.under_way.push_back(std::move(load));
  machine.idle_polls = 0;
}

// Without a seed, the copies that this mbarrier counts complete in the order of issue. With a seed, copies complete in
// random order, and only some copies complete at each poll.
void land_some(Machine& machine, std::uint32_t address) {
  if (!seeded(machine)) {
    for (std::size_t k = 0; k < machine.bulk_copies.under_way.size();) {
      if (machine.bulk_copies.under_way[k].mbarrier == address) {
        land(machine, k);
      } else {
        ++k;
      }
    }
    return;
  }
  if (!machine.bulk_copies.under_way.empty() && random_below(machine, 2) != 0) {
    std::vector<std::size_t> wanted;
    for (std::size_t k = 0; k < machine.bulk_copies.under_way.size(); ++k) {
      if (machine.bulk_copies.under_way[k].mbarrier == address) wanted.push_back(k);
    }
    if (!wanted.empty()) land(machine, wanted[random_below(machine, static_cast<unsigned>(wanted.size()))]);
  }
  if (!machine.bulk_copies.under_way.empty() && random_below(machine, 4) == 0)
    land(machine, random_below(machine, static_cast<unsigned>(machine.bulk_copies.under_way.size())));
}

void start_block_bulk(Machine& machine) {
  machine.bulk_copies.under_way.clear();
  machine.bulk_copies.stores.assign(machine.warp_count, Stores{});
}

void end_block_bulk(Machine& machine) {
  for (const BulkLoad& load : machine.bulk_copies.under_way) {
    FINDING(machine.report, bulk_copy_in_flight, load.site,
            "a bulk copy of %s has not completed when its block ends: wait for its mbarrier",
            describe(machine, load.thread->agent, machine.block_index).c_str());
  }
  machine.bulk_copies.under_way.clear();
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    for (unsigned k = 0; k < warp_size; ++k) {
      const Lane& lane = machine.bulk_copies.stores[w].lanes[k];
      if (lane.last == 0 || lane.waited >= lane.last) continue;
      FINDING(machine.report, bulk_copy_in_flight, lane.site,
              "%s exits while its bulk store may still read shared memory: add cp.async.bulk.commit_group and wait_group",
              describe(machine, agent_of(w, k), machine.block_index).c_str());
    }
  }
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::BulkCopies);

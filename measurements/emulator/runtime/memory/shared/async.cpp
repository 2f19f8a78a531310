// Accesses of the async proxy to shared memory on behalf of a thread (bulk copies, wgmma, mbarriers), and accesses to
// shared memory of other blocks of the cluster.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "machine/part.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "memory/shared/shadow.hpp"

namespace autosched::emulator {

using namespace shared_shadow;

// Accesses to shared memory of other blocks, and reductions in flight.
struct EngineUses : Unit {
  using Unit::Unit;

  // The last access at one source line, by a thread or a bulk copy, to the shared memory of another block.
  struct RemoteUse {
    unsigned rank;
    Agent agent;
    Epoch epoch;
    SiteIndex site;
  };
  // the key consists of rank, agent and site
  PerBlock<std::unordered_map<std::uint64_t, RemoteUse>> remote_uses{parking};
  // number of reductions in flight, by byte
  PerBlock<std::unordered_map<unsigned, unsigned>> updates_under_way{parking};
};

namespace {
using RemoteUse = EngineUses::RemoteUse;
}  // namespace

namespace {

bool check_bulk_write(Machine& machine, unsigned position, int bytes, const char* async_proxy) {
  return async_proxy != nullptr ? check_async_write(machine, position, bytes, machine.self->agent, async_proxy)
                                : check_write(machine, position, bytes, machine.self->agent);
}

}  // namespace

void shared_shadow::forget_remote_uses(Machine& machine) {
  machine.engine_uses.remote_uses.clear();
  machine.engine_uses.updates_under_way.clear();
}

bool check_shared(Machine& machine, unsigned address, int bytes, int alignment, const char* instruction) {
  if (find(machine, address, bytes, false) == no_position) {
    report_out_of_bounds(machine, address, bytes, instruction);
    return false;
  }
  check_alignment(machine, address, alignment, instruction);
  return true;
}

void start_bulk_write(Machine& machine, unsigned address, int bytes, const char* async_proxy) {
  machine.shared_uses.has_engines = true;
  const unsigned position = find(machine, address, bytes, false);
  if (!machine.launch.check || position == no_position) return;
  check_bulk_write(machine, position, bytes, async_proxy);
  std::fill_n(machine.shared_uses.pending + position, bytes, Pending{InFlight::bulk_copy, machine.self->agent, machine.self->site});
}

void start_bulk_update(Machine& machine, unsigned address, int bytes, const char* async_proxy) {
  machine.shared_uses.has_engines = true;
  const unsigned position = find(machine, address, bytes, false);
  if (!machine.launch.check || position == no_position) return;
  for (unsigned a = position; a < position + static_cast<unsigned>(bytes); ++a) {
    if (machine.engine_uses.updates_under_way[a]++ != 0)
      // reductions that are in flight to the same byte do not race with each other
      machine.shared_uses.pending[a] = Pending{};
  }
  const bool good = check_bulk_write(machine, position, bytes, async_proxy) &&
                    check_under_atomics(machine, position, bytes, machine.self->agent);
  if (good) check_taken(machine, position, bytes, machine.self->agent);
  std::fill_n(machine.shared_uses.pending + position, bytes, Pending{InFlight::bulk_copy, machine.self->agent, machine.self->site});
}

void land_bulk_write(Machine& machine, unsigned address, const unsigned char* data, int bytes, unsigned actor, Epoch epoch,
                     SiteIndex site) {
  const unsigned position = find(machine, address, bytes, false);
  if (position == no_position) return;
  std::memcpy(bytes_at(machine, position), data, static_cast<std::size_t>(bytes));
  if (!machine.launch.check) return;
  std::fill_n(machine.shared_uses.pending + position, bytes, Pending{});
  std::fill_n(machine.shared_uses.last_write + position, bytes, Stamp{epoch, agent_of(actor, whole_warp), site});
  std::fill_n(machine.shared_uses.readers + position, bytes, 0u);
  std::fill_n(machine.shared_uses.together + position, bytes, 0u);
}

void land_bulk_update(Machine& machine, unsigned address, int bytes, unsigned actor, Epoch epoch, SiteIndex site,
                      const std::function<void(unsigned char*)>& update) {
  const unsigned position = find(machine, address, bytes, false);
  if (position == no_position) return;
  update(bytes_at(machine, position));
  if (!machine.launch.check) return;
  mark_updated(machine, position, bytes, {epoch, agent_of(actor, whole_warp), site});
  for (unsigned a = position; a < position + static_cast<unsigned>(bytes); ++a) {
    if (--machine.engine_uses.updates_under_way[a] == 0) machine.shared_uses.pending[a] = Pending{};
  }
}

const unsigned char* read_by_engine(Machine& machine, unsigned address, int bytes, Agent me, unsigned actor,
                                    Epoch epoch, const char* instruction) {
  const unsigned position = find(machine, address, bytes, false);
  if (position == no_position) {
    report_out_of_bounds(machine, address, bytes, instruction);
    return nullptr;
  }
  // The asynchronous engine reads the memory of another block. That block must not exit before the read has completed.
  // It is sufficient to observe the engine's completion before the exit, for example by tcgen05.commit.
  if (const unsigned rank = rank_of_address(cluster_address(machine, address)); rank != machine.self->rank) {
    touch_block(machine, rank, agent_of(actor, whole_warp), epoch);
  }
  const unsigned char* from = bytes_at(machine, position);
  if (!machine.launch.check) return from;
  Stamp checked{};  // the last stamp that was checked; initially none
  for (unsigned a = position; a < position + static_cast<unsigned>(bytes); ++a) {
    if (machine.shared_uses.pending[a].kind != InFlight::nothing) {
      report_pending(machine, a, me, "reads", false);
      break;
    }
    const Stamp& write = machine.shared_uses.last_write[a];
    if (write.epoch != 0 && write.epoch == checked.epoch && write.agent == checked.agent && write.site == checked.site) continue;
    checked = write;
    if (write.epoch < machine.clocks.first) {
      FINDING(machine.report, uninitialized_shared_read, machine.self->site, "%s: %s reads %s, which has not been written",
              describe_agent(machine, me).c_str(), instruction, describe_position(machine, a).c_str());
      break;
    }
    if (!machine.clocks.ordered(write.agent, write.epoch, me)) {
      report_race(machine, a, me, "reads", write, "wrote");
      break;
    }
    if (!by_engine(machine, write.agent) && !machine.clocks.proxied(write.agent, write.epoch, me)) {
      FINDING(machine.report, missing_proxy_fence, machine.self->site,
              "%s: %s reads %s, which %s wrote at %s: no fence.proxy.async is in between",
              describe_agent(machine, me).c_str(), instruction, describe_position(machine, a).c_str(),
              describe_agent(machine, write.agent).c_str(), emulator::describe_site(machine.report, write.site).c_str());
      break;
    }
  }
  std::fill_n(reads_of(machine, actor) + position, bytes, Stamp{epoch, agent_of(actor, whole_warp), machine.self->site});
  for (int i = 0; i < bytes; ++i) machine.shared_uses.readers[position + static_cast<unsigned>(i)] |= 1u << actor % 32;
  return from;
}

void place_mbarrier(Machine& machine, unsigned address, bool present) {
  machine.shared_uses.has_engines = true;
  const unsigned position = find(machine, address, 8);
  if (position != no_position)
    std::fill_n(machine.shared_uses.pending + position, 8,
                present ? Pending{InFlight::mbarrier, machine.self->agent, machine.self->site} : Pending{});
}

bool check_mbarrier_visible(Machine& machine, unsigned address, const char* instruction, bool to_engine) {
  const unsigned position = find(machine, address, 8, false);
  if (!machine.launch.check || position == no_position) return true;
  const Stamp& write = machine.shared_uses.last_write[position];
  if (!machine.clocks.ordered(write.agent, write.epoch, machine.self->agent)) {
    FINDING(machine.report, mbarrier_misuse, machine.self->site,
            "%s: %s uses the mbarrier at %s, which %s initializes at %s: no barrier is in between",
            describe_self(machine).c_str(), instruction, describe_position(machine, position).c_str(),
            describe_agent(machine, write.agent).c_str(), emulator::describe_site(machine.report, write.site).c_str());
    return false;
  }
  return !to_engine || machine.clocks.proxied(write.agent, write.epoch, machine.self->agent);
}

void touch_block(Machine& machine, unsigned rank, Agent agent, Epoch epoch) {
  const std::uint64_t key = std::uint64_t{rank} << 32 | std::uint64_t{agent} << 16 | machine.self->site;
  auto& use = machine.engine_uses.remote_uses.try_emplace(key, RemoteUse{rank, agent, epoch, machine.self->site}).first->second;
  use.epoch = std::max(use.epoch, epoch);
}

void check_exits(Machine& machine) {
  if (!machine.launch.check) return;
  for (const auto& [key, use] : machine.engine_uses.remote_uses) {
    bool known = false;
    for (unsigned w = use.rank * block_warps(machine); w < (use.rank + 1) * block_warps(machine) && !known; ++w) {
      known = machine.clocks.any_knows(use.agent, use.epoch, w);
    }
    if (known) continue;
    FINDING(machine.report, block_exited, use.site,
            "%s uses shared memory of block %u of its cluster, which may have exited: nothing orders the access "
            "before the exit",
            describe_agent(machine, use.agent).c_str(), use.rank);
  }
}

}  // namespace autosched::emulator

AUTOSCHED_PART(EngineUses);

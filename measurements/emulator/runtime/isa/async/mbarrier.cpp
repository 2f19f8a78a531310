// mbarrier instructions: PTX ISA 9.7.13.15. A phase ends when all its expected arrivals have happened and all its
// expected bytes have arrived. A thread that observes the end of a phase is ordered after the arrivals, and after
// everything that happened before them.
#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "isa/counts.hpp"
#include "isa/program.hpp"
#include "isa/sync/cluster.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "memory/tensor_memory.hpp"
#include "isa/async/mbarrier.hpp"

#include <cstdio>
#include <unordered_map>

namespace autosched::emulator::ptx {

// The mbarriers of the running blocks.
struct Mbarriers : Unit {
  using Unit::Unit;

  PerBlock<std::unordered_map<std::uint32_t, Mbarrier>> by_address{parking};
};

namespace {

constexpr std::int64_t most_arrivals = (1 << 20) - 1, most_bytes = (1 << 20) - 1;

// A thread that waits for a phase must observe the end of this phase before the next phase ends: a parity only
// distinguishes two phases, and a state is only valid for the current and the previous phase. A thread that polls later
// may wait forever. To exclude this in every order of events, at least one arrival or copy of the next phase must be
// ordered after the wait. Lanes of one warp are checked separately, because they may diverge until they synchronise.
void check_waiters(Machine& machine, Mbarrier& m) {
  for (const PhaseSeen& seen : m.seen) {
    Lanes late = 0;
    for_lanes(seen.lanes, [&](unsigned k) {
      const Agent thread = agent_of(seen.warp, k);
      const bool is_ordered =
          m.joining.earlier.holds(thread, seen.epoch) || m.released.earlier.holds(thread, seen.epoch);
      late |= static_cast<Lanes>(!is_ordered) << k;
    });
    if (late == 0) continue;
    const Agent late_thread = agent_of(seen.warp, static_cast<unsigned>(__builtin_ctz(late)));
    char phase[32] = "the initialization";
    if (m.phase != 0) std::snprintf(phase, sizeof phase, "the end of phase %u", m.phase - 1);
    FINDING(machine.report, mbarrier_misuse, seen.site,
            "%s waits for %s of the mbarrier at %s, and phase %u may end before this thread observes it: no "
            "arrival or copy of phase "
            "%u is ordered after the wait%s",
            describe(machine, late_thread, machine.block_index).c_str(), phase,
            describe_shared(machine, m.address).c_str(), m.phase, m.phase, late != seen.lanes ?
                    " (one is ordered after the wait of other lanes of the warp: __syncwarp() may be missing)" : "");
  }
}

void note_seen(Mbarrier& m, unsigned warp, Lanes lanes, Epoch epoch, SiteIndex site) {
  for (PhaseSeen& before : m.seen) {
    if (before.warp == warp) before.lanes &= ~lanes;
  }
  std::erase_if(m.seen, [](const PhaseSeen& before) { return before.lanes == 0; });
  m.seen.push_back({warp, lanes, epoch, site});
}

void finish_phase(Machine& machine, Mbarrier& m) {
  if (m.left != 0 || m.bytes != 0) return;
  if (machine.launch.check) check_waiters(machine, m);
  m.seen.clear();
  ++m.phase;
  m.left = m.arrivals;
  m.released.join(m.joining);
  m.joining.clear();
  machine.clocks.now[m.actor] = m.epoch(machine);
}

void expect_bytes(Machine& machine, Mbarrier& m, std::int64_t bytes, const char* instruction) {
  m.bytes += bytes;
  if (m.bytes > most_bytes || m.bytes < -most_bytes) {
    FINDING(machine.report, mbarrier_misuse, machine.self->site,
            "%s: %s makes the mbarrier at %s expect %lld bytes, more than its maximum of %lld", describe_self(machine).c_str(),
            instruction, describe_shared(machine, m.address).c_str(), static_cast<long long>(m.bytes),
            static_cast<long long>(most_bytes));
  }
}

// Counts `count` arrivals, and reports a finding if the phase expects fewer.
bool arrive(Machine& machine, Mbarrier& m, std::int64_t count, const char* instruction) {
  if (count < 1 || count > m.left) {
    FINDING(machine.report, mbarrier_misuse, machine.self->site,
            "%s: %s adds %lld arrivals to the mbarrier at %s, but its phase %u expects only %lld more of %u arrivals%s",
            describe_self(machine).c_str(), instruction, static_cast<long long>(count), describe_shared(machine, m.address).c_str(),
            m.phase, static_cast<long long>(m.left), m.arrivals,
            m.left == 0 ? " and for bytes that have not arrived" : "");
    m.left = 0;
  } else {
    m.left -= count;
  }
  return true;
}

// Sources: address, count.
void init(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t address;
    if (!shared_operand(w, i, 0, i.immediate[0], k, "mbarrier.init", address)) return;
    if (!check_shared(machine, address, 8, 8, "mbarrier.init")) return;
    const std::int64_t count = w.values<std::uint32_t>(i.source(1))[k];
    if (count < 1 || count > most_arrivals) {
      FINDING(machine.report, invalid_argument, machine.self->site, "%s: mbarrier.init with %lld arrivals, which must be 1 to %lld",
              describe_self(machine).c_str(), static_cast<long long>(count), static_cast<long long>(most_arrivals));
    }
    const auto known = machine.mbarriers.by_address.find(address);
    if (known != machine.mbarriers.by_address.end()) {
      FINDING(machine.report, mbarrier_misuse, machine.self->site,
              "%s initializes the mbarrier at %s again: it was initialized at %s, and mbarrier.inval must come in between",
              describe_self(machine).c_str(), describe_shared(machine, address).c_str(),
              describe_site(machine.report, known->second.site).c_str());
      place_mbarrier(machine, address, false);
    }
    constexpr std::uint64_t bits = 0x6d62617272696572u;  // the kernel must not interpret the object
    write_shared(machine, address, &bits, 8, "mbarrier.init");
    place_mbarrier(machine, address, true);
    Mbarrier m;
    m.address = address;
    m.arrivals = static_cast<std::uint32_t>(count);
    m.left = count;
    m.initializer = machine.self->linear;
    m.site = machine.self->site;
    m.actor = add_actor(machine, "a bulk copy that the mbarrier at " + describe_shared(machine, address) + " counts",
                        Kind::async_read_before_wait);
    m.awaited.assign(machine.threads.size(), 0);
    machine.mbarriers.by_address[address] = std::move(m);
  });
}

void invalidate(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t address;
    if (!shared_operand(w, i, 0, i.immediate[0], k, "mbarrier.inval", address)) return;
    if (mbarrier_at(machine, address, "mbarrier.inval") == nullptr) return;
    place_mbarrier(machine, address, false);
    machine.mbarriers.by_address.erase(address);
  });
}

enum Arrival { plain, expecting, no_complete };
constexpr const char* arrival_names[2][3] = {
    {"mbarrier.arrive", "mbarrier.arrive.expect_tx", "mbarrier.arrive.noComplete"},
    {"mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx", "mbarrier.arrive_drop.noComplete"}};

// A state, which mbarrier.arrive returns, contains the phase in its low bits and the number of pending arrivals in its
// high bits (for mbarrier.pending_count).
constexpr unsigned pending_shift = 32;

// Sources: address, and a count or a number of bytes. Immediates: offset, Arrival, whether source 1 exists, whether the
// instruction is arrive_drop, which also reduces the expected arrivals of later phases.
void arrive_on(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto arrival = static_cast<Arrival>(i.immediate[1]);
  const bool drops = i.immediate[3] != 0;
  const char* name = arrival_names[drops][arrival];
  std::uint32_t addresses[warp_size];
  Mbarrier* objects[warp_size] = {};
  Lanes good = 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, addresses[k])) return;
    objects[k] = mbarrier_at(machine, addresses[k], name);
    if (objects[k] == nullptr) return;
    good |= 1u << k;
    if (const unsigned rank = rank_of_address(addresses[k]); rank != machine.self->rank) {
      touch_block(machine, rank, machine.self->agent, machine.clocks.now[machine.self->warp]);
    }
  });
  const bool whole = active == live_lanes(w);
  for (Lanes left = good; left != 0;) {
    Mbarrier& m = *objects[__builtin_ctz(left)];
    Lanes together = 0;
    for_lanes(left, [&](unsigned k) { together |= static_cast<Lanes>(objects[k] == &m) << k; });
    left &= ~together;
    // All lanes publish their clocks before the first of their arrivals is counted, because any arrival may end the
    // phase.
    if (!(i.flags & by_l2)) {
      machine.clocks.publish(w.index, together, whole && together == active, m.joining);
    } else {
      machine.clocks.precede(w.index, together, whole && together == active, m.joining.earlier);
    }
    for_lanes(together, [&](unsigned k) {
      run_as(w, k);
      const std::int64_t number = i.immediate[2] != 0 ? w.values<std::uint32_t>(i.source(1))[k] : 1;
      const std::int64_t count = arrival == expecting ? 1 : number;
      if (i.destinations != 0) {
        w.values<std::uint64_t>(i.destination(0))[k] = m.phase | static_cast<std::uint64_t>(m.left) << pending_shift;
      }
      if (arrival == expecting) expect_bytes(machine, m, number, name);
      if (drops) m.arrivals -= static_cast<std::uint32_t>(count);
      if (arrival == no_complete && count >= m.left) {
        FINDING(machine.report, mbarrier_misuse, machine.self->site,
                "%s: %s completes phase %u of the mbarrier at %s, which is undefined behavior", describe_self(machine).c_str(),
                name, m.phase, describe_shared(machine, m.address).c_str());
      }
      arrive(machine, m, count, name);
      if (arrival != no_complete) finish_phase(machine, m);
    });
  }
  machine.idle_polls = 0;
}

// mbarrier.complete_tx and mbarrier.expect_tx. Sources: address, number of bytes. Immediate 1: whether the bytes have
// arrived (complete_tx).
void change_bytes(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const char* name = i.immediate[1] != 0 ? "mbarrier.complete_tx" : "mbarrier.expect_tx";
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t address;
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, address)) return;
    Mbarrier* m = mbarrier_at(machine, address, name);
    if (m == nullptr) return;
    const std::int64_t bytes = w.values<std::uint32_t>(i.source(1))[k];
    expect_bytes(machine, *m, i.immediate[1] != 0 ? -bytes : bytes, name);
    if (i.immediate[1] == 0) return;
    machine.clocks.precede(w.index, 1u << k, false, m->joining.earlier);
    finish_phase(machine, *m);
  });
  machine.idle_polls = 0;
}

// Sources: address, parity or state. Immediates: offset, whether source 1 is a parity, whether the instruction is
// try_wait.
void test_wait(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const char* name = i.immediate[2] != 0 ? "mbarrier.try_wait" : "mbarrier.test_wait";
  Lanes ended = 0, observers = 0;
  Mbarrier* objects[warp_size] = {};
  bool anyone_waits = false;
  // With a seed, a first poll after the end of the phase may fail, as if it had happened just before the end. Lanes
  // that poll together get the same result: with separate results, a loop that ends only when all lanes succeed in the
  // same poll would hardly ever end.
  const bool asks_early = seeded(machine) && random_below(machine, 2) != 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t address;
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, address)) return;
    Mbarrier* m = mbarrier_at(machine, address, name);
    if (m == nullptr) {  // after a finding, the wait succeeds, so that the thread's loop ends
      ended |= 1u << k;
      return;
    }
    if (rank_of_address(address) != machine.self->rank) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s: %s on an mbarrier of another block of the cluster: only local mbarriers can be waited for",
              describe_self(machine).c_str(), name);
    }
    std::uint64_t operand = read_bits(w, i.source(1), i.width_of_source(1), k);
    if (i.immediate[1] == 0) operand &= (std::uint64_t{1} << pending_shift) - 1;
    std::uint32_t& awaited = m->awaited[machine.self->linear];
    bool done = i.immediate[1] != 0 ? (m->phase & 1u) != (operand & 1u) : m->phase > operand;
    if (i.immediate[1] != 0 && operand > 1) {
      FINDING(machine.report, invalid_argument, machine.self->site, "%s: %s with the parity %llu, which must be 0 or 1",
              describe_self(machine).c_str(), name, static_cast<unsigned long long>(operand));
    }
    if (awaited != 0 && i.immediate[1] != 0 && m->phase >= awaited + 1) {
      FINDING(machine.report, mbarrier_misuse, machine.self->site,
              "%s missed the end of phase %u of the mbarrier at %s, which is already in phase %u: the parity is ambiguous",
              describe_self(machine).c_str(), awaited - 1, describe_shared(machine, address).c_str(), m->phase);
    }
    if (i.immediate[1] == 0 && m->phase > operand + 1) {
      FINDING(machine.report, mbarrier_misuse, machine.self->site,
              "%s: %s with the state of phase %llu of the mbarrier at %s, which is already in phase %u: a state is valid for the "
              "current and the previous phase",
              describe_self(machine).c_str(), name, static_cast<unsigned long long>(operand),
              describe_shared(machine, address).c_str(), m->phase);
    }
    if (done && awaited == 0 && asks_early) done = false;
    if (done) {
      awaited = 0;
      machine.self->polls = false;
      ended |= 1u << k;
      objects[k] = m;
      observers |= 1u << k;
      machine.idle_polls = 0;
      if (machine.launch.count) note_phase_seen(w, m->address);
    } else {
      if (awaited == 0) awaited = m->phase + 1;
      machine.self->polls = true;
      anyone_waits = true;
      land_some(machine, address);
    }
  });
  while (observers != 0) {
    Mbarrier& m = *objects[__builtin_ctz(observers)];
    Lanes together = 0;
    for_lanes(observers, [&](unsigned k) { together |= static_cast<Lanes>(objects[k] == &m) << k; });
    observers &= ~together;
    note_seen(m, w.index, together, machine.clocks.now[w.index], i.site);
    const std::uint64_t event = std::uint64_t{m.address} << 32 | m.epoch(machine);
    if (i.flags & by_l2) {
      machine.clocks.learn_alone(w.index, together, live_lanes(w), event | event_of_time, {{}, {}, m.released.earlier}, w.index, 0);
    } else {
      machine.clocks.learn_alone(w.index, together, live_lanes(w), event, m.released, m.actor, m.epoch(machine) - 1);
    }
  }
  if (anyone_waits && ended == 0) ++machine.idle_polls;
  Register& d = w.head(i.destination(0));
  d.bits = (d.bits & ~active) | ended;
  d.defined |= active;
}

// Sources: state.
void pending_count(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    w.values<std::uint32_t>(i.destination(0))[k] =
        static_cast<std::uint32_t>(w.values<std::uint64_t>(i.source(0))[k] >> pending_shift);
  });
}

// cp.async.mbarrier.arrive: an arrival once the earlier cp.async copies of the thread have completed. The emulator
// completes them immediately. Immediate 1: .noinc.
void copies_arrive(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t address;
    if (!shared_operand(w, i, 0, i.immediate[0], k, "cp.async.mbarrier.arrive", address)) return;
    Mbarrier* m = mbarrier_at(machine, address, "cp.async.mbarrier.arrive");
    if (m == nullptr) return;
    commit_copies(machine);
    wait_copies(machine, 0);
    machine.clocks.publish(w.index, 1u << k, false, m->joining);
    if (i.immediate[1] != 0) {
      arrive(machine, *m, 1, "cp.async.mbarrier.arrive.noinc");
      finish_phase(machine, *m);
    }
  });
  machine.idle_polls = 0;
}

void fence_init(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    fence_initializations(machine);
  });
  note_fence(w, active);
}

void fence_proxy(Warp& w, const Instruction& i, Lanes active) {
  w.machine->clocks.fence_proxy(w.index, active, active == live_lanes(w));
  fence_init(w, i, active);
}

// Flags that mbarrier instructions support. .relaxed sets by_l2: the arrival or wait then does not order memory
// accesses.
constexpr std::uint32_t orders = by_l2 | acquire | release | block_scope;

constexpr Row mbarrier_table[] = {
    {"mbarrier.init", init, 0, ":*4", Flow::plain, true},
    {"mbarrier.inval", invalidate, 0, ":*", Flow::plain, true},
    {"mbarrier.arrive", arrive_on, orders, "*:**", Flow::plain, true},
    {"mbarrier.tx", change_bytes, orders, ":*4", Flow::plain, true},
    {"mbarrier.wait", test_wait, orders, "0:**", Flow::polls, true, true},
    {"mbarrier.pending_count", pending_count, 0, "4:8", Flow::plain, true},
    {"cp.async.mbarrier.arrive", copies_arrive, 0, ":*", Flow::plain, true},
    {"fence.mbarrier_init", fence_init, 0, ":"},
    {"fence.proxy.async", fence_proxy, 0, ":"},
};

}  // namespace

const Rows mbarrier_rows{std::begin(mbarrier_table), std::end(mbarrier_table)};

bool shared_operand(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned lane,
                    const char* instruction, std::uint32_t& address) {
  Machine& machine = *w.machine;
  const std::uint64_t a = address_of(w, i, source, offset, lane);
  // Instructions without .shared take generic addresses.
  const Location location = is_generic_of(shared_base, a) ? Location{Space::shared, offset_in(shared_base, a)}
                                                          : resolve(machine, Space::shared, a, instruction);
  address = location.good ? cluster_address(machine, static_cast<std::uint32_t>(location.offset)) : 0;
  return location.good;
}

Mbarrier* mbarrier_at(Machine& machine, std::uint32_t address, const char* instruction, bool to_engine) {
  const auto entry = machine.mbarriers.by_address.find(address);
  if (entry == machine.mbarriers.by_address.end()) {
    FINDING(machine.report, mbarrier_misuse, machine.self->site, "%s: %s at %s, where no mbarrier has been initialized",
            describe_self(machine).c_str(), instruction, describe_shared(machine, address).c_str());
    return nullptr;
  }
  Mbarrier& m = entry->second;
  // The PTX ISA requires a fence. But if the mbarrier is in the same block, the emulator accepts a barrier instead,
  // because Triton's kernels have no fence.
  const bool fenced = m.fenced || rank_of_address(address) == machine.self->rank;
  if (!check_mbarrier_visible(machine, address, instruction, to_engine) && to_engine && !fenced) {
    FINDING_OF_TWO(
        machine.report, missing_mbarrier_fence, machine.grade_of_missing_fences, machine.self->site, m.site,
        "%s: %s uses the mbarrier at %s, but its initialization at %s is not visible to bulk copies: add fence.mbarrier_init or fence.proxy.async",
        describe_self(machine).c_str(), instruction, describe_shared(machine, address).c_str(),
        describe_site(machine.report, m.site).c_str());
    m.fenced = true;
  }
  return &m;
}

void precede_phase(Machine& machine, std::uint32_t address) {
  const auto entry = machine.mbarriers.by_address.find(address);
  if (entry == machine.mbarriers.by_address.end()) return;
  machine.clocks.precede(machine.self->warp, 1u << machine.self->lane, false, entry->second.joining.earlier);
}

void complete_bytes(Machine& machine, Mbarrier& m, std::int64_t bytes, SiteIndex site) {
  m.bytes -= bytes;
  if (m.bytes < -most_bytes) {
    FINDING(machine.report, mbarrier_misuse, site, "the mbarrier at %s has received %lld bytes more than it expects",
            describe_shared(machine, m.address).c_str(), static_cast<long long>(-m.bytes));
  }
  finish_phase(machine, m);
}

void arrive_behind(Machine& machine, Mbarrier& m, unsigned warp, unsigned lane, unsigned actor, Epoch epoch,
                   const char* instruction) {
  m.joining.join(machine.clocks.known[warp]);
  for (const Alone& a : machine.clocks.alone[warp]) {
    if ((a.lanes >> lane & 1u) != 0) m.joining.join(a.knowledge);
  }
  if (actor != 0) {
    auto& up_to = m.joining.seen.up_to;
    if (up_to.size() <= actor) up_to.resize(actor + 1, 0);
    up_to[actor] = std::max(up_to[actor], epoch);
  }
  machine.clocks.precede(warp, 1u << lane, false, m.joining.earlier);
  arrive(machine, m, 1, instruction);
  finish_phase(machine, m);
}

void fence_initializations(Machine& machine) {
  for (auto& [address, m] : machine.mbarriers.by_address) {
    if (m.initializer == machine.self->linear) m.fenced = true;
  }
}

void start_block_mbarriers(Machine& machine) { machine.mbarriers.by_address.clear(); }

void report_waiting_for_mbarriers(Machine& machine) {
  for (const auto& [address, m] : machine.mbarriers.by_address) {
    for (const Thread& t : machine.threads) {
      if (t.state == State::exited || !t.polls || m.awaited[t.linear] == 0) continue;
      if (!count_finding(machine.report, Kind::barrier_not_reached, t.site)) continue;
      write_finding(
          machine.report, Kind::barrier_not_reached, t.site,
          "%s waits forever for the end of phase %u of the mbarrier at %s: in phase %u, %lld of %u arrivals and "
          "%lld bytes are missing%s",
          describe(machine, t.agent, machine.block_index).c_str(), m.awaited[t.linear] - 1,
          describe_shared(machine, address).c_str(), m.phase, static_cast<long long>(m.left), m.arrivals,
          static_cast<long long>(m.bytes), m.bytes < 0 ? " (more bytes arrived than were expected)" : "");
    }
  }
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Mbarriers);

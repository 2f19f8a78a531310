// Clusters: mapa, getctarank, barrier.cluster (PTX ISA 9.7.13.4), and register reallocation between warps by setmaxnreg
// (9.7.19.5).
#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "isa/program.hpp"
#include "isa/sync/cluster.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {

// The barrier of the running cluster, and the register allocation of its warps.
struct Cluster : Unit {
  using Unit::Unit;

  struct ClusterBarrier {
    std::vector<unsigned> arrived;  // by warp: number of arrivals
    std::vector<unsigned> waited;
    std::vector<Knowledge> joining;  // knowledge of the arriving warps, by phase modulo 2
    SiteIndex site = 0;
  };
  struct Pool {
    unsigned free = 0;
  };
  PerBlock<ClusterBarrier> barrier{parking};
  // by warp: the events ordered by its last fence, which a relaxed arrival at the cluster's barrier publishes
  PerBlock<std::vector<Knowledge>> fenced{parking};
  PerBlock<std::vector<Pool>> pools{parking};                // free registers, by block
  PerBlock<std::vector<unsigned>> registers_of{parking};     // registers per thread, by warp
  // by warp: the site at which the warp waits for registers; 0: it does not wait
  PerBlock<std::vector<SiteIndex>> waiting_at{parking};
};

namespace {
using ClusterBarrier = Cluster::ClusterBarrier;
using Pool = Cluster::Pool;

constexpr unsigned registers_of_sm = 65536, most_registers = 256;

// Maximum registers of a block. The blocks that must fit on an SM (.minnctapersm) share the SM's registers.
unsigned registers_of_block(Machine& machine) { return registers_of_sm / machine.program.blocks_of_sm; }

bool is_live(Machine& machine, unsigned w) {
  for (unsigned lane = 0; lane < machine.warp_lanes[w]; ++lane) {
    if (machine.threads[w * warp_size + lane].state != State::exited) return true;
  }
  return false;
}

// barrier.cluster.arrive. Immediate 1: whether it is .relaxed.
void arrive(Warp& w, const Instruction& i, Lanes lanes) {
  Machine& machine = *w.machine;
  run_as(w, static_cast<unsigned>(__builtin_ctz(lanes)));
  machine.self->site = i.site;
  if (machine.cluster.barrier.arrived[w.index] != machine.cluster.barrier.waited[w.index]) {
    FINDING(machine.report, invalid_argument, i.site, "%s arrives twice at the barrier of its cluster without waiting",
            describe_self(machine).c_str());
    return;
  }
  if (i.immediate[1] == 0) {
    machine.clocks.advance(w.index);
    machine.cluster.barrier.joining[machine.cluster.barrier.arrived[w.index] % 2].join(machine.clocks.known[w.index]);
  } else {
    Knowledge& joining = machine.cluster.barrier.joining[machine.cluster.barrier.arrived[w.index] % 2];
    joining.join(machine.cluster.fenced[w.index]);
    machine.clocks.precede(w.index, lanes, true, joining.earlier);
  }
  ++machine.cluster.barrier.arrived[w.index];
  machine.cluster.barrier.site = i.site;
  machine.idle_polls = 0;
}

void wait(Warp& w, const Instruction& i, Lanes lanes) {
  Machine& machine = *w.machine;
  run_as(w, static_cast<unsigned>(__builtin_ctz(lanes)));
  machine.self->site = i.site;
  const unsigned phase = machine.cluster.barrier.waited[w.index];
  if (machine.cluster.barrier.arrived[w.index] == phase) {
    FINDING(machine.report, invalid_argument, i.site, "%s waits at the barrier of its cluster without having arrived",
            describe_self(machine).c_str());
    return;
  }
  for (unsigned v = 0; v < machine.warp_count; ++v) {
    if (machine.cluster.barrier.arrived[v] > phase || !is_live(machine, v)) continue;
    w.retry = true;
    ++machine.idle_polls;
    return;
  }
  machine.clocks.known[w.index].join(machine.cluster.barrier.joining[phase % 2]);
  ++machine.cluster.barrier.waited[w.index];
  // When all warps have left this phase, its entry is cleared, because the phase after the next one uses the same
  // entry.
  bool all = true;
  for (unsigned v = 0; v < machine.warp_count; ++v)
    all = all && (machine.cluster.barrier.waited[v] > phase || !is_live(machine, v));
  if (all) machine.cluster.barrier.joining[phase % 2].clear();
  machine.idle_polls = 0;
}

// mapa. Sources: address, rank. Immediate 0: whether the address is generic.
void map_address(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    const std::uint32_t rank = w.values<std::uint32_t>(i.source(1))[k];
    if (rank >= cluster_blocks(machine)) {
      FINDING(machine.report, invalid_argument, i.site, "%s: mapa selects block %u, but the cluster has only %u blocks",
              describe_self(machine).c_str(), rank, cluster_blocks(machine));
    }
    const std::uint64_t base = i.immediate[0] != 0 ? shared_base : 0;
    if (base != 0 && !is_generic_of(base, a)) {
      FINDING(machine.report, wrong_state_space, i.site, "%s: the operand of mapa is not a generic address of shared memory",
              describe_self(machine).c_str());
    }
    a = base + address_in_block(static_cast<std::uint32_t>(offset_in(base, a)), rank);
    write_bits(w, i.destination(0), i.width_of_destination(0), k, a);
  });
}

void rank_of_operand(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    if (is_generic_of(shared_base, a)) a = offset_in(shared_base, a);
    w.values<std::uint32_t>(i.destination(0))[k] = rank_of_address(cluster_address(*w.machine, static_cast<std::uint32_t>(a)));
  });
}

// setmaxnreg. Immediate 1: registers per thread; immediate 2: whether it is .inc.
void set_registers(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  const auto wanted = static_cast<unsigned>(i.immediate[1]);
  const bool more = i.immediate[2] != 0;
  run_as(w, 0);
  machine.self->site = i.site;
  if (wanted < 24 || wanted > 256 || wanted % 8 != 0) {
    FINDING(machine.report, invalid_argument, i.site,
            "setmaxnreg of %u registers: the number must be a multiple of 8 from 24 to 256",
            wanted);
    return;
  }
  Pool& pool = machine.cluster.pools[w.index / block_warps(machine)];
  unsigned& mine = machine.cluster.registers_of[w.index];
  // Without launch bounds, the emulator does not know how many registers the compiler has assigned, so it checks
  // nothing.
  if (mine != most_registers && (more ? wanted < mine : wanted > mine)) {
    FINDING(machine.report, invalid_argument, i.site, "setmaxnreg.%s to %u registers: the warp has %u",
            more ? "inc" : "dec", wanted, mine);
    return;
  }
  const unsigned lanes = warp_size;
  if (more && wanted > mine && (wanted - mine) * lanes > pool.free) {
    machine.cluster.waiting_at[w.index] = i.site;
    w.retry = true;
    ++machine.idle_polls;
    return;
  }
  machine.cluster.waiting_at[w.index] = 0;
  pool.free = pool.free + mine * lanes - wanted * lanes;
  mine = wanted;
  machine.idle_polls = 0;
}

constexpr Row cluster_table[] = {
    {"barrier.cluster.arrive", arrive, 0, ":", Flow::collective, false, true},
    {"barrier.cluster.wait", wait, 0, ":", Flow::collective, false, true},
    {"mapa", map_address, 0, "*:*4", Flow::plain, true},
    {"getctarank", rank_of_operand, 0, "4:*", Flow::plain, true},
    {"setmaxnreg", set_registers, 0, ":", Flow::collective, false, true},
};

}  // namespace

const Rows cluster_rows{std::begin(cluster_table), std::end(cluster_table)};

void note_fence(Warp& w, Lanes lanes) {
  Machine& machine = *w.machine;
  if (cluster_blocks(machine) == 1) return;
  machine.clocks.publish(w.index, lanes, lanes == live_lanes(w), machine.cluster.fenced[w.index]);
}

void start_block_cluster(Machine& machine) {
  machine.cluster.barrier = ClusterBarrier{};
  machine.cluster.barrier.arrived.assign(machine.warp_count, 0);
  machine.cluster.barrier.waited.assign(machine.warp_count, 0);
  machine.cluster.barrier.joining.assign(2, Knowledge{});
  machine.cluster.fenced.assign(machine.warp_count, Knowledge{});
  // Upper limit of a thread's initial number of registers; the compiler chooses the actual number.
  const unsigned first = std::min(registers_of_block(machine) / (block_warps(machine) * warp_size) / 8 * 8, most_registers);
  machine.cluster.pools.assign(cluster_blocks(machine),
                               Pool{registers_of_block(machine) - first * block_warps(machine) * warp_size});
  machine.cluster.registers_of.assign(machine.warp_count, first);
  machine.cluster.waiting_at.assign(machine.warp_count, 0);
}

void report_waiting_for_cluster(Machine& machine) {
  std::string missing;
  unsigned phase = ~0u;
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    if (machine.cluster.barrier.arrived[w] != machine.cluster.barrier.waited[w])
      phase = std::min(phase, machine.cluster.barrier.waited[w]);
  }
  for (unsigned w = 0; w < machine.warp_count && phase != ~0u; ++w) {
    if (machine.cluster.barrier.arrived[w] > phase || !is_live(machine, w)) continue;
    FINDING(machine.report, barrier_not_reached, machine.cluster.barrier.site,
            "the barrier of the cluster waits for %s, which never arrives (it is at %s)",
            describe(machine, agent_of(w, whole_warp), machine.block_index).c_str(),
            describe_site(machine.report, machine.threads[w * warp_size].site).c_str());
  }
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    if (machine.cluster.waiting_at[w] == 0) continue;
    FINDING(machine.report, barrier_not_reached, machine.cluster.waiting_at[w],
            "%s waits for registers, but only %u of the block's %u are free: setmaxnreg requests too many",
            describe(machine, agent_of(w, whole_warp), machine.block_index).c_str(),
            machine.cluster.pools[w / block_warps(machine)].free, registers_of_block(machine));
  }
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Cluster);

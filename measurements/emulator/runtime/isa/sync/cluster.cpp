// Clusters: mapa, getctarank, barrier.cluster (PTX ISA 9.7.13.4), and what the blocks of a chip share out: the registers
// of setmaxnreg (9.7.19.5).
#include "isa/warps.hpp"
#include "isa/program.hpp"
#include "isa/sync/cluster.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {
namespace {

constexpr unsigned registers_of_sm = 65536, most_registers = 256;

// What a block may have at most: as many blocks as its kernel demands (.minnctapersm) share the registers of an SM.
unsigned registers_of_block() { return registers_of_sm / program.blocks_of_sm; }

struct ClusterBarrier {
  std::vector<unsigned> arrived;  // by warp: how many times
  std::vector<unsigned> waited;
  std::vector<Knowledge> joining;  // by phase modulo 2
  SiteIndex site = 0;
};
PerBlock<ClusterBarrier> barrier;

PerBlock<std::vector<Knowledge>> fenced;  // by warp: what its last fence for the cluster published

struct Pool {
  unsigned free = 0;
};
PerBlock<std::vector<Pool>> pools;                // by block
PerBlock<std::vector<unsigned>> registers_of;     // by warp, of a thread
PerBlock<std::vector<SiteIndex>> asks;            // by warp: where it waits for registers

bool is_live(unsigned w) {
  for (unsigned lane = 0; lane < warp_lanes[w]; ++lane) {
    if (threads[w * warp_size + lane].state != State::exited) return true;
  }
  return false;
}

// immediate 1: .relaxed.
void arrive(Warp& w, const Instruction& i, Lanes lanes) {
  run_as(w, static_cast<unsigned>(__builtin_ctz(lanes)));
  self->site = i.site;
  if (barrier.arrived[w.index] != barrier.waited[w.index]) {
    FINDING(invalid_argument, i.site, "%s arrives twice at the barrier of its cluster without waiting", describe_self().c_str());
    return;
  }
  if (i.immediate[1] == 0) {
    clocks.advance(w.index);
    barrier.joining[barrier.arrived[w.index] % 2].join(clocks.known[w.index]);
  } else {
    barrier.joining[barrier.arrived[w.index] % 2].join(fenced[w.index]);
  }
  ++barrier.arrived[w.index];
  barrier.site = i.site;
  idle_polls = 0;
}

void wait(Warp& w, const Instruction& i, Lanes lanes) {
  run_as(w, static_cast<unsigned>(__builtin_ctz(lanes)));
  self->site = i.site;
  const unsigned phase = barrier.waited[w.index];
  if (barrier.arrived[w.index] == phase) {
    FINDING(invalid_argument, i.site, "%s waits at the barrier of its cluster without having arrived", describe_self().c_str());
    return;
  }
  for (unsigned v = 0; v < warp_count; ++v) {
    if (barrier.arrived[v] > phase || !is_live(v)) continue;
    w.retry = true;
    ++idle_polls;
    return;
  }
  clocks.known[w.index].join(barrier.joining[phase % 2]);
  ++barrier.waited[w.index];
  // The phase after the next one begins when all have left this one.
  bool all = true;
  for (unsigned v = 0; v < warp_count; ++v) all = all && (barrier.waited[v] > phase || !is_live(v));
  if (all) barrier.joining[phase % 2].clear();
  idle_polls = 0;
}

// Sources: address, rank. immediate 0: generic.
void map_address(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    self->site = i.site;
    std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    const std::uint32_t rank = w.values<std::uint32_t>(i.source(1))[k];
    if (rank >= cluster_blocks()) {
      FINDING(invalid_argument, i.site, "%s: mapa names block %u of a cluster of %u", describe_self().c_str(), rank, cluster_blocks());
    }
    const std::uint64_t window = i.immediate[0] != 0 ? shared_base : 0;
    if (i.immediate[0] != 0 && (a & window_mask) != shared_base) {
      FINDING(wrong_state_space, i.site, "%s: mapa takes no generic address of shared memory", describe_self().c_str());
    }
    a = address_in_block(static_cast<std::uint32_t>(a), rank) | window;
    write_bits(w, i.destination(0), i.width_of_destination(0), k, a);
  });
}

void rank_of_operand(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    const std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    w.values<std::uint32_t>(i.destination(0))[k] = rank_of_address(cluster_address(static_cast<std::uint32_t>(a)));
  });
}

// immediate 1: registers of a thread; 2: inc.
void set_registers(Warp& w, const Instruction& i, Lanes) {
  const auto wanted = static_cast<unsigned>(i.immediate[1]);
  const bool more = i.immediate[2] != 0;
  run_as(w, 0);
  self->site = i.site;
  if (wanted < 24 || wanted > 256 || wanted % 8 != 0) {
    FINDING(invalid_argument, i.site, "setmaxnreg of %u registers: they are a multiple of 8 from 24 to 256", wanted);
    return;
  }
  Pool& pool = pools[w.index / block_warps()];
  unsigned& mine = registers_of[w.index];
  // Where the compiler was free, nobody here knows what it chose.
  if (mine != most_registers && (more ? wanted < mine : wanted > mine)) {
    FINDING(invalid_argument, i.site, "setmaxnreg.%s to %u registers by a warp that has %u", more ? "inc" : "dec", wanted, mine);
    return;
  }
  const unsigned lanes = warp_size;
  if (more && wanted > mine && (wanted - mine) * lanes > pool.free) {
    asks[w.index] = i.site;
    w.retry = true;
    ++idle_polls;
    return;
  }
  asks[w.index] = 0;
  pool.free = pool.free + mine * lanes - wanted * lanes;
  mine = wanted;
  idle_polls = 0;
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
  if (cluster_blocks() == 1) return;
  clocks.publish(w.index, lanes, lanes == live_lanes(w), fenced[w.index]);
}

void start_block_cluster() {
  barrier = ClusterBarrier{};
  barrier.arrived.assign(warp_count, 0);
  barrier.waited.assign(warp_count, 0);
  barrier.joining.assign(2, Knowledge{});
  fenced.assign(warp_count, Knowledge{});
  // What a thread has at first is the compiler's choice; at most this.
  const unsigned first = std::min(registers_of_block() / (block_warps() * warp_size) / 8 * 8, most_registers);
  pools.assign(cluster_blocks(), Pool{registers_of_block() - first * block_warps() * warp_size});
  registers_of.assign(warp_count, first);
  asks.assign(warp_count, 0);
}

void report_waiting_for_cluster() {
  std::string missing;
  unsigned phase = ~0u;
  for (unsigned w = 0; w < warp_count; ++w) {
    if (barrier.arrived[w] != barrier.waited[w]) phase = std::min(phase, barrier.waited[w]);
  }
  for (unsigned w = 0; w < warp_count && phase != ~0u; ++w) {
    if (barrier.arrived[w] > phase || !is_live(w)) continue;
    FINDING(barrier_not_reached, barrier.site, "the barrier of the cluster waits for %s, which never comes (it is at %s)",
            describe(who_of(w, whole_warp), block_index).c_str(), place(threads[w * warp_size].site).c_str());
  }
  for (unsigned w = 0; w < warp_count; ++w) {
    if (asks[w] == 0) continue;
    FINDING(barrier_not_reached, asks[w], "%s waits for registers, and its block has only %u of %u to spare: setmaxnreg asks for too many",
            describe(who_of(w, whole_warp), block_index).c_str(), pools[w / block_warps()].free, registers_of_block());
  }
}

}  // namespace autosched::emulator::ptx

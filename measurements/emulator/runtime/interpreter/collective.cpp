// Collectives, at which lanes of a warp wait for each other, and barriers, at which warps of a block wait for each
// other.
#include <algorithm>

#include "machine/part.hpp"
#include "isa/values/dropped.hpp"
#include "interpreter/interpreter.hpp"
#include "isa/values/undefined.hpp"
#include "isa/sync/barrier.hpp"

namespace autosched::emulator::ptx {

// Partial results of the reductions that bar.red computes at barriers.
struct Collectives : Unit {
  using Unit::Unit;

  // Partial result of bar.red at one barrier.
  struct BarrierReduction {
    bool all = true, any = false;
    std::uint32_t count = 0;
    SiteIndex unknown = 0;  // source of a predicate that is undefined in some thread; 0: none

    bool is_known(std::int64_t operation) const { return unknown == 0 || (operation == 2 && !all) || (operation == 3 && any); }
  };
  PerBlock<std::vector<BarrierReduction>> reductions{parking};  // 16 barriers per block
};

namespace {
using BarrierReduction = Collectives::BarrierReduction;

}  // namespace

void start_block_collectives(Machine& machine) {
  machine.collectives.reductions.assign(std::size_t{16} * cluster_blocks(machine), {});
}

void gather(Warp& w, const Instruction& i, std::uint32_t pc, Lanes arriving) {
  Machine& machine = *w.machine;
  const bool whole = i.row->flow == Flow::barrier || i.immediate[0] != 0;
  for_lanes(arriving, [&](unsigned k) {
    Thread& t = w.thread[k];
    t.state = State::gathering;
    t.site = i.site;
    t.collective = &i.row->collective;
    t.mask = whole ? 0 : w.values<std::uint32_t>(i.source(0))[k];
    if (!whole && (t.mask >> k & 1u) == 0) {
      run_as(w, k);
      machine.self->site = i.site;
      FINDING(machine.report, invalid_argument, i.site, "%s executes %s with the mask %#010x, which does not include its own lane",
              describe_self(machine).c_str(), i.row->name, t.mask);
      t.mask |= 1u << k;
    }
    w.waiting[k] = &i;
    w.pc[k] = pc;
  });
  if (i.effect != 0) note_effect(w, i, arriving);
}

namespace {

// The waiting lanes that participate in the same collective or barrier as `lane`.
Lanes companions(const Warp& w, unsigned lane) {
  const Instruction& i = *w.waiting[lane];
  const bool same_place = w.thread[lane].mask == 0 && (i.row->flow == Flow::collective || i.immediate[4] != 0);
  Lanes lanes = 0;
  for (unsigned k = 0; k < w.machine->warp_lanes[w.index]; ++k) {
    const Thread& t = w.thread[k];
    if (t.state != State::gathering || t.mask != w.thread[lane].mask) continue;
    const Instruction& other = *w.waiting[k];
    if (other.row != i.row || other.flags != i.flags || (same_place && &other != &i)) continue;
    // "The same qualifiers" (PTX ISA, shfl.sync): shfl.down does not match shfl.up.
    if (i.row->flow == Flow::collective && i.immediates > 1 && other.immediate[1] != i.immediate[1]) continue;
    lanes |= 1u << k;
  }
  return lanes;
}

BarrierReduction& reduction(const Warp& w, int id) {
  Machine& machine = *w.machine;
  return machine.collectives.reductions[w.index / block_warps(machine) * 16 + static_cast<unsigned>(id)];
}

void arrive_together(Warp& w, const Instruction& i, Lanes lanes);
// Delivers the result of bar.red to the warps in `completed`. They waited at barrier `id` of the block of `w`.
void give_results(const Warp& w, int id, const std::vector<unsigned>& completed);

}  // namespace

bool complete_collectives(Warp& w) {
  Machine& machine = *w.machine;
  bool any = false;
  for (unsigned k = 0; k < machine.warp_lanes[w.index]; ++k) {
    if (w.thread[k].state != State::gathering) continue;
    const Instruction& i = *w.waiting[k];
    const Lanes arrived = companions(w, k), live = live_lanes(w);
    // Warp-wide instructions such as mma.sync need all 32 lanes. Barriers only need the lanes that have not exited.
    const bool is_barrier = i.row->flow == Flow::barrier;
    const Lanes needed = w.thread[k].mask != 0 ? w.thread[k].mask & live : is_barrier ? live : all_lanes;
    if ((needed & ~arrived) != 0) continue;
    any = true;
    for_lanes(arrived, [&](unsigned l) {
      w.thread[l].state = State::runnable;
      ++w.pc[l];
    });
    run_as(w, k);
    machine.self->site = i.site;
    machine.clocks.meet(w.index, arrived, live);
    if (is_barrier) {
      arrive_together(w, i, arrived);
    } else if (i.own) {
      if (i.strict) {
        for_lanes(arrived, [&](unsigned l) {
          const Instruction& own = *w.waiting[l];
          for (unsigned s = 0; s < own.sources; ++s) {
            if ((w.head(own.source(s)).defined >> l & 1u) == 0) report_undefined_sources(w, own, 1u << l);
          }
        });
      }
      i.execute(w, i, arrived);
      if (w.retry) {
        for_lanes(arrived, [&](unsigned l) { --w.pc[l]; });
        return true;
      }
    } else {
      execute(w, i, arrived);
    }
  }
  return any;
}

namespace {

// A warp arrives at a barrier of the block. Sources: id, thread count, predicate. Immediate 0: whether the warp waits;
// 1: whether there is a thread count; 2: reduction (0 none, 1 popc, 2 and, 3 or); 3: whether the predicate is negated;
// 4: whether the instruction is .aligned.
void arrive_together(Warp& w, const Instruction& i, Lanes lanes) {
  Machine& machine = *w.machine;
  const auto first = static_cast<unsigned>(__builtin_ctz(lanes));
  const auto value = [&](unsigned source, unsigned lane) {
    return static_cast<int>(w.values<std::uint32_t>(w.waiting[lane]->source(source))[lane]);
  };
  const bool counted = i.immediate[1] != 0;
  const int id = value(0, first), count = counted ? value(1, first) : all_threads;
  bool differ = false;
  for_lanes(lanes, [&](unsigned k) { differ = differ || value(0, k) != id || (counted && value(1, k) != count); });
  if (differ) {
    FINDING(machine.report, invalid_argument, i.site, "lanes of warp %u name different barriers or thread counts", w.index);
    return;
  }
  if (i.immediate[2] != 0 && id >= 0 && id < 16) {
    BarrierReduction& r = reduction(w, id);
    for_lanes(lanes, [&](unsigned k) {
      const Instruction& own = *w.waiting[k];
      const Register& predicate = w.head(own.source(own.sources - 1));
      if ((predicate.defined >> k & 1u) == 0) {
        if (r.unknown == 0) r.unknown = origin_of(w, own.source(own.sources - 1), own);
        return;
      }
      const bool x = (predicate.bits >> k & 1u) != (own.immediate[3] != 0);
      r.all = r.all && x;
      r.any = r.any || x;
      r.count += x;
    });
  }
  std::vector<unsigned> completed;
  if (arrive_at_barrier(machine, w.index, id, count, i.immediate[0] != 0, completed) && !completed.empty()) {
    give_results(w, id, completed);
  }
}

void give_results(const Warp& w, int id, const std::vector<unsigned>& completed) {
  const BarrierReduction result = reduction(w, id);
  reduction(w, id) = {};
  for (const unsigned v : completed) {
    Warp& other = w.machine->warps.all[v];
    for_lanes(live_lanes(other), [&](unsigned k) {
      const Instruction& own = *other.waiting[k];
      if (own.destinations == 0) return;
      Register& d = other.head(own.destination(0));
      d.defined |= 1u << k;
      if (own.immediate[2] == 1) {
        other.values<std::uint32_t>(own.destination(0))[k] = result.count;
      } else {
        const bool y = own.immediate[2] == 2 ? result.all : result.any;
        d.bits = (d.bits & ~(1u << k)) | static_cast<Lanes>(y) << k;
      }
      if (!result.is_known(own.immediate[2]))
        undefine(other, own.destination(0), own.width_of_destination(0), 1u << k, result.unknown);
    });
  }
}

}  // namespace

void exit_lanes(Warp& w) {
  Machine& machine = *w.machine;
  if (live_lanes(w) != 0) return;
  machine.idle_polls = 0;
  for (const auto& [id, completed] : leave_barriers(machine, w.index)) give_results(w, id, completed);
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Collectives);

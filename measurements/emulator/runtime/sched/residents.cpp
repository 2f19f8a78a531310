// Schedules blocks (or clusters). Blocks run one after another. If all threads of a block poll unchanged memory, the
// block is suspended and continues later, after other blocks have run. As on a GPU, the number of resident blocks is
// limited, and another block starts when a resident block ends. With launch.interleaved, resident blocks alternate:
// each runs up to its next memory access.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "machine/part.hpp"
#include "isa/matrix/tcgen05.hpp"
#include "isa/sync/cluster.hpp"
#include "interpreter/interpreter.hpp"
#include "isa/program.hpp"
#include "memory/global/buffers.hpp"
#include "memory/shared/memory.hpp"
#include "sched/scheduler.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator {

// The resident blocks, which have started and not ended.
struct Residents {
  unsigned slots = 1;                // number of slots; the state of the running block is not in its slot
  unsigned running = 0;              // slot of the running block
  std::vector<unsigned> waiting;     // slots of suspended blocks, the longest suspended first
  std::vector<unsigned> free_slots;  // slots of blocks that have ended
  Epoch next = 1;                    // the first unused epoch

  unsigned count() const { return static_cast<unsigned>(waiting.size()) + 1; }
};

namespace {

constexpr std::size_t most_bytes = std::size_t{6} << 30;  // maximum size of the state of all resident blocks
constexpr unsigned most_interleaved = 16;
// With a random seed: the maximum number of steps of a block before another block runs. In half of the cases, this is
// one step.
constexpr unsigned longest_turn = 32;

void exchange(Machine& machine, unsigned slot) {
  for (ParkedBase* p : machine.parking.all) p->swap_with(slot);
}

// Saves the running block to its slot, and loads the block of another slot.
void change_to(Machine& machine, unsigned slot) {
  machine.residents.next = std::max(machine.residents.next, machine.clocks.end());
  machine.self = nullptr;
  exchange(machine, machine.residents.running);
  exchange(machine, slot);
  machine.residents.running = slot;
}

void resume(Machine& machine, unsigned slot) {
  change_to(machine, slot);
  machine.clocks.resume(machine.residents.next);
  begin_stretch(machine, machine.residents.next, machine.block_index);
  machine.idle_polls.begin_turn();
}

void start(Machine& machine, unsigned block) {
  machine.residents.next = std::max(machine.residents.next, machine.clocks.end());
  machine.block_index = block;
  begin_stretch(machine, machine.residents.next, block);
  start_blocks(machine, machine.residents.next);
  machine.idle_polls.begin_turn();
}

void make_threads(Machine& machine) {
  machine.threads.resize(cluster_blocks(machine) == 1 ? machine.launch.threads : machine.warp_count * warp_size);
}

// Suspends the running block, and starts another block in a free slot, or in a new slot if none is free.
void start_beside(Machine& machine, unsigned block) {
  machine.residents.waiting.push_back(machine.residents.running);
  if (machine.residents.free_slots.empty()) {
    change_to(machine, machine.residents.slots++);
    make_threads(machine);
    allot_shared(machine);
    ptx::start(machine);
  } else {
    const unsigned slot = machine.residents.free_slots.back();
    machine.residents.free_slots.pop_back();
    change_to(machine, slot);
  }
  start(machine, block);
}

unsigned take_waiting(Machine& machine) {
  auto& waiting = machine.residents.waiting;
  const auto chosen = waiting.begin() + (seeded(machine) ? random_below(machine, static_cast<unsigned>(waiting.size())) : 0);
  const unsigned slot = *chosen;
  waiting.erase(chosen);
  return slot;
}

// Reports a finding for each line at which threads of the running blocks wait forever. `at_barriers`: also reports
// threads that are at a barrier, as they may be in a waiting loop with barriers.
bool report_spinning(Machine& machine, unsigned begun, unsigned all, bool at_barriers) {
  bool any = false;
  for (const Thread& t : machine.threads) {
    if (!t.spins || t.state == State::exited || (t.state != State::runnable && !at_barriers)) continue;
    any = true;
    if (!count_finding(machine.report, Kind::deadlock, t.spin_site)) continue;
    const std::string where = locate_global(machine, reinterpret_cast<const void*>(t.spin_address));
    char unstarted_text[128] = "";
    if (begun < all) {
      std::snprintf(unstarted_text, sizeof unstarted_text,
              ", and %u blocks cannot start before one of the %u resident blocks ends", all - begun,
                    machine.residents.count());
    }
    write_finding(machine.report, Kind::deadlock, t.spin_site, "%s waits here forever%s%s%s",
                  describe(machine, t.agent, machine.block_index).c_str(), where.empty() ? "" : ": nothing changes ",
                  where.c_str(), unstarted_text);
  }
  return any;
}

// Reports for all resident blocks why they cannot continue. ``in_vain``: threads poll in loops that may contain
// barriers.
void report_endless(Machine& machine, unsigned begun, unsigned all, bool in_vain) {
  auto& waiting = machine.residents.waiting;
  for (;;) {
    const bool spinning = report_spinning(machine, begun, all, false) ||
                          (in_vain && report_spinning(machine, begun, all, true));
    if (!spinning) report_deadlock(machine);
    ptx::report_waiting_for_cluster(machine);
    ptx::report_waiting_for_tensor_memory(machine);
    ptx::report_waiting_for_mbarriers(machine);
    if (waiting.empty()) return;
    resume(machine, waiting.back());
    waiting.pop_back();
  }
}

std::size_t bytes_of_residents(Machine& machine) {
  return (std::size_t{machine.program.register_bytes} + warp_size * sizeof(Thread)) * machine.warp_count +
         shared_books_bytes(machine);
}

// Returns the maximum number of resident blocks. Ends the process if a cooperative launch has more blocks.
unsigned most_residents(Machine& machine, unsigned units) {
  const std::size_t fit = std::max<std::size_t>(most_bytes / std::max<std::size_t>(bytes_of_residents(machine), 1), 1);
  if (machine.launch.cooperative && units > fit) {
    std::fprintf(stderr,
            "lacking: the emulator has memory for %zu resident blocks, but the cooperative launch has %u\n",
            fit, units);
    std::exit(5);
  }
  if (machine.launch.cooperative) return units;
  return static_cast<unsigned>(std::min<std::size_t>(
      fit, machine.launch.interleaved ? std::min(machine.launch.resident, most_interleaved) : machine.launch.resident));
}

bool run_launch(Machine& machine, unsigned first, unsigned units) {
  const unsigned most = most_residents(machine, units);
  auto& waiting = machine.residents.waiting;
  Units& left = machine.units;
  left = {first, 0, units};
  unsigned steps = 0;
  start(machine, left.take());
  machine.launch.began = machine.clocks.first;
  // True if another block may start. This changes with each turn, because running blocks may cancel blocks that have
  // not started.
  const auto may_start = [&] { return left.left() && machine.residents.count() < most; };
  for (;;) {
    const Turn turn = machine.launch.interleaved ? run_step(machine) : run_blocks(machine, may_start() || !waiting.empty());
    if (turn == Turn::ended) {
      ptx::end_block(machine);
      end_block_shared(machine);
      machine.residents.next = std::max(machine.residents.next, machine.clocks.end());
      if (!waiting.empty() && !(machine.launch.interleaved && left.left())) {
        machine.residents.free_slots.push_back(machine.residents.running);
        resume(machine, take_waiting(machine));
      } else if (left.left()) {
        start(machine, left.take());
      } else {
        return true;
      }
    } else if (turn == Turn::stuck || (!may_start() && wait_in_vain(machine, machine.residents.count()))) {
      report_endless(machine, left.begun, units, turn != Turn::stuck || machine.idle_polls.met());
      return false;
    } else if (machine.launch.interleaved && steps > 0) {
      --steps;
    } else if (may_start()) {
      start_beside(machine, left.take());
    } else if (!waiting.empty()) {
      const unsigned next = take_waiting(machine);
      waiting.push_back(machine.residents.running);
      resume(machine, next);
      steps = seeded(machine) && random_below(machine, 2) != 0 ? random_below(machine, longest_turn) : 0;
    }
  }
}

}  // namespace

bool run_grid(Machine& machine) {
  make_threads(machine);
  if (cluster_blocks(machine) > 1) choose_clusters(machine);
  const unsigned units = machine.launch.blocks.empty()
                             ? machine.grid_size.x * machine.grid_size.y * machine.grid_size.z / cluster_blocks(machine)
                             : static_cast<unsigned>(machine.launch.blocks.size());
  for (unsigned n = 0; n < machine.launch.calls * machine.launch.launches; ++n) {
    if (n > 0 && n % machine.launch.launches == 0) {
      check_after_call(machine);
      begin_call(machine);
    }
    if (!run_launch(machine, n * units, units)) return false;
  }
  return true;
}

}  // namespace autosched::emulator

AUTOSCHED_PART(Residents);

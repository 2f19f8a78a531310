// Which blocks (or clusters) run when. They run one after another, unless they wait: a block whose threads all ask memory
// again and again, and get the answers that they know, lets others run and goes on later. As on a GPU, so many blocks
// may have begun; others begin when one of these ends. Where blocks take turns, each runs up to its next access of memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "isa/matrix/tcgen05.hpp"
#include "isa/sync/cluster.hpp"
#include "interpreter/interpreter.hpp"
#include "isa/program.hpp"
#include "memory/global/buffers.hpp"
#include "memory/shared/memory.hpp"
#include "sched/scheduler.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator {
namespace {

constexpr std::size_t most_bytes = std::size_t{6} << 30;  // of what resident blocks have for themselves
constexpr unsigned most_interleaved = 16;
constexpr unsigned longest_turn = 32;  // steps, with a seed; half of the turns are of one

struct Residents {
  unsigned slots = 1;                // that have been made; what runs is in none of them, but has one
  unsigned running = 0;              // its slot
  std::vector<unsigned> waiting;     // slots, those first that have waited longest
  std::vector<unsigned> free_slots;  // of blocks that have ended
  Epoch next = 1;                    // epochs before this are taken

  unsigned count() const { return static_cast<unsigned>(waiting.size()) + 1; }
};
Residents residents;

void exchange(unsigned slot) {
  for (ParkedBase* p : ParkedBase::all()) p->swap_with(slot);
}

// Leaves what runs in its slot and takes what lies in another one.
void change_to(unsigned slot) {
  residents.next = std::max(residents.next, clocks.end());
  self = nullptr;
  exchange(residents.running);
  exchange(slot);
  residents.running = slot;
}

void resume(unsigned slot) {
  change_to(slot);
  clocks.resume(residents.next);
  begin_stretch(residents.next, block_index);
  idle_polls.begin_turn();
}

void start(unsigned block) {
  residents.next = std::max(residents.next, clocks.end());
  block_index = block;
  begin_stretch(residents.next, block);
  start_blocks(residents.next);
  idle_polls.begin_turn();
}

void make_threads() { threads.resize(cluster_blocks() == 1 ? launch.threads : warp_count * warp_size); }

// In a slot that is free, or new.
void start_beside(unsigned block) {
  residents.waiting.push_back(residents.running);
  if (residents.free_slots.empty()) {
    change_to(residents.slots++);
    make_threads();
    allot_shared();
    ptx::start();
  } else {
    const unsigned slot = residents.free_slots.back();
    residents.free_slots.pop_back();
    change_to(slot);
  }
  start(block);
}

unsigned take_waiting() {
  auto& waiting = residents.waiting;
  const auto chosen = waiting.begin() + (seeded() ? random_below(static_cast<unsigned>(waiting.size())) : 0);
  const unsigned slot = *chosen;
  waiting.erase(chosen);
  return slot;
}

// Of the running blocks: a finding for each line at which threads ask for what never comes. In a loop with barriers they
// may stand at one of them.
bool report_spinning(unsigned begun, unsigned all, bool at_barriers) {
  bool any = false;
  for (const Thread& t : threads) {
    if (!t.spins || t.state == State::exited || (t.state != State::runnable && !at_barriers)) continue;
    any = true;
    if (!count_finding(Kind::deadlock, t.asked_at)) continue;
    const std::string where = locate_global(reinterpret_cast<const void*>(t.asked));
    char others[128] = "";
    if (begun < all) {
      std::snprintf(others, sizeof others, ", while %u blocks have not begun, as they do when one of %u ends", all - begun,
                    residents.count());
    }
    write_finding(Kind::deadlock, t.asked_at, "%s waits here for ever%s%s%s", describe(t.who, block_index).c_str(),
                  where.empty() ? "" : ": nobody changes ", where.c_str(), others);
  }
  return any;
}

// ``in_vain``: they ask again and again, and do not just wait for each other.
void report_endless(unsigned begun, unsigned all, bool in_vain) {
  auto& waiting = residents.waiting;
  for (;;) {
    const bool found = report_spinning(begun, all, false) || (in_vain && report_spinning(begun, all, true));
    if (!found) report_deadlock();
    ptx::report_waiting_for_cluster();
    ptx::report_waiting_for_tensor_memory();
    ptx::report_waiting_for_mbarriers();
    if (waiting.empty()) return;
    resume(waiting.back());
    waiting.pop_back();
  }
}

std::size_t bytes_of_residents() {
  return (std::size_t{ptx::program.register_bytes} + warp_size * sizeof(Thread)) * warp_count + shared_books_bytes();
}

// How many may have begun and not ended. Ends the process where a cooperative launch has more than fit.
unsigned most_residents(unsigned units) {
  const std::size_t fit = std::max<std::size_t>(most_bytes / std::max<std::size_t>(bytes_of_residents(), 1), 1);
  if (launch.cooperative && units > fit) {
    std::fprintf(stderr, "lacking: the emulator has room for %zu blocks at a time, and a cooperative launch has %u\n", fit, units);
    std::exit(5);
  }
  if (launch.cooperative) return units;
  return static_cast<unsigned>(std::min<std::size_t>(fit, launch.interleaved ? std::min(launch.resident, most_interleaved) : launch.resident));
}

bool run_launch(unsigned first, unsigned units) {
  const unsigned most = most_residents(units);
  auto& waiting = residents.waiting;
  Units& left = units_of_launch;
  left = {first, 0, units};
  unsigned steps = 0;
  start(left.take());
  launch.began = clocks.first;
  // Asked anew after each turn, in which the running blocks may cancel the last unit.
  const auto may_start = [&] { return left.left() && residents.count() < most; };
  for (;;) {
    const Turn turn = launch.interleaved ? run_step() : run_blocks(may_start() || !waiting.empty());
    if (turn == Turn::ended) {
      ptx::end_block();
      end_block_shared();
      residents.next = std::max(residents.next, clocks.end());
      if (!waiting.empty() && !(launch.interleaved && left.left())) {
        residents.free_slots.push_back(residents.running);
        resume(take_waiting());
      } else if (left.left()) {
        start(left.take());
      } else {
        return true;
      }
    } else if (turn == Turn::stuck || (!may_start() && wait_in_vain(residents.count()))) {
      report_endless(left.begun, units, turn != Turn::stuck || idle_polls.met());
      return false;
    } else if (launch.interleaved && steps > 0) {
      --steps;
    } else if (may_start()) {
      start_beside(left.take());
    } else if (!waiting.empty()) {
      const unsigned next = take_waiting();
      waiting.push_back(residents.running);
      resume(next);
      steps = seeded() && random_below(2) != 0 ? random_below(longest_turn) : 0;
    }
  }
}

}  // namespace

bool run_grid() {
  make_threads();
  if (cluster_blocks() > 1) choose_clusters();
  const unsigned units = launch.blocks.empty() ? grid_size.x * grid_size.y * grid_size.z / cluster_blocks()
                                               : static_cast<unsigned>(launch.blocks.size());
  for (unsigned n = 0; n < launch.calls * launch.launches; ++n) {
    if (n > 0 && n % launch.launches == 0) {
      check_after_call();
      begin_call();
    }
    if (!run_launch(n * units, units)) return false;
  }
  return true;
}

}  // namespace autosched::emulator

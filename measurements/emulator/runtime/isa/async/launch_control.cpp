// Cluster launch control: PTX ISA 9.7.13.17. A running cluster cancels the launch of a cluster that has not started,
// and takes over its position in the grid. The response arrives in shared memory like a bulk copy, and an mbarrier
// counts its bytes.
#include "machine/part.hpp"
#include "isa/async/launch_control.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator::ptx {

// State of the requests that a cluster has made.
struct LaunchControl : Unit {
  using Unit::Unit;

  bool refused = false;  // a request of this cluster was refused
  Parked<bool> parked_refused{parking, refused};
};

namespace {

constexpr unsigned answer_bytes = 16;
// kernels must not interpret these words
constexpr std::uint32_t canceled_mark = 0x636c6301u, refused_mark = 0x636c6300u;

struct Answer {
  std::uint32_t mark = refused_mark;
  std::uint32_t block[3] = {};
};
static_assert(sizeof(Answer) == answer_bytes);

// Cancels a block (or cluster) that has not started, and sets `block` to the grid index of its first block. Returns
// false if none remains. With a seed, some requests are also refused at random, as a GPU may do to make room for
// another grid.
bool cancel_cluster(Machine& machine, unsigned& block) {
  constexpr unsigned refusals = 8;  // with a seed, a request is refused with probability 1 / refusals
  if (!machine.units.left() || (seeded(machine) && random_below(machine, refusals) == 0)) return false;
  block = block_in_grid(machine, machine.units.take(), 0);
  return true;
}

// Sources: address of the response, mbarrier. Immediates: offsets of the two addresses, and whether all blocks of the
// cluster receive the response.
void try_cancel(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  constexpr const char* name = "clusterlaunchcontrol.try_cancel";
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t to, barrier;
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, to) || !shared_operand(w, i, 1, i.immediate[1], k, name, barrier)) return;
    if (machine.launch_control.refused) {
      FINDING(machine.report, invalid_argument, i.site, "%s: %s after an earlier request of the cluster has failed",
              describe_self(machine).c_str(), name);
      return;
    }
    Answer answer;
    if (unsigned block = 0; cancel_cluster(machine, block)) {
      answer = {canceled_mark,
                {block % machine.grid_size.x, block / machine.grid_size.x % machine.grid_size.y,
                 block / machine.grid_size.x / machine.grid_size.y}};
    } else {
      machine.launch_control.refused = true;
    }
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&answer);
    const bool all = i.immediate[2] != 0;
    for (unsigned rank = all ? 0 : rank_of_address(to); rank < (all ? cluster_blocks(machine) : rank_of_address(to) + 1); ++rank) {
      const std::uint32_t at = address_in_block(to, rank), counting = address_in_block(barrier, rank);
      if (!check_shared(machine, at, answer_bytes, answer_bytes, name) || mbarrier_at(machine, counting, name, true) == nullptr)
        return;
      start_bulk_load(
          machine, {counting, {{at, answer_bytes}}, {bytes, bytes + answer_bytes}, answer_bytes, machine.self, i.site, name});
    }
  });
}

const Answer* answer_of(Warp& w, const Instruction& i, unsigned lane) {
  Machine& machine = *w.machine;
  const auto* const answer = reinterpret_cast<const Answer*>(value_bytes(w, i.source(0), answer_bytes, lane));
  if (answer->mark == canceled_mark || answer->mark == refused_mark) return answer;
  FINDING(machine.report, invalid_argument, i.site,
          "%s: clusterlaunchcontrol.query_cancel reads bytes that are not a response of try_cancel",
          describe_self(machine).c_str());
  return nullptr;
}

void is_canceled(Warp& w, const Instruction& i, Lanes active) {
  Register& d = w.head(i.destination(0));
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    w.machine->self->site = i.site;
    const Answer* const answer = answer_of(w, i, k);
    const bool canceled = answer != nullptr && answer->mark == canceled_mark;
    d.bits = (d.bits & ~(1u << k)) | static_cast<Lanes>(canceled) << k;
  });
}

// Immediates: for each destination, which coordinate (0 x, 1 y, 2 z) it receives.
void first_block(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const Answer* const answer = answer_of(w, i, k);
    if (answer == nullptr) return;
    if (answer->mark != canceled_mark) {
      FINDING(machine.report, invalid_argument, i.site,
              "%s: clusterlaunchcontrol.query_cancel.get_first_ctaid of a failed request: check is_canceled first",
              describe_self(machine).c_str());
    }
    for (unsigned d = 0; d < i.destinations; ++d) {
      w.values<std::uint32_t>(i.destination(d))[k] = answer->block[i.immediate[d]];
    }
  });
}

constexpr Row launch_control_table[] = {
    {"clusterlaunchcontrol.try_cancel", try_cancel, 0, ":**", Flow::plain, true},
    {"clusterlaunchcontrol.is_canceled", is_canceled, 0, "0:*", Flow::plain, true},
    {"clusterlaunchcontrol.first_block", first_block, 0, "*:*", Flow::plain, true},
};

}  // namespace

const Rows launch_control_rows{std::begin(launch_control_table), std::end(launch_control_table)};

void start_block_launch_control(Machine& machine) { machine.launch_control.refused = false; }

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::LaunchControl);

// cp.async without mbarriers: PTX ISA 9.7.9.25.
#include "isa/access/memory.hpp"
#include "memory/counting.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace async_instructions {

// Sources: shared address, global address, and optionally the number of bytes to read, or a predicate that is true if
// nothing is read. Immediates: the offsets of both addresses, the bytes to write, and 1 if the last source is a
// predicate.
void copy(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const int bytes = static_cast<int>(i.immediate[2]);
  std::uint64_t shared[warp_size] = {}, global[warp_size] = {};
  int read[warp_size];
  Lanes good = 0, reading = 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const std::uint64_t to = address_of(w, i, 0, i.immediate[0], k), from = address_of(w, i, 1, i.immediate[1], k);
    const Location target = resolve(machine, Space::shared, to, "cp.async"),
                   source = resolve(machine, Space::global, from, "cp.async");
    shared[k] = target.offset;
    global[k] = source.offset;
    read[k] = bytes;
    if (i.sources > 2) {
      read[k] = i.immediate[3] != 0 ? (w.head(i.source(2)).bits >> k & 1u ? 0 : bytes)
                                    : static_cast<int>(w.values<std::uint32_t>(i.source(2))[k]);
    }
    if (!target.good || !source.good) return;
    good |= 1u << k;
    if (read[k] > 0 && read[k] <= bytes) reading |= 1u << k;
  });
  if (good != 0) count_shared_request(machine, i.site, "cp.async", bytes, good, shared);
  if (reading != 0) count_global_request(machine, i.site, "cp.async", bytes, reading, global);
  for_lanes(good, [&](unsigned k) {
    run_as(w, k);
    start_copy(machine, static_cast<unsigned>(shared[k]), reinterpret_cast<const void*>(global[k]), bytes, read[k]);
  });
}

void commit(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    commit_copies(machine);
  });
}

// Immediate: the number of groups that may stay in flight, or -1 to wait for all copies, even uncommitted ones.
void wait(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    if (i.immediate[0] < 0) commit_copies(machine);
    wait_copies(machine, i.immediate[0] < 0 ? 0 : static_cast<int>(i.immediate[0]));
  });
}

constexpr Row rows[] = {
    {"cp.async", copy, 0, ":***", Flow::plain, true},
    {"cp.async.commit_group", commit, 0, ":"},
    {"cp.async.wait_group", wait, 0, ":"},
};

}  // namespace async_instructions
}  // namespace

const Rows async_rows{std::begin(async_instructions::rows), std::end(async_instructions::rows)};

}  // namespace autosched::emulator::ptx

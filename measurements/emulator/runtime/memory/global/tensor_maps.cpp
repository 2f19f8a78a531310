// Tensor maps in global memory that threads have written. Bulk copies read them through another proxy (PTX ISA, memory
// consistency model: proxies; CUDA C++ Programming Guide, modification of a tensor map). So the writer of a map must
// execute a fence.proxy.tensormap with .release. After this fence, a thread of each block that uses the map must
// execute a fence.proxy.tensormap with .acquire of the map's address.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "machine/part.hpp"
#include "memory/global/shadow.hpp"
#include "memory/global/tensor_maps.hpp"

namespace autosched::emulator {

using namespace global_shadow;

// Fences of tensor maps that threads have written.
struct WrittenMaps {
  struct Release {
    Stamp by;
    std::shared_ptr<const Knowledge> knowledge;  // events before the fence
    unsigned rank;
  };
  struct Acquire {
    Stamp by;
    std::uint32_t lanes;
    std::uint64_t writes;  // digest of the last writes to the map before the fence
    bool released;         // true if all these writes were released
  };
  std::vector<Release> releases;
  // acquire fences, by the address of the acquired map
  std::unordered_map<std::uint64_t, std::vector<Acquire>> acquires;
};

namespace {
using Release = WrittenMaps::Release;
using Acquire = WrittenMaps::Acquire;
}  // namespace

namespace {

constexpr int map_bytes = 128;
constexpr std::size_t most_kept = 4096;  // maximum number of fences of each kind; the oldest are dropped

Stamp stamp_of_map(Machine& machine, bool narrow) {
  return {machine.clocks.now[machine.self->warp], machine.self->fences, machine.self->agent, machine.self->site, false, narrow};
}

template <class T>
void keep(std::vector<T>& list, T one) {
  if (list.size() >= most_kept) list.erase(list.begin(), list.begin() + most_kept / 2);
  list.push_back(std::move(one));
}

// A digest of the last writes to a map's bytes; 0 if there are none.
std::uint64_t writes_of(Machine& machine, const Buffer& b, const Cells& cells) {
  std::uint64_t sum = 0;
  for (std::size_t cell = cells.begin; cell != cells.end; ++cell) {
    const Stamp w = b.write(machine, cell);
    if (w.epoch == 0) continue;
    const auto one = std::uint64_t{w.epoch} << 32 ^ std::uint64_t{w.agent} << 16 ^ w.site ^ std::uint64_t{w.fences} << 40;
    sum = (sum ^ one) * 0x9e3779b97f4a7c15u | 1;
  }
  return sum;
}

// True if a release that covers the write happened before the action of the running thread.
bool released(Machine& machine, const Stamp& write, bool narrow) {
  if (write.epoch < machine.launch.began) return true;
  return std::any_of(machine.written_maps.releases.rbegin(), machine.written_maps.releases.rend(), [&](const Release& r) {
    if ((narrow || r.by.narrow) && !(of_running(machine, r.by.epoch) && r.rank == machine.self->rank)) return false;
    return r.knowledge->seen.holds(write.agent, write.epoch) && ordered(machine, r.by);
  });
}

template <class Holds>
bool all_writes(Machine& machine, const Buffer& b, const Cells& cells, Holds holds) {
  Stamp last;
  for (std::size_t cell = cells.begin; cell != cells.end; ++cell) {
    const Stamp w = b.write(machine, cell);
    if (w.epoch == 0 || (last.epoch == w.epoch && last.agent == w.agent && last.fences == w.fences)) continue;
    if (!holds(w)) return false;
    last = w;
  }
  return true;
}

}  // namespace

void release_tensor_maps(Machine& machine, std::uint32_t lanes, bool whole, bool narrow) {
  if (!machine.launch.check) return;
  const Stamp by = stamp_of_map(machine, narrow);
  if (whole) machine.clocks.advance(machine.self->warp);
  auto knowledge = std::make_shared<Knowledge>();
  machine.clocks.publish(machine.self->warp, lanes, whole, *knowledge);
  Thread* const first = &machine.threads[machine.self->warp * warp_size];
  for (; lanes != 0; lanes &= lanes - 1) {
    Stamp one = by;
    one.agent = first[__builtin_ctz(lanes)].agent;
    keep(machine.written_maps.releases, Release{one, knowledge, machine.self->rank});
    if (whole) break;
  }
}

void acquire_tensor_map(Machine& machine, const void* address, std::uint32_t lanes, bool narrow) {
  Buffer* b = check_access(machine, address, map_bytes, "fence.proxy.tensormap");
  if (b == nullptr || !b->writable() || !machine.launch.check) return;
  const Cells cells = cells_of(*b, address, map_bytes);
  const std::uint64_t writes = writes_of(machine, *b, cells);
  if (writes == 0) return;
  if (!all_writes(machine, *b, cells, [&machine](const Stamp& w) { return ordered(machine, w); })) return;
  const bool good = all_writes(machine, *b, cells, [&](const Stamp& w) { return released(machine, w, narrow); });
  auto& list = machine.written_maps.acquires[reinterpret_cast<std::uintptr_t>(address)];
  std::erase_if(list, [&](const Acquire& a) { return a.writes != writes; });
  keep(list, Acquire{stamp_of_map(machine, narrow), lanes, writes, good});
  machine.clocks.tick(machine.self->warp);  // ends the epoch, so that later writes of this warp are distinguishable
}

void check_tensor_map_acquired(Machine& machine, const void* address, const char* instruction) {
  Buffer* b = check_access(machine, address, map_bytes, instruction);
  if (b == nullptr || !b->writable() || !machine.launch.check) return;
  const Cells cells = cells_of(*b, address, map_bytes);
  const std::uint64_t writes = writes_of(machine, *b, cells);
  if (writes == 0) return;
  bool unreleased = false;
  const auto entry = machine.written_maps.acquires.find(reinterpret_cast<std::uintptr_t>(address));
  if (entry != machine.written_maps.acquires.end()) {
    for (const Acquire& a : entry->second) {
      if (a.writes != writes || !of_running(machine, a.by.epoch) || rank_of(machine, a.by.agent) != machine.self->rank) continue;
      for (std::uint32_t lanes = a.lanes; lanes != 0; lanes &= lanes - 1) {
        Stamp by = a.by;
        by.agent = agent_of(warp_of(by.agent), static_cast<unsigned>(__builtin_ctz(lanes)));
        if (!ordered(machine, by)) continue;
        if (a.released) return;
        unreleased = true;
      }
    }
  }
  std::size_t cell = cells.begin;
  while (!b->written(machine, cell)) ++cell;
  const Stamp write = b->write(machine, cell);
  FINDING(machine.report, missing_proxy_fence, machine.self->site,
          "%s: %s uses the tensor map at %s, which %s wrote at %s, but %s", describe_self(machine).c_str(), instruction,
          element(*b, address).c_str(), describe(machine, write.agent, block_of_epoch(machine, write.epoch)).c_str(),
          describe_site(machine.report, write.site).c_str(),
          unreleased ? "no fence.proxy.tensormap::generic.release (or tensormap.cp_fenceproxy) follows the write"
                     : "this block has not executed fence.proxy.tensormap::generic.acquire of the map since");
}

}  // namespace autosched::emulator

AUTOSCHED_PART(WrittenMaps);

// Happens-before between concurrent threads, represented by vector clocks over epochs of actors. An actor is a warp or
// an asynchronous engine: the wgmmas of a warpgroup, the bulk copies that an mbarrier counts, or the bulk stores of a
// warp. The epoch of a warp ends when all its lanes synchronise at a barrier or bar.warp.sync. If only some lanes
// synchronise, their clocks are merged. Within an epoch, lanes of a warp are unordered, because collectives such as
// ldmatrix or shfl order nothing in the PTX memory model. A lane that arrives at an mbarrier alone publishes only its
// own actions (a Grant).
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace autosched::emulator {

constexpr unsigned warp_size = 32;
constexpr unsigned max_block_warps = 32;
constexpr unsigned max_warps = 128;    // warps of all blocks that run together
constexpr unsigned max_actors = 1024;  // the first actors are the warps

using Epoch = std::uint32_t;
// An agent performs actions: it is a lane, a group of lanes of a warp, or an actor without lanes. Its number is
// actor * 64 + lane. Lane 32 stands for the whole warp, or for an actor without lanes. Higher numbers stand for an
// aligned half of a warp (33, 34), quarter (35 to 38), eighth (39 to 46) or pair of lanes (47 to 62).
using Agent = std::uint16_t;
constexpr unsigned whole_warp = 32;
constexpr std::uint64_t event_of_flag = std::uint64_t{3} << 62;  // kind of event: a flag was read (block_order.cpp)
// kind of event: a poll without acquire observed the end of an mbarrier's phase
constexpr std::uint64_t event_of_time = std::uint64_t{1} << 61;
constexpr Agent agent_of(unsigned actor, unsigned lane) { return static_cast<Agent>(actor * 64 + lane); }
constexpr unsigned warp_of(Agent agent) { return agent / 64; }
constexpr unsigned lane_of(Agent agent) { return agent % 64; }
// Node of a binary heap whose leaves are lanes, and whose inner nodes are groups of lanes.
constexpr unsigned node_of(Agent agent) {
  const unsigned lane = lane_of(agent);
  return lane < warp_size ? warp_size + lane : lane - 31;
}
constexpr std::uint32_t lanes_of(Agent agent) {
  const unsigned node = node_of(agent), depth = static_cast<unsigned>(std::bit_width(node)) - 1;
  const unsigned size = warp_size >> depth, index = node - (1u << depth);
  return ~0u >> (warp_size - size) << index * size;
}
// The smallest group of lanes that contains both `a` and `b`.
constexpr Agent both_of(Agent a, Agent b) {
  unsigned x = node_of(a), y = node_of(b);
  const int deeper = std::bit_width(x) - std::bit_width(y);
  if (deeper > 0) x >>= deeper;
  if (deeper < 0) y >>= -deeper;
  x >>= std::bit_width(x ^ y);
  return agent_of(warp_of(a), x < warp_size ? x + 31 : x - warp_size);
}
// True if a set of lanes is such a group: an aligned range of 1, 2, 4, 8 or 16 lanes, or the whole warp.
constexpr bool is_group(std::uint32_t lanes) {
  if (lanes == 0) return false;
  const auto lane = [](int k) { return static_cast<Agent>(k); };
  return lanes_of(both_of(lane(std::countr_zero(lanes)), lane(31 - std::countl_zero(lanes)))) == lanes;
}

// The actions of a single lane, up to an epoch of its warp.
struct Grant {
  Agent agent;
  Epoch epoch;
};

// A set of past events: all events of each actor up to an epoch, and the events of all grants.
struct View {
  std::vector<Epoch> up_to;
  std::vector<Grant> grants;  // in the order of their threads

  void clear() {
    up_to.clear();
    grants.clear();
  }
  void grant(Grant g);
  void join(const View& other);
  // Adds to the set the actions that some lanes of a warp performed up to `epoch`. `whole`: all lanes of the warp.
  void add(unsigned w, std::uint32_t lanes, bool whole, Epoch epoch);
  bool holds(Agent agent, Epoch epoch) const {
    const unsigned actor = warp_of(agent);
    return (actor < up_to.size() && epoch <= up_to[actor]) || (!grants.empty() && granted(agent, epoch));
  }

 private:
  bool granted(Agent agent, Epoch epoch) const;
  static bool before(const Grant& a, const Grant& b) { return a.agent < b.agent; }
};

// Three sets of earlier events. `seen`: events that happened before, in the memory model. `fenced`: the events in
// `seen` that a proxy fence has made visible to the async proxy. `earlier`: events that are earlier in time, although
// their writes need not be visible.
struct Knowledge {
  View seen, fenced, earlier;
  void clear() {
    seen.clear();
    fenced.clear();
    earlier.clear();
  }
  void join(const Knowledge& other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
    earlier.join(other.earlier);
  }
};

// Events that are ordered before the next action of some lanes of a warp, but not of the other lanes. For example, only
// these lanes observed the end of an mbarrier phase, or waited for their copies. `event` identifies what they observed;
// 0 if there are several such events.
struct Alone {
  std::uint32_t lanes;
  std::uint64_t event;
  Knowledge knowledge;
};

struct Clocks {
  // Epochs increase from block to block, so an epoch identifies its block. Blocks that alternate have several disjoint
  // ranges of epochs (residents.cpp).
  Epoch first = 1;
  Epoch resumed = 1;  // first epoch of the running range
  unsigned warps = 0, actors = 0;
  Epoch now[max_actors];
  // For each warp: events that are ordered before the next action of all its lanes (`known`), or of some lanes
  // (`alone`).
  Knowledge known[max_warps];
  std::vector<Alone> alone[max_warps];
  std::uint32_t live[max_warps];  // for each warp: the lanes that had not exited when `alone` was last updated
  // For each warp: `fresh`: lanes that have observed events since they last synchronised; `met`: the lanes that
  // synchronised last.
  std::uint32_t fresh[max_warps], met[max_warps];

  void start_block(unsigned warp_count, Epoch next);
  // The first epoch that the running blocks have not used.
  Epoch end() const { return std::max(first, *std::max_element(now, now + actors) + 1); }
  // Called when a block resumes after other blocks have run. Its lanes stay unordered with each other.
  void resume(Epoch next) {
    resumed = next;
    std::fill_n(now, warps, next);
  }
  friend void swap(Clocks& a, Clocks& b);
  // Adds an actor without lanes, such as a copy engine. The caller advances the actor's epochs.
  unsigned add_actor() {
    if (actors + 1 < max_actors) ++actors;
    now[actors - 1] = first;
    return actors - 1;
  }
  Epoch seen(unsigned w, unsigned actor) const {
    const auto& up_to = known[w].seen.up_to;
    return actor < up_to.size() ? up_to[actor] : 0;
  }
  // Ends the epoch of a warp: its lanes are ordered with each other, and their clocks are merged.
  void advance(unsigned w);
  // Ends the epoch of a warp, but its lanes stay unordered with each other.
  void tick(unsigned w) { ++now[w]; }
  // Records that the next actions of warp w are ordered after an actor's epoch.
  void learn(unsigned w, unsigned actor, Epoch epoch) {
    auto& up_to = known[w].seen.up_to;
    if (up_to.size() <= actor) up_to.resize(actor + 1, 0);
    up_to[actor] = std::max(up_to[actor], epoch);
  }
  // Orders lanes of a warp after an event, after everything that happened before it, and after an actor's epoch.
  // `living`: lanes that have not exited.
  void learn_alone(unsigned w, std::uint32_t lanes, std::uint32_t living, std::uint64_t event,
                   const Knowledge& knowledge, unsigned actor, Epoch epoch);
  // Sets `event` to 0 in the oldest entry in which it is not 0. If the same lanes already have an entry whose `event`
  // is 0, merges the two entries.
  static void forget_event(std::vector<Alone>& mine);
  // Synchronises some lanes of a warp, and merges their clocks. `living`: lanes that have not exited. If the lanes form
  // a group, such as a tile of cooperative groups, each lane is ordered after the earlier actions of the whole group.
  // For any other mask, the epoch of the whole warp ends, because recorded accesses cannot identify arbitrary sets of
  // lanes.
  void share(unsigned w, std::uint32_t lanes, std::uint32_t living);
  // Some lanes of a warp wait for each other. `living`: lanes that have not exited. Everything that these lanes did
  // before the wait is earlier in time than everything that they do after it. The memory model does not order these
  // actions, because shuffles and votes do not order memory.
  void meet(unsigned w, std::uint32_t lanes, std::uint32_t living) {
    if ((fresh[w] & lanes) != 0 || (lanes & ~met[w]) != 0) meet_anew(w, lanes, living);
  }
  // The events that happened before the next action of a lane.
  View view_of(unsigned w, unsigned lane) const;
  // True if a lane of warp w is ordered after actions of single lanes. Epochs alone cannot represent this order.
  bool knows_lanes(unsigned w) const { return !alone[w].empty() || !known[w].seen.grants.empty(); }
  // Called when lanes exchange values. The lanes then share the events that any of these lanes has acquired through a
  // flag. Cooperative groups rely on this: one lane acquires, and a shuffle informs the other lanes. The lanes' own
  // actions stay unordered.
  void share_flags(unsigned w, std::uint32_t lanes);
  // Starts the clocks of a block. Memory that is initialised before the block starts counts as written in the block's
  // first epoch, before all actions of its threads.
  void begin();
  // Adds to `to` the actions of some lanes of a warp, and the events that happened before them. `whole`: all lanes of
  // the warp.
  void publish(unsigned w, std::uint32_t lanes, bool whole, Knowledge& to);
  // Adds to `to` all events that are earlier in time than the next actions of the given lanes of a warp, even if the
  // instruction has no release semantics.
  void precede(unsigned w, std::uint32_t lanes, bool whole, View& to);
  // Executes a proxy fence of some lanes: their actions, and everything that happened before them, become visible to
  // the async proxy.
  void fence_proxy(unsigned w, std::uint32_t lanes, bool whole);
  // True if the action that `before` performed in `epoch` happened before the current action of `me`. The epoch must
  // belong to a running block.
  bool ordered(Agent before, Epoch epoch, Agent me) const {
    if (before == me && lane_of(me) != whole_warp) return true;
    return holds(&Knowledge::seen, before, epoch, me);
  }
  // True if, in addition, a proxy fence is between the two actions.
  bool proxied(Agent before, Epoch epoch, Agent me) const { return holds(&Knowledge::fenced, before, epoch, me); }
  // True if any lane of warp w is ordered after the action of `before` in `epoch`.
  bool any_knows(Agent before, Epoch epoch, unsigned w) const;

 private:
  bool holds(View Knowledge::*view, Agent before, Epoch epoch, Agent me) const {
    const unsigned w = warp_of(me);
    return (known[w].*view).holds(before, epoch) || (!alone[w].empty() && hold_alone(view, before, epoch, me));
  }
  bool hold_alone(View Knowledge::*view, Agent before, Epoch epoch, Agent me) const;
  void meet_anew(unsigned w, std::uint32_t lanes, std::uint32_t living);
};

}  // namespace autosched::emulator

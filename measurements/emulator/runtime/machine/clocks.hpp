// Happens-before between concurrent threads, as vector clocks over epochs of actors. An actor is a warp or an
// asynchronous engine: the wgmmas of a warpgroup, the bulk copies of an mbarrier, or the bulk stores of a warp.
// A warp's epoch ends when the whole warp meets at a barrier or bar.warp.sync. If only some lanes meet, their clocks
// are merged. Within an epoch, lanes of one warp are unordered (collectives such as ldmatrix or shfl order nothing in
// the PTX memory model). A lane that arrives at an mbarrier alone publishes only its own actions: a grant.
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
constexpr unsigned max_warps = 128;    // of all blocks that run together
constexpr unsigned max_actors = 1024;  // warps first

using Epoch = std::uint32_t;
// actor * 64 + lane. Lane 32 is a collective access of a whole warp, or any access by an actor without lanes. Lanes
// from 33 on are several lanes of an aligned half (33, 34), quarter (35 to 38), eighth (39 to 46) or pair (47 to 62).
using Who = std::uint16_t;
constexpr unsigned whole_warp = 32;
constexpr std::uint64_t event_of_flag = std::uint64_t{3} << 62;  // of events: a flag was read (block_order.cpp)
constexpr std::uint64_t event_of_time = std::uint64_t{1} << 61;  // of events: an mbarrier's phase was found finished without acquiring
constexpr Who who_of(unsigned actor, unsigned lane) { return static_cast<Who>(actor * 64 + lane); }
constexpr unsigned warp_of(Who who) { return who / 64; }
constexpr unsigned lane_of(Who who) { return who % 64; }
// Groups of lanes are the inner nodes of a binary heap whose leaves are the lanes.
constexpr unsigned node_of(Who who) { return lane_of(who) < warp_size ? warp_size + lane_of(who) : lane_of(who) - 31; }
constexpr std::uint32_t lanes_of(Who who) {
  const unsigned node = node_of(who), depth = static_cast<unsigned>(std::bit_width(node)) - 1;
  const unsigned size = warp_size >> depth, index = node - (1u << depth);
  return ~0u >> (warp_size - size) << index * size;
}
// The smallest group of a warp that holds both.
constexpr Who both_of(Who a, Who b) {
  unsigned x = node_of(a), y = node_of(b);
  const int deeper = std::bit_width(x) - std::bit_width(y);
  if (deeper > 0) x >>= deeper;
  if (deeper < 0) y >>= -deeper;
  x >>= std::bit_width(x ^ y);
  return who_of(warp_of(a), x < warp_size ? x + 31 : x - warp_size);
}
// True if a set of lanes is such a group.
constexpr bool is_group(std::uint32_t lanes) {
  if (lanes == 0) return false;
  const auto lane = [](int k) { return static_cast<Who>(k); };
  return lanes_of(both_of(lane(std::countr_zero(lanes)), lane(31 - std::countl_zero(lanes)))) == lanes;
}

// The actions of one thread, without other lanes, up to an epoch of its warp.
struct Grant {
  Who who;
  Epoch epoch;
};

// A set of past events: for each actor all events up to an epoch, and in addition the events of each grant.
struct View {
  std::vector<Epoch> up_to;
  std::vector<Grant> grants;  // in the order of their threads

  void clear() {
    up_to.clear();
    grants.clear();
  }
  void grant(Grant g);
  void join(const View& other);
  // Adds the actions of lanes of a warp up to an epoch; `whole`: these are all lanes of the warp.
  void add(unsigned w, std::uint32_t lanes, bool whole, Epoch epoch);
  bool holds(Who who, Epoch epoch) const {
    const unsigned actor = warp_of(who);
    return (actor < up_to.size() && epoch <= up_to[actor]) || (!grants.empty() && granted(who, epoch));
  }

 private:
  bool granted(Who who, Epoch epoch) const;
  static bool before(const Grant& a, const Grant& b) { return a.who < b.who; }
};

// Three sets of earlier events: those that happened before (in the memory model), those of them that a proxy fence has
// made visible to the async proxy, and those that are earlier in time, even if their writes need not be visible.
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

// Earlier events of some lanes of a warp only, which observed the end of an mbarrier phase or waited for their copies.
// `event` is the source; 0 for several sources.
struct Alone {
  std::uint32_t lanes;
  std::uint64_t event;
  Knowledge what;
};

struct Clocks {
  // Epochs increase from block to block, so that an older stamp belongs to an earlier block. Blocks that alternate have
  // several disjoint ranges of epochs (residents.cpp).
  Epoch first = 1;
  Epoch resumed = 1;  // first epoch of the running range
  unsigned warps = 0, actors = 0;
  Epoch now[max_actors];
  // For each warp: events that happened before the next action of all its lanes, and of some of its lanes.
  Knowledge known[max_warps];
  std::vector<Alone> alone[max_warps];
  std::uint32_t live[max_warps];  // living lanes when a lane last observed an event alone
  // Per warp: lanes that have observed events since they last synchronised with others, and the lanes that synchronised
  // last.
  std::uint32_t fresh[max_warps], met[max_warps];

  void start_block(unsigned warp_count, Epoch next);
  // The first epoch after all those that the running blocks have used.
  Epoch end() const { return std::max(first, *std::max_element(now, now + actors) + 1); }
  // Called when a block resumes after other blocks. Its lanes stay unordered with each other.
  void resume(Epoch next) {
    resumed = next;
    std::fill_n(now, warps, next);
  }
  friend void swap(Clocks& a, Clocks& b);
  // An actor without lanes. Its user counts its epochs.
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
  // Orders warp w after an actor's epoch.
  void learn(unsigned w, unsigned actor, Epoch epoch) {
    auto& up_to = known[w].seen.up_to;
    if (up_to.size() <= actor) up_to.resize(actor + 1, 0);
    up_to[actor] = std::max(up_to[actor], epoch);
  }
  // Orders lanes of a warp after an event, after everything that happened before it, and after an actor's epoch.
  // `living`: lanes that have not exited.
  void learn_alone(unsigned w, std::uint32_t lanes, std::uint32_t living, std::uint64_t event, const Knowledge& what,
                   unsigned actor, Epoch epoch);
  // Merges the oldest observed event of lanes into the other events of the same lanes.
  static void forget_event(std::vector<Alone>& mine);
  // Some lanes of a warp synchronise and merge their clocks; `living`: lanes that have not exited. If they form a
  // group, such as a tile, each is ordered after the actions of all of them. Any other mask ends the epoch of the whole
  // warp, since stamps cannot distinguish its lanes from other lanes.
  void share(unsigned w, std::uint32_t lanes, std::uint32_t living);
  // Some lanes of a warp, of which `living` have not exited, wait for each other. Earlier events of any of them are
  // earlier in time than the next actions of each. Memory stays unordered, because shuffles and votes do not order it.
  void meet(unsigned w, std::uint32_t lanes, std::uint32_t living) {
    if ((fresh[w] & lanes) != 0 || (lanes & ~met[w]) != 0) meet_anew(w, lanes, living);
  }
  // Events that happened before the next action of a lane.
  View view_of(unsigned w, unsigned lane) const;
  // True if lanes of a warp are ordered after actions of single lanes.
  bool knows_lanes(unsigned w) const { return !alone[w].empty() || !known[w].seen.grants.empty(); }
  // Lanes exchange values, and share the events that one of them has acquired through a flag. Cooperative groups rely
  // on this: one lane acquires, and a shuffle informs the others. The lanes' own actions stay unordered.
  void share_flags(unsigned w, std::uint32_t lanes);
  // The initial state of a block was written in its first epoch, before all actions of its threads.
  void begin();
  // Adds the earlier events and the actions of lanes of a warp to `to`; `whole`: they are all lanes of the warp.
  void publish(unsigned w, std::uint32_t lanes, bool whole, Knowledge& to);
  // Adds to `to` all events that are earlier in time than the next actions of lanes of a warp. This is not a release:
  // instructions without release semantics are also ordered in time.
  void precede(unsigned w, std::uint32_t lanes, bool whole, View& to);
  // A proxy fence of some lanes: their actions, and everything that happened before, become visible to the async proxy.
  void fence_proxy(unsigned w, std::uint32_t lanes, bool whole);
  // True if an action of this block, by `before` in `epoch`, happened before the current action of `me`.
  bool ordered(Who before, Epoch epoch, Who me) const {
    if (before == me && lane_of(me) != whole_warp) return true;
    return holds(&Knowledge::seen, before, epoch, me);
  }
  // True if a proxy fence is between the two.
  bool proxied(Who before, Epoch epoch, Who me) const { return holds(&Knowledge::fenced, before, epoch, me); }
  // True if any lane of warp w is ordered after this action.
  bool any_knows(Who before, Epoch epoch, unsigned w) const;

 private:
  bool holds(View Knowledge::*view, Who before, Epoch epoch, Who me) const {
    const unsigned w = warp_of(me);
    return (known[w].*view).holds(before, epoch) || (!alone[w].empty() && hold_alone(view, before, epoch, me));
  }
  bool hold_alone(View Knowledge::*view, Who before, Epoch epoch, Who me) const;
  void meet_anew(unsigned w, std::uint32_t lanes, std::uint32_t living);
};

}  // namespace autosched::emulator

// Happens-before between the threads that run together, in epochs of actors. An actor is a warp, or what works behind
// the warps' backs: the wgmmas of a warpgroup, the bulk copies that an mbarrier counts, the bulk stores of a warp.
//
// Barriers and bar.warp.sync gather whole warps: a warp's epoch ends there. Within an epoch, lanes of one warp are
// unordered (collectives such as ldmatrix or shfl order nothing in the PTX memory model). Lanes that arrive at an
// mbarrier alone publish what they themselves have done: a grant.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace autosched::emulator {

constexpr unsigned warp_size = 32;
constexpr unsigned max_block_warps = 32;
constexpr unsigned max_warps = 128;    // of the blocks that run together
constexpr unsigned max_actors = 1024;  // warps first

using Epoch = std::uint32_t;
// actor * 64 + lane; a collective access of a whole warp, and all that an actor without lanes does, has lane 32.
using Who = std::uint16_t;
constexpr unsigned whole_warp = 32;
constexpr Who who_of(unsigned actor, unsigned lane) { return static_cast<Who>(actor * 64 + lane); }
constexpr unsigned warp_of(Who who) { return who / 64; }
constexpr unsigned lane_of(Who who) { return who % 64; }

// What one thread did up to an epoch of its warp, known without the rest of the warp.
struct Grant {
  Who who;
  Epoch epoch;
};

// What is known to have happened: of each actor all up to an epoch, and grants.
struct View {
  std::vector<Epoch> up_to;
  std::vector<Grant> grants;

  void clear() {
    up_to.clear();
    grants.clear();
  }
  void grant(Grant g) {
    for (Grant& mine : grants) {
      if (mine.who == g.who) {
        mine.epoch = std::max(mine.epoch, g.epoch);
        return;
      }
    }
    grants.push_back(g);
  }
  void join(const View& other) {
    if (up_to.size() < other.up_to.size()) up_to.resize(other.up_to.size(), 0);
    for (std::size_t a = 0; a < other.up_to.size(); ++a) up_to[a] = std::max(up_to[a], other.up_to[a]);
    for (const Grant& g : other.grants) grant(g);
  }
  bool holds(Who who, Epoch epoch) const {
    const unsigned actor = warp_of(who);
    if (actor < up_to.size() && epoch <= up_to[actor]) return true;
    for (const Grant& g : grants) {
      if (g.who == who && epoch <= g.epoch) return true;
    }
    return false;
  }
};

// Both views of the world: what happened before, and what of it a proxy fence has made visible to the async proxy.
struct Knowledge {
  View seen, fenced;
  void clear() {
    seen.clear();
    fenced.clear();
  }
  void join(const Knowledge& other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
  }
};

struct Clocks {
  // Epochs go on from block to block, so that an older stamp is one of an earlier block.
  Epoch first = 1;
  unsigned warps = 0, actors = 0;
  Epoch now[max_actors];
  // Of each warp: what happened before what it does next.
  Knowledge known[max_warps];

  void start_block(unsigned warp_count) {
    warps = actors = warp_count;
    for (unsigned w = 0; w < warp_count; ++w) {
      now[w] = first;
      known[w].clear();
      known[w].seen.up_to.assign(warp_count, first - 1);
      known[w].fenced.up_to.assign(warp_count, first - 1);
    }
  }
  void end_block() {
    for (unsigned a = 0; a < actors; ++a) {
      if (now[a] >= first) first = now[a] + 1;
    }
  }
  // An actor without lanes. Its epochs are counted by whoever works with it.
  unsigned add_actor() {
    if (actors + 1 < max_actors) ++actors;
    now[actors - 1] = first;
    return actors - 1;
  }
  Epoch seen(unsigned w, unsigned actor) const {
    const auto& up_to = known[w].seen.up_to;
    return actor < up_to.size() ? up_to[actor] : 0;
  }
  // Ends the epoch of a warp: its lanes are ordered with each other.
  void advance(unsigned w) {
    known[w].seen.up_to[w] = now[w];
    ++now[w];
  }
  // Ends the epoch of a warp, whose lanes stay unordered with each other.
  void tick(unsigned w) { ++now[w]; }
  // Warp w learns that an actor has come to an epoch.
  void learn(unsigned w, unsigned actor, Epoch epoch) {
    auto& up_to = known[w].seen.up_to;
    if (up_to.size() <= actor) up_to.resize(actor + 1, 0);
    up_to[actor] = std::max(up_to[actor], epoch);
  }
  // Lanes of a warp publish to `to` what they know and have done; `whole`: they are all that the warp has.
  void publish(unsigned w, std::uint32_t lanes, bool whole, Knowledge& to) {
    to.join(known[w]);
    if (whole) {
      if (to.seen.up_to.size() <= w) to.seen.up_to.resize(w + 1, 0);
      to.seen.up_to[w] = std::max(to.seen.up_to[w], now[w]);
    } else {
      for (; lanes != 0; lanes &= lanes - 1) {
        to.seen.grant({who_of(w, static_cast<unsigned>(__builtin_ctz(lanes))), now[w]});
      }
    }
    tick(w);
  }
  // A proxy fence of some lanes: all that they know and have done is visible to the async proxy.
  void fence_proxy(unsigned w, std::uint32_t lanes, bool whole) {
    View& fenced = known[w].fenced;
    fenced.join(known[w].seen);
    if (whole) {
      fenced.up_to[w] = std::max(fenced.up_to[w], now[w]);
    } else {
      for (; lanes != 0; lanes &= lanes - 1) {
        fenced.grant({who_of(w, static_cast<unsigned>(__builtin_ctz(lanes))), now[w]});
      }
    }
    tick(w);
  }
  // Whether something of this block, done by `before` in `epoch`, happened before what `me` does now.
  bool ordered(Who before, Epoch epoch, Who me) const {
    if (before == me && lane_of(me) != whole_warp) return true;
    return known[warp_of(me)].seen.holds(before, epoch);
  }
  // Whether a proxy fence stands between the two.
  bool proxied(Who before, Epoch epoch, Who me) const { return known[warp_of(me)].fenced.holds(before, epoch); }
};

}  // namespace autosched::emulator

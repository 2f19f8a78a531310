// Updates of vector clocks. The test of happens-before is inline in the header, because it runs at every access.
#include "machine/clocks.hpp"

namespace autosched::emulator {

void View::grant(Grant g) {
  const auto at = std::lower_bound(grants.begin(), grants.end(), g, before);
  if (at != grants.end() && at->agent == g.agent) {
    at->epoch = std::max(at->epoch, g.epoch);
  } else {
    grants.insert(at, g);
  }
}

void View::add(unsigned w, std::uint32_t lanes, bool whole, Epoch epoch) {
  if (!whole) {
    for (; lanes != 0; lanes &= lanes - 1) {
      grant({agent_of(w, static_cast<unsigned>(std::countr_zero(lanes))), epoch});
    }
    return;
  }
  if (up_to.size() <= w) up_to.resize(w + 1, 0);
  up_to[w] = std::max(up_to[w], epoch);
}

void View::join(const View& other) {
  if (up_to.size() < other.up_to.size()) up_to.resize(other.up_to.size(), 0);
  for (std::size_t a = 0; a < other.up_to.size(); ++a) up_to[a] = std::max(up_to[a], other.up_to[a]);
  if (other.grants.size() < 4) {
    for (const Grant& g : other.grants) grant(g);
    return;
  }
  std::vector<Grant> all;
  all.reserve(grants.size() + other.grants.size());
  std::merge(grants.begin(), grants.end(), other.grants.begin(), other.grants.end(), std::back_inserter(all), before);
  grants.clear();
  for (const Grant& g : all) {
    if (const unsigned actor = warp_of(g.agent); actor < up_to.size() && g.epoch <= up_to[actor]) continue;
    if (!grants.empty() && grants.back().agent == g.agent) {
      grants.back().epoch = std::max(grants.back().epoch, g.epoch);
    } else {
      grants.push_back(g);
    }
  }
}

bool View::granted(Agent agent, Epoch epoch) const {
  for (std::uint32_t lanes = lanes_of(agent); lanes != 0; lanes &= lanes - 1) {
    const Agent lane = agent_of(warp_of(agent), static_cast<unsigned>(std::countr_zero(lanes)));
    const auto at = std::lower_bound(grants.begin(), grants.end(), Grant{lane, 0}, before);
    if (at == grants.end() || at->agent != lane || epoch > at->epoch) return false;
  }
  return true;
}

void Clocks::start_block(unsigned warp_count, Epoch next) {
  first = resumed = next;
  warps = actors = warp_count;
  for (unsigned w = 0; w < warp_count; ++w) {
    now[w] = first;
    known[w].clear();
    alone[w].clear();
    fresh[w] = 0;
    met[w] = ~0u;
    known[w].seen.up_to.assign(warp_count, first - 1);
    known[w].fenced.up_to.assign(warp_count, first - 1);
  }
}

void swap(Clocks& a, Clocks& b) {
  const unsigned most = std::max(a.actors, b.actors), most_known = std::max(a.warps, b.warps);
  std::swap(a.first, b.first);
  std::swap(a.resumed, b.resumed);
  std::swap(a.warps, b.warps);
  std::swap(a.actors, b.actors);
  std::swap_ranges(a.now, a.now + most, b.now);
  std::swap_ranges(a.known, a.known + most_known, b.known);
  std::swap_ranges(a.alone, a.alone + most_known, b.alone);
  std::swap_ranges(a.live, a.live + most_known, b.live);
  std::swap_ranges(a.fresh, a.fresh + most_known, b.fresh);
  std::swap_ranges(a.met, a.met + most_known, b.met);
}

void Clocks::advance(unsigned w) {
  for (const Alone& a : alone[w]) known[w].join(a.knowledge);
  alone[w].clear();
  known[w].seen.up_to[w] = now[w];
  known[w].earlier.add(w, ~0u, true, now[w]);
  fresh[w] = 0;
  met[w] = ~0u;
  ++now[w];
}

void Clocks::learn_alone(unsigned w, std::uint32_t lanes, std::uint32_t living, std::uint64_t event,
                         const Knowledge& knowledge, unsigned actor, Epoch epoch) {
  live[w] = living;
  fresh[w] |= lanes;
  auto& mine = alone[w];
  auto same = std::find_if(mine.begin(), mine.end(), [&](const Alone& a) { return a.event == event; });
  if (same != mine.end()) {
    same->lanes |= lanes;
  } else if ((lanes & living) != living) {
    mine.push_back({lanes, event, knowledge});
    same = mine.end() - 1;
    auto& up_to = same->knowledge.seen.up_to;
    if (up_to.size() <= actor) up_to.resize(actor + 1, 0);
    up_to[actor] = std::max(up_to[actor], epoch);
  }
  if (same == mine.end() || (same->lanes & living) == living) {
    known[w].join(knowledge);
    learn(w, actor, epoch);
    if (same != mine.end()) {
      known[w].join(same->knowledge);
      mine.erase(same);
    }
  } else if (mine.size() > 4) {
    forget_event(mine);
  }
}

void Clocks::forget_event(std::vector<Alone>& mine) {
  const auto oldest = std::find_if(mine.begin(), mine.end(), [](const Alone& a) { return a.event != 0; });
  if (oldest == mine.end()) return;
  oldest->event = 0;
  for (auto a = mine.begin(); a != mine.end(); ++a) {
    if (a != oldest && a->event == 0 && a->lanes == oldest->lanes) {
      a->knowledge.join(oldest->knowledge);
      mine.erase(oldest);
      return;
    }
  }
}

void Clocks::share(unsigned w, std::uint32_t lanes, std::uint32_t living) {
  live[w] = living;
  auto& mine = alone[w];
  for (Alone& a : mine) {
    if ((a.lanes & lanes) != 0) a.lanes |= lanes, a.event = 0;
  }
  if (is_group(lanes)) {
    Alone own{lanes, 0, {}};
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
      own.knowledge.seen.grant({agent_of(w, static_cast<unsigned>(std::countr_zero(left))), now[w]});
    }
    mine.push_back(std::move(own));
  } else {
    known[w].seen.up_to[w] = now[w];
  }
  tick(w);
  // Merges entries of the same lanes.
  for (std::size_t k = mine.size(); k-- > 0;) {
    if (mine[k].event != 0) continue;
    for (std::size_t n = 0; n < k; ++n) {
      if (mine[n].event != 0 || mine[n].lanes != mine[k].lanes) continue;
      mine[n].knowledge.join(mine[k].knowledge);
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(k));
      break;
    }
  }
}

View Clocks::view_of(unsigned w, unsigned lane) const {
  View all = known[w].seen;
  for (const Alone& a : alone[w]) {
    if (a.lanes >> lane & 1u) all.join(a.knowledge.seen);
  }
  return all;
}

void Clocks::share_flags(unsigned w, std::uint32_t lanes) {
  auto& mine = alone[w];
  for (std::size_t k = 0; k < mine.size();) {
    if ((mine[k].event & event_of_flag) == event_of_flag && (mine[k].lanes & lanes) != 0) mine[k].lanes |= lanes;
    if ((mine[k].lanes & live[w]) == live[w]) {
      known[w].join(mine[k].knowledge);
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(k));
    } else {
      ++k;
    }
  }
}

void Clocks::begin() {
  for (unsigned w = 0; w < warps; ++w) {
    known[w].seen.up_to.assign(warps, first);
    ++now[w];
  }
}

void Clocks::publish(unsigned w, std::uint32_t lanes, bool whole, Knowledge& to) {
  to.join(known[w]);
  for (const Alone& a : alone[w]) {
    if ((a.lanes & lanes) != 0) to.join(a.knowledge);
  }
  to.seen.add(w, lanes, whole, now[w]);
  to.earlier.add(w, lanes, whole, now[w]);
  tick(w);
}

void Clocks::precede(unsigned w, std::uint32_t lanes, bool whole, View& to) {
  to.join(known[w].earlier);
  for (const Alone& a : alone[w]) {
    if ((a.lanes & lanes) != 0) to.join(a.knowledge.earlier);
  }
  to.add(w, lanes, whole, now[w]);
  tick(w);
}

void Clocks::meet_anew(unsigned w, std::uint32_t lanes, std::uint32_t living) {
  const bool whole = (lanes & living) == living;
  Alone together{lanes, 0, {}};
  View& earlier = whole ? known[w].earlier : together.knowledge.earlier;
  for (const Alone& a : alone[w]) {
    if ((a.lanes & lanes) != 0) earlier.join(a.knowledge.earlier);
  }
  earlier.add(w, lanes, whole, now[w]);
  tick(w);
  fresh[w] = whole ? 0 : fresh[w] & ~lanes;
  met[w] = whole ? ~0u : lanes;
  if (whole) return;
  live[w] = living;
  auto& mine = alone[w];
  const auto same = std::find_if(mine.begin(), mine.end(), [&](const Alone& a) { return a.event == 0 && a.lanes == lanes; });
  if (same == mine.end()) {
    mine.push_back(std::move(together));
  } else {
    same->knowledge.join(together.knowledge);
  }
}

void Clocks::fence_proxy(unsigned w, std::uint32_t lanes, bool whole) {
  View& fenced = known[w].fenced;
  fenced.join(known[w].seen);
  for (std::size_t k = 0, count = alone[w].size(); k < count; ++k) {
    const std::uint32_t both = alone[w][k].lanes & lanes;
    if (both == 0) continue;
    if (both == alone[w][k].lanes) {
      alone[w][k].knowledge.fenced.join(alone[w][k].knowledge.seen);
      continue;
    }
    Alone part{both, 0, alone[w][k].knowledge};
    part.knowledge.fenced.join(part.knowledge.seen);
    const auto same = std::find_if(alone[w].begin(), alone[w].end(),
                                   [&](const Alone& a) { return a.event == 0 && a.lanes == both; });
    if (same == alone[w].end()) {
      alone[w].push_back(std::move(part));
    } else {
      same->knowledge.join(part.knowledge);
    }
  }
  fenced.add(w, lanes, whole, now[w]);
  tick(w);
}

bool Clocks::any_knows(Agent before, Epoch epoch, unsigned w) const {
  return known[w].seen.holds(before, epoch) ||
         std::any_of(alone[w].begin(), alone[w].end(),
                     [&](const Alone& a) { return a.knowledge.seen.holds(before, epoch); });
}

bool Clocks::hold_alone(View Knowledge::*view, Agent before, Epoch epoch, Agent me) const {
  const unsigned w = warp_of(me);
  std::uint32_t knowing = 0;
  for (const Alone& a : alone[w]) {
    if ((a.knowledge.*view).holds(before, epoch)) knowing |= a.lanes;
  }
  const std::uint32_t needed = lane_of(me) == whole_warp ? live[w] : 1u << lane_of(me);
  return (knowing & needed) == needed;
}

}  // namespace autosched::emulator

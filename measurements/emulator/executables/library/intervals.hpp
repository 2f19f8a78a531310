// A set of bytes, stored as disjoint and non-adjacent ranges.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace autosched::program {

class Intervals {
 public:
  using Stretch = std::pair<std::uint64_t, std::uint64_t>;  // begin, end

  bool empty() const { return stretches_.empty(); }
  auto begin() const { return stretches_.begin(); }
  auto end() const { return stretches_.end(); }

  void add(std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    auto it = first_behind(from);
    if (it != stretches_.begin() && std::prev(it)->second == from) --it;
    while (it != stretches_.end() && it->first <= to) {
      from = std::min(from, it->first);
      to = std::max(to, it->second);
      it = stretches_.erase(it);
    }
    stretches_[from] = to;
  }
  void remove(std::uint64_t from, std::uint64_t to) {
    for (auto it = first_behind(from); it != stretches_.end() && it->first < to;) {
      const Stretch old = *it;
      it = stretches_.erase(it);
      if (old.first < from) stretches_[old.first] = from;
      if (old.second > to) stretches_[to] = old.second;
    }
  }
  // The intersection of the set with a range.
  std::vector<Stretch> in(std::uint64_t from, std::uint64_t to) const {
    std::vector<Stretch> found;
    auto it = stretches_.upper_bound(from);
    if (it != stretches_.begin() && std::prev(it)->second > from) --it;
    for (; it != stretches_.end() && it->first < to; ++it) found.emplace_back(std::max(it->first, from), std::min(it->second, to));
    return found;
  }
  bool has_all(std::uint64_t from, std::uint64_t to) const {
    const auto found = in(from, to);
    return found.size() == 1 && found[0] == Stretch{from, to};
  }
  // The intersection of two sets.
  Intervals both(const Intervals& other) const {
    Intervals common;
    for (const auto& [from, to] : other) {
      for (const Stretch& s : in(from, to)) common.add(s.first, s.second);
    }
    return common;
  }

 private:
  std::map<std::uint64_t, std::uint64_t>::iterator first_behind(std::uint64_t from) {
    auto it = stretches_.upper_bound(from);
    if (it != stretches_.begin() && std::prev(it)->second > from) --it;
    return it;
  }
  std::map<std::uint64_t, std::uint64_t> stretches_;
};

}  // namespace autosched::program

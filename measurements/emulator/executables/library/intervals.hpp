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
    auto stretch = first_behind(from);
    if (stretch != stretches_.begin() && std::prev(stretch)->second == from) --stretch;
    while (stretch != stretches_.end() && stretch->first <= to) {
      from = std::min(from, stretch->first);
      to = std::max(to, stretch->second);
      stretch = stretches_.erase(stretch);
    }
    stretches_[from] = to;
  }
  void remove(std::uint64_t from, std::uint64_t to) {
    for (auto stretch = first_behind(from); stretch != stretches_.end() && stretch->first < to;) {
      const Stretch old = *stretch;
      stretch = stretches_.erase(stretch);
      if (old.first < from) stretches_[old.first] = from;
      if (old.second > to) stretches_[to] = old.second;
    }
  }
  // The intersection of the set with a range.
  std::vector<Stretch> in(std::uint64_t from, std::uint64_t to) const {
    std::vector<Stretch> common;
    auto stretch = stretches_.upper_bound(from);
    if (stretch != stretches_.begin() && std::prev(stretch)->second > from) --stretch;
    for (; stretch != stretches_.end() && stretch->first < to; ++stretch) {
      common.emplace_back(std::max(stretch->first, from), std::min(stretch->second, to));
    }
    return common;
  }
  bool has_all(std::uint64_t from, std::uint64_t to) const {
    const auto common = in(from, to);
    return common.size() == 1 && common[0] == Stretch{from, to};
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
    auto stretch = stretches_.upper_bound(from);
    if (stretch != stretches_.begin() && std::prev(stretch)->second > from) --stretch;
    return stretch;
  }
  std::map<std::uint64_t, std::uint64_t> stretches_;
};

}  // namespace autosched::program

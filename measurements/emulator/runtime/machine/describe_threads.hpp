// Describes what threads are doing, for findings about threads that wait for them.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Formats linear thread indices, which are in ascending order, such as "threads 0-31, 64".
inline std::string list_threads(const std::vector<unsigned>& indices) {
  std::string text = indices.size() == 1 ? "thread " : "threads ";
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t j = i;
    while (j + 1 < indices.size() && indices[j + 1] == indices[j] + 1) ++j;
    if (i != 0) text += ", ";
    text += std::to_string(indices[i]);
    if (j > i) text += "-" + std::to_string(indices[j]);
    i = j + 1;
  }
  return text;
}

// Describes the threads for which `applies` is true: "threads 32-63: exited; thread 5: at mma.sync, f.cuh:3".
template <class Predicate>
std::string describe_others(Machine& machine, Predicate applies) {
  std::vector<std::pair<std::string, std::vector<unsigned>>> groups;
  for (const Thread& t : machine.threads) {
    if (!applies(t)) continue;
    std::string status =
        t.state == State::exited ? "exited"
        : t.state == State::runnable || t.collective == nullptr
            ? "at " + describe_site(machine.report, t.site)
            : std::string("at ") + t.collective->name + ", " + describe_site(machine.report, t.site);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == status; });
    if (group == groups.end()) group = groups.insert(groups.end(), {status, {}});
    group->second.push_back(t.linear);
  }
  std::string text;
  for (const auto& [status, indices] : groups) {
    if (!text.empty()) text += "; ";
    text += list_threads(indices) + ": " + status;
  }
  return text.empty() ? "there are no other threads" : text;
}

}  // namespace autosched::emulator

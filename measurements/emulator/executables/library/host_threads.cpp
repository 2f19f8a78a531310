#include "host_threads.hpp"

#include <dirent.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "call_site.hpp"
#include "core.hpp"

namespace autosched::program {
namespace {

// Maximum number of delays at one source line, and in total; maximum length of a delay.
constexpr unsigned most_of_site = 2, most = 20, milliseconds = 100;

std::atomic<std::uint64_t> actions{0};
thread_local std::uint64_t own_actions = 0;

// True if this wait should be delayed. Counts the delays at the program's source line.
bool takes_delay() {
  static std::unordered_map<std::string, unsigned> of_site;
  static unsigned all = 0;
  const std::string site = call_site();
  const std::lock_guard lock(session_mutex());
  if (all == most || of_site[site] == most_of_site) return false;
  return ++all, ++of_site[site], true;
}

}  // namespace

void note_action() {
  ++own_actions;
  ++actions;
}

bool has_other_threads() {
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return false;
  unsigned count = 0;
  while (const dirent* const entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count > 1;
}

void let_others_act() {
  if (!has_other_threads() || !takes_delay()) return;
  const std::uint64_t before = actions - own_actions;
  for (unsigned k = 0; k < milliseconds && actions - own_actions == before; ++k) usleep(1000);
}

}  // namespace autosched::program

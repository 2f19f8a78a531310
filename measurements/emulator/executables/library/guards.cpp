#include "guards.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>

#include "call_site.hpp"
#include "core.hpp"
#include "host_threads.hpp"
#include "intervals.hpp"
#include "order.hpp"

namespace autosched::program {
namespace {

constexpr std::uint64_t page = 4096;

struct Guard {
  std::uint64_t to;
  unsigned use;  // how pending work accesses the pages (Use)
};
struct Guards {
  std::map<std::uint64_t, Guard> guards;  // ranges of guarded pages, by the address of the first page
  Intervals opened;  // guarded pages that are accessible until the next call of the library
  struct sigaction before {};
  bool handles = false;
};
Guards& guards() {
  static Guards* g = new Guards;
  return *g;
}

void protect(std::uint64_t from, std::uint64_t to, unsigned use) {
  const int allowed = use == 0 ? PROT_READ | PROT_WRITE : (use & use_write) != 0 ? PROT_NONE : PROT_READ;
  mprotect(reinterpret_cast<void*>(from), to - from, allowed);
}

void on_touch(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  {
    const std::lock_guard lock(session_mutex());
    Guards& b = guards();
    auto entry = b.guards.upper_bound(address);
    if (entry != b.guards.begin() && (--entry)->second.to > address) {
      // if pending work only reads a page, the page stays readable, so a faulting access to it is a write
      bool writes = entry->second.use == use_read;
#if defined(__x86_64__)
      writes = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#endif
      const Allocation* a = allocation_of(info->si_addr);
      std::ostringstream text;
      flush_order();
      text << "touch " << (a != nullptr ? a->address : 0) << " " << address << " " << (writes ? use_write : use_read) << " " << call_site();
      const bool stays = ask(text.str()) == "pending";
      note_action();
      if (stays) {
        open_pages(address, address + 1);
      } else if (a != nullptr) {
        lift_guards(a->address, a->address + a->bytes);
      } else {
        lift_guards(address, address + 1);
      }
      errno = error;
      return;
    }
  }
  // The fault is not caused by a guard: handle it as if this handler did not exist.
  const struct sigaction& before = guards().before;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the instruction is repeated, and the signal then ends the program
}

void handle_touches() {
  Guards& b = guards();
  if (b.handles) return;
  b.handles = true;
  struct sigaction action {};
  action.sa_sigaction = on_touch;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &b.before);
}

}  // namespace

void close_opened() {
  Guards& b = guards();
  if (b.opened.empty()) return;
  for (const auto& [from, to] : b.opened) {
    for (auto it = b.guards.begin(); it != b.guards.end() && it->first < to; ++it) {
      if (it->second.to > from) protect(std::max(it->first, from), std::min(it->second.to, to), it->second.use);
    }
  }
  b.opened = {};
}

void open_pages(std::uint64_t from, std::uint64_t to) {
  Guards& b = guards();
  for (const auto& [begin, guard] : b.guards) {
    const std::uint64_t first = std::max(begin, from / page * page), end = std::min(guard.to, (to + page - 1) / page * page);
    if (first >= end) continue;
    protect(first, end, 0);
    b.opened.add(first, end);
  }
}

void renew_guards() {
  Guards& b = guards();
  if (b.guards.empty()) return;
  flush_order();
  std::istringstream pending(ask("pending"));
  std::map<std::uint64_t, Guard> old;
  std::swap(old, b.guards);
  for (const auto& [from, g] : old) protect(from, g.to, 0);
  b.opened = {};
  std::uint64_t from = 0, bytes = 0;
  for (unsigned use = 0; pending >> from >> bytes >> use;) guard(from, from + bytes, use);
}

void guard(std::uint64_t from, std::uint64_t to, unsigned use) {
  handle_touches();
  Guards& b = guards();
  from = from / page * page;
  to = (to + page - 1) / page * page;
  while (from < to) {  // an existing guard keeps its use; a pending write is added
    auto entry = b.guards.upper_bound(from);
    if (entry != b.guards.begin() && std::prev(entry)->second.to > from) --entry;
    if (entry == b.guards.end() || entry->first >= to) {
      b.guards[from] = {to, use};
      protect(from, to, use);
      return;
    }
    if (entry->first > from) {
      b.guards[from] = {entry->first, use};
      protect(from, entry->first, use);
    }
    const std::uint64_t end = entry->second.to;
    if ((use & ~entry->second.use & use_write) != 0) {
      entry->second.use |= use;
      protect(entry->first, end, entry->second.use);
    }
    from = end;
  }
}

void lift_guards(std::uint64_t from, std::uint64_t to) {
  Guards& b = guards();
  for (auto entry = b.guards.begin(); entry != b.guards.end();) {
    if (entry->first < to && entry->second.to > from) {
      protect(entry->first, entry->second.to, 0);
      b.opened.remove(entry->first, entry->second.to);
      entry = b.guards.erase(entry);
    } else {
      ++entry;
    }
  }
}

}  // namespace autosched::program

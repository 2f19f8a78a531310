#include "order.hpp"

#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <unordered_map>

#include "host_threads.hpp"
#include "intervals.hpp"

namespace autosched::program {
namespace {

constexpr unsigned legacy = 1;  // as host_order.py has it
constexpr unsigned non_blocking = 1;  // cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING
constexpr std::size_t most_noted = 1 << 15;  // bytes of text that are sent together
constexpr std::size_t most_frames = 8;
constexpr std::uint64_t page = 4096;

struct Stream {
  StreamFacts facts;
  unsigned number;
};
struct Event {
  unsigned number;
  double at = 0;
  bool recorded = false;
};
struct Noted {
  const Allocation* allocation;
  std::uint64_t first;
  std::size_t width, rows, pitch;
  unsigned use;
};
struct Guard {
  std::uint64_t to;
  unsigned use;  // of work that is pending
};

// What is known of the order. Under the mutex of the session.
struct Books {
  std::string noted;  // lines that have not been sent
  std::unordered_map<const void*, Stream> streams;
  std::unordered_map<const void*, Event> events;
  unsigned next_stream = legacy + 1, next_event = 1;
  std::map<std::uint64_t, Guard> guards;  // pages, by the first
  Intervals opened;  // pages of guards that somebody may touch until the next call
  struct sigaction before {};
  bool handles = false;
};
Books& books() {
  static Books* b = new Books;
  return *b;
}

thread_local unsigned per_thread_stream = 0;  // its number; 0: none yet
thread_local bool null_is_per_thread = false;

struct Running {
  unsigned stream = legacy;
  bool asynchronous = false;
  const char* function = "";
  std::string site;
  std::vector<Noted> uses;
  bool from_host = false, to_host = false;  // pageable memory
  unsigned depth = 0;
};
thread_local Running running;
thread_local unsigned graph_stream = 0;  // on which a graph runs: a stream's number, or of a child its node's; 0: none does
thread_local std::string graph_site;     // where it was launched

// Where the program's own file lies in memory.
struct OwnFile {
  std::uint64_t base = 0, from = ~std::uint64_t{0}, to = 0;
};
const OwnFile& own_file() {
  static const OwnFile own = [] {
    OwnFile o;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          auto& o = *static_cast<OwnFile*>(to);
          o.base = info->dlpi_addr;
          for (int k = 0; k < info->dlpi_phnum; ++k) {
            const auto& segment = info->dlpi_phdr[k];
            if (segment.p_type != PT_LOAD) continue;
            o.from = std::min<std::uint64_t>(o.from, o.base + segment.p_vaddr);
            o.to = std::max<std::uint64_t>(o.to, o.base + segment.p_vaddr + segment.p_memsz);
          }
          return 1;  // the first one is the program
        },
        &o);
    return o;
  }();
  return own;
}

}  // namespace

std::string call_site() {
  struct Found {
    std::string text;
    std::size_t count = 0, seen = 0;
  } found;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* to) {
        auto& found = *static_cast<Found*>(to);
        int exact = 0;
        const std::uint64_t at = _Unwind_GetIPInfo(context, &exact) - (exact != 0 ? 0 : 1);
        const OwnFile& own = own_file();
        if (at >= own.from && at < own.to) {
          char digits[20];
          std::snprintf(digits, sizeof digits, "%s%llx", found.count == 0 ? "" : ",", static_cast<unsigned long long>(at - own.base));
          found.text += digits;
          ++found.count;
        }
        return found.count == most_frames || ++found.seen == 64 ? _URC_NORMAL_STOP : _URC_NO_REASON;
      },
      &found);
  return found.text.empty() ? "-" : found.text;
}

namespace {

void note(const std::string& line) {
  Books& b = books();
  b.noted += line;
  b.noted += '\n';
  if (b.noted.size() > most_noted) flush_order();
}

// Guards ------------------------------------------------------------------------------------------------------------

void protect(std::uint64_t from, std::uint64_t to, unsigned use) {
  const int allowed = use == 0 ? PROT_READ | PROT_WRITE : (use & use_write) != 0 ? PROT_NONE : PROT_READ;
  mprotect(reinterpret_cast<void*>(from), to - from, allowed);
}

void close_opened() {
  Books& b = books();
  if (b.opened.empty()) return;
  for (const auto& [from, to] : b.opened) {
    for (auto it = b.guards.begin(); it != b.guards.end() && it->first < to; ++it) {
      if (it->second.to > from) protect(std::max(it->first, from), std::min(it->second.to, to), it->second.use);
    }
  }
  b.opened = {};
}

// Pages that the library itself, or the host, is about to touch.
void open_pages(std::uint64_t from, std::uint64_t to) {
  Books& b = books();
  for (const auto& [begin, guard] : b.guards) {
    const std::uint64_t first = std::max(begin, from / page * page), end = std::min(guard.to, (to + page - 1) / page * page);
    if (first >= end) continue;
    protect(first, end, 0);
    b.opened.add(first, end);
  }
}

void on_touch(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  {
    const std::lock_guard lock(session_mutex());
    Books& b = books();
    auto it = b.guards.upper_bound(address);
    if (it != b.guards.begin() && (--it)->second.to > address) {
      bool writes = it->second.use == use_read;  // reading is allowed
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
  // Not ours: as without us.
  const struct sigaction& before = books().before;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // it comes again, and ends the program
}

void handle_touches() {
  Books& b = books();
  if (b.handles) return;
  b.handles = true;
  struct sigaction action {};
  action.sa_sigaction = on_touch;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &b.before);
}

// What the host has waited for is no longer guarded.
void renew_guards() {
  Books& b = books();
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

// Operations ---------------------------------------------------------------------------------------------------------

void begin(const char* function, unsigned stream, bool asynchronous) {
  if (running.depth++ != 0) {
    if (*running.function == '\0') running.function = function;  // of a call that is work by another name
    return;
  }
  running.stream = stream;
  running.asynchronous = asynchronous;
  running.function = function;
  running.site = graph_stream != 0 ? graph_site : call_site();
  running.uses.clear();
  running.from_host = running.to_host = false;
  const std::lock_guard lock(session_mutex());
  close_opened();
}

// Whether the host goes on only when an operation is done ("API synchronization behavior", CUDA Runtime API). What the memory
// of a copy from pageable memory holds in the end is taken for done, too.
bool host_waits() {
  bool host = running.from_host || running.to_host, device = false, pinned = false;
  for (const Noted& n : running.uses) {
    pinned = pinned || n.allocation->kind == Allocation::Kind::host;
    device = device || (n.allocation->kind != Allocation::Kind::host && n.allocation->kind != Allocation::Kind::managed);
  }
  if (running.uses.empty()) return false;
  const bool is_copy = host || running.uses.size() > 1;
  if (!is_copy) return pinned;  // a memset
  if (running.asynchronous) return running.to_host || !device;
  return host || pinned || !device;
}

void note_work(bool waits) {
  std::ostringstream text;
  text << "work " << running.stream << " " << waits << " " << running.site << " " << running.uses.size();
  for (const Noted& n : running.uses) {
    text << " " << n.allocation->address << " " << n.first << " " << n.width << " " << n.rows << " " << n.pitch << " " << n.use;
  }
  text << " " << running.function;
  note(text.str());
  if (waits) return renew_guards();
  for (const Noted& n : running.uses) {
    if (n.allocation->kind == Allocation::Kind::host || n.allocation->kind == Allocation::Kind::managed) {
      guard(n.first, n.first + (n.rows - 1) * n.pitch + n.width, n.use);
    }
  }
}

void end() {
  if (--running.depth != 0) return;
  note_action();
  if (running.uses.empty()) return;
  const bool waits = host_waits(), delayed = waits && has_other_threads();
  {
    const std::lock_guard lock(session_mutex());
    note_work(waits && !delayed);
  }
  if (!delayed) return;
  const unsigned stream = running.stream;
  let_others_act();
  const std::lock_guard lock(session_mutex());
  note("stream_done " + std::to_string(stream));
  renew_guards();
}

}  // namespace

unsigned stream_number(void* stream) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  if (handle == 2 || (handle == 0 && null_is_per_thread)) {
    if (per_thread_stream == 0) {
      per_thread_stream = b.next_stream++;
      note("stream " + std::to_string(per_thread_stream) + " 1");
    }
    return per_thread_stream;
  }
  const auto found = b.streams.find(stream);
  return found == b.streams.end() ? legacy : found->second.number;
}

void* add_stream(unsigned flags, int priority) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  void* const handle = ::operator new(sizeof(Stream));
  const unsigned number = b.next_stream++;
  b.streams[handle] = {{flags, priority}, number};
  note("stream " + std::to_string(number) + ((flags & non_blocking) != 0 ? " 0" : " 1"));
  return handle;
}
void destroy_stream(void* stream) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  const auto found = b.streams.find(stream);
  if (found == b.streams.end()) return;
  note("destroy " + std::to_string(found->second.number));
  b.streams.erase(found);
  ::operator delete(stream);
}
StreamFacts stream_facts(void* stream) {
  const std::lock_guard lock(session_mutex());
  const auto found = books().streams.find(stream);
  return found == books().streams.end() ? StreamFacts{0, 0} : found->second.facts;
}

void* add_event() {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  void* const handle = ::operator new(sizeof(Event));
  b.events[handle] = {b.next_event++};
  return handle;
}
void destroy_event(void* event) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  if (b.events.erase(event) != 0) ::operator delete(event);
}
void record_event(void* event, void* stream) {
  const unsigned number = stream_number(stream);
  const std::lock_guard lock(session_mutex());
  const auto found = books().events.find(event);
  if (found == books().events.end()) return;
  found->second.at = now_milliseconds();
  found->second.recorded = true;
  note("trial " + std::to_string(found->second.number) + " " + std::to_string(number));
}
bool event_milliseconds(void* event, double& at) {
  const std::lock_guard lock(session_mutex());
  const auto found = books().events.find(event);
  if (found == books().events.end() || !found->second.recorded) return false;
  return at = found->second.at, true;
}
void wait_for_event(void* stream, void* event) {
  const unsigned number = stream_number(stream);
  const std::lock_guard lock(session_mutex());
  const auto found = books().events.find(event);
  if (found != books().events.end()) note("wait " + std::to_string(number) + " " + std::to_string(found->second.number));
}
void host_waits_for_event(void* event) {
  let_others_act();
  const std::lock_guard lock(session_mutex());
  const auto found = books().events.find(event);
  if (found == books().events.end()) return;
  note("event_done " + std::to_string(found->second.number));
  renew_guards();
}
void host_waits_for_stream(void* stream) {
  let_others_act();
  const unsigned number = stream_number(stream);
  const std::lock_guard lock(session_mutex());
  note("stream_done " + std::to_string(number));
  renew_guards();
}
void host_waits_for_device() {
  let_others_act();
  const std::lock_guard lock(session_mutex());
  note("device_done");
  renew_guards();
}

PerThreadDefault::PerThreadDefault() : before_(null_is_per_thread) { null_is_per_thread = true; }
PerThreadDefault::~PerThreadDefault() { null_is_per_thread = before_; }

Operation::Operation(const char* function) { begin(function, running.depth != 0 ? running.stream : stream_number(nullptr), false); }
Operation::Operation(void* stream, const char* function) {
  begin(function, running.depth != 0 ? running.stream : stream_number(stream), true);
}
Operation::Operation(unsigned node) { begin("", node, true); }
Operation::~Operation() { end(); }

GraphLaunch::GraphLaunch(void* stream) {
  graph_site = call_site();
  graph_stream = stream_number(stream);
}
GraphLaunch::~GraphLaunch() { graph_stream = 0; }

unsigned GraphRun::begin(const std::vector<std::size_t>& after, const std::string& site) {
  const std::lock_guard lock(session_mutex());
  const unsigned number = books().next_stream++;
  std::string line = "node " + std::to_string(number) + " " + std::to_string(graph_stream) + " " + site;
  for (const std::size_t k : after) line += " " + std::to_string(numbers_[k]);
  note(line);
  numbers_.push_back(number);
  parent_ = graph_stream;
  graph_stream = number;
  return number;
}
void GraphRun::end() {
  const std::lock_guard lock(session_mutex());
  note("node_done " + std::to_string(graph_stream));
  graph_stream = parent_;
}
GraphRun::~GraphRun() {
  const std::lock_guard lock(session_mutex());
  std::string line = "joined " + std::to_string(graph_stream);
  for (const unsigned number : numbers_) line += " " + std::to_string(number);
  note(line);
}

void note_use(const void* address, std::size_t bytes, Use use) {
  const std::lock_guard lock(session_mutex());
  if (!in_arena(address)) {
    (use == use_write ? running.to_host : running.from_host) = true;
    return;
  }
  const Allocation* a = allocation_of(address);
  if (a == nullptr || bytes == 0) return;
  const auto first = reinterpret_cast<std::uint64_t>(address);
  open_pages(first, first + bytes);  // the copy itself touches them
  for (Noted& n : running.uses) {  // the next row, or plane, of the same
    if (n.allocation != a || n.use != use || n.width != bytes) continue;
    const std::uint64_t step = first - n.first;
    if (n.rows == 1 && first > n.first) n.pitch = step;
    if (n.pitch != 0 && step == n.rows * n.pitch) {
      ++n.rows;
      return;
    }
  }
  running.uses.push_back({a, first, bytes, 1, 0, use});
}

std::string running_stream_and_site() { return std::to_string(running.stream) + " " + running.site; }

void note_allocation(const Allocation& a) {
  note("allocated " + std::to_string(a.address) + " " + std::to_string(static_cast<int>(a.kind)) + " " + a.name);
}

void note_free(const Allocation& a, bool in_stream_order) {
  const std::lock_guard lock(session_mutex());
  if (in_stream_order) {  // another one may lie there from here on
    note("work " + std::to_string(running.stream) + " 0 " + running.site + " 1 " + std::to_string(a.address) + " " +
         std::to_string(a.address) + " " + std::to_string(a.bytes) + " 1 0 " + std::to_string(use_write) + " " + running.function);
  }
  if (a.pooled && !in_stream_order) note("free_unordered " + std::to_string(a.address) + " " + std::to_string(a.bytes) + " " + call_site());
  lift_guards(a.address, a.address + a.bytes);
  note("free " + std::to_string(a.address));
}

void callback_done() {
  const std::lock_guard lock(session_mutex());
  note("stream_done " + std::to_string(running.stream));
  renew_guards();
}

void guard(std::uint64_t from, std::uint64_t to, unsigned use) {
  handle_touches();
  Books& b = books();
  from = from / page * page;
  to = (to + page - 1) / page * page;
  while (from < to) {  // pages that have one may get a stricter one
    auto it = b.guards.upper_bound(from);
    if (it != b.guards.begin() && std::prev(it)->second.to > from) --it;
    if (it == b.guards.end() || it->first >= to) {
      b.guards[from] = {to, use};
      protect(from, to, use);
      return;
    }
    if (it->first > from) {
      b.guards[from] = {it->first, use};
      protect(from, it->first, use);
    }
    const std::uint64_t end = it->second.to;
    if ((use & ~it->second.use & use_write) != 0) {
      it->second.use |= use;
      protect(it->first, end, it->second.use);
    }
    from = end;
  }
}

void lift_guards(std::uint64_t from, std::uint64_t to) {
  Books& b = books();
  for (auto it = b.guards.begin(); it != b.guards.end();) {
    if (it->first < to && it->second.to > from) {
      protect(it->first, it->second.to, 0);
      b.opened.remove(it->first, it->second.to);
      it = b.guards.erase(it);
    } else {
      ++it;
    }
  }
}

void flush_order() {
  Books& b = books();
  if (b.noted.empty()) return;
  std::string lines;
  std::swap(lines, b.noted);
  ask("order\n" + lines);
}

// What is still to be said when the program ends.
__attribute__((destructor)) static void say_the_rest() {
  if (books().noted.empty()) return;
  const std::lock_guard lock(session_mutex());
  flush_order();
}

}  // namespace autosched::program

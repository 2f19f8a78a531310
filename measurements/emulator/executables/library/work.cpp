#include "work.hpp"

#include <sstream>

#include "call_site.hpp"
#include "guards.hpp"
#include "host_threads.hpp"
#include "order.hpp"

namespace autosched::program {
namespace {

struct Noted {
  const Allocation* allocation;
  std::uint64_t first;
  std::size_t width, rows, pitch;
  unsigned use;
};
struct Running {
  unsigned stream = legacy;
  bool asynchronous = false;
  const char* function = "";
  std::string site;
  std::vector<Noted> uses;
  bool from_host = false, to_host = false;  // reads, or writes, pageable host memory
  unsigned depth = 0;
};
thread_local Running running;
// Id of the stream on which a graph runs, or of the running node of a graph; 0 outside of graphs.
thread_local unsigned graph_stream = 0;
thread_local std::string graph_site;  // call site of the graph's launch, or of the running node's creation

void begin(const char* function, unsigned stream, bool asynchronous) {
  if (running.depth++ != 0) {
    // One API call may be implemented by another. The name of the outermost call is kept.
    if (*running.function == '\0') running.function = function;
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

// True if the host waits for an operation ("API synchronization behavior", CUDA Runtime API). A synchronous copy from
// pageable memory counts as complete when it returns, although a GPU may still be transferring the data.
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
  const unsigned number = next_timeline();
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

unsigned running_node() { return graph_stream; }

void note_use(const void* address, std::size_t bytes, Use use) {
  const std::lock_guard lock(session_mutex());
  if (!in_arena(address)) {
    (use == use_write ? running.to_host : running.from_host) = true;
    return;
  }
  const Allocation* a = allocation_of(address);
  if (a == nullptr || bytes == 0) return;
  const auto first = reinterpret_cast<std::uint64_t>(address);
  open_pages(first, first + bytes);  // the operation itself accesses the pages
  for (Noted& n : running.uses) {  // merges the access with earlier rows or planes of a copy
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
  if (in_stream_order) {  // later work of the stream may reuse the memory for another allocation
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

}  // namespace autosched::program

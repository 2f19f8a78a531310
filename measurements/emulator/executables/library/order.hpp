// Tells `autosched run` on which streams work runs, what it uses and what waits for what; it judges the order
// (measurements/emulator/host_order.py). Memory that the host can touch is protected while work that nobody has waited for
// uses it, so that what the host does there is seen.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core.hpp"

namespace autosched::program {

// Streams, by the handles of the program: nullptr, 1 and 2 are the default ones.
void* add_stream(unsigned flags, int priority);
void destroy_stream(void* stream);
struct StreamFacts {
  unsigned flags;
  int priority;
};
StreamFacts stream_facts(void* stream);
unsigned stream_number(void* stream);  // as host_order.py has it

void* add_event();
void destroy_event(void* event);
void record_event(void* event, void* stream);
bool event_milliseconds(void* event, double& at);  // false: it was never recorded
void wait_for_event(void* stream, void* event);
void host_waits_for_event(void* event);
void host_waits_for_stream(void* stream);
void host_waits_for_device();

// Within, functions that are compiled for the default stream of each thread take that for the null stream.
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();

 private:
  bool before_;
};

// Work that is given to a stream. Within another one it belongs to that. Without one, a copy is the host's, which waits for it.
class Operation {
 public:
  enum class Waits { no, yes };
  explicit Operation(const char* function);              // on the default stream; the host waits as the memory says
  Operation(void* stream, const char* function);         // asynchronous
  explicit Operation(unsigned node);                     // of a graph that runs (GraphRun)
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
};
// Within, a graph runs on a stream: its nodes come after what the stream has been given, and after each other where edges
// say so. Graphs within are children, and run as the node that is theirs.
class GraphLaunch {
 public:
  explicit GraphLaunch(void* stream);
  ~GraphLaunch();
  GraphLaunch(const GraphLaunch&) = delete;
  GraphLaunch& operator=(const GraphLaunch&) = delete;
};
class GraphRun {
 public:
  GraphRun() = default;
  ~GraphRun();  // what the stream, or the parent, does next comes after all nodes
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;
  // The next node: those it comes after, counted from 0, and where the program has made it. Its number, as of a stream.
  unsigned begin(const std::vector<std::size_t>& after, const std::string& site);
  void end();

 private:
  std::vector<unsigned> numbers_;
  unsigned parent_ = 0;
};
std::string call_site();  // the calls in the program's own file that have led here, the nearest first

enum Use : unsigned { use_read = 1, use_write = 2 };
// The running operation uses memory: pageable memory of the host, or bytes of an allocation.
void note_use(const void* address, std::size_t bytes, Use use);
std::string running_stream_and_site();  // of a launch: "1 12ab,34cd"
void note_allocation(const Allocation& allocation);
void note_free(const Allocation& allocation, bool in_stream_order);
void callback_done();  // the host may know what the callback's stream has done

// Guards of memory that the host can touch.
void guard(std::uint64_t from, std::uint64_t to, unsigned use);
void lift_guards(std::uint64_t from, std::uint64_t to);
void flush_order();  // sends what has been noted

}  // namespace autosched::program

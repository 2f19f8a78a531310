// Reports to `autosched run` which stream executes which work, and all waits and events. `autosched run` checks the
// order (measurements/emulator/host_order.py).
#pragma once
#include <string>

namespace autosched::program {

constexpr unsigned legacy = 1;  // id of the default stream, as in host_order.py

// Streams are identified by the program's handles. nullptr, 1 and 2 are the default streams.
void* add_stream(unsigned flags, int priority);
void destroy_stream(void* stream);
struct StreamFacts {
  unsigned flags;
  int priority;
};
StreamFacts stream_facts(void* stream);
unsigned stream_number(void* stream);  // id of a stream in host_order.py

void* add_event();
void destroy_event(void* event);
void record_event(void* event, void* stream);
bool event_milliseconds(void* event, double& at);  // returns false if the event was never recorded
void wait_for_event(void* stream, void* event);
void host_waits_for_event(void* event);
void host_waits_for_stream(void* stream);
void host_waits_for_device();

// A scope in which the null stream is the per-thread default stream. Used by the variants of API functions for programs
// that are compiled with per-thread default streams.
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();

 private:
  bool before_;
};

// note() records a line that describes an action of the program. Lines are sent together. Protected by the mutex of the
// session.
void note(const std::string& line);
void flush_order();  // sends the recorded lines
unsigned next_timeline();  // returns a number for a new stream or a new node of a graph

}  // namespace autosched::program

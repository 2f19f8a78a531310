// Tells `autosched run` on which streams work runs and what waits for what; it judges the order
// (measurements/emulator/host_order.py).
#pragma once
#include <string>

namespace autosched::program {

constexpr unsigned legacy = 1;  // the default stream's number, as host_order.py has it

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

// Lines of what the program does, which are sent together. Under the mutex of the session.
void note(const std::string& line);
void flush_order();  // sends what has been noted
unsigned next_timeline();  // the number of another stream, or node of a graph

}  // namespace autosched::program

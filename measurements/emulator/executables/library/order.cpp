#include "order.hpp"

#include <unordered_map>

#include "core.hpp"
#include "guards.hpp"
#include "host_threads.hpp"

namespace autosched::program {
namespace {

constexpr unsigned non_blocking = 1;  // cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING
constexpr std::size_t most_noted = 1 << 15;  // maximum bytes of recorded text before it is sent

struct Stream {
  StreamFacts facts;
  unsigned number;
};
struct Event {
  unsigned number;
  double at = 0;
  bool recorded = false;
};

// State of streams and events, protected by the mutex of the session.
struct Books {
  std::string noted;  // recorded lines that have not been sent yet
  std::unordered_map<const void*, Stream> streams;
  std::unordered_map<const void*, Event> events;
  unsigned next_timeline = legacy + 1, next_event = 1;
};
Books& books() {
  static Books* b = new Books;
  return *b;
}

thread_local unsigned per_thread_stream = 0;  // id of the stream; 0 until the stream is created
thread_local bool null_is_per_thread = false;

}  // namespace

void note(const std::string& line) {
  Books& b = books();
  b.noted += line;
  b.noted += '\n';
  if (b.noted.size() > most_noted) flush_order();
}

void flush_order() {
  Books& b = books();
  if (b.noted.empty()) return;
  std::string lines;
  std::swap(lines, b.noted);
  ask("order\n" + lines);
}

unsigned next_timeline() { return books().next_timeline++; }

unsigned stream_number(void* stream) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  const auto handle = reinterpret_cast<std::uint64_t>(stream);
  if (handle == 2 || (handle == 0 && null_is_per_thread)) {
    if (per_thread_stream == 0) {
      per_thread_stream = next_timeline();
      note("stream " + std::to_string(per_thread_stream) + " 1");
    }
    return per_thread_stream;
  }
  const auto entry = b.streams.find(stream);
  return entry == b.streams.end() ? legacy : entry->second.number;
}

void* add_stream(unsigned flags, int priority) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  void* const handle = ::operator new(sizeof(Stream));
  const unsigned number = next_timeline();
  b.streams[handle] = {{flags, priority}, number};
  note("stream " + std::to_string(number) + ((flags & non_blocking) != 0 ? " 0" : " 1"));
  return handle;
}
void destroy_stream(void* stream) {
  Books& b = books();
  const std::lock_guard lock(session_mutex());
  const auto entry = b.streams.find(stream);
  if (entry == b.streams.end()) return;
  note("destroy " + std::to_string(entry->second.number));
  b.streams.erase(entry);
  ::operator delete(stream);
}
StreamFacts stream_facts(void* stream) {
  const std::lock_guard lock(session_mutex());
  const auto entry = books().streams.find(stream);
  return entry == books().streams.end() ? StreamFacts{0, 0} : entry->second.facts;
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
  const auto entry = books().events.find(event);
  if (entry == books().events.end()) return;
  entry->second.at = now_milliseconds();
  entry->second.recorded = true;
  note("trial " + std::to_string(entry->second.number) + " " + std::to_string(number));
}
bool event_milliseconds(void* event, double& at) {
  const std::lock_guard lock(session_mutex());
  const auto entry = books().events.find(event);
  if (entry == books().events.end() || !entry->second.recorded) return false;
  return at = entry->second.at, true;
}
void wait_for_event(void* stream, void* event) {
  const unsigned number = stream_number(stream);
  const std::lock_guard lock(session_mutex());
  const auto entry = books().events.find(event);
  if (entry != books().events.end()) note("wait " + std::to_string(number) + " " + std::to_string(entry->second.number));
}
void host_waits_for_event(void* event) {
  let_others_act();
  const std::lock_guard lock(session_mutex());
  const auto entry = books().events.find(event);
  if (entry == books().events.end()) return;
  note("event_done " + std::to_string(entry->second.number));
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

// Sends the remaining lines when the program ends.
__attribute__((destructor)) static void say_the_rest() {
  if (books().noted.empty()) return;
  const std::lock_guard lock(session_mutex());
  flush_order();
}

}  // namespace autosched::program

// Work that streams are given, and nodes of graphs: what each uses, and whether the host waits for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core.hpp"
#include "guards.hpp"

namespace autosched::program {

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

unsigned running_node();  // of the graph that runs, as a number of GraphRun

// The running operation uses memory: pageable memory of the host, or bytes of an allocation.
void note_use(const void* address, std::size_t bytes, Use use);
std::string running_stream_and_site();  // of a launch: "1 12ab,34cd"
void note_allocation(const Allocation& allocation);
void note_free(const Allocation& allocation, bool in_stream_order);
void callback_done();  // the host may know what the callback's stream has done

}  // namespace autosched::program

// Work on streams, and nodes of graphs: the memory that each uses, and whether the host waits for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core.hpp"
#include "guards.hpp"

namespace autosched::program {

// Work on a stream. A nested operation belongs to the outer one. A copy without a stream is synchronous.
class Operation {
 public:
  enum class Waits { no, yes };
  explicit Operation(const char* function);  // on the default stream; synchronous depending on the memory
  Operation(void* stream, const char* function);         // asynchronous
  explicit Operation(unsigned node);  // node of a running graph (GraphRun)
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
};
// Scope in which a graph runs on a stream. Its nodes come after earlier work of the stream, and after each other along
// edges. Graphs in the scope are child graphs, and run as their node.
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
  ~GraphRun();  // later work of the stream or of the parent comes after all nodes
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;
  // Begins the next node. Takes the indices of its predecessors and the line that created it; returns its number, like
  // that of a stream.
  unsigned begin(const std::vector<std::size_t>& after, const std::string& site);
  void end();

 private:
  std::vector<unsigned> numbers_;
  unsigned parent_ = 0;
};

unsigned running_node();  // the running node of the graph, numbered as in GraphRun

// Records a memory access of the running operation: pageable host memory, or bytes of an allocation.
void note_use(const void* address, std::size_t bytes, Use use);
std::string running_stream_and_site();  // stream and call site of a launch, such as "1 12ab,34cd"
void note_allocation(const Allocation& allocation);
void note_free(const Allocation& allocation, bool in_stream_order);
void callback_done();  // a callback has ended, which the host may use to wait for earlier work of its stream

}  // namespace autosched::program

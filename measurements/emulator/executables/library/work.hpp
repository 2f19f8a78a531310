// Operations on streams and nodes of graphs: the memory that they access, and whether the host waits for them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core.hpp"
#include "guards.hpp"

namespace autosched::program {

// A scope in which an operation on a stream is executed. A nested operation is part of the outer one.
class Operation {
 public:
  enum class Waits { no, yes };
  explicit Operation(const char* function);  // on the default stream; whether it is synchronous depends on the memory
  Operation(void* stream, const char* function);         // asynchronous
  explicit Operation(unsigned node);  // node of a running graph (GraphRun)
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
};
// A scope in which a graph runs on a stream. The graph's nodes are ordered after earlier work of the stream, and along
// the graph's edges. A graph that runs within the scope is a child graph: it is ordered like the node that contains it.
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
  ~GraphRun();  // later work of the stream or of the parent graph is ordered after all nodes
  GraphRun(const GraphRun&) = delete;
  GraphRun& operator=(const GraphRun&) = delete;
  // Begins the next node. `after`: indices of its predecessors. `site`: call site that created it. Returns the node's
  // number, which is unique among streams and nodes.
  unsigned begin(const std::vector<std::size_t>& after, const std::string& site);
  void end();

 private:
  std::vector<unsigned> numbers_;
  unsigned parent_ = 0;
};

unsigned running_node();  // id of the running node of the graph, as returned by GraphRun::begin

// Records a memory access of the running operation: pageable host memory, or bytes of an allocation.
void note_use(const void* address, std::size_t bytes, Use use);
std::string running_stream_and_site();  // stream and call site of the running operation, such as "1 12ab,34cd"
void note_allocation(const Allocation& allocation);
void note_free(const Allocation& allocation, bool in_stream_order);
// Called when a host callback has ended. The end of the callback counts as a wait for earlier work of the stream.
void callback_done();

}  // namespace autosched::program

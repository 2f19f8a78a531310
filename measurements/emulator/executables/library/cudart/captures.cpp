// Capture of streams into graphs, in the libcudart replacement.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graphs.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

using Nodes = std::vector<Node*>;
struct Capture {
  Graph* graph;
  void* origin;
  std::uint64_t id;
  bool owned;           // true: the capture created the graph; false: the program created it
  std::size_t earlier;  // number of nodes that the graph had before the capture
  std::unordered_map<void*, Nodes> last = {};  // predecessors of a stream's next node, by stream
};
struct CapturedEvent {
  Capture* capture;
  Nodes after;
};

std::unordered_map<void*, Capture*> captures;              // captures in progress, by stream
std::unordered_map<void*, CapturedEvent> recorded_events;  // events recorded in a capture, by handle
std::uint64_t captures_begun = 0;

constexpr int capture_unsupported = 900, capture_unmatched = 903, capture_unjoined = 904, capture_implicit = 906;

int why_not_captured(void* stream) {
  if (stream == nullptr) return capture_implicit;  // the legacy stream cannot be captured
  return captures.count(stream) != 0 ? capture_unsupported : success;
}

}  // namespace

namespace autosched::program::runtime {

bool captured(void* stream) {
  const std::lock_guard lock(graphs);
  return !captures.empty() && captures.count(stream) != 0;
}
int keep(void* stream, Work kind, std::function<int()> work) {
  const std::lock_guard lock(graphs);
  Capture& capture = *captures.at(stream);
  Nodes& last = capture.last[stream];
  Node* node = nullptr;
  const int error = add(&node, capture.graph, last.data(), last.size(), kind, std::move(work));
  if (error == success) last = {node};
  return error;
}
void record_in_capture(void* event, void* stream) {
  const std::lock_guard lock(graphs);
  if (const auto entry = captures.find(stream); entry != captures.end()) {
    recorded_events[event] = {entry->second, entry->second->last[stream]};
  } else {
    recorded_events.erase(event);
  }
}
void wait_in_capture(void* stream, void* event) {
  const std::lock_guard lock(graphs);
  const auto entry = recorded_events.find(event);
  if (entry == recorded_events.end()) return;
  const auto& [capture, after] = entry->second;
  captures[stream] = capture;
  Nodes& last = capture->last[stream];
  for (Node* node : after) {
    if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
  }
}

}  // namespace autosched::program::runtime

API int cudaStreamBeginCapture(void* stream, int) {
  const std::lock_guard lock(graphs);
  if (const int error = why_not_captured(stream); error != success) return failed(error);
  captures[stream] = new Capture{new Graph, stream, ++captures_begun, true, 0};
  return success;
}
API int cudaStreamBeginCaptureToGraph(void* stream, Graph* graph, Node* const* after, const EdgeData* edges, std::size_t count, int) {
  const std::lock_guard lock(graphs);
  if (graph == nullptr || (count != 0 && after == nullptr)) return failed(invalid_value);
  if (any_programmatic(edges, count)) return unsupported("a programmatic edge of a graph");
  if (const int error = why_not_captured(stream); error != success) return failed(error);
  Capture* const capture = new Capture{graph, stream, ++captures_begun, false, graph->nodes.size()};
  if (count != 0) capture->last[stream].assign(after, after + count);
  captures[stream] = capture;
  return success;
}
API int cudaStreamEndCapture(void* stream, Graph** to) {
  const std::lock_guard lock(graphs);
  const auto entry = captures.find(stream);
  if (entry == captures.end() || entry->second->origin != stream) return failed(capture_unmatched);
  Capture* const capture = entry->second;
  std::unordered_set<const Node*> joined;
  std::vector<const Node*> in_order;
  for (const Node* node : capture->last[stream]) order(node, joined, in_order);
  const auto& nodes = capture->graph->nodes;
  const bool whole = std::all_of(nodes.begin() + static_cast<std::ptrdiff_t>(capture->earlier), nodes.end(),
                                 [&](const auto& node) { return joined.count(node.get()) != 0; });
  if (!whole && capture->owned) delete capture->graph;
  if (to != nullptr) *to = whole ? capture->graph : nullptr;
  std::erase_if(captures, [&](const auto& c) { return c.second == capture; });
  std::erase_if(recorded_events, [&](const auto& e) { return e.second.capture == capture; });
  delete capture;
  // the origin stream has not waited for a stream that was forked from it
  return failed(whole ? success : capture_unjoined);
}
API int cudaStreamIsCapturing(void* stream, int* status) { return *status = captured(stream) ? 1 : 0, success; }
API int cudaThreadExchangeStreamCaptureMode(int*) { return success; }
namespace {
int capture_info(void* stream, int* status, std::uint64_t* id, Graph** graph) {
  const std::lock_guard lock(graphs);
  const auto entry = captures.find(stream);
  *status = entry != captures.end() ? 1 : 0;
  if (entry != captures.end() && id != nullptr) *id = entry->second->id;
  if (entry != captures.end() && graph != nullptr) *graph = entry->second->graph;
  return success;
}
}  // namespace
#if VERSION >= 13
API int cudaStreamGetCaptureInfo(void* stream, int* status, std::uint64_t* id, Graph** graph, Node***, void**, std::size_t*) {
  return capture_info(stream, status, id, graph);
}
#else
API int cudaStreamGetCaptureInfo(void* stream, int* status, std::uint64_t* id) { return capture_info(stream, status, id, nullptr); }
#endif
API int cudaStreamGetCaptureInfo_v2(void* stream, int* status, std::uint64_t* id, Graph** graph, Node***, std::size_t*) {
  return capture_info(stream, status, id, graph);
}


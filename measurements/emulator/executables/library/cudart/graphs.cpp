// Graphs of the stand-in of libcudart: made node by node or captured from streams, and run node after node.
#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

struct Node {
  Work kind;
  std::function<int()> work;
  std::vector<Node*> after;  // what comes before it
  std::string site;          // where the program has made it
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
};
// A node of an executable graph, and the node that it was made of. Each stands behind those it comes after.
struct Step {
  const Node* node;
  Work kind;
  std::function<int()> work;
  std::vector<std::size_t> after;
  std::string site;
};
struct Executable {
  std::vector<Step> steps;
  void* launched = nullptr;  // the event of its last launch, behind which the next one comes in any stream
};
using Nodes = std::vector<Node*>;
struct Capture {
  Graph* graph;
  void* origin;
  std::uint64_t id;
  std::unordered_map<void*, Nodes> last = {};  // by stream: what its next node comes after
};
struct CapturedEvent {
  Capture* capture;
  Nodes after;
};

std::recursive_mutex graphs;
std::unordered_map<void*, Capture*> captures;              // by stream
std::unordered_map<void*, CapturedEvent> recorded_events;  // by event

constexpr int capture_unsupported = 900, capture_unmatched = 903, capture_unjoined = 904, capture_implicit = 906;

void order(const Node* node, std::unordered_set<const Node*>& seen, std::vector<const Node*>& in_order) {
  if (!seen.insert(node).second) return;
  for (const Node* before : node->after) order(before, seen, in_order);
  in_order.push_back(node);
}
std::vector<const Node*> ordered(const Graph& graph) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> in_order;
  for (const auto& node : graph.nodes) order(node.get(), seen, in_order);
  return in_order;
}
int run_all(const std::vector<Step>& steps) {
  GraphRun order;
  for (const Step& step : steps) {
    const unsigned number = order.begin(step.after, step.site);
    int error = success;
    if (step.kind == Work::graph) {
      error = step.work();
    } else if (step.work) {
      const Operation operation(number);
      error = step.work();
    }
    order.end();
    if (error != success) return error;
  }
  return success;
}
void instantiate(Executable& to, const Graph& graph) {
  to.steps.clear();
  std::unordered_map<const Node*, std::size_t> place;
  for (const Node* node : ordered(graph)) {
    Step step{node, node->kind, node->work, {}, node->site};
    for (const Node* before : node->after) step.after.push_back(place.at(before));
    place[node] = to.steps.size();
    to.steps.push_back(std::move(step));
  }
}

int add(Node** to, Graph* graph, Node* const* after, std::size_t count, Work kind, std::function<int()> work) {
  if (graph == nullptr || to == nullptr || (count != 0 && after == nullptr)) return failed(invalid_value);
  const std::lock_guard lock(graphs);
  graph->nodes.push_back(std::make_unique<Node>(Node{kind, std::move(work), {}, call_site()}));
  *to = graph->nodes.back().get();
  if (count != 0) (*to)->after.assign(after, after + count);
  return success;
}
int replace(Executable* executable, const Node* node, std::function<int()> work) {
  if (executable == nullptr || !work) return failed(invalid_value);
  for (Step& step : executable->steps) {
    if (step.node == node) return step.work = std::move(work), success;
  }
  return failed(invalid_value);
}
int replace(Node* node, std::function<int()> work) {
  if (node == nullptr || !work) return failed(invalid_value);
  return node->work = std::move(work), success;
}

struct KernelParameters {
  void* function;
  Dim3 grid, block;
  unsigned shared;
  void** arguments;
  void** extra;
};
struct FillParameters {
  void* to;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};
struct EdgeData {
  unsigned char from_port, to_port, type, reserved[5];  // type 1: programmatic
};
struct HostParameters {
  void (*call)(void*);
  void* data;
};

// A launch with the values of its arguments, which lie in no stack of the program.
struct KeptLaunch {
  Launch launch;
  std::shared_ptr<std::vector<std::vector<char>>> values = std::make_shared<std::vector<std::vector<char>>>();
  std::shared_ptr<std::vector<void*>> arguments = std::make_shared<std::vector<void*>>();

  explicit KeptLaunch(const Launch& from) : launch(from) {
    for (std::size_t n = 0; n < from.kernel->parameters.size(); ++n) {
      const char* const value = static_cast<const char*>(from.arguments[n]);
      values->emplace_back(value, value + from.kernel->parameters[n]);
    }
    for (std::vector<char>& value : *values) arguments->push_back(value.data());
    launch.arguments = arguments->data();
  }
  int operator()() const { return run(launch); }
};

std::function<int()> work_of(const KernelParameters* p) {
  Kernel* k = p == nullptr ? nullptr : kernel_of(p->function);
  if (k == nullptr || p->arguments == nullptr || learn(k) != success) return nullptr;
  return kept_launch({k, p->grid, p->block, {}, p->shared, p->arguments, false});
}
std::function<int()> work_of(const FillParameters* p) {
  if (p == nullptr || (p->element_bytes != 1 && p->element_bytes != 2 && p->element_bytes != 4)) return nullptr;
  return [f = *p]() -> int {
    if (f.element_bytes == 1) return fill_rows(f.to, f.pitch, static_cast<int>(f.value), f.width, f.height, "a graph's memset");
    for (std::size_t row = 0; row < f.height; ++row) {
      char* const begin = static_cast<char*>(f.to) + row * f.pitch;
      // Byte by byte: of little-endian elements.
      if (const int error = fill(begin, 0, f.width * f.element_bytes, "a graph's memset"); error != success) return error;
      for (std::size_t k = 0; k < f.width; ++k) std::memcpy(begin + k * f.element_bytes, &f.value, f.element_bytes);
    }
    return success;
  };
}
std::function<int()> work_of(const HostParameters* p) {
  if (p == nullptr || p->call == nullptr) return nullptr;
  return [h = *p]() -> int { return callback_done(), h.call(h.data), success; };
}
std::function<int()> work_of(const Copy3D* p) {
  if (p == nullptr) return nullptr;
  return [c = *p]() -> int { return copy_3d(&c, "a graph's copy"); };
}
std::function<int()> copy_work(void* to, const void* from, std::size_t bytes, int kind) {
  return [=]() -> int { return copy(to, from, bytes, kind, "a graph's copy"); };
}

}  // namespace

namespace autosched::program::runtime {

std::function<int()> kept_launch(const Launch& launch) { return KeptLaunch(launch); }

bool captured(void* stream) {
  const std::lock_guard lock(graphs);
  return !captures.empty() && captures.count(stream) != 0;
}
int keep(void* stream, Work kind, std::function<int()> work) {
  const std::lock_guard lock(graphs);
  Capture& capture = *captures.at(stream);
  Nodes& last = capture.last[stream];
  Node* made = nullptr;
  const int error = add(&made, capture.graph, last.data(), last.size(), kind, std::move(work));
  if (error == success) last = {made};
  return error;
}
void record_in_capture(void* event, void* stream) {
  const std::lock_guard lock(graphs);
  if (const auto found = captures.find(stream); found != captures.end()) {
    recorded_events[event] = {found->second, found->second->last[stream]};
  } else {
    recorded_events.erase(event);
  }
}
void wait_in_capture(void* stream, void* event) {
  const std::lock_guard lock(graphs);
  const auto found = recorded_events.find(event);
  if (found == recorded_events.end()) return;
  const auto& [capture, after] = found->second;
  captures[stream] = capture;
  Nodes& last = capture->last[stream];
  for (Node* node : after) {
    if (std::find(last.begin(), last.end(), node) == last.end()) last.push_back(node);
  }
}

}  // namespace autosched::program::runtime

// Capture ------------------------------------------------------------------------------------------------------------

API int cudaStreamBeginCapture(void* stream, int) {
  const std::lock_guard lock(graphs);
  static std::uint64_t id = 0;
  if (stream == nullptr) return failed(capture_implicit);  // the legacy stream cannot be captured
  if (captures.count(stream) != 0) return failed(capture_unsupported);
  captures[stream] = new Capture{new Graph, stream, ++id};
  return success;
}
API int cudaStreamEndCapture(void* stream, Graph** to) {
  const std::lock_guard lock(graphs);
  const auto found = captures.find(stream);
  if (found == captures.end() || found->second->origin != stream) return failed(capture_unmatched);
  Capture* const capture = found->second;
  std::unordered_set<const Node*> joined;
  std::vector<const Node*> in_order;
  for (const Node* node : capture->last[stream]) order(node, joined, in_order);
  const bool whole = joined.size() == capture->graph->nodes.size();
  if (!whole) delete capture->graph;
  *to = whole ? capture->graph : nullptr;
  std::erase_if(captures, [&](const auto& c) { return c.second == capture; });
  std::erase_if(recorded_events, [&](const auto& e) { return e.second.capture == capture; });
  delete capture;
  return failed(whole ? success : capture_unjoined);  // a fork that the stream has not waited for
}
API int cudaStreamIsCapturing(void* stream, int* status) { return *status = captured(stream) ? 1 : 0, success; }
API int cudaThreadExchangeStreamCaptureMode(int*) { return success; }
namespace {
int capture_info(void* stream, int* status, std::uint64_t* id, Graph** graph) {
  const std::lock_guard lock(graphs);
  const auto found = captures.find(stream);
  *status = found != captures.end() ? 1 : 0;
  if (found != captures.end() && id != nullptr) *id = found->second->id;
  if (found != captures.end() && graph != nullptr) *graph = found->second->graph;
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

// Nodes --------------------------------------------------------------------------------------------------------------

API int cudaGraphCreate(Graph** to, unsigned) { return *to = new Graph, success; }
API int cudaGraphDestroy(Graph* graph) { return delete graph, success; }
API int cudaGraphAddKernelNode(Node** to, Graph* graph, Node* const* after, std::size_t count, const KernelParameters* p) {
  auto work = work_of(p);
  return work ? add(to, graph, after, count, Work::kernel, std::move(work)) : failed(invalid_value);
}
API int cudaGraphAddMemsetNode(Node** to, Graph* graph, Node* const* after, std::size_t count, const FillParameters* p) {
  auto work = work_of(p);
  return work ? add(to, graph, after, count, Work::fill, std::move(work)) : failed(invalid_value);
}
API int cudaGraphAddHostNode(Node** to, Graph* graph, Node* const* after, std::size_t count, const HostParameters* p) {
  auto work = work_of(p);
  return work ? add(to, graph, after, count, Work::host, std::move(work)) : failed(invalid_value);
}
API int cudaGraphAddMemcpyNode(Node** to, Graph* graph, Node* const* after, std::size_t count, const Copy3D* p) {
  auto work = work_of(p);
  return work ? add(to, graph, after, count, Work::copy, std::move(work)) : failed(invalid_value);
}
API int cudaGraphAddMemcpyNode1D(Node** to, Graph* graph, Node* const* after, std::size_t count, void* target, const void* source, std::size_t bytes, int kind) {
  return add(to, graph, after, count, Work::copy, copy_work(target, source, bytes, kind));
}
API int cudaGraphAddEmptyNode(Node** to, Graph* graph, Node* const* after, std::size_t count) {
  return add(to, graph, after, count, Work::empty, nullptr);
}
API int cudaGraphAddChildGraphNode(Node** to, Graph* graph, Node* const* after, std::size_t count, const Graph* child) {
  if (child == nullptr) return failed(invalid_value);
  auto own = std::make_shared<Executable>();
  instantiate(*own, *child);
  return add(to, graph, after, count, Work::graph, [own]() -> int { return run_all(own->steps); });
}
#if VERSION >= 13
API int cudaGraphAddDependencies(Graph*, Node* const* from, Node* const* to, const EdgeData* edges, std::size_t count) {
  for (std::size_t k = 0; edges != nullptr && k < count; ++k) {
    if (edges[k].type != 0) return lacking("a programmatic edge of a graph");
  }
#else
API int cudaGraphAddDependencies(Graph*, Node* const* from, Node* const* to, std::size_t count) {
#endif
  for (std::size_t k = 0; k < count; ++k) to[k]->after.push_back(from[k]);
  return success;
}
API int cudaGraphKernelNodeGetParams(const Node* node, KernelParameters* to) {
  const KeptLaunch* const kept = node == nullptr || to == nullptr ? nullptr : node->work.target<KeptLaunch>();
  if (kept == nullptr) return failed(invalid_value);
  const Launch& l = kept->launch;
  *to = {const_cast<void*>(function_of(l.kernel)), l.grid, l.block, static_cast<unsigned>(l.shared), l.arguments, nullptr};
  return success;
}
API int cudaGraphKernelNodeSetParams(Node* node, const KernelParameters* p) { return replace(node, work_of(p)); }
API int cudaGraphMemsetNodeSetParams(Node* node, const FillParameters* p) { return replace(node, work_of(p)); }
API int cudaGraphHostNodeSetParams(Node* node, const HostParameters* p) { return replace(node, work_of(p)); }
API int cudaGraphMemcpyNodeSetParams(Node* node, const Copy3D* p) { return replace(node, work_of(p)); }
API int cudaGraphMemcpyNodeSetParams1D(Node* node, void* to, const void* from, std::size_t bytes, int kind) {
  return replace(node, copy_work(to, from, bytes, kind));
}
API int cudaGraphNodeGetType(const Node* node, int* type) { return *type = static_cast<int>(node->kind), success; }
API int cudaGraphGetNodes(const Graph* graph, Node** nodes, std::size_t* count) {
  const std::size_t room = nodes != nullptr ? std::min(*count, graph->nodes.size()) : 0;
  for (std::size_t k = 0; k < room; ++k) nodes[k] = graph->nodes[k].get();
  return *count = nodes != nullptr ? room : graph->nodes.size(), success;
}
API int cudaGraphGetRootNodes(const Graph* graph, Node** nodes, std::size_t* count) {
  std::size_t found = 0;
  for (const auto& node : graph->nodes) {
    if (!node->after.empty()) continue;
    if (nodes != nullptr && found < *count) nodes[found] = node.get();
    ++found;
  }
  return *count = nodes != nullptr ? std::min(*count, found) : found, success;
}
API int cudaGraphClone(Graph** to, const Graph* from) {
  auto* const copied = new Graph;
  std::unordered_map<const Node*, Node*> made;
  for (const Node* node : ordered(*from)) {
    copied->nodes.push_back(std::make_unique<Node>(Node{node->kind, node->work, {}, node->site}));
    made[node] = copied->nodes.back().get();
    for (const Node* before : node->after) made[node]->after.push_back(made.at(before));
  }
  return *to = copied, success;
}

// Running ------------------------------------------------------------------------------------------------------------

// What CUDA 11 passes besides (the node that is to blame, a log) is left as it is.
API int cudaGraphInstantiate(Executable** to, const Graph* graph) {
  if (to == nullptr || graph == nullptr) return failed(invalid_value);
  *to = new Executable;
  instantiate(**to, *graph);
  return success;
}
API int cudaGraphInstantiateWithFlags(Executable** to, const Graph* graph, unsigned long long) { return cudaGraphInstantiate(to, graph); }
API int cudaGraphUpload(Executable*, void*) { return success; }
API int cudaGraphLaunch(Executable* executable, void* stream) {
  if (executable == nullptr) return failed(invalid_value);
  if (!captured(stream)) {
    if (executable->launched == nullptr) executable->launched = add_event();
    wait_for_event(stream, executable->launched);
    int error = success;
    {
      const GraphLaunch launch(stream);
      error = run_all(executable->steps);
    }
    record_event(executable->launched, stream);
    return failed(error);
  }
  return keep(stream, Work::graph, [steps = executable->steps]() -> int { return run_all(steps); });
}
API int cudaGraphExecDestroy(Executable* executable) {
  if (executable != nullptr && executable->launched != nullptr) destroy_event(executable->launched);
  return delete executable, success;
}
#if VERSION >= 12
API int cudaGraphExecUpdate(Executable* executable, const Graph* graph, int* result) {
#else
API int cudaGraphExecUpdate(Executable* executable, const Graph* graph, void*, int* result) {
#endif
  if (executable == nullptr || graph == nullptr) return failed(invalid_value);
  if (result != nullptr) *result = 0;
  const auto in_order = ordered(*graph);
  if (in_order.size() != executable->steps.size()) {
    if (result != nullptr) *result = 2;  // the topology has changed
    return failed(910);
  }
  // Who updates a node names that of the graph that was instantiated.
  for (std::size_t k = 0; k < in_order.size(); ++k) executable->steps[k].work = in_order[k]->work;
  return success;
}
API int cudaGraphExecKernelNodeSetParams(Executable* e, const Node* node, const KernelParameters* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecMemsetNodeSetParams(Executable* e, const Node* node, const FillParameters* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecHostNodeSetParams(Executable* e, const Node* node, const HostParameters* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecMemcpyNodeSetParams(Executable* e, const Node* node, const Copy3D* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecMemcpyNodeSetParams1D(Executable* e, const Node* node, void* to, const void* from, std::size_t bytes, int kind) {
  return replace(e, node, copy_work(to, from, bytes, kind));
}

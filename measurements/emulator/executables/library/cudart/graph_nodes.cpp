// Graph nodes of the libcudart replacement: their work, creation and modification.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graphs.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

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
struct HostParameters {
  void (*call)(void*);
  void* data;
};
struct ConditionalParameters {
  std::uint64_t handle;
  Conditional::Type type;
  unsigned size;
  Graph** bodies;  // output: the graphs of the node's bodies
};
struct NodeParameters {  // cudaGraphNodeParams
  Work kind;
  int reserved[3];
  union {
    long long padding[29];
    KernelParameters kernel;
    struct {
      int flags, reserved[3];
      Copy3D copy;
    } copy;
    FillParameters fill;
    HostParameters host;
    Graph* child;
    ConditionalParameters conditional;
  };
};

// A launch with copies of its argument values, which are still valid when the caller has returned.
struct StoredLaunch {
  Launch launch;
  std::shared_ptr<std::vector<std::vector<char>>> values = std::make_shared<std::vector<std::vector<char>>>();
  std::shared_ptr<std::vector<void*>> arguments = std::make_shared<std::vector<void*>>();

  explicit StoredLaunch(const Launch& from) : launch(from) {
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
  return stored_launch({k, p->grid, p->block, {}, p->shared, p->arguments, false});
}
std::function<int()> work_of(const FillParameters* p) {
  if (p == nullptr || (p->element_bytes != 1 && p->element_bytes != 2 && p->element_bytes != 4)) return nullptr;
  return [f = *p]() -> int {
    if (f.element_bytes == 1) return fill_rows(f.to, f.pitch, static_cast<int>(f.value), f.width, f.height, "a graph's memset");
    for (std::size_t row = 0; row < f.height; ++row) {
      char* const begin = static_cast<char*>(f.to) + row * f.pitch;
      // Sets each element to the low bytes of the value (the host is little-endian).
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
std::function<int()> stored_launch(const Launch& launch) { return StoredLaunch(launch); }
}  // namespace autosched::program::runtime

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
  if (!child->conditions.empty()) return failed(not_supported);
  auto own = std::make_shared<Executable>();
  instantiate(*own, *child);
  return add(to, graph, after, count, Work::graph, [own]() -> int { return run_all(own->steps); });
}
namespace {
int add_conditional(Node** to, Graph* graph, Node* const* after, std::size_t count, ConditionalParameters& p) {
  const auto known = std::find_if(graph->conditions.begin(), graph->conditions.end(),
                                  [&](const Condition& c) { return reinterpret_cast<std::uint64_t>(c.value) == p.handle; });
  const unsigned most = p.type == Conditional::Type::if_else ? 2 : p.type == Conditional::Type::loop ? 1 : ~0u;
  if (known == graph->conditions.end() || p.size == 0 || p.size > most) return failed(invalid_value);
  auto conditional = std::make_shared<Conditional>();
  conditional->value = known->value;
  conditional->type = p.type;
  for (unsigned k = 0; k < p.size; ++k) {
    conditional->bodies.push_back(std::make_unique<Graph>());
    conditional->handles.push_back(conditional->bodies.back().get());
  }
  const int error = add(to, graph, after, count, Work::conditional, nullptr);
  if (error == success) (*to)->conditional = conditional;
  p.bodies = conditional->handles.data();
  return error;
}
int add_node(Node** to, Graph* graph, Node* const* after, const EdgeData* edges, std::size_t count, NodeParameters* p) {
  if (graph == nullptr || p == nullptr) return failed(invalid_value);
  if (any_programmatic(edges, count)) return unsupported("a programmatic edge of a graph");
  switch (p->kind) {
    case Work::kernel: return cudaGraphAddKernelNode(to, graph, after, count, &p->kernel);
    case Work::copy: return cudaGraphAddMemcpyNode(to, graph, after, count, &p->copy.copy);
    case Work::fill: return cudaGraphAddMemsetNode(to, graph, after, count, &p->fill);
    case Work::host: return cudaGraphAddHostNode(to, graph, after, count, &p->host);
    case Work::graph: return cudaGraphAddChildGraphNode(to, graph, after, count, p->child);
    case Work::empty: return cudaGraphAddEmptyNode(to, graph, after, count);
    case Work::conditional: return add_conditional(to, graph, after, count, p->conditional);
  }
  return unsupported("a graph node of this type");
}
}  // namespace
#if VERSION >= 13
API int cudaGraphAddNode(Node** to, Graph* graph, Node* const* after, const EdgeData* edges, std::size_t count, NodeParameters* p) {
  return add_node(to, graph, after, edges, count, p);
}
#else
API int cudaGraphAddNode(Node** to, Graph* graph, Node* const* after, std::size_t count, NodeParameters* p) {
  return add_node(to, graph, after, nullptr, count, p);
}
API int cudaGraphAddNode_v2(Node** to, Graph* graph, Node* const* after, const EdgeData* edges, std::size_t count, NodeParameters* p) {
  return add_node(to, graph, after, edges, count, p);
}
#endif
API int cudaGraphConditionalHandleCreate(std::uint64_t* to, Graph* graph, unsigned at_launch, unsigned flags) {
  if (to == nullptr || graph == nullptr || flags > 1) return failed(invalid_value);
  const std::lock_guard lock(graphs);
  void* const value = allocate(sizeof(std::uint32_t), Allocation::Kind::device, "cudaGraphConditionalHandleCreate");
  if (value == nullptr) return failed(out_of_memory);
  graph->conditions.push_back({static_cast<std::uint32_t*>(value), at_launch, flags == 1});
  return *to = reinterpret_cast<std::uint64_t>(value), success;
}
#if VERSION >= 13
API int cudaGraphAddDependencies(Graph*, Node* const* from, Node* const* to, const EdgeData* edges, std::size_t count) {
  if (any_programmatic(edges, count)) return unsupported("a programmatic edge of a graph");
#else
API int cudaGraphAddDependencies(Graph*, Node* const* from, Node* const* to, std::size_t count) {
#endif
  for (std::size_t k = 0; k < count; ++k) to[k]->after.push_back(from[k]);
  return success;
}
API int cudaGraphKernelNodeGetParams(const Node* node, KernelParameters* to) {
  const StoredLaunch* const stored = node == nullptr || to == nullptr ? nullptr : node->work.target<StoredLaunch>();
  if (stored == nullptr) return failed(invalid_value);
  const Launch& l = stored->launch;
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
  std::size_t root_count = 0;
  for (const auto& node : graph->nodes) {
    if (!node->after.empty()) continue;
    if (nodes != nullptr && root_count < *count) nodes[root_count] = node.get();
    ++root_count;
  }
  return *count = nodes != nullptr ? std::min(*count, root_count) : root_count, success;
}
API int cudaGraphClone(Graph** to, const Graph* from) {
  if (!from->conditions.empty()) return failed(not_supported);
  auto* const copied = new Graph;
  std::unordered_map<const Node*, Node*> copies;
  for (const Node* node : ordered(*from)) {
    copied->nodes.push_back(std::make_unique<Node>(Node{node->kind, node->work, {}, node->site}));
    copies[node] = copied->nodes.back().get();
    for (const Node* before : node->after) copies[node]->after.push_back(copies.at(before));
  }
  return *to = copied, success;
}
API int cudaGraphExecKernelNodeSetParams(Executable* e, const Node* node, const KernelParameters* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecMemsetNodeSetParams(Executable* e, const Node* node, const FillParameters* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecHostNodeSetParams(Executable* e, const Node* node, const HostParameters* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecMemcpyNodeSetParams(Executable* e, const Node* node, const Copy3D* p) { return replace(e, node, work_of(p)); }
API int cudaGraphExecMemcpyNodeSetParams1D(Executable* e, const Node* node, void* to, const void* from, std::size_t bytes, int kind) {
  return replace(e, node, copy_work(to, from, bytes, kind));
}

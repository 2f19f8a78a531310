// Executable graphs of the libcudart replacement. Their nodes run one after another.
#include "graphs.hpp"

#include <unordered_map>

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

std::uint32_t read_condition(const Conditional& c, unsigned number) {
  const Operation of_node(number);
  const Operation operation("a conditional node");
  std::uint32_t value = 0;
  read_on_device(&value, c.value, sizeof value);
  return value;
}
// Runs the bodies of a conditional node as its children.
int run_conditional(const Conditional& c, const std::vector<std::vector<Step>>& bodies) {
  const unsigned number = running_node();
  const bool chooses = c.type == Conditional::Type::choice, loops = c.type == Conditional::Type::loop;
  for (std::uint64_t iterations = 0;; ++iterations) {
    const std::uint32_t value = read_condition(c, number);
    const std::size_t body = chooses ? value : value != 0 ? 0 : 1;
    if (body >= bodies.size()) return success;
    if (const int error = loops ? begin_iteration(number, iterations) : success; error != success) return error;
    if (const int error = run_all(bodies[body]); error != success) return error;
    if (!loops) return success;
  }
}
// Returns the work of a node. Called only when the graph is instantiated, because the program fills the bodies of a
// conditional node after it has created the node.
std::function<int()> work_of(const Node& node) {
  if (node.conditional == nullptr) return node.work;
  std::vector<std::vector<Step>> bodies;
  for (const auto& body : node.conditional->bodies) {
    Executable own;
    instantiate(own, *body);
    bodies.push_back(std::move(own.steps));
  }
  return [c = node.conditional, bodies = std::move(bodies)]() -> int { return run_conditional(*c, bodies); };
}
int assign(const std::vector<Condition>& conditions, void* stream) {
  const Operation operation(stream, "the initial values of conditional handles");
  for (const Condition& c : conditions) {
    if (!c.assigned_at_launch) continue;
    if (const int error = fill(c.value, 0, sizeof *c.value, "cudaGraphLaunch"); error != success) return error;
    *c.value = c.at_launch;
  }
  return success;
}

}  // namespace

namespace autosched::program::runtime {

std::recursive_mutex graphs;

bool any_programmatic(const EdgeData* edges, std::size_t count) {
  for (std::size_t k = 0; edges != nullptr && k < count; ++k) {
    if (edges[k].type != 0) return true;
  }
  return false;
}

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
    if (step.kind == Work::graph || step.kind == Work::conditional) {
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
  to.conditions = graph.conditions;
  std::unordered_map<const Node*, std::size_t> index_of;
  for (const Node* node : ordered(graph)) {
    Step step{node, node->kind, work_of(*node), {}, node->site};
    for (const Node* before : node->after) step.after.push_back(index_of.at(before));
    index_of[node] = to.steps.size();
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

}  // namespace autosched::program::runtime

// Running ------------------------------------------------------------------------------------------------------------

// The additional outputs of CUDA 11 (the failing node, a log) are not written.
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
    int error = assign(executable->conditions, stream);
    if (error == success) {
      const GraphLaunch launch(stream);
      error = run_all(executable->steps);
    }
    record_event(executable->launched, stream);
    return failed(error);
  }
  // a graph with conditional handles cannot be a child graph
  if (!executable->conditions.empty()) return failed(not_supported);
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
  // Only the work is replaced: later updates of single nodes still refer to nodes of the graph that was instantiated.
  for (std::size_t k = 0; k < in_order.size(); ++k) executable->steps[k].work = work_of(*in_order[k]);
  return success;
}

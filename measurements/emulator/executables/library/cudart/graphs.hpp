// Graphs of the libcudart replacement: nodes, and executable graphs that consist of nodes.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_set>

#include "runtime.hpp"

namespace autosched::program::runtime {

struct Conditional;
struct Node {
  Work kind;
  std::function<int()> work;
  std::vector<Node*> after;  // predecessors
  std::string site;          // call site at which the program created the node
  std::shared_ptr<Conditional> conditional = nullptr;
};
// A conditional handle. The handle is the address of its value.
struct Condition {
  std::uint32_t* value;
  std::uint32_t at_launch;
  bool assigned_at_launch;
};
struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Condition> conditions;
};
// A conditional node. Kernels set a value, which decides which of the node's bodies run, and how often.
struct Conditional {
  enum class Type : int { if_else = 0, loop = 1, choice = 2 };  // cudaGraphConditionalNodeType
  std::uint32_t* value;
  Type type;
  std::vector<std::unique_ptr<Graph>> bodies;
  std::vector<Graph*> handles;  // the bodies, as the program receives them
};

// A node of an executable graph, with the node of the original graph. Steps are in topological order.
struct Step {
  const Node* node;
  Work kind;
  std::function<int()> work;
  std::vector<std::size_t> after;
  std::string site;
};
struct Executable {
  std::vector<Step> steps;
  std::vector<Condition> conditions;
  void* launched = nullptr;  // event of the last launch; the next launch waits for it, in any stream
};

struct EdgeData {
  unsigned char from_port, to_port, type, reserved[5];  // type 1: programmatic
};
bool any_programmatic(const EdgeData* edges, std::size_t count);

extern std::recursive_mutex graphs;

std::vector<const Node*> ordered(const Graph& graph);
// Appends a node after its predecessors.
void order(const Node* node, std::unordered_set<const Node*>& seen, std::vector<const Node*>& in_order);
void instantiate(Executable& to, const Graph& graph);
int run_all(const std::vector<Step>& steps);
int add(Node** to, Graph* graph, Node* const* after, std::size_t count, Work kind, std::function<int()> work);

}  // namespace autosched::program::runtime

// Conditional nodes of graphs: a loop, both branches of an if, a switch, and faulty programs.
// "endless" is a loop whose condition is never cleared. Its body contains a kernel; with "endless empty", the body is
// empty.
#include <cstring>

#include "check.h"

__global__ void count_down(int* left, int* steps, cudaGraphConditionalHandle more) {
  ++*steps;
  cudaGraphSetConditional(more, --*left > 0);
}
__global__ void count_on(int* steps) { ++*steps; }
__global__ void store(int* to, int value) { *to = value; }
__global__ void choose(cudaGraphConditionalHandle chosen, unsigned value) { cudaGraphSetConditional(chosen, value); }
__global__ void choose_by_thread(cudaGraphConditionalHandle chosen) { cudaGraphSetConditional(chosen, threadIdx.x); }

static cudaGraphNode_t kernel(cudaGraph_t graph, void* function, void** arguments, cudaGraphNode_t after, unsigned threads = 1) {
  cudaGraphNodeParams p = {cudaGraphNodeTypeKernel};
  p.kernel.func = function, p.kernel.gridDim = dim3(1), p.kernel.blockDim = dim3(threads), p.kernel.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, after == nullptr ? nullptr : &after, nullptr, after == nullptr ? 0 : 1, &p));
  return node;
}

static cudaGraph_t* conditional(cudaGraph_t graph, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                                unsigned size, cudaGraphNode_t after) {
  cudaGraphNodeParams p = {cudaGraphNodeTypeConditional};
  p.conditional.handle = handle, p.conditional.type = type, p.conditional.size = size;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, after == nullptr ? nullptr : &after, nullptr, after == nullptr ? 0 : 1, &p));
  return p.conditional.phGraph_out;
}

int main(int argc, char** argv) {
  const char* case_name = argc > 1 ? argv[1] : "loop";
  const auto is = [case_name](const char* name) { return std::strcmp(case_name, name) == 0; };
  int *left, *result, host[2] = {5, 0};
  CHECK(cudaMalloc(&left, sizeof(int)));
  CHECK(cudaMalloc(&result, sizeof(int)));
  CHECK(cudaMemcpy(left, &host[0], sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(result, 0, sizeof(int)));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, is("unset") ? 0 : cudaGraphCondAssignDefault));
  int expected = 0;
  if (is("loop") || is("captured") || is("unset") || is("endless")) {
    const cudaGraph_t body = conditional(graph, handle, cudaGraphCondTypeWhile, 1, nullptr)[0];
    if (is("captured")) {
      cudaStream_t stream;
      CHECK(cudaStreamCreate(&stream));
      CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
      count_down<<<1, 1, 0, stream>>>(left, result, handle);
      cudaGraph_t same;
      CHECK(cudaStreamEndCapture(stream, &same));
      if (same != body) return verdict(false);
    } else if (is("endless")) {
      void* arguments[] = {&result};
      if (argc < 3) kernel(body, reinterpret_cast<void*>(count_on), arguments, nullptr);
    } else {
      void* arguments[] = {&left, &result, &handle};
      kernel(body, reinterpret_cast<void*>(count_down), arguments, nullptr);
    }
    expected = 5;
  } else {
    unsigned value = argc > 2 ? std::atoi(argv[2]) : 0;
    void* chosen[] = {&handle, &value};
    cudaGraphNode_t before = is("racing") ? kernel(graph, reinterpret_cast<void*>(choose_by_thread), chosen, nullptr, 2)
                                          : kernel(graph, reinterpret_cast<void*>(choose), chosen, nullptr);
    const bool choice = is("choice");
    cudaGraph_t* bodies = conditional(graph, handle, choice ? cudaGraphCondTypeSwitch : cudaGraphCondTypeIf, choice ? 3 : 2,
                                      is("unordered") ? nullptr : before);
    for (int k = 0; k < (choice ? 3 : 2); ++k) {
      int number = k + 1;
      void* arguments[] = {&result, &number};
      kernel(bodies[k], reinterpret_cast<void*>(store), arguments, nullptr);
    }
    expected = choice ? (value < 3 ? static_cast<int>(value) + 1 : 0) : value != 0 ? 1 : 2;
  }
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaMemcpy(&host[1], result, sizeof(int), cudaMemcpyDeviceToHost));
  return verdict(host[1] == expected);
}

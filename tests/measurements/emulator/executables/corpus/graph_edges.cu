// An ordinary edge of a graph makes one node run after another. Programmatic edges are rejected.
#include <cstring>

#include "check.h"

constexpr int count = 256;

__global__ void fill(int* to, int value) { to[threadIdx.x] = value; }
__global__ void twice(const int* from, int* to) { to[threadIdx.x] = 2 * from[threadIdx.x]; }

static cudaGraphNode_t node(cudaGraph_t graph, void* kernel, void** arguments) {
  cudaKernelNodeParams p = {};
  p.func = kernel, p.gridDim = dim3(1), p.blockDim = dim3(count), p.kernelParams = arguments;
  cudaGraphNode_t kernel_node;
  CHECK(cudaGraphAddKernelNode(&kernel_node, graph, nullptr, 0, &p));
  return kernel_node;
}

int main(int argc, char** argv) {
  const char* case_name = argc > 1 ? argv[1] : "";
  const auto is = [case_name](const char* name) { return std::strcmp(case_name, name) == 0; };
  int *x, *y, value = 3;
  CHECK(cudaMalloc(&x, count * sizeof(int)));
  CHECK(cudaMalloc(&y, count * sizeof(int)));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  void *of_fill[] = {&x, &value}, *of_twice[] = {&x, &y};
  const cudaGraphNode_t first = node(graph, reinterpret_cast<void*>(fill), of_fill);
  const cudaGraphNode_t second = node(graph, reinterpret_cast<void*>(twice), of_twice);
  cudaGraphEdgeData edge = {};
  if (is("programmatic")) {
    edge.type = cudaGraphDependencyTypeProgrammatic;
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
  }
  if (!is("without")) {
    const cudaError_t added = cudaGraphAddDependencies(graph, &first, &second, is("plain") ? nullptr : &edge, 1);
    if (is("programmatic")) return verdict(added == cudaErrorNotSupported);
    CHECK(added);
  }
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, 0));
  CHECK(cudaDeviceSynchronize());
  int result[count];
  CHECK(cudaMemcpy(result, y, sizeof result, cudaMemcpyDeviceToHost));
  return verdict(result[7] == 2 * value);
}

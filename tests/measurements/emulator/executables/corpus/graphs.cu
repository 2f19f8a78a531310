// Graphs that are captured from two streams, built node by node, nested, updated, and launched repeatedly.
#include "check.h"
__global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }
__global__ void add(float* x, const float* y) { x[threadIdx.x] += y[threadIdx.x]; }
static int calls = 0;
static void CUDART_CB note(void* data) { calls += *static_cast<int*>(data); }

int main() {
  const int n = 64, bytes = n * sizeof(float);
  float ones[n], out[n], *x, *y;
  for (float& one : ones) one = 1;
  CHECK(cudaMalloc(&x, bytes));
  CHECK(cudaMalloc(&y, bytes));
  cudaStream_t s, t;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaStreamCreate(&t));
  cudaEvent_t fork, join;
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreate(&join));

  // Captured work does not run before the graph is launched: x = (x + 2) * 3.
  CHECK(cudaMemset(x, 0, bytes));
  int one = 1;
  float by = 2;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(fork, s));
  CHECK(cudaStreamWaitEvent(t, fork, 0));
  CHECK(cudaMemcpyAsync(y, ones, bytes, cudaMemcpyHostToDevice, t));
  scale<<<1, n, 0, t>>>(y, by);
  by = 3;
  CHECK(cudaEventRecord(join, t));
  CHECK(cudaStreamWaitEvent(s, join, 0));
  add<<<1, n, 0, s>>>(x, y);
  scale<<<1, n, 0, s>>>(x, by);
  CHECK(cudaLaunchHostFunc(s, note, &one));
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(t, &status));
  bool good = status == cudaStreamCaptureStatusActive;
  cudaGraph_t captured;
  CHECK(cudaStreamEndCapture(s, &captured));
  CHECK(cudaMemcpy(out, x, bytes, cudaMemcpyDeviceToHost));
  good = good && out[n - 1] == 0 && calls == 0;
  cudaGraphExec_t twice;
  CHECK(cudaGraphInstantiate(&twice, captured, 0));
  for (int k = 0; k < 2; ++k) CHECK(cudaGraphLaunch(twice, s));
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaMemcpy(out, x, bytes, cudaMemcpyDeviceToHost));
  good = good && out[0] == 24 && calls == 2;
  // A forked stream that was not joined.
  cudaGraph_t unjoined;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(fork, s));
  CHECK(cudaStreamWaitEvent(t, fork, 0));
  scale<<<1, n, 0, t>>>(y, by);
  good = good && cudaStreamEndCapture(s, &unjoined) == cudaErrorStreamCaptureUnjoined && unjoined == nullptr;
  good = good && cudaGetLastError() == cudaErrorStreamCaptureUnjoined;
  std::size_t count = 0;
  CHECK(cudaGraphGetNodes(captured, nullptr, &count));
  good = good && count == 5;

  // This graph computes x = 0, x += y, x *= 5. Its last node is added first. The graph is launched again with the
  // factor 7, and as a child graph.
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  float five = 5;
  void* of_scale[] = {&x, &five};
  void* of_add[] = {&x, &y};
  cudaKernelNodeParams scaling = {}, adding = {};
  scaling.func = (void*)scale, scaling.gridDim = dim3(1), scaling.blockDim = dim3(n), scaling.kernelParams = of_scale;
  adding = scaling, adding.func = (void*)add, adding.kernelParams = of_add;
  cudaMemsetParams zero = {};
  zero.dst = x, zero.elementSize = 4, zero.width = n, zero.height = 1;
  cudaGraphNode_t last, middle, first, copied;
  CHECK(cudaGraphAddKernelNode(&last, graph, nullptr, 0, &scaling));
  CHECK(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &zero));
  CHECK(cudaGraphAddKernelNode(&middle, graph, &first, 1, &adding));
  CHECK(cudaGraphAddMemcpyNode1D(&copied, graph, &last, 1, out, x, bytes, cudaMemcpyDeviceToHost));
#if CUDART_VERSION >= 13000
  CHECK(cudaGraphAddDependencies(graph, &middle, &last, nullptr, 1));
#else
  CHECK(cudaGraphAddDependencies(graph, &middle, &last, 1));
#endif
  cudaGraphExec_t run;
  CHECK(cudaGraphInstantiate(&run, graph, 0));
  CHECK(cudaGraphLaunch(run, s));
  good = good && out[3] == 10;
  five = 7;
  CHECK(cudaGraphExecKernelNodeSetParams(run, last, &scaling));
  CHECK(cudaGraphLaunch(run, s));
  good = good && out[3] == 14;
  // Launch parameters of a node are read and changed, also in a captured graph.
  cudaKernelNodeParams had;
  CHECK(cudaGraphKernelNodeGetParams(middle, &had));
  good = good && had.func == (void*)add && had.blockDim.x == n && *(float**)had.kernelParams[1] == y;
  cudaGraphNode_t of_captured[5];
  count = 5;
  CHECK(cudaGraphGetNodes(captured, of_captured, &count));
  for (cudaGraphNode_t node : of_captured) {
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    CHECK(cudaGraphKernelNodeGetParams(node, &had));
    if (had.func != (void*)scale) continue;
    float none = 1;
    void* instead[] = {had.kernelParams[0], &none};
    had.kernelParams = instead;
    CHECK(cudaGraphExecKernelNodeSetParams(twice, node, &had));
  }
  CHECK(cudaMemset(x, 0, bytes));
  CHECK(cudaGraphLaunch(twice, s));
  float sum[n];
  CHECK(cudaMemcpy(sum, x, bytes, cudaMemcpyDeviceToHost));
  good = good && sum[0] == 1;
  CHECK(cudaMemset(x, 0, bytes));
  scale<<<1, n>>>(y, 2);
  cudaGraph_t parent;
  cudaGraphNode_t child;
  CHECK(cudaGraphCreate(&parent, 0));
  CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
  cudaGraphExec_t of_parent;
  CHECK(cudaGraphInstantiate(&of_parent, parent, 0));
  CHECK(cudaGraphLaunch(of_parent, s));
  good = good && out[3] == 10;
  CHECK(cudaGraphExecDestroy(run));
  CHECK(cudaGraphExecDestroy(of_parent));
  CHECK(cudaGraphDestroy(graph));
  return verdict(good);
}

// What is not emulated: the program gets an error, and the function is named.
#include "check.h"
int main() {
  cudaGraph_t graph;
  const bool refused = cudaGraphCreate(&graph, 0) == cudaErrorNotSupported;
  return verdict(refused && cudaGetLastError() == cudaErrorNotSupported);
}

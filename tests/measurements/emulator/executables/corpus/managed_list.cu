// Managed memory: a linked list, a managed variable, and structs with pointers.
#include "check.h"
struct Node {
  int value;
  Node* next;
};
struct List {
  Node* first;
  int* sums;
};
__managed__ int walked = 0;
__managed__ float scales[2] = {2.0f, 3.0f};
__global__ void walk(List list) {
  int sum = 0;
  for (Node* n = list.first; n != nullptr; n = n->next) sum += n->value * (int)scales[threadIdx.x];
  list.sums[threadIdx.x] = sum;
  if (threadIdx.x == 0) ++walked;
}
int main() {
  List list = {nullptr, nullptr};
  CHECK(cudaMallocManaged(&list.sums, 2 * sizeof(int)));
  for (int i = 1; i <= 10; ++i) {
    Node* n;
    CHECK(cudaMallocManaged(&n, sizeof(Node)));
    n->value = i;
    n->next = list.first;
    list.first = n;
  }
  walked = 5;
  walk<<<1, 2>>>(list);
  CHECK(cudaDeviceSynchronize());
  return verdict(list.sums[0] == 110 && list.sums[1] == 165 && walked == 6);
}

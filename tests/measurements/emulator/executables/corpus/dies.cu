// The host dereferences a null pointer after a launch.
#include "check.h"
__global__ void nothing() {}
int main() {
  nothing<<<1, 1>>>();
  volatile int* nowhere = nullptr;
  return *nowhere;
}

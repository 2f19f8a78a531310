#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call)                                                                        \
  do {                                                                                     \
    const cudaError_t error = (call);                                                      \
    if (error != cudaSuccess) {                                                            \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));           \
      std::exit(3);                                                                        \
    }                                                                                      \
  } while (0)
inline int verdict(bool good) {
  std::printf(good ? "PASS\n" : "FAIL\n");
  return good ? 0 : 4;
}

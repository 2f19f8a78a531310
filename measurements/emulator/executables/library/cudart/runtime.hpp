// Functions shared by the files of the libcudart replacement: they find kernels and variables by host address, copy
// memory, and record the work of a capture.
#pragma once
#include <functional>

#include "call_site.hpp"
#include "guards.hpp"
#include "order.hpp"
#include "work.hpp"

#define API extern "C" __attribute__((visibility("default")))

namespace autosched::program::runtime {

Kernel* kernel_of(const void* function);  // nullptr if the function is not a kernel
const void* function_of(const Kernel* kernel);  // the kernel's host function, or the kernel itself if it has none
Variable* variable_of(const void* symbol);  // nullptr if it is not a registered variable

struct Extent {
  std::size_t width, height, depth;
};
struct Position {
  std::size_t x, y, z;
};
struct Pitched {
  void* pointer;
  std::size_t pitch, xsize, ysize;
};
struct Copy3D {
  Array* source_array;
  Position source_at;
  Pitched source;
  Array* target_array;
  Position target_at;
  Pitched target;
  Extent extent;
  int kind;
};
char* in_array(const Array* a, std::size_t x, std::size_t y, std::size_t z = 0);  // x is in bytes
int copy_3d(const Copy3D* p, const char* function);
int fill_rows(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, const char* function);

// Returns a function that performs the launch when it is called. The function holds a copy of the launch's arguments.
std::function<int()> stored_launch(const Launch& launch);

// Kinds of work in a stream. The work is executed immediately, or recorded if the stream is being captured into a
// graph.
enum class Work { kernel = 0, copy = 1, fill = 2, host = 3, graph = 4, empty = 5, conditional = 13 };  // cudaGraphNodeType
bool captured(void* stream);
int keep(void* stream, Work kind, std::function<int()> work);
template <class Do>
int enqueue(void* stream, Work kind, Do work) {
  if (captured(stream)) return keep(stream, kind, work);
  const Operation operation(stream, "");
  return work();
}
// records an event in a capture: streams that wait for it join the capture
void record_in_capture(void* event, void* stream);
void wait_in_capture(void* stream, void* event);

}  // namespace autosched::program::runtime

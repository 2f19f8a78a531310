// C interface of an export, for every language that can call C:
//   g++ -std=c++17 -O2 -shared -fPIC autosched_kernels.cpp -o libautosched_kernels.so -ldl
#include "autosched_kernels.hpp"

#include <cstdio>

extern "C" {

struct autosched_selection {
  void* handle;       // argument of autosched_launch; release it with autosched_free
  int match;          // 0: exact, 1: nearest, 2: padded (autosched::Match)
  unsigned arrays;    // number of arrays of a launch: inputs, then outputs
  double doublings;   // distance to the problem that the kernel was tuned for: sum of |log2| of the ratios of sizes
  const char* kernel; // problem of the kernel
  const char* verification;  // "full", "quick" or "none"
};

// autosched_select and autosched_launch return a Status of autosched_launch.hpp, 0 for ok. On an error, these functions
// write one line to `message`.
int autosched_select(const char* problem, int gpu, double growth, autosched_selection* to, char* message, unsigned message_bytes) {
  auto* selection = new autosched::Selection;
  autosched::Device device;
  autosched::Error error = autosched::describe(gpu, device);
  if (!error) error = autosched::select(autosched::kernels, problem, device, *selection, growth);
  if (message != nullptr && message_bytes != 0) std::snprintf(message, message_bytes, "%s", error.message.c_str());
  if (error) {
    delete selection;
    return static_cast<int>(error.status);
  }
  *to = {selection,
         static_cast<int>(selection->match),
         static_cast<unsigned>(autosched::arrays_of(*selection->kernel).size()),
         selection->doublings,
         selection->kernel->problem,
         selection->kernel->verification};
  return 0;
}

// Sets the value of a scalar, such as eps, for all later launches of the selection.
int autosched_pass(const autosched_selection* selection, const char* name, double value, char* message, unsigned message_bytes) {
  const autosched::Error error = autosched::pass(*static_cast<autosched::Selection*>(selection->handle), name, value);
  if (message != nullptr && message_bytes != 0) std::snprintf(message, message_bytes, "%s", error.message.c_str());
  return static_cast<int>(error.status);
}

int autosched_launch(const autosched_selection* selection, void* const* arrays, void* stream, char* message, unsigned message_bytes) {
  const autosched::Error error = autosched::launch(*static_cast<autosched::Selection*>(selection->handle), arrays, selection->arrays, stream);
  if (message != nullptr && message_bytes != 0) std::snprintf(message, message_bytes, "%s", error.message.c_str());
  return static_cast<int>(error.status);
}

void autosched_free(autosched_selection* selection) {
  delete static_cast<autosched::Selection*>(selection->handle);
  selection->handle = nullptr;
}

}  // extern "C"

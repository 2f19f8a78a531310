// Functions shared by the replacements of libcudart and libcuda: memory, modules, kernels, and communication with
// `autosched run`, which emulates the launches. All work is executed immediately, in the order of the calls. order.hpp
// reports how streams and events order the work, so that `autosched run` can detect missing synchronisation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace autosched::program {

// Error codes with the same numbers in both interfaces (driver_types.h, cuda.h).
enum Error : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_configuration = 9,
  invalid_symbol = 13,
  invalid_device_function = 98,
  no_device = 100,
  invalid_device = 101,
  no_kernel_image = 209,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_timeout = 702,
  assertion = 710,
  launch_failure = 719,
  cooperative_too_large = 720,
  not_supported = 801,
  invalid_cluster = 912,
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// An attribute of a launch, which has the same layout and numbers in both interfaces (driver_types.h, cuda.h).
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int number;
    unsigned cluster[3];
  };
};
struct LaunchAttributes {
  std::optional<Dim3> cluster;
  bool cooperative = false, dependent = false;
  const char* not_emulated = nullptr;  // description of an attribute that is not emulated; nullptr: none
};
inline LaunchAttributes read_attributes(const LaunchAttribute* attributes, unsigned count) {
  LaunchAttributes read;
  for (unsigned k = 0; k < count; ++k) {
    const LaunchAttribute& a = attributes[k];
    if (a.id == 2) read.cooperative = a.number != 0;
    if (a.id == 4) read.cluster = Dim3{a.cluster[0], a.cluster[1], a.cluster[2]};
    if (a.id == 6) read.dependent = a.number != 0;
    // Work that waits for the event in one of these attributes waits for only a part of the kernel. The emulator does
    // not model this order.
    if (a.id == 7) read.not_emulated = "a launch with cudaLaunchAttributeProgrammaticEvent";
    if (a.id == 12) read.not_emulated = "a launch with cudaLaunchAttributeLaunchCompletionEvent";
  }
  return read;
}

// Memory that kernels may use. All such memory is in one file. The program and the emulator map this file at the same
// addresses, so that pointers are valid for both host and device.
struct Allocation {
  std::uint64_t address;
  std::size_t bytes;
  std::string name;  // name in messages, such as "cudaMalloc#3"
  enum class Kind { device, host, managed, array, variable } kind;
  bool pooled = false;  // allocated in stream order (cudaMallocAsync)
};

struct Module;
struct Variable {
  Module* module;
  std::string name;  // name in the PTX
  std::uint64_t address;
  std::size_t bytes;
  bool constant;
  bool unset;  // a __constant__ or __device__ variable that neither an initial value nor the host has set
};
struct Module {
  int id;
  const void* image;
  std::size_t bytes;
  bool loaded = false;
  int error = success;  // error of loading the module
  std::vector<Variable*> variables;
  bool adopts = false;  // the program has registered no variables, so the module contains all variables of its PTX
};
struct Kernel {
  Module* module;
  std::string name;
  bool known = false;  // true when the following fields are set
  int error = success;
  std::vector<unsigned> parameters;  // bytes of each parameter
  unsigned most_threads = 1024, static_shared = 0, local = 0;
  bool uses_heap = false;  // true if the kernel calls malloc or free
  int compiled_for = 0;  // architecture of the PTX, such as 90
  // limit of dynamic shared memory in bytes, which the program can raise with an attribute
  unsigned most_dynamic = 48 * 1024;
};

// A CUDA array: texels in row-major order.
struct Array {
  std::uint64_t address;
  unsigned bits[4];  // bits of each channel
  int kind;          // cudaChannelFormatKind: 0 signed, 1 unsigned, 2 float
  std::size_t width, height, depth;
  bool layered;
  std::size_t texel() const { return (bits[0] + bits[1] + bits[2] + bits[3]) / 8; }
  std::size_t pitch() const { return width * texel(); }
  std::size_t rows() const { return height == 0 ? 1 : height; }
  std::size_t planes() const { return depth == 0 ? 1 : depth; }
};

struct Launch {
  Kernel* kernel;
  Dim3 grid, block;
  std::optional<Dim3> cluster;  // cluster size from a launch attribute, possibly (1, 1, 1)
  std::size_t shared = 0;
  void** arguments = nullptr;
  bool cooperative = false;
  void* stream = nullptr;
  // programmatic stream serialization: the kernel may start before the previous kernel has ended
  bool dependent = false;
};

// The last error of this thread, and the sticky error of the session, which all later calls return.
extern thread_local int last_error;
int failed(int error);  // records the error and returns it
int sticky_error();

// Properties of the emulated device, by name, such as "sm_count".
std::uint64_t fact(const std::string& name);
const std::string& device_name();

// complain_misuse reports a misuse of the interface as a finding. unsupported reports a function that is not emulated,
// after which `autosched run` exits with status 2.
void complain_misuse(const std::string& text);
int unsupported(const char* function);  // returns not_supported
void complain_machine_code();  // a cubin was loaded; reported at exit, unless the program then loads PTX instead

// The heap of device code. Its size can only be set before the first launch that uses the heap.
int limit_heap(std::size_t bytes);
void reset_heap();

std::recursive_mutex& session_mutex();
std::string ask(const std::string& text);  // sends a message to `autosched run`, and returns the reply

// Device memory is undefined until it is written. Values that a launch computes from undefined memory are undefined,
// too. A copy of undefined memory is also undefined; all other writes define the memory. Any other use of undefined
// memory is a finding.
// set_all marks all bytes of a variable as written, because the program has its address and may write them. use_unknown
// reports a use of bytes that a launch computed from undefined memory, if the range has any.
void set_all(const Variable& v);
void use_unknown(std::uint64_t address, std::size_t bytes);

void* allocate(std::size_t bytes, Allocation::Kind kind, const char* function, bool pooled = false);
int release(const void* address, const char* function, bool in_stream_order = false);
const Allocation* allocation_of(const void* address);  // nullptr if no allocation contains the address
std::size_t free_bytes();
bool in_arena(const void* address);
// Returns true if a range is within one allocation, or is plain host memory. Otherwise reports a finding.
bool check_range(const void* address, std::size_t bytes, const char* function);
int copy(void* to, const void* from, std::size_t bytes, int kind, const char* function);
int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
              int kind, const char* function);
int fill(void* to, int value, std::size_t bytes, const char* function);
void read_on_device(void* to, const void* from, std::size_t bytes);  // a copy by the device itself, for which the host does not wait

Module* add_module(const void* image, std::size_t bytes);
int load(Module* module);  // loads a module once, and initialises its variables
Variable* add_variable(Module* module, const char* name, std::size_t bytes, bool constant, bool managed);
Kernel* add_kernel(Module* module, const char* name);
int learn(Kernel* kernel);  // determines the kernel's parameters and limits, once
int run(const Launch& launch);
// Called for work other than kernels, and for waits: later kernels then do not overlap earlier kernels.
void end_overlaps();
// Called before each iteration of a loop in a graph. `node`: id of the loop's node; `iterations`: number of completed
// iterations. Returns launch_timeout if all iterations together have exceeded the time limit of a loop.
int begin_iteration(unsigned node, std::uint64_t iterations);
int blocks_per_multiprocessor(Kernel* kernel, int threads, std::size_t shared);

// Memory of a texture or surface object.
struct TextureView {
  std::uint64_t address;
  unsigned dimensions;
  bool layered;
  std::size_t extent[3];
  std::size_t pitch, slice;
  unsigned bits[4];
  int kind;
  bool normalized_read, linear, normalized_coordinates;
  int modes[3];
  float border[4];
};
std::uint64_t add_texture(const TextureView& view);
void remove_texture(std::uint64_t handle);

double now_milliseconds();

}  // namespace autosched::program

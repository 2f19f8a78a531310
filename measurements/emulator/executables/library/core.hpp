// What the stand-ins of libcudart and libcuda share: memory, modules, kernels, and the talk with `autosched run`, which
// emulates the launches. Everything is done at once, in the order of the calls: streams hold nothing back (order.hpp says
// what they would order).
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

// Error codes of both interfaces (driver_types.h, cuda.h), which agree in these numbers.
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

// Memory that kernels may use. All of it lies in one file that the emulator maps at the same addresses, so that pointers
// mean the same to host and device, wherever they are stored.
struct Allocation {
  std::uint64_t address;
  std::size_t bytes;
  std::string name;  // "cudaMalloc#3"
  enum class Kind { device, host, managed, array, variable } kind;
  bool pooled = false;  // allotted in the order of a stream
};

struct Module;
struct Variable {
  Module* module;
  std::string name;  // in the PTX
  std::uint64_t address;
  std::size_t bytes;
  bool constant;
  bool unset;  // a constant without a value of its own, and without any from the host
};
struct Module {
  int id;
  const void* image;
  std::size_t bytes;
  bool loaded = false;
  int error = success;  // of loading
  std::vector<Variable*> variables;
  bool adopts = false;  // all variables of its PTX, which no program registered
};
struct Kernel {
  Module* module;
  std::string name;
  bool known = false;  // what follows
  int error = success;
  std::vector<unsigned> parameters;  // bytes
  unsigned most_threads = 1024, static_shared = 0, local = 0;
  bool uses_heap = false;  // calls malloc or free
  int compiled_for = 0;    // the architecture of its PTX
  unsigned most_dynamic = 48 * 1024;  // bytes of shared memory, which an attribute raises
};

// A CUDA array: texels side by side, row by row.
struct Array {
  std::uint64_t address;
  unsigned bits[4];  // of each channel
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
  std::optional<Dim3> cluster;  // of an attribute: one of a single block is a cluster, too
  std::size_t shared = 0;
  void** arguments = nullptr;
  bool cooperative = false;
  void* stream = nullptr;
  bool dependent = false;  // programmatic stream serialization: it may begin before the kernel in front of it has ended
};

// The last error of this thread, and one that all later calls return.
extern thread_local int last_error;
int failed(int error);  // notes it
int sticky_error();

// Facts of the device that is emulated, by name: "sm_count".
std::uint64_t fact(const std::string& name);
const std::string& device_name();

// A line of complaint: a misuse of the interface is a finding, what the stand-in lacks makes the status 2.
void complain_misuse(const std::string& text);
int lacking(const char* function);  // not_supported
void complain_machine_code();       // made known at the end, if no PTX is loaded in its place

// The heap of device code. No launch may have used it before its size is set.
int limit_heap(std::size_t bytes);
void reset_heap();

std::recursive_mutex& session_mutex();
std::string ask(const std::string& text);  // sends a message to `autosched run`, and returns the answer

// Device memory holds no value until something writes it, and what launches make of such bytes depends on what nobody has
// written. Copies carry both on, other writes end them. Who else uses the latter makes it a finding.
void set_all(const Variable& v);  // whoever has its address may set it
void use_unknown(std::uint64_t address, std::size_t bytes);

void* allocate(std::size_t bytes, Allocation::Kind kind, const char* function, bool pooled = false);
int release(const void* address, const char* function, bool in_stream_order = false);
const Allocation* allocation_of(const void* address);  // nullptr: none
std::size_t free_bytes();
bool in_arena(const void* address);
// Whether all of a range is in one allocation, or is plain host memory; else a finding.
bool check_range(const void* address, std::size_t bytes, const char* function);
int copy(void* to, const void* from, std::size_t bytes, int kind, const char* function);
int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
              int kind, const char* function);
int fill(void* to, int value, std::size_t bytes, const char* function);
void read_on_device(void* to, const void* from, std::size_t bytes);  // by the device itself: the host does not wait for it

Module* add_module(const void* image, std::size_t bytes);
int load(Module* module);  // once: its variables get their first values
Variable* add_variable(Module* module, const char* name, std::size_t bytes, bool constant, bool managed);
Kernel* add_kernel(Module* module, const char* name);
int learn(Kernel* kernel);  // once: parameters and limits
int run(const Launch& launch);
// Whatever else is done in streams, or waited for: a kernel behind it does not overlap those in front of it.
void end_overlaps();
int blocks_per_multiprocessor(Kernel* kernel, int threads, std::size_t shared);

// The memory behind a texture or surface object.
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

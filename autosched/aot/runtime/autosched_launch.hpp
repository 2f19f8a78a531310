// Selects and launches the kernels of `autosched export --cubin`. C++17, header-only. Needs neither CUDA headers nor
// Python, and no linking with CUDA: the driver is loaded on first use (dlopen). A program therefore also starts on a
// machine without a GPU, where calls return no_driver. No function throws an exception or ends the process.
#pragma once
#include <dlfcn.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace autosched {

enum class Status : int {
  ok = 0,
  no_driver = 1,           // libcuda is missing or too old
  no_device = 2,           // there is no GPU with this number, or no context
  bad_problem = 3,         // the text of the problem is malformed, or names an unknown operator or field
  no_kernel = 4,           // no kernel computes the problem on this GPU; the message names the nearest kernel, and why it cannot be used
  bad_argument = 5,        // a pointer is null or misaligned, or the number of pointers is wrong
  load_failed = 6,         // the driver rejects the module
  out_of_memory = 7,       // no memory for the kernel's workspaces
  launch_failed = 8,       // the driver rejects the launch; errors inside of a kernel are reported when the stream is synchronised
};

struct [[nodiscard]] Error {
  Status status = Status::ok;
  int driver = 0;  // CUresult of the driver, if it returned an error
  std::string message;
  explicit operator bool() const { return status != Status::ok; }
};

// ---- Contents of an export, whose header defines a Kernel for each of its kernels
// --------------------------------------

struct Shape {
  unsigned grid[3], block[3], cluster[3];
  unsigned shared;  // bytes of dynamic shared memory
  bool defined;     // true if every expression has a value
};
enum class Role : std::uint8_t { input, output, inout, workspace };
struct Operand {
  const char* name;
  Role role;
  const char* dtype;
  bool zeroed;    // true for a workspace that must be zero before the first launch
  bool constant;  // true if the operand is copied to the __constant__ variable of the same name before each launch
};
// Arguments of cuTensorMapEncodeTiled, with the enum values of cuda.h.
struct TensorMap {
  unsigned operand, element, rank;
  std::uint64_t sizes[5], strides[4];
  unsigned box[5], element_strides[5];
  unsigned interleave, swizzle, l2_promotion, fill;
};
enum class Pass : std::uint8_t { array, scalar, tensor_map };
struct Argument {
  Pass pass;
  unsigned index;  // index of the operand, scalar or tensor map
};
struct Size {
  const char* name;
  std::int64_t value;
  bool has_default;
  std::int64_t otherwise;
  bool free;    // the kernel supports any value for which `refuses` returns nullptr
  bool padded;  // arrays may have additional rows; the results of these rows are ignored
};
struct Text {
  const char *name, *value;
  bool is_default;
};
// A number that is passed by value. Callers may set it if it has a name. If the name is "", it is computed from the
// sizes.
struct Scalar {
  const char* name;
  bool whole;  // type: int32 if true, else float
  double low, high;
};
// A further launch of a pipeline.
struct Step {
  const char* entry;
  const Argument* arguments;
  unsigned argument_count;
  void (*shape)(const std::int64_t*, Shape&);
};
struct Kernel {
  const char *op, *problem, *device, *entry, *digest, *verification, *provenance;
  int sm;
  bool exact_sm;  // true for code such as sm_90a, which runs only on this architecture
  const Size* sizes;
  unsigned size_count;
  const Text* texts;
  unsigned text_count;
  const Operand* operands;
  unsigned operand_count;
  const Argument* arguments;
  unsigned argument_count;
  const TensorMap* maps;
  unsigned scalar_count, launches;
  bool grid_may_shrink;
  const unsigned char* cubin;
  const char* ptx;  // PTX for other GPUs and for the emulator, or nullptr
  double seconds;   // time of the tuned problem in seconds
  // These functions take the values of the sizes, in the order of `sizes`.
  void (*shape)(const std::int64_t*, Shape&);
  void (*bytes)(const std::int64_t*, std::int64_t*);       // bytes of each operand
  void (*scalars)(const std::int64_t*, unsigned char (*)[8]);
  const char* (*refuses)(const std::int64_t*);              // reason why these sizes are not supported, or nullptr
  const Step* then;                                         // further launches of a pipeline
  unsigned then_count;
  const Scalar* passed;  // the scalars, in order
};
struct Kernels {
  const Kernel* first;
  unsigned count;
};

// ---- Expressions of manifests: Python's arithmetic ------------------------------------------------------------------

namespace expression {
// `ok` is set to false if a value is undefined: for a division by zero, and for 2^62 and more.
using Int = std::int64_t;
inline Int bounded(bool overflows, Int result, bool& ok) {
  constexpr Int bound = Int{1} << 62;
  ok = ok && !overflows && result > -bound && result < bound;
  return result;
}
inline Int add(Int a, Int b, bool& ok) {
  const bool overflows = __builtin_add_overflow(a, b, &a);
  return bounded(overflows, a, ok);
}
inline Int subtract(Int a, Int b, bool& ok) {
  const bool overflows = __builtin_sub_overflow(a, b, &a);
  return bounded(overflows, a, ok);
}
inline Int multiply(Int a, Int b, bool& ok) {
  const bool overflows = __builtin_mul_overflow(a, b, &a);
  return bounded(overflows, a, ok);
}
inline Int floor_div(Int a, Int b, bool& ok) {
  if (b == 0) return ok = false, 0;
  const Int q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline Int mod(Int a, Int b, bool& ok) { return b == 0 ? (ok = false, 0) : a - floor_div(a, b, ok) * b; }
inline Int ceil_div(Int a, Int b, bool& ok) { return -floor_div(-a, b, ok); }
inline Int round_up(Int a, Int b, bool& ok) { return multiply(ceil_div(a, b, ok), b, ok); }
inline double root(double a, bool& ok) { return a < 0 ? (ok = false, 0.0) : std::sqrt(a); }
inline double logarithm(double a, bool& ok) { return a <= 0 ? (ok = false, 0.0) : std::log2(a); }
inline double divide(double a, double b, bool& ok) { return b == 0 ? (ok = false, 0.0) : a / b; }
inline Int power(Int a, Int b, bool& ok) {
  if (b < 0) return ok = false, 0;
  Int result = 1;
  for (; b != 0 && ok; --b) result = multiply(result, a, ok);
  return result;
}
inline Int gcd(Int a, Int b) {
  while (b != 0) {
    const Int rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}
inline bool is_power_of_two(Int a) { return a > 0 && (a & (a - 1)) == 0; }
template <class T>
T least(T a, T b) { return b < a ? b : a; }
template <class T>
T most(T a, T b) { return a < b ? b : a; }
template <class T>
T magnitude(T a) { return a < 0 ? -a : a; }
template <class T>
void store(unsigned char (&to)[8], T value) { std::memcpy(to, &value, sizeof value); }
inline unsigned side(Int value, bool& ok) { return value < 0 || value > 0x7fffffff ? (ok = false, 0u) : static_cast<unsigned>(value); }
}  // namespace expression

// ---- Selection ------------------------------------------------------------------------------------------------------

enum class Match : std::uint8_t {
  exact,    // tuned or selected for exactly this problem
  nearest,  // tuned for other sizes, but valid for the requested sizes
  padded,   // computes more rows than requested: arrays must have room for `sizes`
};
struct Selection {
  const Kernel* kernel = nullptr;
  Match match = Match::exact;
  std::vector<std::int64_t> sizes;  // sizes that the kernel computes, in the order of kernel->sizes
  double doublings = 0;             // distance to the tuned problem: sum of |log2| of the ratios of sizes
  bool by_ptx = false;              // the driver compiles the kernel's PTX for this GPU
  std::map<unsigned, double> scalars;  // values that were set, by index of the scalar; other scalars have their defaults
};
struct Device {
  int sm = 0;  // 90 for compute capability 9.0
  std::string name;
};

constexpr double most_doublings = 4.0;  // kernels at a larger distance from the tuned problem are not used

namespace detail {

struct Request {
  std::string op;
  std::map<std::string, std::string> fields;
};

inline Error parse(const char* text, Request& to) {
  const auto wrong = [&](const std::string& reason) { return Error{Status::bad_problem, 0, reason + ": a problem is \"matmul m=512 n=512 k=512 a=f16\""}; };
  if (text == nullptr) return wrong("no text");
  for (const char* p = text; *p != '\0';) {
    while (*p == ' ') ++p;
    const char* end = p;
    while (*end != '\0' && *end != ' ') ++end;
    const std::string word(p, end);
    p = end;
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    if (to.op.empty() && equals == std::string::npos) {
      to.op = word;
    } else if (to.op.empty() || equals == std::string::npos || equals == 0 || !to.fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      return wrong("\"" + word + "\"");
    }
  }
  return to.op.empty() ? wrong("no operator") : Error{};
}

inline bool number(const std::string& text, std::int64_t& to) {
  char* end = nullptr;
  to = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && to > 0;
}

inline bool runs_on(const Kernel& k, int sm, bool& by_ptx) {
  by_ptx = false;
  if (k.sm == sm) return true;
  if (k.exact_sm) return false;
  // A cubin also runs on later GPUs of the same major compute capability.
  if (k.sm / 10 == sm / 10 && k.sm < sm) return true;
  return by_ptx = k.ptx != nullptr && k.sm < sm;
}

}  // namespace detail

// Selects the kernel for `problem`, such as "matmul m=512 n=512 k=512 a=f16", on `device`. A kernel for exactly this
// problem is preferred. Otherwise the nearest kernel whose rules allow these sizes is selected. If no kernel allows
// them and `growth` is above 1, the result may be a kernel that computes up to `growth` times as many rows. Fields that
// `problem` omits have their default values.
inline Error select(const Kernels& kernels, const char* problem, const Device& device, Selection& to, double growth = 1.0) {
  detail::Request request;
  if (Error e = detail::parse(problem, request)) return e;
  to = {};
  bool known_op = false;
  std::string unknown, why;
  double best[2] = {1e300, 1e300};  // rank (by match and distance) and seconds of the best kernel so far
  for (unsigned n = 0; n < kernels.count; ++n) {
    const Kernel& k = kernels.first[n];
    if (request.op != k.op) continue;
    known_op = true;
    std::string other;  // reason why this kernel is not used
    std::size_t named = 0;
    for (unsigned t = 0; t < k.text_count && other.empty(); ++t) {
      const auto field = request.fields.find(k.texts[t].name);
      named += field != request.fields.end();
      if (field == request.fields.end() ? !k.texts[t].is_default : field->second != k.texts[t].value) {
        other = std::string("its ") + k.texts[t].name + " is " + k.texts[t].value;
      }
    }
    for (unsigned s = 0; s < k.size_count && other.empty(); ++s) {
      if (!k.sizes[s].has_default && request.fields.count(k.sizes[s].name) == 0) {
        return {Status::bad_problem, 0, std::string(k.sizes[s].name) + " is missing in \"" + problem + "\""};
      }
    }
    std::vector<std::int64_t> sizes(k.size_count);
    bool exact = true, grows = false;
    double doublings = 0, grown = 1;
    for (unsigned s = 0; s < k.size_count && other.empty(); ++s) {
      const Size& size = k.sizes[s];
      const auto field = request.fields.find(size.name);
      std::int64_t wanted = size.otherwise;
      if (field != request.fields.end()) {
        ++named;
        if (!detail::number(field->second, wanted)) {
          return {Status::bad_problem, 0, std::string(size.name) + " must be a whole number of at least 1, not " + field->second};
        }
      }
      sizes[s] = wanted;
      if (wanted == size.value) continue;
      exact = false;
      const double ratio = static_cast<double>(size.value) / static_cast<double>(wanted);
      doublings += std::fabs(std::log2(ratio));
      if (size.free) continue;
      if (size.padded && ratio > 1 && growth > 1) {
        grows = true;
        grown *= ratio;
        sizes[s] = size.value;
      } else {
        other = std::string("its ") + size.name + " is " + std::to_string(size.value);
      }
    }
    if (other.empty() && named < request.fields.size()) {
      for (const auto& [name, value] : request.fields) {
        bool has = false;
        for (unsigned s = 0; s < k.size_count; ++s) has = has || name == k.sizes[s].name;
        for (unsigned t = 0; t < k.text_count; ++t) has = has || name == k.texts[t].name;
        if (!has) unknown = name;
      }
      other = "the kernel has no size or option " + unknown;
    }
    bool by_ptx = false;
    if (other.empty() && !detail::runs_on(k, device.sm, by_ptx)) other = "the kernel is for sm_" + std::to_string(k.sm) + (k.exact_sm ? "a" : "");
    if (other.empty() && grown > growth) other = "the kernel would compute " + std::to_string(grown) + " times as much";
    if (other.empty() && doublings > most_doublings) other = "the kernel's sizes differ too much from the requested sizes";
    if (other.empty() && !exact) {
      const char* refusal = k.refuses == nullptr ? nullptr : k.refuses(sizes.data());
      if (refusal != nullptr) other = refusal;
    }
    if (!other.empty()) {
      why = std::string(k.problem) + ": " + other;
      continue;
    }
    const double rank = (exact ? 0.0 : grows ? 200.0 : 100.0) + doublings + (by_ptx ? 50.0 : 0.0) + (device.name == k.device ? 0.0 : 0.25);
    if (rank < best[0] || (rank == best[0] && k.seconds < best[1])) {
      best[0] = rank;
      best[1] = k.seconds;
      to.kernel = &k;
      to.match = exact ? Match::exact : grows ? Match::padded : Match::nearest;
      to.sizes = sizes;
      to.doublings = doublings;
      to.by_ptx = by_ptx;
    }
  }
  if (!known_op) return {Status::bad_problem, 0, "no kernel in this export computes " + request.op};
  if (to.kernel == nullptr) return {Status::no_kernel, 0, std::string("no kernel in this export computes \"") + problem + "\" on sm_" + std::to_string(device.sm) + ": " + why};
  return {};
}

// ---- The driver -----------------------------------------------------------------------------------------------------

namespace driver {

using Address = std::uint64_t;  // CUdeviceptr
struct LaunchAttribute {
  int id, padding;
  unsigned value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr int cluster_dimension = 4;                                               // CUlaunchAttributeID
constexpr int max_dynamic_shared = 8, non_portable_cluster = 14;                   // CUfunction_attribute
constexpr int multiprocessors = 16, capability_major = 75, capability_minor = 76;  // CUdevice_attribute
constexpr int out_of_memory = 2, no_binary = 209;                                  // CUresult

// Functions of the driver, which are looked up by name.
struct Api {
  int (*init)(unsigned) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*get_current)(void**) = nullptr;
  int (*current_device)(int*) = nullptr;
  int (*module_load)(void**, const void*) = nullptr;
  int (*module_function)(void**, void*, const char*) = nullptr;
  int (*function_set)(void*, int, int) = nullptr;
  int (*allocate)(Address*, std::size_t) = nullptr;
  int (*fill)(Address, unsigned char, std::size_t, void*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  // These functions are optional: only constant memory, clusters and tensor maps need them.
  int (*variable)(Address*, std::size_t*, void*, const char*) = nullptr;
  int (*copy)(Address, Address, std::size_t, void*) = nullptr;
  int (*launch_config)(const LaunchConfig*, void*, void**, void**) = nullptr;
  int (*encode)(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*, const unsigned*, int, int, int, int) = nullptr;
  int (*blocks)(int*, void*, int, std::size_t) = nullptr;
  int (*clusters)(int*, void*, const LaunchConfig*) = nullptr;
  std::string missing;  // reason why the driver is not available
  int status = 0;       // result of cuInit: 0 if the driver works
};

inline const Api& api() {
  static const Api functions = [] {
    Api a;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      a.missing = why == nullptr ? "libcuda.so.1 cannot be opened" : why;
      return a;
    }
    const auto look = [&](auto& to, const char* name, bool needed = true) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
      if (to == nullptr && needed && a.missing.empty()) a.missing = std::string("the driver has no ") + name;
    };
    look(a.init, "cuInit");
    look(a.device_count, "cuDeviceGetCount");
    look(a.device_get, "cuDeviceGet");
    look(a.device_attribute, "cuDeviceGetAttribute");
    look(a.device_name, "cuDeviceGetName");
    look(a.retain, "cuDevicePrimaryCtxRetain");
    look(a.set_current, "cuCtxSetCurrent");
    look(a.get_current, "cuCtxGetCurrent");
    look(a.current_device, "cuCtxGetDevice");
    look(a.module_load, "cuModuleLoadData");
    look(a.module_function, "cuModuleGetFunction");
    look(a.function_set, "cuFuncSetAttribute");
    look(a.allocate, "cuMemAlloc_v2");
    look(a.fill, "cuMemsetD8Async");
    look(a.launch, "cuLaunchKernel");
    look(a.error_name, "cuGetErrorName");
    look(a.variable, "cuModuleGetGlobal_v2", false);
    look(a.copy, "cuMemcpyDtoDAsync_v2", false);
    look(a.launch_config, "cuLaunchKernelEx", false);
    look(a.encode, "cuTensorMapEncodeTiled", false);
    look(a.blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor", false);
    look(a.clusters, "cuOccupancyMaxActiveClusters", false);
    if (a.missing.empty()) a.status = a.init(0);
    return a;
  }();
  return functions;
}

inline Error refused(Status status, int code, const std::string& subject) {
  const char* name = nullptr;
  const Api& a = api();
  if (a.error_name == nullptr || a.error_name(code, &name) != 0 || name == nullptr) name = "unknown error";
  return {status, code, subject + ": " + name + " (" + std::to_string(code) + ")"};
}

inline Error ready() {
  const Api& a = api();
  if (!a.missing.empty()) return {Status::no_driver, 0, a.missing};
  if (a.status != 0) return refused(Status::no_device, a.status, "cuInit");
  return {};
}

}  // namespace driver

// Describes the GPU with the number `ordinal`.
inline Error describe(int ordinal, Device& to) {
  if (Error e = driver::ready()) return e;
  const driver::Api& a = driver::api();
  int handle = 0, major = 0, minor = 0;
  if (const int code = a.device_get(&handle, ordinal)) return driver::refused(Status::no_device, code, "GPU " + std::to_string(ordinal));
  if (const int code = a.device_attribute(&major, driver::capability_major, handle)) return driver::refused(Status::no_device, code, "its compute capability");
  if (const int code = a.device_attribute(&minor, driver::capability_minor, handle)) return driver::refused(Status::no_device, code, "its compute capability");
  char name[256] = "";
  if (const int code = a.device_name(name, sizeof name, handle)) return driver::refused(Status::no_device, code, "its name");
  to.sm = 10 * major + minor;
  to.name = name;
  return {};
}

// Describes the GPU of the calling thread's context. A thread without a context gets the primary context of GPU 0.
inline Error current_device(int& ordinal) {
  if (Error e = driver::ready()) return e;
  const driver::Api& a = driver::api();
  void* context = nullptr;
  if (const int code = a.get_current(&context)) return driver::refused(Status::no_device, code, "the current context");
  if (context == nullptr) {
    int handle = 0;
    if (const int code = a.device_get(&handle, 0)) return driver::refused(Status::no_device, code, "GPU 0");
    if (const int code = a.retain(&context, handle)) return driver::refused(Status::no_device, code, "the context of GPU 0");
    if (const int code = a.set_current(context)) return driver::refused(Status::no_device, code, "the context of GPU 0");
  }
  if (const int code = a.current_device(&ordinal)) return driver::refused(Status::no_device, code, "the current GPU");
  return {};
}

// ---- Launching ------------------------------------------------------------------------------------------------------

namespace detail {

// A kernel loaded in one context. Each stream has its own workspaces, because concurrent launches must not share them.
struct Function {
  void* handle = nullptr;
  unsigned set_shared = 0;
};
struct Loaded {
  std::vector<Function> functions;  // the function of the first launch, then the functions of further launches
  // addresses and sizes in bytes of the kernel's __constant__ variables, in the order of operands
  std::vector<std::pair<driver::Address, std::size_t>> constants;
  long at_a_time = -1;  // number of blocks or clusters that can run at the same time; only for kernels whose grid may shrink
  std::map<std::pair<void*, std::vector<std::int64_t>>, std::vector<driver::Address>> workspaces;  // workspaces, by stream and sizes
};

struct Cache {
  std::mutex mutex;
  // loaded kernels by context, because a module belongs to the context in which it was loaded
  std::map<std::pair<void*, const Kernel*>, Loaded> loaded;
};
inline Cache& cache() {
  static Cache* c = new Cache;  // never destroyed, because threads may launch while the process ends
  return *c;
}

inline Error load(const Kernel& k, Loaded& to) {
  const driver::Api& a = driver::api();
  void* module = nullptr;
  int code = a.module_load(&module, k.cubin);
  if (code == driver::no_binary && k.ptx != nullptr) code = a.module_load(&module, k.ptx);
  if (code != 0) return driver::refused(Status::load_failed, code, std::string("the kernel of ") + k.problem + " does not load");
  for (unsigned n = 0; n <= k.then_count; ++n) {
    const char* entry = n == 0 ? k.entry : k.then[n - 1].entry;
    Function function;
    if ((code = a.module_function(&function.handle, module, entry))) return driver::refused(Status::load_failed, code, entry);
    to.functions.push_back(function);
  }
  for (unsigned o = 0; o < k.operand_count; ++o) {
    if (!k.operands[o].constant) continue;
    if (a.variable == nullptr || a.copy == nullptr) return {Status::no_driver, 0, "the driver has no cuModuleGetGlobal_v2 or cuMemcpyDtoDAsync_v2, which constant memory needs"};
    driver::Address at = 0;
    std::size_t size = 0;
    if ((code = a.variable(&at, &size, module, k.operands[o].name))) return driver::refused(Status::load_failed, code, std::string("its constant ") + k.operands[o].name);
    to.constants.emplace_back(at, size);
  }
  return {};
}

inline Error prepare(const char* entry, const Shape& shape, Function& f) {
  const driver::Api& a = driver::api();
  if (shape.shared > f.set_shared) {
    if (const int code = a.function_set(f.handle, driver::max_dynamic_shared, static_cast<int>(shape.shared))) {
      return driver::refused(Status::load_failed, code, std::to_string(shape.shared) + " bytes of shared memory for " + entry);
    }
    f.set_shared = shape.shared;
  }
  const unsigned cluster = shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
  if (cluster > 1 && a.launch_config == nullptr) return {Status::no_driver, 0, "the driver has no cuLaunchKernelEx, which clusters need"};
  if (cluster > 8) {
    if (const int code = a.function_set(f.handle, driver::non_portable_cluster, 1)) return driver::refused(Status::load_failed, code, "clusters of more than 8 blocks");
  }
  return {};
}

inline void describe_launch(const Shape& shape, void* stream, driver::LaunchConfig& config, driver::LaunchAttribute& cluster) {
  std::memcpy(config.grid, shape.grid, sizeof config.grid);
  std::memcpy(config.block, shape.block, sizeof config.block);
  config.shared = shape.shared;
  config.stream = stream;
  cluster = {};
  cluster.id = driver::cluster_dimension;
  std::memcpy(cluster.value, shape.cluster, sizeof shape.cluster);
  config.attributes = &cluster;
  config.attribute_count = shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > 1;
}

// Limit the grid of a persistent kernel to the number of blocks that run at the same time.
inline void shrink(Shape& shape, Loaded& l) {
  const driver::Api& a = driver::api();
  if (l.at_a_time < 0) {
    l.at_a_time = 0;  // keep the grid if the number is unknown
    int running = 0, device = 0, count = 0;
    driver::LaunchConfig config{};
    driver::LaunchAttribute cluster{};
    describe_launch(shape, nullptr, config, cluster);
    if (config.attribute_count != 0) {
      if (a.clusters != nullptr && a.clusters(&running, l.functions[0].handle, &config) == 0) l.at_a_time = running;
    } else if (a.blocks != nullptr && a.blocks(&running, l.functions[0].handle, static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]), shape.shared) == 0 &&
               a.current_device(&device) == 0 && a.device_attribute(&count, driver::multiprocessors, device) == 0) {
      l.at_a_time = static_cast<long>(running) * count;
    }
  }
  if (l.at_a_time > 0 && static_cast<long>(shape.grid[0]) > l.at_a_time * static_cast<long>(shape.cluster[0])) {
    shape.grid[0] = static_cast<unsigned>(l.at_a_time) * shape.cluster[0];
  }
}

inline Error own_arrays(const Kernel& k, const Selection& s, const std::vector<std::int64_t>& bytes, void* stream, Loaded& l, const std::vector<driver::Address>*& to) {
  const driver::Api& a = driver::api();
  auto [slot, is_new] = l.workspaces.try_emplace({stream, s.sizes});
  to = &slot->second;
  if (!is_new) return {};
  for (unsigned o = 0; o < k.operand_count; ++o) {
    if (k.operands[o].role != Role::workspace) continue;
    driver::Address at = 0;
    const std::size_t size = static_cast<std::size_t>(bytes[o]);
    int code = a.allocate(&at, size);
    if (code == 0 && k.operands[o].zeroed) code = a.fill(at, 0, size, stream);
    if (code != 0) {
      l.workspaces.erase(slot);
      return driver::refused(code == driver::out_of_memory ? Status::out_of_memory : Status::launch_failed, code, std::string("the workspace ") + k.operands[o].name);
    }
    slot->second.push_back(at);
  }
  return {};
}

struct alignas(64) Map {
  unsigned char bytes[128];
};

// Queues one launch of a kernel. `at` has the addresses of arrays; scalars have the kernel's binary representation.
inline Error queue(const Kernel& k, const char* entry, const Argument* arguments, unsigned count, const Shape& shape, void* function, std::vector<driver::Address>& at, unsigned char (*scalars)[8],
                   void* stream) {
  const driver::Api& a = driver::api();
  std::vector<Map> maps(count + 1);
  std::vector<void*> parameters;
  for (unsigned n = 0; n < count; ++n) {
    const Argument& argument = arguments[n];
    if (argument.pass == Pass::array) {
      parameters.push_back(&at[argument.index]);
    } else if (argument.pass == Pass::scalar) {
      parameters.push_back(scalars[argument.index]);
    } else {
      if (a.encode == nullptr) return {Status::no_driver, 0, "the driver has no cuTensorMapEncodeTiled, which this kernel needs"};
      const TensorMap& m = k.maps[argument.index];
      const int code = a.encode(maps[n].bytes, static_cast<int>(m.element), m.rank, reinterpret_cast<void*>(at[m.operand]), m.sizes, m.strides, m.box, m.element_strides,
                                static_cast<int>(m.interleave), static_cast<int>(m.swizzle), static_cast<int>(m.l2_promotion), static_cast<int>(m.fill));
      if (code != 0) return driver::refused(Status::launch_failed, code, std::string("the tensor map of ") + k.operands[m.operand].name);
      parameters.push_back(maps[n].bytes);
    }
  }
  parameters.push_back(nullptr);
  driver::LaunchConfig config{};
  driver::LaunchAttribute cluster{};
  describe_launch(shape, stream, config, cluster);
  const int code = config.attribute_count != 0
                       ? a.launch_config(&config, function, parameters.data(), nullptr)
                       : a.launch(function, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2], shape.shared, stream, parameters.data(), nullptr);
  if (code != 0) return driver::refused(Status::launch_failed, code, std::string("the launch of ") + entry);
  return {};
}

}  // namespace detail

// Returns the arrays that a launch needs, in order: inputs, then outputs.
inline std::vector<const Operand*> arrays_of(const Kernel& k) {
  std::vector<const Operand*> arrays;
  for (const bool outputs : {false, true}) {
    for (unsigned o = 0; o < k.operand_count; ++o) {
      if (k.operands[o].role != Role::workspace && (k.operands[o].role == Role::output) == outputs) arrays.push_back(&k.operands[o]);
    }
  }
  return arrays;
}

// Sets the value of a scalar, such as eps, for all later launches of the selection.
inline Error pass(Selection& s, const char* name, double value) {
  if (s.kernel == nullptr) return {Status::bad_argument, 0, "no kernel was selected"};
  const Kernel& k = *s.kernel;
  std::string known;
  for (unsigned n = 0; n < k.scalar_count; ++n) {
    const Scalar& scalar = k.passed[n];
    if (std::string(scalar.name).empty()) continue;
    known += std::string(known.empty() ? "" : ", ") + scalar.name;
    if (std::string(name) != scalar.name) continue;
    if (!(value >= scalar.low && value <= scalar.high) || (scalar.whole && value != std::floor(value))) {
      return {Status::bad_argument, 0,
              std::string(name) + " must be a " + (scalar.whole ? "whole " : "") + "number from " + std::to_string(scalar.low) + " to " + std::to_string(scalar.high) + ", not " + std::to_string(value)};
    }
    s.scalars[n] = value;
    return {};
  }
  return {Status::bad_argument, 0, std::string(k.problem) + " has no scalar " + name + ": use " + (known.empty() ? "none" : known)};
}

// Queues the kernel on `stream`: a CUstream or cudaStream_t of the current GPU, or nullptr for the default stream. The
// device pointers must be in the order of `arrays_of`. The first launch in a context loads the module. Thread-safe.
inline Error launch(const Selection& s, void* const* arrays, unsigned count, void* stream = nullptr) {
  if (s.kernel == nullptr) return {Status::bad_argument, 0, "no kernel was selected"};
  const Kernel& k = *s.kernel;
  int device = 0;
  if (Error e = current_device(device)) return e;
  const driver::Api& a = driver::api();
  std::vector<driver::Address> at(k.operand_count);
  const std::vector<const Operand*> order = arrays_of(k);
  if (arrays == nullptr || count != order.size()) return {Status::bad_argument, 0, std::string(k.problem) + " takes " + std::to_string(order.size()) + " arrays, not " + std::to_string(count)};
  for (unsigned n = 0; n < count; ++n) {
    const auto address = reinterpret_cast<driver::Address>(arrays[n]);
    if (address == 0 || address % 16 != 0) return {Status::bad_argument, 0, std::string(order[n]->name) + (address == 0 ? " is null" : " does not start at a multiple of 16 bytes")};
    at[static_cast<std::size_t>(order[n] - k.operands)] = address;
  }
  std::vector<std::int64_t> bytes(k.operand_count);
  k.bytes(s.sizes.data(), bytes.data());
  std::vector<unsigned char> scalar_bytes(8u * (k.scalar_count + 1));
  auto* scalars = reinterpret_cast<unsigned char(*)[8]>(scalar_bytes.data());
  if (k.scalars != nullptr) k.scalars(s.sizes.data(), scalars);
  for (const auto& [n, value] : s.scalars) {
    if (k.passed[n].whole) {
      expression::store(scalars[n], static_cast<std::int32_t>(value));
    } else {
      expression::store(scalars[n], static_cast<float>(value));
    }
  }
  std::vector<Shape> shapes(1 + k.then_count);
  for (unsigned n = 0; n <= k.then_count; ++n) {
    (n == 0 ? k.shape : k.then[n - 1].shape)(s.sizes.data(), shapes[n]);
    if (!shapes[n].defined) return {Status::bad_argument, 0, std::string("the launch of ") + k.problem + " is not defined for these sizes"};
  }

  void* context = nullptr;
  if (const int code = a.get_current(&context)) return driver::refused(Status::no_device, code, "the current context");
  std::vector<void*> functions;
  {
    detail::Cache& cache = detail::cache();
    const std::lock_guard<std::mutex> lock(cache.mutex);
    auto [slot, is_new] = cache.loaded.try_emplace({context, &k});
    detail::Loaded& l = slot->second;
    if (is_new) {
      if (Error e = detail::load(k, l)) return cache.loaded.erase(slot), e;
    }
    for (unsigned n = 0; n <= k.then_count; ++n) {
      if (Error e = detail::prepare(n == 0 ? k.entry : k.then[n - 1].entry, shapes[n], l.functions[n])) return e;
      functions.push_back(l.functions[n].handle);
    }
    if (k.grid_may_shrink) detail::shrink(shapes[0], l);
    const std::vector<driver::Address>* own = nullptr;
    if (Error e = detail::own_arrays(k, s, bytes, stream, l, own)) return e;
    for (unsigned o = 0, n = 0; o < k.operand_count; ++o) {
      if (k.operands[o].role == Role::workspace) at[o] = (*own)[n++];
    }
    for (unsigned o = 0, n = 0; o < k.operand_count; ++o) {
      if (!k.operands[o].constant) continue;
      const auto& [variable, size] = l.constants[n++];
      const auto wanted = static_cast<std::size_t>(bytes[o]);
      if (wanted > size) return {Status::bad_argument, 0, std::string(k.operands[o].name) + ": " + std::to_string(wanted) + " bytes do not fit its __constant__ symbol (" + std::to_string(size) + " bytes)"};
      if (const int code = a.copy(variable, at[o], wanted, stream)) return driver::refused(Status::launch_failed, code, std::string("the copy to the constant ") + k.operands[o].name);
    }
  }

  for (unsigned n = 0; n < k.launches; ++n) {
    if (Error e = detail::queue(k, k.entry, k.arguments, k.argument_count, shapes[0], functions[0], at, scalars, stream)) return e;
  }
  for (unsigned n = 0; n < k.then_count; ++n) {
    const Step& step = k.then[n];
    if (Error e = detail::queue(k, step.entry, step.arguments, step.argument_count, shapes[n + 1], functions[n + 1], at, scalars, stream)) return e;
  }
  return {};
}

}  // namespace autosched

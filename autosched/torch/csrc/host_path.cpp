// Operators of torch that look up their launch in a table and need no Python. Calls that are not in the table run an
// operator in Python, which computes the result and may add the launch with autosched_fill. Only torch's stable C
// interface is used (torch/csrc/stable/c/shim.h of 2.10), so this library builds without CUDA's headers and loads
// without a driver.
#define TORCH_TARGET_VERSION (((0ULL + 2) << 56) | ((0ULL + 10) << 48))
#include <pthread.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>

#include "driver.hpp"
#include "launch_table.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

// pybind11 recognises this class by its name, and calls it to set the Python exception of a call. For other callers it
// is a std::runtime_error.
namespace pybind11 {
class __attribute__((visibility("default"))) builtin_exception : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual void set_error() const = 0;
};
}  // namespace pybind11

namespace autosched::host {
namespace {

constexpr std::size_t most_words = 192, most_arrays = 16, most_operators = 64, most_arguments = 31, most_parameters = 32,
                      most_maps = 8;
constexpr std::uintptr_t alignment = 16;  // bytes; every array must be aligned for the widest access of a kernel

struct Operator {
  std::string miss;       // qualified name of the Python operator, which has the additional first argument `bool fill`
  std::string arguments;  // kind of each argument: T tensor, O optional tensor, s string, w word
  Word identity;
};

Driver driver;
LaunchTable table;
std::array<Operator, most_operators> operators;
std::atomic<std::size_t> operator_count{0};
std::mutex registration;
std::atomic<Word> in_python_count{0};
void (*set_python_error)(void* type, void* value) = nullptr;  // PyErr_SetObject of Python
void (*release_python_object)(void*) = nullptr;               // Py_DecRef of Python

// The table entry that the Python operator created for this thread's current call; the call then takes ownership.
thread_local std::unique_ptr<Entry> filled;
thread_local void *error_type = nullptr, *error_value = nullptr;
thread_local std::string error_text;

class PythonError final : public pybind11::builtin_exception {
 public:
  PythonError() : builtin_exception(error_text), type_(error_type), value_(error_value) {}
  void set_error() const override {  // must be called with the GIL held
    set_python_error(type_, value_);
    if (owned_) release_python_object(value_);
    owned_ = false;
  }

 private:
  void *type_, *value_;
  mutable bool owned_ = true;
};

// The key of a call (signature of the arguments), and the addresses of the arguments.
struct Call {
  std::array<Word, most_words> words;
  std::size_t word_count = 0, array_count = 0;
  std::array<void*, most_arrays> arrays;
  std::uintptr_t address_bits = 0;
  std::int32_t device = 0;
  bool known = true;  // false if the arguments do not fit into the arrays of this struct, or could not be read

  void add(Word word) {
    if (word_count == most_words) {
      known = false;
    } else {
      words[word_count++] = word;
    }
  }

  void add(AtenTensorHandle tensor) {
    std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
    std::int32_t dtype = 0, device_type = 0;
    const void* data = nullptr;
    known = known && array_count < most_arrays && aoti_torch_get_dim(tensor, &rank) == 0 &&
            aoti_torch_get_sizes(tensor, &sizes) == 0 && aoti_torch_get_strides(tensor, &strides) == 0 &&
            aoti_torch_get_dtype(tensor, &dtype) == 0 && aoti_torch_get_device_type(tensor, &device_type) == 0 &&
            aoti_torch_get_device_index(tensor, &device) == 0 && torch_get_const_data_ptr(tensor, &data) == 0;
    if (!known) return;
    arrays[array_count++] = const_cast<void*>(data);
    address_bits |= reinterpret_cast<std::uintptr_t>(data);
    // This word is never 0, which stands for an omitted optional tensor.
    add(Word{1} << 63 | Word(device_type & 0xff) << 48 | Word(device & 0xffff) << 32 | Word(rank & 0xffff) << 16 |
        Word(dtype & 0xffff));
    for (std::int64_t i = 0; i < rank; ++i) add(static_cast<Word>(sizes[i]));
    for (std::int64_t i = 0; i < rank; ++i) add(static_cast<Word>(strides[i]));
  }

  void add(StringHandle string) {
    std::size_t length = 0;
    const char* text = nullptr;
    known = known && torch_string_length(string, &length) == 0 && torch_string_c_str(string, &text) == 0;
    if (!known) return;
    add(Word{length});
    for (std::size_t i = 0; i < length; i += sizeof(Word)) {
      Word word = 0;
      std::memcpy(&word, text + i, std::min(sizeof word, length - i));
      add(word);
    }
  }
};

template <typename T>
T handle(StableIValue value) {
  return reinterpret_cast<T>(value);
}

void read(const Operator& its, const StableIValue* stack, Call& call) {
  call.add(its.identity);
  for (std::size_t i = 0; i < its.arguments.size(); ++i) {
    switch (its.arguments[i]) {
      case 'T': call.add(handle<AtenTensorHandle>(stack[i])); break;
      case 'O':
        if (stack[i] == 0) {
          call.add(Word{0});
        } else {
          call.add(handle<AtenTensorHandle>(*handle<StableIValue*>(stack[i])));
        }
        break;
      case 's': call.add(handle<StringHandle>(stack[i])); break;
      default: call.add(Word{stack[i]});
    }
  }
}

// An operator owns its arguments, and must delete them.
void release(const Operator& its, const StableIValue* stack) {
  for (std::size_t i = 0; i < its.arguments.size(); ++i) {
    switch (its.arguments[i]) {
      case 'T': aoti_torch_delete_tensor_object(handle<AtenTensorHandle>(stack[i])); break;
      case 'O':
        if (auto* value = handle<StableIValue*>(stack[i])) {
          aoti_torch_delete_tensor_object(handle<AtenTensorHandle>(*value));
          delete value;
        }
        break;
      case 's': torch_delete_string(handle<StringHandle>(stack[i])); break;
      default: break;
    }
  }
}

// Makes a CUDA context current for a launch, also in a thread that has no current context.
class CurrentContext {
 public:
  explicit CurrentContext(void* context) {
    void* current = nullptr;
    if (driver.current_context(&current) != 0 || current != context) pushed_ = driver.push_context(context) == 0;
  }
  ~CurrentContext() {
    void* popped = nullptr;
    if (pushed_) driver.pop_context(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  bool pushed_ = false;
};

// Owns the output tensors of a launch, and deletes those whose ownership was not transferred.
class Results {
 public:
  ~Results() {
    for (std::size_t i = 0; i < count_; ++i) aoti_torch_delete_tensor_object(tensors_[i]);
  }
  bool make(const Entry& entry, Call& call) {
    for (const Output& o : entry.outputs) {
      void* data = nullptr;
      if (aoti_torch_empty_strided(static_cast<std::int64_t>(o.sizes.size()), o.sizes.data(), o.strides.data(), o.dtype,
                                   o.device_type, o.device, &tensors_[count_]) != 0) {
        return false;
      }
      if (aoti_torch_get_data_ptr(tensors_[count_++], &data) != 0 || reinterpret_cast<std::uintptr_t>(data) % alignment != 0) return false;
      call.arrays[call.array_count++] = data;
    }
    return true;
  }
  void hand_over(StableIValue* stack) {
    for (std::size_t i = 0; i < count_; ++i) stack[i] = reinterpret_cast<StableIValue>(tensors_[i]);
    count_ = 0;
  }

 private:
  std::array<AtenTensorHandle, most_arrays> tensors_;
  std::size_t count_ = 0;
};

bool launch(const Step& step, const Call& call, void* stream) {
  std::array<void*, most_parameters> parameters;
  std::array<TensorMap, most_maps> maps;
  std::size_t count = 0, map_count = 0;
  for (const Parameter& p : step.parameters) {
    switch (p.kind) {
      case Parameter::Kind::address: parameters[count++] = const_cast<void**>(&call.arrays[p.array]); break;
      case Parameter::Kind::value: parameters[count++] = const_cast<std::byte*>(p.bytes.data()); break;
      case Parameter::Kind::tensor_map: {
        TensorMap& map = maps[map_count++];
        std::memcpy(&map, p.bytes.data(), sizeof map);
        void* address = call.arrays[p.array];
        if (address != p.encoded_address && driver.replace_address(&map, address) != 0) return false;
        parameters[count++] = &map;
      }
    }
  }
  LaunchConfig config = step.config;
  config.stream = stream;
  config.attributes = step.attributes.data();
  for (Word i = 0; i < step.launches; ++i) {
    if (driver.launch(&config, step.function, parameters.data(), nullptr) != 0) return false;
  }
  return true;
}

enum class Outcome { launched, missing, python };

// Launches the call if the table contains it. If the launch fails, the call runs in Python, which reports the error.
Outcome launch_known(Call& call, Results& results) {
  const Readers::Guard guard(table.readers);
  const Entry* entry = table.find(call.words.data(), call.word_count);
  void* stream = nullptr;
  const auto outdated = [](const Entry& e) { return !e.awaited.empty() && access(e.awaited.c_str(), F_OK) == 0; };
  if (entry == nullptr || outdated(*entry)) return Outcome::missing;
  if (entry->kind == Entry::Kind::python || call.address_bits % alignment != 0 ||
      driver.current_stream(call.device, &stream) != 0) {
    return Outcome::python;
  }
  if (entry->kind == Entry::Kind::by_stream) {
    call.add(reinterpret_cast<Word>(stream));
    call.add(static_cast<Word>(pthread_self()));
    entry = call.known ? table.find(call.words.data(), call.word_count) : nullptr;
    if (entry == nullptr || outdated(*entry)) return Outcome::missing;
  }
  if (!results.make(*entry, call)) return Outcome::python;
  const CurrentContext context(entry->context);
  for (const Step& step : entry->steps) {
    if (!launch(step, call, stream)) return Outcome::python;
  }
  guard.count();
  return Outcome::launched;
}

// Returns the primary context of a device, which torch and cupy use; null if it does not exist.
void* context_of(std::int32_t ordinal) {
  static std::mutex mutex;
  static std::vector<std::pair<std::int32_t, void*>> known;
  const std::lock_guard lock(mutex);
  for (const auto& [device, context] : known) {
    if (device == ordinal) return context;
  }
  int device = 0;
  void* context = nullptr;
  if (driver.device(&device, ordinal) != 0 || driver.retain_primary_context(&context, device) != 0) return nullptr;
  known.emplace_back(ordinal, context);
  return context;
}

bool describe(AtenTensorHandle tensor, Output& o) {
  std::int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  if (aoti_torch_get_dim(tensor, &rank) != 0 || aoti_torch_get_sizes(tensor, &sizes) != 0 ||
      aoti_torch_get_strides(tensor, &strides) != 0 || aoti_torch_get_dtype(tensor, &o.dtype) != 0 ||
      aoti_torch_get_device_type(tensor, &o.device_type) != 0 || aoti_torch_get_device_index(tensor, &o.device) != 0) {
    return false;
  }
  o.sizes.assign(sizes, sizes + rank);
  o.strides.assign(strides, strides + rank);
  return true;
}

// Adds to the table the launch that Python described, with the key of the call and the properties of its results.
void add_filled(std::unique_ptr<Entry> entry, const Call& call, std::size_t key_words, const StableIValue* results,
                std::size_t count, Word generation) {
  std::vector<Word> key(call.words.begin(), call.words.begin() + key_words);
  if (entry->kind == Entry::Kind::python) {
    entry->key = std::move(key);
    table.add(std::move(entry), generation);
    return;
  }
  entry->outputs.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!describe(handle<AtenTensorHandle>(results[i]), entry->outputs[i])) return;
  }
  const std::size_t arrays = call.array_count + count;
  for (const Step& step : entry->steps) {
    for (const Parameter& p : step.parameters) {
      if (p.kind != Parameter::Kind::value && p.array >= arrays) return;
    }
  }
  entry->context = context_of(call.device);
  if (entry->context == nullptr || arrays > most_arrays) return;
  if (entry->kind == Entry::Kind::by_stream) {
    void* stream = nullptr;
    if (driver.current_stream(call.device, &stream) != 0) return;
    auto marker = std::make_unique<Entry>();
    marker->kind = Entry::Kind::by_stream;
    marker->key = key;
    table.add(std::move(marker), generation);
    key.push_back(reinterpret_cast<Word>(stream));
    key.push_back(static_cast<Word>(pthread_self()));
    entry->kind = Entry::Kind::launch;
  }
  entry->key = std::move(key);
  table.add(std::move(entry), generation);
}

void run(const Operator& its, StableIValue* stack, std::uint64_t inputs, std::uint64_t outputs) {
  Call call;
  read(its, stack, call);
  const std::size_t key_words = call.word_count, arrays = call.array_count;
  const Word generation = table.generation();
  Outcome outcome = Outcome::python;
  if (call.known) {
    Results results;
    outcome = launch_known(call, results);
    if (outcome == Outcome::launched) {
      release(its, stack);
      results.hand_over(stack);
      return;
    }
  }
  in_python_count.fetch_add(1, std::memory_order_relaxed);
  call.array_count = arrays;
  std::array<StableIValue, most_arguments + 1> inner{};
  inner[0] = outcome == Outcome::missing;
  std::copy(stack, stack + inputs, inner.begin() + 1);
  filled.reset();
  error_value = nullptr;
  const auto status = torch_call_dispatcher(its.miss.c_str(), "", inner.data(), TORCH_ABI_VERSION);
  std::unique_ptr<Entry> entry = std::move(filled);
  std::copy(inner.begin(), inner.begin() + outputs, stack);
  if (status != 0) throw std::runtime_error(its.miss + " failed");
  if (error_value != nullptr) {
    for (std::size_t i = 0; i < outputs; ++i) aoti_torch_delete_tensor_object(handle<AtenTensorHandle>(stack[i]));
    throw PythonError();
  }
  if (entry != nullptr) add_filled(std::move(entry), call, key_words, stack, outputs, generation);
}

// Each operator needs its own function, because torch does not pass the operator's identity.
template <std::size_t index>
void operator_function(StableIValue* stack, std::uint64_t inputs, std::uint64_t outputs) {
  run(operators[index], stack, inputs, outputs);
}
template <std::size_t... indices>
constexpr auto functions_of(std::index_sequence<indices...>) {
  return std::array{operator_function<indices>...};
}
constexpr auto operator_functions = functions_of(std::make_index_sequence<most_operators>());

}  // namespace
}  // namespace autosched::host

using namespace autosched::host;

// Loads the driver and torch's CUDA library. `set_error` is PyErr_SetObject, `release` is Py_DecRef. Writes the name of
// a missing library or function, or "", to `message`, at most `size` bytes.
EXPORT void autosched_open(const char* driver_name, const char* torch_name, void (*set_error)(void*, void*), void (*release)(void*),
                           char* message, std::size_t size) {
  set_python_error = set_error;
  release_python_object = release;
  std::snprintf(message, size, "%s", driver.open(driver_name, torch_name).c_str());
}

EXPORT int autosched_replaces_addresses() { return driver.replace_address != nullptr; }

// Implements an operator for a dispatch key. Returns 1 if there are too many operators or torch rejects the operator,
// else 0.
EXPORT int autosched_register(const char* space, const char* dispatch_key, const char* name, const char* miss,
                              const char* arguments) {
  const std::lock_guard lock(registration);
  const std::size_t index = operator_count.load();
  if (index == most_operators || std::strlen(arguments) > most_arguments) return 1;
  operators[index] = {miss, arguments, index};
  TorchLibraryHandle library;  // never deleted: deleting the library would remove its operators
  if (aoti_torch_library_init_impl(space, dispatch_key, __FILE__, __LINE__, &library) != 0) return 1;
  if (torch_library_impl(library, name, operator_functions[index], TORCH_ABI_VERSION) != 0) return 1;
  operator_count.store(index + 1);
  return 0;
}

// Describes the launch of this thread's current call. `words` contains, in this order:
// - kind of the entry, number of steps;
// - for each step: function, grid, block, shared memory, launches, cluster (three zeros for none), cooperative,
//   dependent, number of parameters, and then for each of its parameters: kind, array, encoded address, number of
//   bytes, and these bytes, padded to a word.
// Once a file exists at the path `awaited` (may be null), the call must select its kernel again. Returns 1 for an
// invalid description, else 0.
EXPORT int autosched_fill(const Word* words, std::size_t count, const char* awaited) {
  const Word* const end = words + count;
  bool valid = true;
  const auto next = [&]() -> Word { return words < end ? *words++ : (valid = false, Word{0}); };
  auto entry = std::make_unique<Entry>();
  entry->kind = static_cast<Entry::Kind>(next());
  if (awaited != nullptr) entry->awaited = awaited;
  const Word steps = next();
  for (Word s = 0; valid && s < steps; ++s) {
    Step step{};
    step.function = reinterpret_cast<void*>(next());
    for (unsigned& side : step.config.grid) side = static_cast<unsigned>(next());
    for (unsigned& side : step.config.block) side = static_cast<unsigned>(next());
    step.config.shared = static_cast<unsigned>(next());
    step.launches = next();
    LaunchAttribute attribute{};
    attribute.id = LaunchAttribute::cluster_dimension;
    for (unsigned& side : attribute.cluster) side = static_cast<unsigned>(next());
    if (attribute.cluster[0] != 0) step.attributes.push_back(attribute);
    for (const int id : {LaunchAttribute::cooperative, LaunchAttribute::programmatic_stream_serialization}) {
      if (next() == 0) continue;
      attribute = {};
      attribute.id = id;
      attribute.number = 1;
      step.attributes.push_back(attribute);
    }
    step.config.attribute_count = static_cast<unsigned>(step.attributes.size());
    const Word parameters = next();
    std::size_t maps = 0;
    for (Word p = 0; valid && p < parameters; ++p) {
      Parameter parameter{};
      parameter.kind = static_cast<Parameter::Kind>(next());
      parameter.array = next();
      parameter.encoded_address = reinterpret_cast<void*>(next());
      const Word bytes = next(), in_words = (bytes + sizeof(Word) - 1) / sizeof(Word);
      if (in_words > static_cast<Word>(end - words)) return 1;
      const auto* first = reinterpret_cast<const std::byte*>(words);
      parameter.bytes.assign(first, first + bytes);
      words += in_words;
      if (parameter.kind == Parameter::Kind::tensor_map) valid = valid && ++maps <= most_maps && bytes == sizeof(TensorMap);
      step.parameters.push_back(std::move(parameter));
    }
    valid = valid && parameters <= most_parameters;
    entry->steps.push_back(std::move(step));
  }
  if (!valid || words != end) return 1;
  filled = std::move(entry);
  return 0;
}

// Makes this thread's current call raise a Python exception, and takes ownership of one reference to it.
EXPORT void autosched_fail(void* type, void* value, const char* text) {
  error_type = type;
  error_value = value;
  error_text = text;
}

// Removes all launches. When this function returns, no thread uses a removed launch.
EXPORT void autosched_clear() { table.clear(); }

// Returns how many calls so far were launched from the table, and how many ran in Python.
EXPORT void autosched_counts(Word* launched, Word* in_python) {
  *launched = table.readers.counted();
  *in_python = in_python_count.load();
}

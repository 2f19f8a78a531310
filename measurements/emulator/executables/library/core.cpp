#include "core.hpp"

#include "intervals.hpp"
#include "guards.hpp"
#include "order.hpp"
#include "work.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <sstream>

namespace autosched::program {

thread_local int last_error = success;

namespace {

constexpr std::size_t gap = std::size_t{1} << 20;  // between allocations; any access is a finding
constexpr std::size_t alignment = 512;
constexpr std::size_t most_freed = 256;  // freed allocations to remember, for messages

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "autosched: %s\n", what);
  std::_Exit(2);
}

class Session {
 public:
  Session() {
    const char* told = std::getenv("AUTOSCHED_PROGRAM");
    unsigned long long base = 0, bytes = 0, of_heap = 0;
    int arena = -1;
    if (told == nullptr || std::sscanf(told, "%d %d %llu %llu %llu", &socket_, &arena, &base, &bytes, &of_heap) != 5) {
      stop("this library replaces CUDA's on machines without a GPU: start the program by 'autosched run PROGRAM'");
    }
    void* at = mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, arena, 0);
    if (at != reinterpret_cast<void*>(base)) stop("the memory of the emulated device cannot be mapped: raise ulimit -v");
    begin = next = base;
    end = base + bytes;
    heap = end - of_heap;
    std::istringstream facts(ask("hello"));
    for (std::string key, value; facts >> key && std::getline(facts >> std::ws, value);) {
      if (key == "name") name = value;
      numbers[key] = std::strtoull(value.c_str(), nullptr, 10);
    }
  }
  // Sends a message and returns the reply. Both are a length, followed by that many bytes.
  std::string ask(const std::string& text, const void* bytes = nullptr, std::size_t count = 0) {
    const std::uint64_t sizes[2] = {text.size(), count};
    put(sizes, sizeof sizes);
    put(text.data(), text.size());
    put(bytes, count);
    std::uint64_t size = 0;
    get(&size, sizeof size);
    std::string answer(size, '\0');
    get(answer.data(), size);
    return answer;
  }

  std::recursive_mutex mutex;
  std::uint64_t begin = 0, next = 0, heap = 0, end = 0;
  std::size_t heap_limit = std::size_t{8} << 20;
  unsigned heap_resets = 0;
  bool heap_used = false;
  std::string name;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::uint64_t, Allocation> allocations;  // by address
  std::map<std::string, unsigned> counts;           // by function
  std::deque<Allocation> freed;                     // the last ones
  std::size_t used = 0;
  std::vector<Module*> modules;
  Intervals unwritten;  // unwritten bytes
  Intervals unknown;    // bytes that a launch computed from unwritten ones
  std::set<std::pair<std::uint64_t, bool>> taken;  // allocations of which the host has copied some, or all, unwritten bytes
  std::map<std::uint64_t, std::string> textures;  // descriptions, by handle
  std::uint64_t next_texture = 0x7e5700000001;
  int sticky = success;
  std::set<void*> overlappable;  // streams whose last operation is a kernel

 private:
  void put(const void* from, std::size_t count) {
    for (const char* p = static_cast<const char*>(from); count != 0;) {
      const ssize_t n = write(socket_, p, count);
      if (n <= 0) std::_Exit(2);
      p += n;
      count -= static_cast<std::size_t>(n);
    }
  }
  void get(void* to, std::size_t count) {
    for (char* p = static_cast<char*>(to); count != 0;) {
      const ssize_t n = read(socket_, p, count);
      if (n <= 0) std::_Exit(2);
      p += n;
      count -= static_cast<std::size_t>(n);
    }
  }
  int socket_ = -1;
};

Session& session() {
  static Session* s = new Session;  // never destroyed, because destructors of the program may still free memory
  return *s;
}
using Lock = std::lock_guard<std::recursive_mutex>;

std::uint64_t number_of(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

const char* kind_name(Allocation::Kind kind) {
  switch (kind) {
    case Allocation::Kind::device: return "device";
    case Allocation::Kind::host: return "host";
    case Allocation::Kind::managed: return "managed";
    case Allocation::Kind::array: return "array";
    default: return "variable";
  }
}

void make_known(std::uint64_t from, std::uint64_t to) {
  session().unwritten.remove(from, to);
  session().unknown.remove(from, to);
}
// Unwritten bytes that the host copies become 0xFF, so that results that depend on them are noticeable.
void take_unwritten(void* to, const void* from, const std::vector<Intervals::Stretch>& unwritten) {
  Session& s = session();
  const Allocation* a = allocation_of(from);
  if (a == nullptr || a->kind != Allocation::Kind::device || unwritten.empty()) return;
  for (const auto& [begin, end] : unwritten) std::memset(static_cast<char*>(to) + (begin - number_of(from)), 0xff, end - begin);
  const bool all = s.unwritten.has_all(a->address, a->address + a->bytes);
  if (!s.taken.insert({a->address, all}).second) return;
  std::ostringstream text;
  text << "unwritten " << all << " " << unwritten[0].first - a->address << " " << unwritten[0].second - a->address << " " << a->bytes << " "
       << running_stream_and_site() << " " << a->name;
  s.ask(text.str());
}
// Copies bytes with their undefined state. Only device memory keeps the state; the host must not use such bytes.
void carry_unknown(void* to, const void* from, std::size_t bytes) {
  Session& s = session();
  const std::uint64_t begin = number_of(from), target = number_of(to);
  const auto unwritten = s.unwritten.in(begin, begin + bytes), unknown = s.unknown.in(begin, begin + bytes);
  const Allocation* a = allocation_of(to);
  const bool on_device = a != nullptr && a->kind == Allocation::Kind::device;
  if (!unknown.empty() && !on_device) s.ask("used");
  make_known(target, target + bytes);
  std::memmove(to, from, bytes);
  if (!on_device) return take_unwritten(to, from, unwritten);
  for (const auto& [first, end] : unwritten) s.unwritten.add(first - begin + target, end - begin + target);
  for (const auto& [first, end] : unknown) s.unknown.add(first - begin + target, end - begin + target);
}

std::string hex(const void* from, std::size_t count) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char* p = static_cast<const unsigned char*>(from); count-- != 0; ++p) {
    text += digits[*p >> 4];
    text += digits[*p & 15];
  }
  return text;
}

}  // namespace

int failed(int error) {
  if (error != success) last_error = error;
  return error;
}
int sticky_error() { return session().sticky; }
std::recursive_mutex& session_mutex() { return session().mutex; }
std::string ask(const std::string& text) { return session().ask(text); }

std::uint64_t fact(const std::string& name) { return session().numbers[name]; }
const std::string& device_name() { return session().name; }

void complain_misuse(const std::string& text) {
  const Lock lock(session().mutex);
  session().ask("misuse " + text);
}

void complain_machine_code() {
  const Lock lock(session().mutex);
  session().ask("machine_code");
}

int lacking(const char* function) {
  const Lock lock(session().mutex);
  session().ask(std::string("lacking ") + function);
  return failed(not_supported);
}

int limit_heap(std::size_t bytes) {
  Session& s = session();
  const Lock lock(s.mutex);
  if (s.heap_used) return failed(invalid_value);
  return s.heap_limit = bytes, success;
}
void reset_heap() {
  Session& s = session();
  const Lock lock(s.mutex);
  if (s.heap_used) ++s.heap_resets;
  s.heap_used = false;
}

void set_all(const Variable& v) {
  const Lock lock(session().mutex);
  make_known(v.address, v.address + v.bytes);
}

void use_unknown(std::uint64_t address, std::size_t bytes) {
  const Lock lock(session().mutex);
  if (!session().unknown.in(address, address + bytes).empty()) session().ask("used");
}

void* allocate(std::size_t bytes, Allocation::Kind kind, const char* function, bool pooled) {
  Session& s = session();
  const Lock lock(s.mutex);
  const std::size_t body = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  const bool on_device = kind != Allocation::Kind::host && kind != Allocation::Kind::variable;
  if (body + gap > s.heap - s.next || (on_device && s.used + bytes > s.numbers["memory_bytes"])) return nullptr;
  const std::uint64_t address = s.next + gap;
  s.next = address + body;
  std::string name = function;
  if (kind != Allocation::Kind::variable) name += "#" + std::to_string(++s.counts[function]);
  s.allocations[address] = {address, bytes, name, kind, pooled};
  if (kind == Allocation::Kind::device && s.numbers["undefined_memory"] != 0) s.unwritten.add(address, address + bytes);
  note_allocation(s.allocations[address]);
  if (on_device) s.used += bytes;
  return reinterpret_cast<void*>(address);
}

int release(const void* address, const char* function, bool in_stream_order) {
  Session& s = session();
  const Lock lock(s.mutex);
  if (address == nullptr) return success;
  const auto found = s.allocations.find(number_of(address));
  if (found == s.allocations.end() || found->second.kind == Allocation::Kind::variable) {
    complain_misuse(std::string(function) + " of an address that was not allocated, or has been freed already");
    return failed(invalid_value);
  }
  const Allocation freed = found->second;
  if (in_stream_order) {
    note_use(address, freed.bytes, use_write);
  } else if (!freed.pooled) {
    host_waits_for_device();
  }
  note_free(freed, in_stream_order);
  if (freed.kind != Allocation::Kind::host) s.used -= freed.bytes;
  s.allocations.erase(found);
  make_known(freed.address, freed.address + freed.bytes);
  s.freed.push_back(freed);
  if (s.freed.size() > most_freed) s.freed.pop_front();
  // The address is never reused, so that a later access is detected; the memory itself is returned to the system.
  constexpr std::uint64_t page = 4096;
  const std::uint64_t from = (freed.address + page - 1) / page * page, to = (freed.address + freed.bytes) / page * page;
  if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_REMOVE);
  return success;
}

const Allocation* allocation_of(const void* address) {
  Session& s = session();
  auto after = s.allocations.upper_bound(number_of(address));
  if (after == s.allocations.begin()) return nullptr;
  const Allocation& a = (--after)->second;
  return number_of(address) < a.address + std::max<std::size_t>(a.bytes, 1) ? &a : nullptr;
}

std::size_t free_bytes() { return session().numbers["memory_bytes"] - session().used; }
bool in_arena(const void* address) { return number_of(address) >= session().begin && number_of(address) < session().end; }

bool check_range(const void* address, std::size_t bytes, const char* function) {
  if (bytes == 0 || !in_arena(address)) return true;
  const Allocation* a = allocation_of(address);
  if (a != nullptr && number_of(address) + bytes <= a->address + a->bytes) return true;
  std::ostringstream text;
  text << function << " of " << bytes << " bytes ";
  if (a == nullptr) {
    text << "at an address that is not allocated, or has been freed";
  } else {
    text << "from byte " << number_of(address) - a->address << " of " << a->name << ", which has " << a->bytes;
  }
  complain_misuse(text.str());
  return false;
}

void end_overlaps() {
  const Lock lock(session().mutex);
  session().overlappable.clear();
}

int copy(void* to, const void* from, std::size_t bytes, int kind, const char* function) {
  const Operation operation(function);
  const Lock lock(session().mutex);
  session().overlappable.clear();
  if (session().sticky != success) return failed(session().sticky);
  if (bytes == 0) return success;
  if (to == nullptr || from == nullptr || kind < 0 || kind > 4) return failed(invalid_value);
  const bool to_device = kind == 1 || kind == 3, from_device = kind == 2 || kind == 3;
  if ((to_device && !in_arena(to)) || (from_device && !in_arena(from))) {
    complain_misuse(std::string(function) + ": the direction says device memory, but the " +
                    (to_device && !in_arena(to) ? "destination" : "source") + " is host memory");
    return failed(invalid_value);
  }
  if (!check_range(to, bytes, function) || !check_range(from, bytes, function)) return failed(invalid_value);
  note_use(from, bytes, use_read);
  note_use(to, bytes, use_write);
  carry_unknown(to, from, bytes);
  return success;
}

int copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
              int kind, const char* function) {
  if (width > to_pitch || width > from_pitch) return failed(12);  // cudaErrorInvalidPitchValue
  const Operation operation(function);
  for (std::size_t row = 0; row < height; ++row) {
    const int error = copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind, function);
    if (error != success) return error;
  }
  return success;
}

void read_on_device(void* to, const void* from, std::size_t bytes) {
  const Lock lock(session().mutex);
  session().overlappable.clear();
  note_use(from, bytes, use_read);
  carry_unknown(to, from, bytes);
}

int fill(void* to, int value, std::size_t bytes, const char* function) {
  const Operation operation(function);
  const Lock lock(session().mutex);
  session().overlappable.clear();
  if (session().sticky != success) return failed(session().sticky);
  if (bytes == 0) return success;
  if (!in_arena(to)) {
    complain_misuse(std::string(function) + " of memory that is no device memory");
    return failed(invalid_value);
  }
  if (!check_range(to, bytes, function)) return failed(invalid_value);
  note_use(to, bytes, use_write);
  make_known(number_of(to), number_of(to) + bytes);
  std::memset(to, value, bytes);
  return success;
}

Module* add_module(const void* image, std::size_t bytes) {
  const Lock lock(session().mutex);
  auto* m = new Module{static_cast<int>(session().modules.size()), image, bytes, false, success, {}};
  session().modules.push_back(m);
  return m;
}

int load(Module* module) {
  const Lock lock(session().mutex);
  if (module->loaded) return module->error;
  module->loaded = true;
  std::istringstream answer(session().ask("module " + std::to_string(module->id), module->image, module->bytes));
  answer >> module->error;
  std::string name;
  // variable NAME BYTES HEX, table NAME BYTES HEX (of addresses of functions), relocation NAME OFFSET TARGET ADDEND
  for (std::string key; answer >> key;) {
    std::size_t number = 0;
    std::string value;
    answer >> name >> number >> value;
    const auto of = [&](const std::string& wanted) -> Variable* {
      for (Variable* v : module->variables) {
        if (v->name == wanted) return v;
      }
      return nullptr;
    };
    Variable* v = of(name);
    if (v == nullptr && (key == "table" || (key == "variable" && module->adopts))) v = add_variable(module, name.c_str(), number, false, false);
    if (key == "relocation") {
      std::uint64_t addend = 0;
      answer >> addend;
      const Variable* target = of(value);
      if (v == nullptr || target == nullptr) continue;
      addend += target->address;
      std::memcpy(reinterpret_cast<char*>(v->address) + number, &addend, sizeof addend);
      continue;
    }
    if (v == nullptr || value == "-") continue;
    v->unset = false;
    make_known(v->address, v->address + v->bytes);
    for (std::size_t k = 0; k + 1 < value.size() && k / 2 < v->bytes; k += 2) {
      reinterpret_cast<unsigned char*>(v->address)[k / 2] =
          static_cast<unsigned char>(std::strtoul(value.substr(k, 2).c_str(), nullptr, 16));
    }
  }
  return module->error;
}

Variable* add_variable(Module* module, const char* name, std::size_t bytes, bool constant, bool managed) {
  void* at = allocate(bytes, managed ? Allocation::Kind::managed : Allocation::Kind::variable, name);
  auto* v = new Variable{module, name, number_of(at), bytes, constant, constant};
  if (constant && session().numbers["undefined_memory"] != 0) session().unwritten.add(v->address, v->address + bytes);
  module->variables.push_back(v);
  return v;
}

Kernel* add_kernel(Module* module, const char* name) {
  auto* k = new Kernel;
  k->module = module;
  k->name = name;
  return k;
}

int learn(Kernel* kernel) {
  const Lock lock(session().mutex);
  if (kernel->known) return kernel->error;
  kernel->known = true;
  kernel->error = load(kernel->module);
  if (kernel->error != success) return kernel->error;
  std::istringstream answer(session().ask("kernel " + std::to_string(kernel->module->id) + " " + kernel->name));
  answer >> kernel->error >> kernel->most_threads >> kernel->static_shared >> kernel->local >> kernel->uses_heap >> kernel->compiled_for;
  for (unsigned bytes; answer >> bytes;) kernel->parameters.push_back(bytes);
  return kernel->error;
}

int run(const Launch& launch) {
  const Operation operation("");
  Session& s = session();
  const Lock lock(s.mutex);
  if (s.sticky != success) return failed(s.sticky);
  Kernel* k = launch.kernel;
  if (const int error = learn(k); error != success) return failed(error);
  if (launch.cooperative) {
    const Dim3& b = launch.block;
    const std::uint64_t fit =
        static_cast<std::uint64_t>(blocks_per_multiprocessor(k, static_cast<int>(b.x * b.y * b.z), launch.shared)) * fact("sm_count");
    if (std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z > fit) {
      complain_misuse("the cooperative launch of " + k->name + " has more blocks than the device holds at a time, " + std::to_string(fit));
      return failed(cooperative_too_large);
    }
  }
  const auto volume = [](const Dim3& d) { return std::uint64_t{d.x} * d.y * d.z; };
  if (volume(launch.grid) == 0 || volume(launch.block) == 0 || volume(launch.block) > k->most_threads || launch.block.z > 64 ||
      launch.grid.x > 0x7fffffffu || launch.grid.y > 65535 || launch.grid.z > 65535) {
    std::ostringstream text;
    text << "the launch of " << k->name << " with a grid of " << launch.grid.x << " x " << launch.grid.y << " x " << launch.grid.z
         << " blocks of " << launch.block.x << " x " << launch.block.y << " x " << launch.block.z << " threads is refused";
    complain_misuse(text.str());
    return failed(invalid_configuration);
  }
  if (launch.shared > k->most_dynamic || launch.shared + k->static_shared > fact("shared_per_block")) {
    complain_misuse("the launch of " + k->name + " with " + std::to_string(launch.shared) + " bytes of dynamic shared memory is refused: it may have " +
                    std::to_string(std::min<std::size_t>(k->most_dynamic, fact("shared_per_block") - k->static_shared)));
    return failed(invalid_value);
  }
  const Dim3 c = launch.cluster.value_or(Dim3{});
  if (volume(c) == 0 || launch.grid.x % c.x != 0 || launch.grid.y % c.y != 0 || launch.grid.z % c.z != 0) {
    complain_misuse("the launch of " + k->name + " is refused: its grid is no multiple of its clusters of " + std::to_string(c.x) + " x " +
                    std::to_string(c.y) + " x " + std::to_string(c.z) + " blocks");
    return failed(invalid_cluster);
  }
  std::ostringstream text;
  text << "launch\nmodule " << k->module->id << "\nkernel " << k->name << "\ngrid " << launch.grid.x << " " << launch.grid.y << " "
       << launch.grid.z << "\nblock " << launch.block.x << " " << launch.block.y << " " << launch.block.z;
  if (launch.cluster) text << "\ncluster " << c.x << " " << c.y << " " << c.z;
  text << "\nshared " << launch.shared << "\ncooperative "
       << launch.cooperative << "\nstream " << number_of(launch.stream) << "\ndependent "
       << (launch.dependent && s.overlappable.count(launch.stream) != 0) << "\nheap " << s.heap_limit << " " << s.heap_resets << "\n";
  for (std::size_t n = 0; n < k->parameters.size(); ++n) {
    text << "argument " << hex(launch.arguments[n], k->parameters[n]) << "\n";
  }
  for (const auto& [address, a] : s.allocations) {
    if (a.kind != Allocation::Kind::variable) text << "buffer " << a.name << " " << kind_name(a.kind) << " " << address << " " << a.bytes << "\n";
  }
  // Freed allocations have no bytes, so that every access to them is out of bounds.
  for (const Allocation& a : s.freed) text << "buffer " << a.name << "(freed) " << kind_name(a.kind) << " " << a.address << " 0\n";
  for (const Module* m : s.modules) {
    if (!m->loaded) continue;
    for (const Variable* v : m->variables) {
      text << "variable " << m->id << " " << v->name << " " << v->constant << " " << v->unset << " " << v->address << " " << v->bytes << "\n";
    }
  }
  for (const auto& [handle, line] : s.textures) text << "texture " << handle << " " << line << "\n";
  s.overlappable.insert(launch.stream);
  Intervals without_value = s.unwritten;
  for (const auto& [from, to] : s.unknown) without_value.add(from, to);
  for (const auto& [from, to] : without_value) text << "unknown " << from << " " << to - from << "\n";
  text << "site " << running_stream_and_site() << "\n";
  flush_order();
  s.heap_used = s.heap_used || k->uses_heap;
  std::fflush(nullptr);  // earlier output of the program comes first
  std::istringstream answer(s.ask(text.str()));
  int error = success, stays = 0;
  std::size_t counts[3] = {};  // stretches still unwritten, computed from unwritten ones by the launch, and to be guarded
  answer >> error >> stays >> counts[0] >> counts[1] >> counts[2];
  Intervals still;
  std::uint64_t address = 0, bytes = 0;
  for (; counts[0] != 0 && answer >> address >> bytes; --counts[0]) still.add(address, address + bytes);
  s.unwritten = s.unwritten.both(still);
  s.unknown = s.unknown.both(still);
  for (; counts[1] != 0 && answer >> address >> bytes; --counts[1]) {
    s.unwritten.remove(address, address + bytes);
    s.unknown.add(address, address + bytes);
  }
  for (unsigned use = 0; counts[2] != 0 && answer >> address >> bytes >> use; --counts[2]) guard(address, address + bytes, use);
  answer.get();
  const std::string printed{std::istreambuf_iterator<char>(answer), {}};
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  if (stays != 0) s.sticky = error;
  return failed(error);
}

int begin_iteration(unsigned node, std::uint64_t iterations) {
  Session& s = session();
  const Lock lock(s.mutex);
  flush_order();
  if (s.ask("iteration " + std::to_string(node) + " " + std::to_string(iterations)).empty()) return success;
  return failed(s.sticky = launch_timeout);
}

int blocks_per_multiprocessor(Kernel* kernel, int threads, std::size_t shared) {
  if (learn(kernel) != success || threads <= 0 || static_cast<unsigned>(threads) > kernel->most_threads) return 0;
  const std::uint64_t each = shared + kernel->static_shared + fact("reserved_shared_per_block");
  const std::uint64_t warps = (static_cast<unsigned>(threads) + 31) / 32 * 32;
  const std::uint64_t by_shared = fact("shared_per_sm") / each;
  return static_cast<int>(std::min({by_shared, fact("max_threads_per_sm") / warps, fact("max_blocks_per_sm")}));
}

std::uint64_t add_texture(const TextureView& t) {
  Session& s = session();
  const Lock lock(s.mutex);
  if (const Allocation* a = allocation_of(reinterpret_cast<const void*>(t.address))) use_unknown(a->address, a->bytes);
  unsigned channels = 0;
  while (channels < 4 && t.bits[channels] != 0) ++channels;
  std::ostringstream line;
  line << t.address << " " << t.dimensions << " " << t.layered << " " << t.extent[0] << " " << t.extent[1] << " " << t.extent[2] << " "
       << t.pitch << " " << t.slice << " " << channels << " " << t.bits[0] / 8 << " " << (t.kind == 2 ? 'f' : t.kind == 0 ? 'i' : 'u') << " "
       << t.normalized_read << " " << t.linear << " " << t.normalized_coordinates;
  for (const int mode : t.modes) line << " " << mode;
  for (const float b : t.border) line << " " << b;
  s.textures[s.next_texture] = line.str();
  return s.next_texture++;
}
void remove_texture(std::uint64_t handle) { session().textures.erase(handle); }

double now_milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace autosched::program

// The runner: reads bytecode, runs one launch of it, and writes a report and the modified buffers.
//
// runner PROGRAM JOB DATA REPORT
//
// JOB has one setting per line. DATA holds the contents of all buffers; the runner overwrites the contents of modified
// buffers. REPORT receives JSON lines. The process exits when its CPU time reaches the limit. It also reports a crash
// of the kernel, and then exits.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "isa/counts.hpp"
#include "interpreter/interpreter.hpp"
#include "isa/program.hpp"
#include "isa/values/dropped.hpp"
#include "memory/counting.hpp"
#include "memory/poison.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/dependence.hpp"
#include "memory/global/heap.hpp"
#include "memory/shared/memory.hpp"
#include "isa/async/tensor_map.hpp"
#include "isa/access/texture.hpp"
#include "memory/uninitialized.hpp"
#include "memory/watched_reads.hpp"
#include "sched/scheduler.hpp"

namespace autosched::emulator {
namespace {

using ptx::TensorMapSpec;

// The target of a pointer: a position in a buffer.
struct Target {
  std::size_t buffer, offset;
};

// The eight bytes at ``at`` contain the address of ``target`` during the launch. ``original``: the original bytes.
struct AddressInMemory {
  std::size_t buffer, at;
  Target target;
  std::uint64_t original = 0;
};

// The address of ``target`` is at offset ``at`` in a parameter that is passed by value.
struct AddressInValue {
  std::size_t parameter, at;
  Target target;
};

// Bytes that earlier launches may still write, or read. They belong to a buffer, or to a program's memory (buffer -1).
struct Unfinished {
  std::int64_t buffer = -1;
  std::uint64_t first = 0, bytes = 0;
  bool only_read = false;
};

struct Job {
  std::vector<BufferSpec> buffers;
  std::vector<std::size_t> offsets;  // offsets of the buffers in DATA
  std::vector<std::string> values;   // bytes of the parameters that are passed by value
  std::vector<TensorMapSpec> maps;
  // For each parameter, its kind and its index among parameters of this kind: p pointer, v value, t tensor map.
  std::vector<std::pair<char, std::size_t>> parameters;
  std::string arena;
  bool uses = false;  // true: report how the launch uses a program's memory
  std::vector<std::pair<std::string, std::size_t>> symbols;  // variables of the kernel whose content is a buffer
  std::vector<ptx::Texture> textures;
  std::vector<std::pair<std::string, std::size_t>> fills;  // __constant__ variables to which buffers are copied
  std::vector<Target> pointers;
  // buffers with flags per byte, and the offsets of these flags in DATA
  std::vector<std::pair<std::size_t, std::size_t>> defined;
  std::vector<AddressInMemory> addresses;
  std::vector<AddressInValue> inside;
  std::vector<Unfinished> unfinished;
  bool lists_writes = false;  // true: the caller needs a list of the written bytes
  double time_limit = 60;
};

Machine* running = nullptr;  // the machine whose state signal handlers report

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "emulator: %s\n", message.c_str());
  std::exit(1);
}

// Maps a program's memory at its address. ``copied``: writes go to a private copy. ``kept``: this copy is written back
// at the end.
void map_arena(Machine& machine, const char* path, std::uint64_t base, std::size_t bytes, bool copied, bool kept) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) fail("cannot open the program's memory");
  void* at = mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE,
                  (copied ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
  if (kept) {
    machine.program_memory = {fd, base};
  } else {
    close(fd);
  }
  if (at != reinterpret_cast<void*>(base)) fail("cannot map the program's memory at its address");
}

Job read_job(Machine& machine, const char* path) {
  std::ifstream file(path);
  Job job;
  std::string key;
  while (file >> key) {
    if (key == "grid") {
      file >> machine.grid_size.x >> machine.grid_size.y >> machine.grid_size.z;
    } else if (key == "cluster") {
      file >> machine.launch.cluster.x >> machine.launch.cluster.y >> machine.launch.cluster.z;
      machine.launch.clustered = true;
    } else if (key == "cooperative") {
      file >> machine.launch.cooperative;
    } else if (key == "dependent") {
      file >> machine.launch.dependent;
    } else if (key == "unfinished") {
      Unfinished u;
      file >> u.buffer >> u.first >> u.bytes >> u.only_read;
      job.unfinished.push_back(u);
    } else if (key == "list_writes") {
      file >> job.lists_writes;
    } else if (key == "launches") {
      file >> machine.launch.launches;
    } else if (key == "calls") {
      file >> machine.launch.calls;
    } else if (key == "block") {
      file >> machine.block_size.x >> machine.block_size.y >> machine.block_size.z;
    } else if (key == "dynamic_shared_bytes") {
      file >> machine.launch.dynamic_shared_bytes;
    } else if (key == "time_limit") {
      file >> job.time_limit;
    } else if (key == "perturb") {
      file >> machine.program.perturb;
    } else if (key == "poison") {
      file >> machine.poison;
    } else if (key == "count") {
      file >> machine.launch.count;
    } else if (key == "inputs") {
      std::string path;
      std::getline(file >> std::ws, path);
      machine.inputs_file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (machine.inputs_file < 0) fail("cannot open the inputs");
    } else if (key == "check") {
      file >> machine.launch.check;
    } else if (key == "sparse") {
      file >> machine.launch.sparse;
    } else if (key == "resident") {
      file >> machine.launch.resident;
    } else if (key == "interleaved") {
      file >> machine.launch.interleaved;
    } else if (key == "order_seed") {
      file >> machine.launch.order_seed;
    } else if (key == "blocks") {
      std::size_t count = 0;
      file >> count;
      machine.launch.blocks.resize(count);
      for (unsigned& block : machine.launch.blocks) file >> block;
    } else if (key == "buffer") {
      std::string role, content;
      BufferSpec b{};
      std::size_t offset = 0;
      file >> b.name >> role >> b.bytes >> b.element_bytes >> b.zeroed >> offset >> content >> b.seed;
      b.content = content == "f16"    ? BufferSpec::Content::f16
                  : content == "bf16" ? BufferSpec::Content::bf16
                  : content == "f32"  ? BufferSpec::Content::f32
                  : content == "e4m3" ? BufferSpec::Content::e4m3
                  : content == "e5m2" ? BufferSpec::Content::e5m2
                  : content == "bits" ? BufferSpec::Content::bits
                  : content == "file" ? BufferSpec::Content::file
                                      : BufferSpec::Content::none;
      b.role = role == "input"    ? BufferSpec::Role::input
               : role == "output" ? BufferSpec::Role::output
               : role == "inout"  ? BufferSpec::Role::variable
                                  : BufferSpec::Role::workspace;
      if (b.role == BufferSpec::Role::variable) b.zeroed = true;  // all bytes are defined
      job.buffers.push_back(b);
      job.offsets.push_back(offset);
    } else if (key == "pointer") {
      Target target{};
      file >> target.buffer >> target.offset;
      if (target.buffer >= job.buffers.size()) fail("a pointer to a buffer that does not exist");
      job.parameters.push_back({'p', job.pointers.size()});
      job.pointers.push_back(target);
    } else if (key == "defined") {
      std::size_t buffer = 0, offset = 0;
      file >> buffer >> offset;
      if (buffer >= job.buffers.size()) fail("flags of a buffer that does not exist");
      job.buffers[buffer].zeroed = false;  // some bytes are undefined
      job.defined.push_back({buffer, offset});
    } else if (key == "address") {
      AddressInMemory a{};
      file >> a.buffer >> a.at >> a.target.buffer >> a.target.offset;
      if (a.buffer >= job.buffers.size() || a.target.buffer >= job.buffers.size() ||
          a.at + sizeof a.original > job.buffers[a.buffer].bytes) {
        fail("an address outside of every buffer");
      }
      job.addresses.push_back(a);
    } else if (key == "inside") {
      AddressInValue a{};
      file >> a.parameter >> a.at >> a.target.buffer >> a.target.offset;
      if (a.target.buffer >= job.buffers.size()) fail("an address outside of every buffer");
      job.inside.push_back(a);
    } else if (key == "fill") {
      std::string name;
      std::size_t buffer = 0;
      file >> name >> buffer;
      if (buffer >= job.buffers.size()) fail("a symbol of a buffer that does not exist");
      job.fills.push_back({name, buffer});
    } else if (key == "tensor_map") {
      TensorMapSpec m{};
      file >> m.buffer >> m.offset >> m.element_bytes >> m.rank;
      if (m.buffer >= job.buffers.size() || m.rank < 1 || m.rank > 5) fail("a tensor map of a buffer that does not exist");
      for (unsigned d = 0; d < m.rank; ++d) file >> m.sizes[d];
      for (unsigned d = 0; d + 1 < m.rank; ++d) file >> m.strides[d];
      for (unsigned d = 0; d < m.rank; ++d) file >> m.box[d];
      for (unsigned d = 0; d < m.rank; ++d) file >> m.element_strides[d];
      file >> m.swizzle_bytes >> m.fills_nan >> m.kind >> m.im2col >> m.slice_bytes >> m.loaded_as;
      job.parameters.push_back({'t', job.maps.size()});
      job.maps.push_back(m);
    } else if (key == "arena") {
      // Memory of another process, which is mapped at the same addresses, and the positions of buffers in it.
      std::uint64_t base = 0;
      std::size_t bytes = 0;
      bool copied = false, kept = false;
      file >> job.arena >> base >> bytes >> copied >> kept;
      map_arena(machine, job.arena.c_str(), base, bytes, copied, kept);
    } else if (key == "unknown") {
      std::size_t buffer = 0, first = 0, bytes = 0;
      file >> buffer >> first >> bytes;
      if (buffer >= job.buffers.size() || first + bytes > job.buffers[buffer].bytes) fail("undefined bytes outside of every buffer");
      job.buffers[buffer].unknown.push_back({first, first + bytes});
    } else if (key == "uses") {
      file >> job.uses;
    } else if (key == "placed") {
      BufferSpec b{};
      std::string role;
      std::uint64_t address = 0;
      file >> b.name >> role >> b.bytes >> b.element_bytes >> address >> b.unset;
      b.role = role == "input" ? BufferSpec::Role::input : BufferSpec::Role::variable;
      b.zeroed = true;
      b.address = reinterpret_cast<void*>(address);
      job.buffers.push_back(b);
      job.offsets.push_back(0);
    } else if (key == "heap") {
      // The program's device heap, which lies in the memory mapped above: address, size in bytes,
      // cudaLimitMallocHeapSize, and number of resets.
      std::uint64_t address = 0, resets = 0;
      std::size_t bytes = 0, limit = 0;
      bool copied = false;
      file >> address >> bytes >> limit >> resets >> copied;
      open_heap(machine, reinterpret_cast<void*>(address), bytes, limit, resets, copied);
    } else if (key == "symbol") {
      std::string name;
      std::size_t buffer = 0;
      file >> name >> buffer;
      if (buffer >= job.buffers.size()) fail("a symbol in a buffer that does not exist");
      job.symbols.emplace_back(name, buffer);
    } else if (key == "texture") {
      job.textures.push_back(ptx::read_texture(file));
      if (job.textures.back().buffer >= job.buffers.size()) fail("a texture in a buffer that does not exist");
    } else if (key == "value") {
      std::string digits;
      file >> digits;
      std::string bytes;
      for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
        bytes.push_back(static_cast<char>(std::strtol(digits.substr(i, 2).c_str(), nullptr, 16)));
      }
      job.parameters.push_back({'v', job.values.size()});
      job.values.push_back(bytes);
    } else {
      fail("unknown setting " + key);
    }
    if (!file) fail("bad value of " + key);
  }
  machine.launch.threads = machine.block_size.x * machine.block_size.y * machine.block_size.z;
  if (machine.launch.threads == 0 || machine.launch.threads > max_block_warps * warp_size) fail(
          "invalid block size: a block must have 1 to 1024 threads");
  return job;
}

void transfer(int fd, void* memory, std::size_t bytes, std::size_t offset, bool reading) {
  char* p = static_cast<char*>(memory);
  while (bytes > 0) {
    const ssize_t n =
        reading ? pread(fd, p, bytes, static_cast<off_t>(offset)) : pwrite(fd, p, bytes, static_cast<off_t>(offset));
    if (n <= 0) fail("cannot transfer the buffers");
    p += n;
    bytes -= static_cast<std::size_t>(n);
    offset += static_cast<std::size_t>(n);
  }
}

// Reports what the machine was doing before a crash. Allocates only short strings, because allocation may fail.
void last_words(Machine& machine, const char* status, const char* reason) {
  char message[512];
  if (machine.self != nullptr) {
    std::snprintf(message, sizeof message, "%s, in %s (the line of its last memory access, barrier or shuffle)", reason,
                  describe_self(machine).c_str());
  } else {
    std::snprintf(message, sizeof message, "%s", reason);
  }
  report_end(machine.report, status, machine.self != nullptr ? machine.self->site : SiteIndex{0}, message);
}

void on_crash(int signal) {
  Machine& machine = *running;
  last_words(machine, "crashed", strsignal(signal));
  _exit(2);
}

void on_time_limit(int) {
  Machine& machine = *running;
  // A thread that waits forever is more informative than the thread that ran last.
  if (const Thread* waits = waiting_thread(machine)) {
    char message[512];
    const std::string where = locate_global(machine, reinterpret_cast<const void*>(waits->spin_address));
    std::snprintf(
        message, sizeof message,
        "the launch reached the time limit: %s waits here%s%s, polling a value that never changes",
        describe(machine, waits->agent, machine.block_index).c_str(), where.empty() ? "" : " for ", where.c_str());
    report_end(machine.report, "timeout", waits->spin_site, message);
  } else {
    last_words(machine, "timeout", "the launch reached the time limit");
  }
  _exit(2);
}

void guard_process(Machine& machine, double time_limit) {
  running = &machine;
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // The handler needs a separate stack, because a stack overflow may be the reason for the crash.
  static char handler_stack[64 * 1024];
  stack_t alternate{};
  alternate.ss_sp = handler_stack;
  alternate.ss_size = sizeof handler_stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigaction(signal, &action, nullptr);
  struct sigaction alarm_action{};
  alarm_action.sa_handler = on_time_limit;
  alarm_action.sa_flags = SA_ONSTACK;
  sigaction(SIGPROF, &alarm_action, nullptr);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(time_limit);
  timer.it_value.tv_usec = static_cast<suseconds_t>((time_limit - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0) timer.it_value.tv_usec = 1;
  // limits CPU time rather than elapsed time, so that other load does not matter
  setitimer(ITIMER_PROF, &timer, nullptr);
}

std::uint64_t address_of(const std::vector<void*>& buffers, const Target& target) {
  return reinterpret_cast<std::uint64_t>(buffers[target.buffer]) + target.offset;
}

// Replaces the address ``expected`` by ``value``, unless the kernel has overwritten it.
void replace_address(const std::vector<void*>& buffers, const AddressInMemory& a, std::uint64_t expected,
                     std::uint64_t value) {
  char* bytes = static_cast<char*>(buffers[a.buffer]) + a.at;
  if (std::memcmp(bytes, &expected, sizeof expected) == 0) std::memcpy(bytes, &value, sizeof value);
}

// Writes the launch's changes back to the program's memory. If the changes may depend on undefined values, writes a
// list of the changes instead. effect.py compares the lists of several runs to decide whether the changes do
// depend on undefined values.
void hand_over_writes(Machine& machine, bool listed, int data) {
  if (machine.poison != 0 || listed) {
    list_writes(machine, data);
  } else {
    keep_writes(machine);
  }
  report_still_unknown(machine);
}

// Completes a launch: final checks, outputs and counts.
void finish(Machine& machine, bool finished, const Job& job, int data, const std::vector<void*>& buffers) {
  const itimerval off{};
  setitimer(ITIMER_PROF, &off, nullptr);
  if (finished) {
    check_after_call(machine);
    lower_harmless_races(machine);
    report_unused_values(machine);
  }
  for (const AddressInMemory& a : job.addresses) replace_address(buffers, a, address_of(buffers, a.target), a.original);
  for (const auto& [buffer, offset] : job.defined) {
    std::vector<unsigned char> flags(job.buffers[buffer].bytes);
    flag_used_bytes(machine, buffer, flags.data());
    transfer(data, flags.data(), flags.size(), offset, false);
  }
  if (machine.poison != 0) clear_unwritten(machine);
  if (machine.launch.sparse) write_touched_outputs(machine, data);
  for (std::size_t i = 0; i < buffers.size() && !machine.launch.sparse; ++i) {
    if (job.buffers[i].address != nullptr) continue;
    if (job.buffers[i].role == BufferSpec::Role::output || job.buffers[i].role == BufferSpec::Role::variable) {
      transfer(data, buffers[i], job.buffers[i].bytes, job.offsets[i], false);
    }
  }
  const bool is_open = was_found(machine.report, Kind::undefined_register) ||
                       was_found(machine.report, Kind::uninitialized_shared_read) ||
                       was_found(machine.report, Kind::uninitialized_global_read);
  if (!job.arena.empty()) hand_over_writes(machine, finished && (is_open || job.lists_writes), data);
  if (waited_for_launches(machine)) report_waited(machine.report);
  if (job.uses && machine.poison == 0) report_uses(machine);
  if (machine.launch.check && (machine.poison != 0 || is_open)) report_variables(machine.report, digest_of_variables(machine));
  keep_heap(machine);
  report_counts(machine);
  if (machine.launch.count) ptx::report_executed(machine);
  report_end(machine.report, finished ? "done" : "stopped", 0, "");
}

// Sets the cluster size of the launch. Returns false, with a line on stderr, if the launch and the kernel specify
// different sizes, or if the size does not fit the grid or the emulator.
bool arrange_cluster(Machine& machine) {
  const Index3 own = machine.program.cluster;
  Index3& c = machine.launch.cluster;
  machine.launch.clustered = machine.launch.clustered || own.x != 0;
  if (c.x * c.y * c.z == 1 && own.x != 0) c = own;
  if (own.x != 0 && (own.x != c.x || own.y != c.y || own.z != c.z)) {
    std::fprintf(stderr, "arguments: __cluster_dims__ is (%u, %u, %u), but the launch requests (%u, %u, %u)\n", own.x, own.y,
                 own.z, c.x, c.y, c.z);
    return false;
  }
  if (machine.grid_size.x % c.x != 0 || machine.grid_size.y % c.y != 0 || machine.grid_size.z % c.z != 0) {
    std::fprintf(stderr, "arguments: the grid is not a multiple of the cluster of (%u, %u, %u) blocks\n", c.x, c.y, c.z);
    return false;
  }
  machine.warp_count = block_warps(machine) * cluster_blocks(machine);
  if (machine.warp_count > max_warps) {
    std::fprintf(stderr,
            "lacking: the emulator runs at most %u warps together, but a cluster has %u\n",
            max_warps, machine.warp_count);
    return false;
  }
  return true;
}

// Checks the shared memory of a block against the largest limit of any GPU that can run the kernel.
void check_shared_limit(Machine& machine) {
  constexpr unsigned most_of_any = 227 * 1024, most_of_sm_120 = 99 * 1024;
  const unsigned all = machine.program.static_shared_bytes + machine.launch.dynamic_shared_bytes;
  const unsigned most = machine.program.target >= 120 ? most_of_sm_120 : most_of_any;
  if (all > most) {
    FINDING(machine.report, launch_limit, 0,
            "a block needs %u bytes of shared memory, but GPUs have at most %u", all, most);
  }
}

// Runs the job. The exit status is 5 if the kernel needs something that the runtime does not support.
int run(Machine& machine, int argc, char** argv) {
  if (argc != 5) fail("usage: runner PROGRAM JOB DATA REPORT");
  Job job = read_job(machine, argv[2]);
  const int report = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int data = open(argv[3], O_RDWR | O_CLOEXEC);
  if (report < 0 || data < 0) fail("cannot open the job's files");
  report_to(machine.report, report);

  if (!ptx::load_program(machine, argv[1]) || !arrange_cluster(machine)) return 5;
  ptx::number_effects(machine);
  check_shared_limit(machine);
  reserve_shared(machine, machine.program.static_shared_bytes);
  allot_shared(machine);
  for (const auto& [name, buffer] : job.symbols) ptx::bind_variable(machine, name);
  for (const auto& [name, buffer] : job.fills) ptx::expect_filled(machine, name);
  std::vector<std::vector<unsigned char>> flags;
  for (const auto& [buffer, offset] : job.defined) {
    std::vector<unsigned char>& of_buffer = flags.emplace_back(job.buffers[buffer].bytes);
    transfer(data, of_buffer.data(), of_buffer.size(), offset, true);
    job.buffers[buffer].defined = of_buffer.data();
  }
  std::vector<BufferSpec> specs = job.buffers;
  for (const BufferSpec& variable : ptx::variable_specs(machine)) specs.push_back(variable);
  // The workspace of this_grid().sync(): {bytes, barrier}, as in cooperative_groups/details/driver_abi.h.
  const bool meets = machine.program.uses_grid_workspace && machine.launch.cooperative;
  if (meets) specs.push_back({BufferSpec::Role::variable, "the grid's barrier", 8, 4, true});
  std::vector<void*> buffers = reserve_buffers(machine, specs);
  if (meets) {
    machine.program.grid_workspace = reinterpret_cast<std::uint64_t>(buffers.back());
    buffers.pop_back();
  }
  for (const auto& [name, buffer] : job.symbols) ptx::place_bound_variable(machine, name, buffers[buffer]);
  ptx::place_variables(machine, {buffers.begin() + static_cast<std::ptrdiff_t>(job.buffers.size()), buffers.end()});
  buffers.resize(job.buffers.size());
  for (const ptx::Texture& t : job.textures) ptx::place_texture(machine, t, reinterpret_cast<std::uint64_t>(buffers[t.buffer]));
  for (std::size_t i = 0; i < buffers.size() && !machine.launch.sparse; ++i) {
    if (job.buffers[i].address == nullptr) transfer(data, buffers[i], job.buffers[i].bytes, job.offsets[i], true);
  }
  for (const Unfinished& u : job.unfinished) {
    const std::uint64_t base = u.buffer < 0 ? 0 : reinterpret_cast<std::uint64_t>(buffers.at(static_cast<std::size_t>(u.buffer)));
    add_unfinished(machine, reinterpret_cast<const void*>(base + u.first), u.bytes, u.only_read);
  }
  if (machine.poison != 0) fill_unwritten(machine);
  for (const auto& [name, buffer] : job.fills) {
    if (!ptx::fill_variable(machine, name, buffers[buffer], job.buffers[buffer].bytes)) return 5;
  }
  for (AddressInMemory& a : job.addresses) {
    std::memcpy(&a.original, static_cast<char*>(buffers[a.buffer]) + a.at, sizeof a.original);
    replace_address(buffers, a, a.original, address_of(buffers, a.target));
  }
  std::vector<std::string> arguments;
  for (const auto& [kind, index] : job.parameters) {
    if (kind == 'v') {
      arguments.push_back(job.values[index]);
    } else if (kind == 't') {
      const TensorMapSpec& map = job.maps[index];
      arguments.push_back(ptx::encoded(map, static_cast<char*>(buffers[map.buffer]) + map.offset));
    } else {
      const std::uint64_t address = address_of(buffers, job.pointers[index]);
      arguments.emplace_back(reinterpret_cast<const char*>(&address), sizeof address);
    }
  }
  for (const AddressInValue& a : job.inside) {
    const std::uint64_t address = address_of(buffers, a.target);
    if (a.parameter >= arguments.size() || a.at + sizeof address > arguments[a.parameter].size()) fail(
            "an address outside of every value");
    std::memcpy(arguments[a.parameter].data() + a.at, &address, sizeof address);
  }
  if (!ptx::set_arguments(machine, arguments)) return 5;
  ptx::start(machine);
  guard_process(machine, job.time_limit);
  finish(machine, run_grid(machine), job, data, buffers);
  return 0;
}

}  // namespace
}  // namespace autosched::emulator

int main(int argc, char** argv) {
  // If memory for bookkeeping runs out, exits with a message: an exception would look like a crash of the kernel.
  std::set_new_handler([] {
    constexpr char message[] = "emulator: out of memory\n";
    _exit(write(STDERR_FILENO, message, sizeof message - 1) > 0 ? 1 : 3);
  });
  return autosched::emulator::run(*new autosched::emulator::Machine, argc, argv);
}

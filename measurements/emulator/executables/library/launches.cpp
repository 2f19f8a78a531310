// Launches of kernels, which `autosched run` emulates, and iterations of loops in graphs.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "guards.hpp"
#include "order.hpp"
#include "session.hpp"
#include "work.hpp"

namespace autosched::program {

namespace {

const char* kind_name(Allocation::Kind kind) {
  switch (kind) {
    case Allocation::Kind::device: return "device";
    case Allocation::Kind::host: return "host";
    case Allocation::Kind::managed: return "managed";
    case Allocation::Kind::array: return "array";
    default: return "variable";
  }
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
      complain_misuse("the cooperative launch of " + k->name + " has more blocks than can be resident at the same time: at most " + std::to_string(fit));
      return failed(cooperative_too_large);
    }
  }
  const auto volume = [](const Dim3& d) { return std::uint64_t{d.x} * d.y * d.z; };
  if (volume(launch.grid) == 0 || volume(launch.block) == 0 || volume(launch.block) > k->most_threads || launch.block.z > 64 ||
      launch.grid.x > 0x7fffffffu || launch.grid.y > 65535 || launch.grid.z > 65535) {
    std::ostringstream text;
    text << "the launch of " << k->name << " with a grid of " << launch.grid.x << " x " << launch.grid.y << " x " << launch.grid.z
         <<
                 " blocks of " << launch.block.x << " x " << launch.block.y << " x " << launch.block.z << " threads is invalid: an extent is 0, or exceeds the limit of the device";
    complain_misuse(text.str());
    return failed(invalid_configuration);
  }
  if (launch.shared > k->most_dynamic || launch.shared + k->static_shared > fact("shared_per_block")) {
    complain_misuse("the launch of " + k->name + " with " + std::to_string(launch.shared) + " bytes of dynamic shared memory exceeds its limit: at most " +
                    std::to_string(std::min<std::size_t>(k->most_dynamic, fact("shared_per_block") - k->static_shared)));
    return failed(invalid_value);
  }
  const Dim3 c = launch.cluster.value_or(Dim3{});
  if (volume(c) == 0 || launch.grid.x % c.x != 0 || launch.grid.y % c.y != 0 || launch.grid.z % c.z != 0) {
    complain_misuse("the launch of " + k->name + " is invalid: its grid must be a multiple of its clusters of " + std::to_string(c.x) + " x " +
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
  // Freed allocations are listed with 0 bytes, so that every access to them is out of bounds.
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
  std::fflush(nullptr);  // earlier output of the program must precede the kernel's output
  std::istringstream answer(s.ask(text.str()));
  int error = success, stays = 0;
  // The reply contains three kinds of address ranges: ranges that are still unwritten, ranges that the launch has
  // computed from unwritten memory, and ranges to be guarded. These are the numbers of ranges of each kind.
  std::size_t counts[3] = {};
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

}  // namespace autosched::program

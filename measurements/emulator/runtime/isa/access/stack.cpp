// Local memory whose size is only known at run time: alloca, stacksave and stackrestore, PTX ISA 9.7.12. An allocation
// lies above the frame of its function, and is valid at most until the function returns. Gaps of unallocated bytes
// between allocations make out-of-bounds accesses detectable.
#include "isa/access/stack.hpp"

#include <algorithm>

#include "isa/program.hpp"
#include "memory/poison.hpp"

namespace autosched::emulator::ptx {

namespace {

constexpr std::uint64_t most_local = 512 * 1024;  // bytes per thread: CUDA's technical specifications
constexpr std::uint32_t gap = 64;                 // unallocated bytes between two allocations
constexpr std::uint32_t usual_alignment = 8;

constexpr std::uint64_t aligned(std::uint64_t n, std::uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

}  // namespace

void clear_local(Machine& machine, Local& local, std::uint32_t begin, std::uint32_t end) {
  if (end > local.bytes.size()) {
    local.bytes.resize(end);
    local.known.resize(end);
  }
  if (machine.poison != 0) fill_poison(machine, local.bytes.data() + begin, end - begin);
  std::fill(local.known.begin() + begin, local.known.begin() + end, static_cast<unsigned char>(0));
  if (!local.origins.empty()) {
    std::erase_if(local.origins, [&](const auto& one) { return one.first >= begin; });
  }
}

void shrink_local(Warp& w, unsigned lane, std::uint32_t top) {
  w.local_top[lane] = top;
  std::vector<Local::Gap>& gaps = w.local[lane].gaps;
  while (!gaps.empty() && gaps.back().end > top) gaps.pop_back();
}

namespace {

// Source: size. Immediate: alignment, or 0 for the default alignment.
void allocate(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto alignment = static_cast<std::uint64_t>(i.immediate[0] != 0 ? i.immediate[0] : usual_alignment);
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    Local& local = w.local[k];
    const std::uint64_t size = read_bits(w, i.source(0), i.width_of_source(0), k);
    const std::uint32_t top = w.local_top[k];
    const std::uint64_t begin = aligned(std::uint64_t{top} + gap, std::max<std::uint64_t>(alignment, 16));
    if (size > most_local || begin + size > most_local) {
      FINDING(machine.report, out_of_bounds_local, i.site,
              "%s: alloca of %llu bytes does not fit: the thread already uses %u of its %llu bytes of local memory",
              describe_self(machine).c_str(), static_cast<unsigned long long>(size), top,
              static_cast<unsigned long long>(most_local));
      write_bits(w, i.destination(0), i.width_of_destination(0), k, most_local);  // an invalid address
      return;
    }
    const auto end = static_cast<std::uint32_t>(begin + size);
    clear_local(machine, local, top, end + gap);
    w.local_top[k] = end + gap;
    local.gaps.push_back({top, static_cast<std::uint32_t>(begin)});
    local.gaps.push_back({end, end + gap});
    write_bits(w, i.destination(0), i.width_of_destination(0), k, begin);
  });
}

void save(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) { write_bits(w, i.destination(0), i.width_of_destination(0), k, w.local_top[k]); });
}

void restore(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t saved = read_bits(w, i.source(0), i.width_of_source(0), k);
    const std::uint32_t function = w.calls[k].empty() ? 0 : w.calls[k].back().function;
    const std::uint32_t least = w.local_base[k][function] + machine.program.functions[function].local_bytes;
    if (saved < least || saved > w.local_top[k]) {
      run_as(w, k);
      machine.self->site = i.site;
      FINDING(machine.report, invalid_argument, i.site,
              "%s: stackrestore of %#llx, which is not a result of stacksave in this call", describe_self(machine).c_str(),
              static_cast<unsigned long long>(saved));
      return;
    }
    shrink_local(w, k, static_cast<std::uint32_t>(saved));
  });
}

constexpr Row stack_table[] = {
    {"alloca", allocate, 0, "8:8", Flow::plain, true},     {"alloca", allocate, 0, "4:4", Flow::plain, true},
    {"stacksave", save, 0, "8:"},                          {"stacksave", save, 0, "4:"},
    {"stackrestore", restore, 0, ":8", Flow::plain, true}, {"stackrestore", restore, 0, ":4", Flow::plain, true},
};

}  // namespace

const Rows stack_rows{std::begin(stack_table), std::end(stack_table)};

}  // namespace autosched::emulator::ptx

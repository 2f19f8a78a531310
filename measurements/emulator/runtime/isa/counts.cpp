#include "isa/counts.hpp"

#include <string_view>

#include "memory/counting.hpp"

namespace autosched::emulator::ptx {
namespace {

// Cycles until a result can be used, about what microbenchmarks of Ampere to Hopper find (arXiv 2208.11174, 2402.13499).
// A load that is the first of its block for one of its sectors comes from L2 or from DRAM.
constexpr std::uint32_t arithmetic = 4, doubles = 8, multiplied = 33, special = 22, divided = 40, from_shared = 26, from_l1 = 36,
                        from_constant = 6, from_memory = 480, atomic = 480, exchanged = 24;

std::vector<std::uint64_t> counts;           // by instruction
std::vector<std::uint16_t> latencies;        // by instruction; 0: it is part of another one in machine code
std::uint64_t warps_ended = 0, cycles = 0;   // of the chains of all warps

std::uint16_t latency_of(const Instruction& i) {
  const std::string_view name = i.row->name;
  const auto is = [&](std::string_view text) { return name.starts_with(text); };
  if (is("mov") || is("cvta") || is("ld.parameter") || is("ld.frame") || is("st.frame") || is("nothing")) return 0;
  if (is("ldmatrix") || is("wmma.load")) return from_shared;
  if (is("atom")) return atomic;
  if (is("mma") || is("wmma.mma")) return multiplied;
  if (is("shfl") || is("redux") || is("vote") || is("match")) return exchanged;
  if (is("div") || is("rem") || is("sqrt") || is("rcp.f64") || is("rsqrt.f64")) return divided;
  for (const char* one : {"rcp.", "rsqrt.", "sin.", "cos.", "ex2.", "lg2.", "tanh."}) {
    if (is(one)) return special;
  }
  return name.ends_with("f64") ? doubles : arithmetic;
}

bool is_load(const Instruction& i) { return i.row->name[0] == 'l' && i.row->name[1] == 'd'; }

}  // namespace

void begin_counting(Warp& w) {
  if (counts.empty()) {
    counts.resize(program.code.size());
    for (const Instruction& i : program.code) latencies.push_back(latency_of(i));
  }
  w.block_began = w.latest = w.issued = 0;
  for (const Span& r : program.functions[0].registers) w.head(r.offset).ready = 0;
}

// The compiler orders the instructions of a basic block as it likes: one issues when its operands are there, and the next
// basic block begins when the last of this one has issued.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc) {
  ++counts[pc];
  std::uint32_t at = w.block_began;
  for (unsigned s = 0; s < i.sources; ++s) at = std::max(at, w.head(i.source(s)).ready);
  if (i.guard != 0) at = std::max(at, w.head(i.guard).ready);
  std::uint32_t latency = latencies[pc];
  if (latency != 0) ++w.issued;
  if (is_load(i) && latency == arithmetic) {
    switch (take_reached()) {
      case Reached::shared: latency = from_shared; break;
      case Reached::constant: latency = from_constant; break;
      case Reached::l1: latency = from_l1; break;
      case Reached::memory: latency = from_memory; break;
    }
  }
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).ready = at + latency;
  w.latest = std::max(w.latest, at);
  if (i.flow == Flow::plain) return;
  w.block_began = std::max(w.latest, w.block_began + w.issued);
  w.issued = 0;
}

void end_counting(const Warp& w) {
  ++warps_ended;
  cycles += std::max(w.latest, w.block_began + w.issued);
}

void report_executed() {
  for (std::size_t pc = 0; pc < counts.size(); ++pc) {
    if (counts[pc] != 0) emulator::report_executed(program.code[pc].site, counts[pc]);
  }
  emulator::report_chains(warps_ended, cycles);
}

}  // namespace autosched::emulator::ptx

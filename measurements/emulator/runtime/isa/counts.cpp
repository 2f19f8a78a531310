#include "machine/part.hpp"
#include "isa/counts.hpp"
#include "isa/program.hpp"
#include "memory/counting.hpp"

#include <map>
#include <string_view>
#include <unordered_map>

namespace autosched::emulator::ptx {

// Instructions that the launch has executed, for time estimates.
struct Executed {
  enum class Copying { none, copy, commit, wait };
  std::vector<std::uint64_t> counts;           // executions by instruction
  // by instruction; 0: free, because machine code merges the instruction into another one
  std::vector<std::uint16_t> latencies;
  std::uint64_t warps_ended = 0, cycles = 0;   // number of ended warps, and cycles of their dependency chains
  // matrix products: executions by instruction and shape
  std::map<std::pair<std::uint32_t, std::string>, std::uint64_t> products;
  // cycle at which an mbarrier of the block completes, by the mbarrier's address
  std::unordered_map<std::uint32_t, std::uint32_t> committed;
  std::vector<Copying> copying_of;  // role of each instruction for cp.async
};

namespace {
using Copying = Executed::Copying;

// Cycles until a result can be used, approximately as in microbenchmarks of Ampere to Hopper (arXiv 2208.11174,
// 2402.13499). A block's first load from a sector has the latency of L2 or DRAM.
constexpr std::uint32_t arithmetic = 4, doubles = 8, multiplied = 33, special = 22, divided = 40, from_shared = 26, from_l1 = 36,
                        from_constant = 6, from_memory = 480, atomic = 480, exchanged = 24;
// Cycles from the last tcgen05.mma before a commit until the mbarrier completes. This value is not from a
// microbenchmark: it is chosen so that the estimated time of a loop iteration agrees with the fastest configurations on
// B200 (autosched/integrations/config_files/tuning/layer_counts.py).
constexpr std::uint32_t products_done = 300;

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

Copying copying(const Instruction& i) {
  const std::string_view name = i.row->name;
  return name == "cp.async"               ? Copying::copy
         : name == "cp.async.commit_group" ? Copying::commit
         : name == "cp.async.wait_group"   ? Copying::wait
                                           : Copying::none;
}

std::uint32_t latency_of_reached(Machine& machine) {
  switch (take_reached(machine)) {
    case Reached::shared: return from_shared;
    case Reached::constant: return from_constant;
    case Reached::l1: return from_l1;
    case Reached::memory: break;
  }
  return from_memory;
}

// Returns the cycle at which a wait for cp.async groups ends. The wait covers all except the last `in_flight` groups.
// If `in_flight` is -1, it covers all groups and the uncommitted copies.
std::uint32_t wait_for_copies(Warp& w, std::int64_t in_flight) {
  std::uint32_t until = in_flight < 0 ? w.copying : 0;
  const std::size_t left = in_flight < 0 ? 0 : static_cast<std::size_t>(in_flight);
  const std::size_t waited = w.copied.size() - std::min(left, w.copied.size());
  for (std::size_t k = 0; k < waited; ++k) until = std::max(until, w.copied[k]);
  w.copied.erase(w.copied.begin(), w.copied.begin() + static_cast<std::ptrdiff_t>(waited));
  return until;
}

}  // namespace

void begin_counting(Warp& w) {
  Machine& machine = *w.machine;
  if (machine.executed.counts.empty()) {
    machine.executed.counts.resize(machine.program.code.size());
    for (const Instruction& i : machine.program.code) {
      machine.executed.latencies.push_back(latency_of(i));
      machine.executed.copying_of.push_back(copying(i));
    }
  }
  machine.executed.committed.clear();
  w.block_began = w.latest = w.issued = w.copying = 0;
  w.copied.clear();
  for (const Span& r : machine.program.functions[0].registers) w.head(r.offset).ready = 0;
}

// Each instruction is assumed to issue when its operands are ready, because the compiler may reorder the instructions
// of a basic block. The next basic block begins when the last instruction has issued. A cp.async copy completes when
// all copies of its group have completed.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc) {
  Machine& machine = *w.machine;
  ++machine.executed.counts[pc];
  std::uint32_t at = w.block_began;
  for (unsigned s = 0; s < i.sources; ++s) at = std::max(at, w.head(i.source(s)).ready);
  if (i.guard != 0) at = std::max(at, w.head(i.guard).ready);
  std::uint32_t latency = machine.executed.latencies[pc];
  if (latency != 0) ++w.issued;
  if (is_load(i) && latency == arithmetic) latency = latency_of_reached(machine);
  switch (machine.executed.copying_of[pc]) {
    case Copying::none: break;
    case Copying::copy: w.copying = std::max(w.copying, at + latency_of_reached(machine)); break;
    case Copying::commit:
      w.copied.push_back(w.copying);
      w.copying = 0;
      break;
    case Copying::wait:
      // Later instructions may read the copied data, so no later instruction issues before the wait ends.
      at = std::max(at, wait_for_copies(w, i.immediate[0]));
      w.block_began = std::max(w.block_began, at);
      break;
  }
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).ready = at + latency;
  w.latest = std::max(w.latest, at);
  if (i.flow == Flow::plain) return;
  w.block_began = std::max(w.latest, w.block_began + w.issued);
  w.issued = 0;
}

void note_product(Machine& machine, const Instruction& i, const std::string& shape) {
  ++machine.executed.products[{static_cast<std::uint32_t>(&i - machine.program.code.data()), shape}];
}

void note_products_committed(const Warp& w, std::uint32_t address) {
  w.machine->executed.committed[address] = std::max(w.latest, w.block_began) + products_done;
}

void note_phase_seen(Warp& w, std::uint32_t address) {
  Machine& machine = *w.machine;
  const auto entry = machine.executed.committed.find(address);
  if (entry != machine.executed.committed.end()) w.block_began = std::max(w.block_began, entry->second);
}

void end_counting(const Warp& w) {
  Machine& machine = *w.machine;
  ++machine.executed.warps_ended;
  machine.executed.cycles += std::max(w.latest, w.block_began + w.issued);
}

void report_executed(Machine& machine) {
  for (const auto& [product, times] : machine.executed.products) {
    emulator::report_executed(machine.report, machine.program.code[product.first].site, times, product.second.c_str());
    machine.executed.counts[product.first] -= std::min(machine.executed.counts[product.first], times);
  }
  for (std::size_t pc = 0; pc < machine.executed.counts.size(); ++pc) {
    if (machine.executed.counts[pc] != 0)
      emulator::report_executed(machine.report, machine.program.code[pc].site, machine.executed.counts[pc], "");
  }
  emulator::report_chains(machine.report, machine.executed.warps_ended, machine.executed.cycles);
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Executed);

// All tcgen05 instructions except tcgen05.mma (tcgen05_mma.cpp): PTX ISA 9.7.16. The emulator executes an instruction
// when it is issued. Accesses to its operands and results before a wait for its completion are reported, so the results
// of accepted kernels do not depend on when a GPU would execute it.
#include "machine/part.hpp"
#include "isa/counts.hpp"
#include "isa/values/dropped.hpp"
#include "isa/matrix/tcgen05.hpp"
#include "memory/poison.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"

#include <algorithm>

namespace autosched::emulator::ptx {

// Pending loads of tensor memory, and allocations for which warps wait.
struct TensorLoads : Unit {
  using Unit::Unit;

  // The tcgen05.ld of a warp, whose destination registers must not be accessed before the warp waits.
  struct Loads {
    // Number of loads so far, over all blocks. Register headers refer to loads by this number.
    std::uint32_t issued = 0, waited = 0;
  };
  PerBlock<std::vector<Loads>> loads{parking};  // pending loads by warp
  PerBlock<std::vector<SiteIndex>> waiting_allocs{parking};  // by warp: the tcgen05.alloc that waits for columns; 0: none
};

namespace {
using Loads = TensorLoads::Loads;

// Checks that all lanes pass the same value, and returns the value of lane 0.
std::uint32_t uniform(Warp& w, const Instruction& i, unsigned source, const char* operand_name) {
  const std::uint32_t* values = w.values<std::uint32_t>(i.source(source));
  for (unsigned lane = 1; lane < warp_size; ++lane) {
    if (values[lane] == values[0]) continue;
    FINDING(w.machine->report, invalid_argument, i.site, "lanes 0 and %u of warp %u give %s different %s", lane, w.index,
            i.row->name, operand_name);
    break;
  }
  return values[0];
}

// Returns true if the cluster has blocks for the instruction's cta_group (1 or 2). Otherwise reports a finding.
bool check_group(Machine& machine, unsigned blocks, const char* name) {
  if (blocks == 1 || cluster_blocks(machine) % 2 == 0) return true;
  FINDING(machine.report, invalid_argument, machine.self->site,
          "%s: %s.cta_group::2 needs a cluster with an even number of blocks, not %u",
          describe_self(machine).c_str(), name, cluster_blocks(machine));
  return false;
}

// Sources: shared-memory address for the result, number of columns. Immediates: 1 (whole warp), offset, blocks (2 for
// cta_group::2).
void alloc(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  constexpr const char* name = "tcgen05.alloc";
  run_as(w, 0);
  machine.self->site = i.site;
  const std::uint32_t columns = uniform(w, i, 1, "numbers of columns");
  if (!check_group(machine, static_cast<unsigned>(i.immediate[2]), name)) return;
  if (columns < 32 || columns > tensor_columns || (columns & (columns - 1)) != 0) {
    FINDING(machine.report, tensor_memory_misuse, i.site, "%s: %s of %u columns, which must be 32, 64, 128, 256 or 512",
            describe_self(machine).c_str(), name, columns);
    return;
  }
  TensorMemory& memory = tensor_memory(machine, machine.self->rank);
  if (memory.relinquished) {
    FINDING(machine.report, tensor_memory_misuse, i.site, "%s: %s after tcgen05.relinquish_alloc_permit of its block",
            describe_self(machine).c_str(), name);
  }
  if (columns > memory.least) {
    FINDING(machine.report, tensor_memory_misuse, i.site,
            "%s: %s of %u columns after one of %u: a later allocation of a block must not be larger",
            describe_self(machine).c_str(),
            name, columns, memory.least);
  }
  const auto is_free = [&](unsigned from) {
    return std::none_of(memory.allocations.begin(), memory.allocations.end(), [&](const TensorAllocation& a) {
      return a.column < from + columns && from < a.column + a.columns;
    });
  };
  unsigned column = 0;
  while (column + columns <= tensor_columns && !is_free(column)) column += columns;
  if (column + columns > tensor_columns) {  // waits until another warp frees columns
    machine.tensor_loads.waiting_allocs[w.index] = i.site;
    w.retry = true;
    ++machine.idle_polls;
    return;
  }
  machine.tensor_loads.waiting_allocs[w.index] = 0;
  memory.least = std::min(memory.least, columns);
  memory.allocations.push_back({column, columns, i.site});
  unsigned allocated = 0;
  for (const TensorAllocation& a : memory.allocations) allocated += a.columns;
  memory.most = std::max(memory.most, allocated);
  memory.allocated_at = i.site;
  std::uint32_t to;
  if (shared_operand(w, i, 0, i.immediate[1], 0, name, to)) write_shared(machine, to, &column, 4, name);
  machine.idle_polls = 0;
}

// Sources: address, number of columns. Immediates: 1 (whole warp), blocks.
void dealloc(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  constexpr const char* name = "tcgen05.dealloc";
  run_as(w, 0);
  machine.self->site = i.site;
  const std::uint32_t address = uniform(w, i, 0, "addresses"), columns = uniform(w, i, 1, "numbers of columns");
  TensorMemory& memory = tensor_memory(machine, machine.self->rank);
  const auto allocation =
      std::find_if(memory.allocations.begin(), memory.allocations.end(),
                   [&](const TensorAllocation& a) { return a.column == address && a.columns == columns; });
  if (allocation == memory.allocations.end()) {
    FINDING(machine.report, tensor_memory_misuse, i.site, "%s: %s of %u columns at %#x does not match any tcgen05.alloc",
            describe_self(machine).c_str(), name, columns, address);
    return;
  }
  check_tensor_columns_idle(machine, machine.self->rank, allocation->column, columns, agent_of(w.index, whole_warp),
                            name);
  memory.allocations.erase(allocation);
  machine.idle_polls = 0;
}

void relinquish(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  run_as(w, 0);
  machine.self->site = i.site;
  tensor_memory(machine, machine.self->rank).relinquished = true;
}

// In the order of _SHAPES in measurements/emulator/ptx/families/tcgen05.py.
enum class Shape { lanes_32x32b, lanes_16x64b, lanes_16x128b, lanes_16x256b, lanes_16x32bx2 };
struct Position {
  unsigned lane, column;  // position relative to the instruction's address
};
// Position of register `r` of thread `t`: PTX ISA 9.7.16.2.3. 16x256b is the accumulator layout of mma.sync.
Position position(Shape shape, unsigned t, unsigned r, unsigned split) {
  switch (shape) {
    case Shape::lanes_32x32b: return {t, r};
    case Shape::lanes_16x64b: return {t / 4 + 8 * (t % 2), t / 2 % 2 + 2 * r};
    case Shape::lanes_16x128b: return {t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2)};
    case Shape::lanes_16x256b: return {t / 4 + 8 * (r / 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r / 4)};
    default: return {t % 16, r + t / 16 * split};
  }
}

struct Move {
  unsigned first_lane, first_column;
  bool good;
};
// Checks the address of a tcgen05.ld or st. Immediates: 1 (whole warp), offset, Shape, columns between the halves of
// 16x32bx2, and whether a register holds two columns with 16 bits each.
Move check_move(Warp& w, const Instruction& i, unsigned registers) {
  Machine& machine = *w.machine;
  const auto shape = static_cast<Shape>(i.immediate[2]);
  const std::uint32_t address = uniform(w, i, 0, "addresses") + static_cast<std::uint32_t>(i.immediate[1]);
  const unsigned lane = address >> 16, column = address & 0xffff, quarter = w.index % block_warps(machine) % tensor_quarters;
  const bool halves = shape != Shape::lanes_32x32b;
  if (lane / quarter_lanes != quarter || lane % (halves ? 16 : 32) != 0) {
    FINDING(machine.report, tensor_memory_misuse, i.site,
            "%s of warp %u at lane %u of tensor memory: this warp can only access lanes %u to %u, beginning with the first%s",
            i.row->name, w.index % block_warps(machine), lane, quarter * quarter_lanes, quarter * quarter_lanes + 31,
            halves ? " or the 17th" : "");
    return {0, 0, false};
  }
  unsigned last = 0;
  for (const unsigned t : {0u, 31u})
    last = std::max(last, position(shape, t, registers - 1, static_cast<unsigned>(i.immediate[3])).column);
  const unsigned columns = (last + 1) * (i.immediate[4] != 0 ? 2 : 1);
  return {lane, column, check_tensor_columns(machine, machine.self->rank, column, columns, i.row->name)};
}

// Calls body(column, lanes) once for each column that the instruction accesses, with the accessed lanes.
template <class Body>
void for_cells(Shape shape, const Move& m, unsigned registers, unsigned split, bool pairs, Body body) {
  std::uint32_t lanes[tensor_columns] = {};
  for (unsigned r = 0; r < registers; ++r) {
    for (unsigned t = 0; t < warp_size; ++t) {
      const Position p = position(shape, t, r, split);
      for (unsigned half = 0; half < (pairs ? 2u : 1u); ++half) {
        lanes[m.first_column + (pairs ? 2 * p.column + half : p.column)] |= 1u << ((m.first_lane + p.lane) % quarter_lanes);
      }
    }
  }
  for (unsigned c = 0; c < tensor_columns; ++c) {
    if (lanes[c] != 0) body(c, lanes[c]);
  }
}

void load(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  run_as(w, 0);
  machine.self->site = i.site;
  const auto shape = static_cast<Shape>(i.immediate[2]);
  const auto split = static_cast<unsigned>(i.immediate[3]);
  const bool pairs = i.immediate[4] != 0;
  const Move m = check_move(w, i, i.destinations);
  const std::uint32_t number = ++machine.tensor_loads.loads[w.index].issued;
  for (unsigned r = 0; r < i.destinations; ++r) {
    Register& head = w.head(i.destination(r));
    head.defined = all_lanes;
    head.loading = number;
    if (!m.good) std::memset(w.values<std::uint32_t>(i.destination(r)), 0xff, 4 * warp_size);
  }
  if (!m.good) return;
  const Agent me = agent_of(w.index, whole_warp);
  const TensorUse use = issue_tensor_work(machine, tensor_actor(machine, me, TensorWork::loads));
  TensorMemory& memory = tensor_memory(machine, machine.self->rank);
  std::uint32_t unwritten[tensor_columns] = {};
  for_cells(shape, m, i.destinations, split, pairs, [&](unsigned column, std::uint32_t lanes) {
    unwritten[column] =
        read_tensor_cell(machine, machine.self->rank, column, m.first_lane / quarter_lanes, lanes, use, me, i.row->name);
  });
  for (unsigned r = 0; r < i.destinations; ++r) {
    std::uint32_t* to = w.values<std::uint32_t>(i.destination(r));
    Register& head = w.head(i.destination(r));
    for (unsigned t = 0; t < warp_size; ++t) {
      const Position p = position(shape, t, r, split);
      const unsigned lane = m.first_lane + p.lane, column = m.first_column + (pairs ? 2 : 1) * p.column;
      to[t] = memory.word(column, lane);
      bool known = (unwritten[column] >> lane % quarter_lanes & 1u) == 0;
      if (pairs) {
        to[t] = (to[t] & 0xffffu) | memory.word(column + 1, lane) << 16;
        known = known && (unwritten[column + 1] >> lane % quarter_lanes & 1u) == 0;
      }
      if (!known) {  // reading an unwritten cell is only a fault if the value is used
        head.defined &= ~(1u << t);
        head.origin = i.site;
        if (machine.poison != 0) fill_poison(machine, &to[t], sizeof to[t]);
      }
    }
  }
}

// Sources: address, values.
void store(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  run_as(w, 0);
  machine.self->site = i.site;
  const auto shape = static_cast<Shape>(i.immediate[2]);
  const auto split = static_cast<unsigned>(i.immediate[3]);
  const bool pairs = i.immediate[4] != 0;
  const unsigned registers = i.sources - 1;
  const Move m = check_move(w, i, registers);
  if (!m.good) return;
  const Agent me = agent_of(w.index, whole_warp);
  const TensorUse use = issue_tensor_work(machine, tensor_actor(machine, me, TensorWork::stores));
  TensorMemory& memory = tensor_memory(machine, machine.self->rank);
  const unsigned quarter = m.first_lane / quarter_lanes;
  for_cells(shape, m, registers, split, pairs, [&](unsigned column, std::uint32_t lanes) {
    write_tensor_cell(machine, machine.self->rank, column, quarter, lanes, use, me, i.row->name);
  });
  for (unsigned r = 0; r < registers; ++r) {
    const std::uint32_t* from = w.values<std::uint32_t>(i.source(r + 1));
    const Lanes defined = w.head(i.source(r + 1)).defined;
    for (unsigned t = 0; t < warp_size; ++t) {
      const Position p = position(shape, t, r, split);
      const unsigned lane = m.first_lane + p.lane, column = m.first_column + (pairs ? 2 : 1) * p.column;
      memory.word(column, lane) = pairs ? from[t] & 0xffffu : from[t];
      if (pairs) memory.word(column + 1, lane) = from[t] >> 16;
      if ((defined >> t & 1u) != 0) continue;
      for (unsigned c = column; c < column + (pairs ? 2 : 1); ++c) memory.cell(c, quarter).defined &= ~(1u << lane % quarter_lanes);
    }
  }
  machine.idle_polls = 0;
}

// tcgen05.wait. Immediate 1: whether it waits for stores rather than loads.
void wait(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  const bool of_stores = i.immediate[1] != 0;
  const TensorActor& a = tensor_actor(machine, agent_of(w.index, whole_warp),
                                      of_stores ? TensorWork::stores : TensorWork::loads);
  if (a.issued != 0) machine.clocks.learn(w.index, a.actor, last_tensor_epoch(machine, a));
  if (!of_stores) machine.tensor_loads.loads[w.index].waited = machine.tensor_loads.loads[w.index].issued;
}

// tcgen05.fence. Immediate 0: whether it is ::after_thread_sync rather than ::before_thread_sync.
void fence(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  if (i.immediate[0] != 0) {
    fence_after_thread_sync(machine, w.index, active, active == live_lanes(w));
  } else {
    fence_before_thread_sync(machine, w.index);
  }
}

// tcgen05.commit. Sources: mbarrier, and for multicast a bit mask of cluster blocks. Immediates: offset, blocks,
// whether it is multicast.
void commit(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  constexpr const char* name = "tcgen05.commit";
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    std::uint32_t address;
    if (!check_group(machine, static_cast<unsigned>(i.immediate[1]), name)) return;
    if (!shared_operand(w, i, 0, i.immediate[0], k, name, address)) return;
    const TensorActor& a = tensor_actor(machine, machine.self->agent, TensorWork::products);
    const unsigned own = rank_of_address(address);
    std::uint32_t blocks = 1u << own;
    if (i.immediate[2] != 0) blocks = w.values<std::uint16_t>(i.source(1))[k];
    for (unsigned rank = 0; rank < 16; ++rank) {
      if ((blocks >> rank & 1u) == 0) continue;
      if (rank >= cluster_blocks(machine)) {
        FINDING(machine.report, invalid_argument, i.site, "%s: %s selects block %u, but the cluster has only %u blocks",
                describe_self(machine).c_str(), name, rank, cluster_blocks(machine));
        continue;
      }
      Mbarrier* m = mbarrier_at(machine, address_in_block(address, rank), name);
      if (m == nullptr) continue;
      if (machine.launch.count) note_products_committed(w, m->address);
      if (rank != machine.self->rank) {
        touch_block(machine, rank, a.issued != 0 ? agent_of(a.actor, whole_warp) : machine.self->agent,
                    a.issued != 0 ? last_tensor_epoch(machine, a) : machine.clocks.now[machine.self->warp]);
      }
      arrive_behind(machine, *m, w.index, k, a.issued != 0 ? a.actor : 0, a.issued != 0 ? last_tensor_epoch(machine, a) : 0, name);
    }
  });
  machine.idle_polls = 0;
}

// In the order of _COPIES in measurements/emulator/ptx/families/tcgen05.py.
enum class Copied { lanes_128x256b, lanes_4x256b, lanes_128x128b, lanes_64x128b_02_13, lanes_64x128b_01_23, lanes_32x128b };
struct CopyShape {
  unsigned rows, pieces;  // pieces of 16 bytes per row
};
constexpr CopyShape copy_shapes[] = {{128, 2}, {4, 2}, {128, 1}, {64, 1}, {64, 1}, {32, 1}};

// The lanes of tensor memory to which tcgen05.cp copies row `row`.
std::vector<unsigned> lanes_of_row(Copied shape, unsigned row) {
  switch (shape) {
    case Copied::lanes_4x256b: return {row * quarter_lanes};
    case Copied::lanes_64x128b_02_13: return {row, row + 64};
    case Copied::lanes_64x128b_01_23:
      return row < 32 ? std::vector<unsigned>{row, row + 32} : std::vector<unsigned>{row + 32, row + 64};
    case Copied::lanes_32x128b: return {row, row + 32, row + 64, row + 96};
    default: return {row};
  }
}

// tcgen05.cp. Sources: address, matrix descriptor. Immediates: offset, blocks, Copied. With cta_group::2, each block of
// the pair copies from its own shared memory.
void copy(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  constexpr const char* name = "tcgen05.cp";
  const auto shape = static_cast<Copied>(i.immediate[2]);
  const auto [rows, pieces] = copy_shapes[i.immediate[2]];
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    const auto blocks = static_cast<unsigned>(i.immediate[1]);
    if (!check_group(machine, blocks, name)) return;
    const std::uint32_t address = w.values<std::uint32_t>(i.source(0))[k] + static_cast<std::uint32_t>(i.immediate[0]);
    const unsigned column = address & 0xffff;
    Descriptor d = read_descriptor(machine, w.values<std::uint64_t>(i.source(1))[k], name);
    TensorActor& actor = tensor_actor(machine, machine.self->agent, TensorWork::products);
    const TensorUse use = issue_tensor_work(machine, actor);
    for (unsigned b = 0; b < blocks; ++b) {
      const unsigned rank = blocks == 1 ? machine.self->rank : machine.self->rank / 2 * 2 + b;
      if (!check_tensor_columns(machine, rank, column, pieces * 4, name)) return;
      TensorMemory& memory = tensor_memory(machine, rank);
      std::uint32_t lanes[tensor_quarters] = {};
      for (unsigned row = 0; row < rows; ++row) {
        for (unsigned piece = 0; piece < pieces; ++piece) {
          std::uint32_t words[4];
          read_operand(machine, d.along_k(row, piece), rank, actor, use, name, words);
          for (const unsigned lane : lanes_of_row(shape, row)) {
            lanes[lane / quarter_lanes] |= 1u << lane % quarter_lanes;
            for (unsigned c = 0; c < 4; ++c) memory.word(column + piece * 4 + c, lane) = words[c];
          }
        }
      }
      for (unsigned c = column; c < column + pieces * 4; ++c) {
        for (unsigned q = 0; q < tensor_quarters; ++q) {
          if (lanes[q] != 0) write_tensor_cell(machine, rank, c, q, lanes[q], use, machine.self->agent, name);
        }
      }
    }
  });
  machine.idle_polls = 0;
}

constexpr Row tcgen05_table[] = {
    {"tcgen05.alloc", alloc, 0, ":*4", Flow::collective, true, true},
    {"tcgen05.dealloc", dealloc, 0, ":44", Flow::collective, true, true},
    {"tcgen05.relinquish_alloc_permit", relinquish, 0, ":", Flow::collective, false, true},
    {"tcgen05.ld", load, 0, "*:*", Flow::collective, true, true},
    {"tcgen05.st", store, 0, "*:*", Flow::collective, false, true},
    {"tcgen05.wait", wait, 0, ":", Flow::collective, false, true},
    {"tcgen05.fence", fence, 0, ":"},
    {"tcgen05.commit", commit, 0, "*:*", Flow::plain, true},
    {"tcgen05.cp", copy, 0, ":48", Flow::plain, true},
};

}  // namespace

const Rows tcgen05_rows{std::begin(tcgen05_table), std::end(tcgen05_table)};

Descriptor read_descriptor(Machine& machine, std::uint64_t bits, const char* name) {
  bool known = true;
  const Descriptor d = Descriptor::of_tcgen05(bits, known);
  if ((bits >> 46 & 1u) == 0) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: the matrix descriptor of %s must have bit 46 set: %#llx", describe_self(machine).c_str(), name,
            static_cast<unsigned long long>(bits));
  }
  if (!known || d.base_offset != 0 || (bits >> 52 & 1u) != 0) {
    FINDING(
        machine.report, invalid_argument, machine.self->site,
        "%s: the emulator does not execute this matrix descriptor of %s (%#llx): it has an unknown swizzle, "
        "swizzled atoms of 32 bytes, "
        "a base offset, or an absolute leading offset",
        describe_self(machine).c_str(), name, static_cast<unsigned long long>(bits));
  }
  return d;
}

void read_operand(Machine& machine, std::uint32_t address, unsigned rank, const TensorActor& actor, const TensorUse& use,
                  const char* name, void* to) {
  const unsigned char* from = read_by_engine(machine, address_in_block(address, rank), 16, machine.self->agent,
                                             actor.actor, use.epoch, name);
  if (from == nullptr) {
    std::memset(to, 0xff, 16);
  } else {
    std::memcpy(to, from, 16);
  }
}

void start_block_tcgen05(Machine& machine) {
  machine.tensor_loads.loads.resize(machine.warps.all.size());
  machine.tensor_loads.waiting_allocs.assign(machine.warps.all.size(), 0);
  start_block_tensor_memory(machine);
}

void end_block_tcgen05(Machine& machine) { end_block_tensor_memory(machine); }

void report_waiting_for_tensor_memory(Machine& machine) {
  for (unsigned w = 0; w < machine.tensor_loads.waiting_allocs.size(); ++w) {
    if (machine.tensor_loads.waiting_allocs[w] == 0) continue;
    FINDING(machine.report, barrier_not_reached, machine.tensor_loads.waiting_allocs[w],
            "%s waits forever for columns of tensor memory: no block frees enough",
            describe(machine, agent_of(w, whole_warp), machine.block_index).c_str());
  }
}

void track_tensor_loads(Warp& w, const Instruction& i) {
  Machine& machine = *w.machine;
  Loads& mine = machine.tensor_loads.loads[w.index];
  std::uint32_t carried = 0;
  const auto report = [&](const char* action) {
    run_as(w, 0);
    machine.self->site = i.site;
    FINDING_OF_TWO(machine.report, missing_tcgen05_wait, machine.grade_of_missing_fences, i.site, 0,
                   "%s %s a register of a tcgen05.ld that it has not waited for (tcgen05.wait::ld)",
                   describe(machine, agent_of(w.index, whole_warp), machine.block_index).c_str(), action);
  };
  if (mine.issued > mine.waited) {
    for (unsigned k = 0; k < i.sources; ++k) {
      const std::uint32_t n = w.head(i.source(k)).loading;
      if (n <= mine.waited) continue;
      if (i.copies) {
        carried = n;
      } else {
        report("reads");
        // the value is used, so this load and all earlier ones have completed: they no longer read tensor memory
        if (n == mine.issued) {
          const TensorActor& a = tensor_actor(machine, agent_of(w.index, whole_warp), TensorWork::loads);
          machine.clocks.learn(w.index, a.actor, last_tensor_epoch(machine, a));
        }
        break;
      }
    }
    for (unsigned k = 0; k < i.destinations && carried == 0; ++k) {
      if (w.head(i.destination(k)).loading <= mine.waited) continue;
      report("writes");
      break;
    }
  }
  for (unsigned k = 0; k < i.destinations; ++k) w.head(i.destination(k)).loading = carried;
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::TensorLoads);

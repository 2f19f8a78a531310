// wgmma: PTX ISA 9.7.15. In the emulator, each warp of a warpgroup computes its 16 rows when it issues the instruction.
// Operands and results stay in use until the warp waits for the operation, and accesses before this wait are reported.
// So the results of accepted kernels do not depend on when a GPU executes the operation.
#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "isa/numbers/encodings.hpp"
#include "isa/numbers/round.hpp"
#include "isa/matrix/matrix_descriptor.hpp"
#include "isa/matrix/sparsity.hpp"
#include "isa/matrix/wgmma.hpp"
#include "memory/shared/async.hpp"
#include "isa/async/mbarrier.hpp"
#include <bit>
#include <deque>

namespace autosched::emulator::ptx {

// wgmma operations in flight.
struct Wgmmas : Unit {
  using Unit::Unit;

  struct Operation {
    SiteIndex site;
    std::uint64_t a, b;
    unsigned columns;
    unsigned issued = 0;   // bit mask of the warps that have issued it
    View before;           // events before the warps issued the operation
    std::vector<float> right;  // values of B: [column / 8][k][column % 8]
  };
  struct Group {
    unsigned actor = 0;
    bool has_actor = false;
    std::deque<Operation> operations;
    std::uint32_t first = 0;  // index of operations[0] among all operations of the group in this block
  };
  struct State {
    std::uint32_t before = 0;   // how many operations the warp has issued in earlier blocks
    std::uint32_t issued = 0;   // number of operations in this block
    std::uint32_t done = 0;     // number of completed operations
    std::uint32_t fences = 0, fences_before = 0;
    std::vector<std::uint32_t> groups;  // number of issued operations at each commit
    std::uint32_t awaited = 0;  // number of operations that must complete for the current wait
  };
  PerBlock<std::vector<State>> states{parking};  // state of each warp
  PerBlock<std::vector<Group>> groups{parking};  // state of each warpgroup
};

namespace {
using Operation = Wgmmas::Operation;
using Group = Wgmmas::Group;
using State = Wgmmas::State;

using matrix::b1, matrix::bf16, matrix::e4m3, matrix::e5m2, matrix::f16, matrix::f32, matrix::Metadata, matrix::s32, matrix::s8,
    matrix::tf32, matrix::u8;
constexpr unsigned warps_of_group = 4, rows_of_warp = 16, row_bytes = 32, most_columns = 256, most_k = 32;

constexpr unsigned bytes_of(std::int64_t t) {
  return t == f16 || t == bf16 ? 2 : t == tf32 || t == f32 || t == s32 ? 4 : 1;
}

// Converts the bits of an eight-bit float to f32 (OCP 8-bit floating point: e4m3 has no infinity).
float f32_of_f8(unsigned bits, unsigned mantissa_bits, int bias, bool has_infinity) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1),
                 exponent = bits >> mantissa_bits & ((1u << (7 - mantissa_bits)) - 1);
  const unsigned top = (1u << (7 - mantissa_bits)) - 1;
  float x;
  if (exponent == top && (has_infinity || mantissa == (1u << mantissa_bits) - 1)) {
    x = has_infinity && mantissa == 0 ? __builtin_inff() : __builtin_nanf("");
  } else if (exponent == 0) {
    x = __builtin_ldexpf(static_cast<float>(mantissa), 1 - bias - static_cast<int>(mantissa_bits));
  } else {
    x = __builtin_ldexpf(static_cast<float>(mantissa | 1u << mantissa_bits),
                         static_cast<int>(exponent) - bias - static_cast<int>(mantissa_bits));
  }
  return bits & 0x80u ? -x : x;
}

float value_at(std::int64_t type, const unsigned char* at) {
  std::uint16_t half;
  std::uint32_t word;
  switch (type) {
    case f16: std::memcpy(&half, at, 2); return f32_of_f16(half);
    case bf16: std::memcpy(&half, at, 2); return f32_of_bf16(half);
    case s8: return static_cast<signed char>(*at);
    case u8: return *at;
    case b1: return *at;  // eight at a time
    case e4m3: return f32_of_f8(*at & 0xffu, 3, 7, false);
    case e5m2: return f32_of_f8(*at & 0xffu, 2, 15, true);
    default: std::memcpy(&word, at, 4); return from_bits(word & 0xffffe000u);
  }
}

// Warps are numbered consecutively over all blocks of a cluster. Each block has its own warpgroups, and its last
// warpgroup may be incomplete.
unsigned groups_of_block(Machine& machine) { return (block_warps(machine) + warps_of_group - 1) / warps_of_group; }
unsigned group_of(Machine& machine, unsigned warp) {
  return warp / block_warps(machine) * groups_of_block(machine) + warp % block_warps(machine) / warps_of_group;
}
unsigned index_in_group(Machine& machine, unsigned warp) { return warp % block_warps(machine) % warps_of_group; }
unsigned first_of_group(Machine& machine, unsigned warp) { return warp - index_in_group(machine, warp); }

// The number by which register headers identify an operation, at least 1. In headers, 0 means no operation.
std::uint32_t number(const State& s, std::uint32_t operation) { return s.before + operation + 1; }
bool in_flight(const State& s, std::uint32_t n) { return n > s.before + s.done; }

void report_register(Warp& w, const Instruction& i, std::uint32_t n, const char* action) {
  Machine& machine = *w.machine;
  run_as(w, 0);
  machine.self->site = i.site;
  const State& s = machine.wgmmas.states[w.index];
  const Group& g = machine.wgmmas.groups[group_of(machine, w.index)];
  const std::uint32_t index = n - s.before - 1 - g.first;
  const std::string where =
      index < g.operations.size() ? describe_site(machine.report, g.operations[index].site) : "an earlier line";
  FINDING(machine.report, wgmma_in_flight, i.site, "%s %s a register of the wgmma at %s without waiting for this wgmma",
          describe(machine, agent_of(w.index, whole_warp), machine.block_index).c_str(), action, where.c_str());
}

// The four bytes of a lane in register `which` of the operand A.
const unsigned char* register_bytes(Warp& w, const Instruction& i, unsigned which, unsigned lane) {
  return value_bytes(w, i.source(which), 4, lane);
}

// Reads 16 bytes of shared memory. If they cannot be read, they become all ones, which is NaN.
void read_piece(Warp& w, const Group& g, std::uint32_t operation, std::uint32_t address, unsigned char* to) {
  Machine& machine = *w.machine;
  const unsigned char* from = read_by_engine(machine, address, 16, agent_of(w.index, whole_warp), g.actor,
                                             machine.clocks.first + operation, "wgmma.mma_async");
  if (from == nullptr) {
    std::memset(to, 0xff, 16);
  } else {
    std::memcpy(to, from, 16);
  }
}

// Reads a matrix of `lines` rows (or columns) and depth `depth`, and calls put(line, k, value) for each element.
template <class Put>
void read_matrix(Warp& w, const Group& g, std::uint32_t operation, const Descriptor& d, bool transposed, std::int64_t type,
                 unsigned first_line, unsigned lines, unsigned depth, Put put) {
  const unsigned element = bytes_of(type), per = 16 / element;
  unsigned char bytes[16];
  if (!transposed) {
    for (unsigned line = first_line; line < first_line + lines; ++line) {
      for (unsigned piece = 0; piece < depth / per; ++piece) {
        read_piece(w, g, operation, d.along_k(line, piece), bytes);
        for (unsigned e = 0; e < per; ++e) put(line - first_line, piece * per + e, value_at(type, bytes + e * element));
      }
    }
    return;
  }
  for (unsigned k = 0; k < depth; ++k) {
    for (unsigned piece = first_line / per; piece < (first_line + lines) / per; ++piece) {
      read_piece(w, g, operation, d.along_mn(k, piece), bytes);
      for (unsigned e = 0; e < per; ++e) put(piece * per + e - first_line, k, value_at(type, bytes + e * element));
    }
  }
}

// Row and column of a lane's accumulator v, within the 16 rows of the warp.
unsigned row_of(unsigned v, unsigned lane) { return lane / 4 + 8 * (v / 2 % 2); }
unsigned column_of(unsigned v, unsigned lane) { return v / 4 * 8 + lane % 4 * 2 + v % 2; }

// Computes d += a * b, adding products in the order of k. `kept` is the number of stored elements per row of a. Stored
// element l of a row is multiplied by row `line(row, l)` of b.
template <class T, class Line, class Product>
void multiply_rows(unsigned columns, unsigned k, unsigned kept, const T* a, const T* b, T* d, Line line, Product product) {
  for (unsigned r = 0; r < rows_of_warp; ++r) {
    for (unsigned j = 0; j < columns / 8; ++j) {
      T sum[8];
      std::memcpy(sum, d + r * columns + j * 8, sizeof sum);
      for (unsigned l = 0; l < kept; ++l) {
        const T x = a[r * kept + l];
        const T* y = b + (j * k + line(r, l)) * 8;
        for (unsigned e = 0; e < 8; ++e) sum[e] += product(x, y[e]);
      }
      std::memcpy(d + r * columns + j * 8, sum, sizeof sum);
    }
  }
}

void check_registers(Warp& w, const Instruction& i, unsigned a_registers) {
  Machine& machine = *w.machine;
  const State& s = machine.wgmmas.states[w.index];
  const Group& g = machine.wgmmas.groups[group_of(machine, w.index)];
  const auto columns = static_cast<unsigned>(i.immediate[1]);
  if (s.fences == s.fences_before) {
    FINDING(machine.report, missing_wgmma_fence, i.site, "warp %u issues its first wgmma without a wgmma.fence before it", w.index);
  }
  const auto check = [&](std::uint32_t at, const char* operand_name) {
    const Register& r = w.head(at);
    if (r.written == s.fences + 1) {
      FINDING(machine.report, missing_wgmma_fence, i.site,
              "warp %u of %s: %s of the wgmma was written after the last wgmma.fence", w.index,
              describe(machine, agent_of(w.index, whole_warp), machine.block_index).c_str(), operand_name);
    }
  };
  for (unsigned d = 0; d < i.destinations; ++d) {
    check(i.destination(d), "an accumulator");
    const std::uint32_t n = std::max(w.head(i.destination(d)).flying, w.head(i.destination(d)).carries);
    const std::uint32_t index = n - s.before - 1 - g.first;
    if (n != 0 && in_flight(s, n) && index < g.operations.size() && g.operations[index].columns != columns) {
      report_register(w, i, n, "accumulates with another shape in");
    }
  }
  for (unsigned a = 0; a < a_registers; ++a) check(i.source(a), "a register of A");
}

template <class T, class Line>
void multiply_floats(unsigned columns, unsigned k, unsigned kept, const T* a, const T* b, T* d, Line line) {
  multiply_rows(columns, k, kept, a, b, d, line, [](T x, T y) { return x * y; });
}
template <class Line>
void multiply_integer_rows(unsigned columns, unsigned k, unsigned kept, const std::uint32_t* a, const std::uint32_t* b,
                           std::uint32_t* d, Line line, bool of_bits, bool saturates) {
  if (of_bits) {
    multiply_rows(columns, k, kept, a, b, d, line,
                  [](std::uint32_t x, std::uint32_t y) { return static_cast<std::uint32_t>(std::popcount(x & y)); });
  } else if (!saturates) {
    multiply_rows(columns, k, kept, a, b, d, line, [](std::uint32_t x, std::uint32_t y) { return x * y; });
  } else {
    for (unsigned r = 0; r < rows_of_warp; ++r) {
      for (unsigned c = 0; c < columns; ++c) {
        std::int64_t sum = static_cast<std::int32_t>(d[r * columns + c]);
        for (unsigned l = 0; l < kept; ++l) {
          const std::uint32_t y = b[(c / 8 * k + line(r, l)) * 8 + c % 8];
          sum += std::int64_t{static_cast<std::int32_t>(a[r * kept + l])} * static_cast<std::int32_t>(y);
        }
        d[r * columns + c] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX));
      }
    }
  }
}

// wgmma.mma_async. Immediates: 1 (whole warp); number of columns; types of d, a, b; whether A is in registers; whether
// A is transposed; whether B is transposed; whether A is negated; whether B is negated; whether A is sparse; the
// selector of the lanes that have the metadata of a sparse A. Sources: registers or descriptor of A, descriptor of B,
// whether to accumulate, metadata of a sparse A.
void issue(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  const auto columns = static_cast<unsigned>(i.immediate[1]);
  const std::int64_t d_type = i.immediate[2], a_type = i.immediate[3], b_type = i.immediate[4];
  const bool a_in_registers = i.immediate[5] != 0;
  const bool a_transposed = i.immediate[6] != 0, b_transposed = i.immediate[7] != 0;
  const bool sparse = i.immediate[10] != 0;
  const unsigned a_sources = a_in_registers ? 4 : 1, element = bytes_of(a_type), kept = row_bytes / element,
                 k = sparse ? 2 * kept : kept;
  const auto selector = static_cast<unsigned>(i.immediate[11]);
  run_as(w, 0);
  machine.self->site = i.site;
  if (first_of_group(machine, w.index) % block_warps(machine) + warps_of_group > block_warps(machine)) {
    FINDING(machine.report, invalid_argument, i.site,
            "warp %u executes wgmma in an incomplete warpgroup: a warpgroup needs four warps",
            w.index);
    return;
  }
  State& s = machine.wgmmas.states[w.index];
  Group& g = machine.wgmmas.groups[group_of(machine, w.index)];
  if (!g.has_actor) {
    g.actor = add_actor(machine,
                        "a wgmma of warps " + std::to_string(first_of_group(machine, w.index)) + " to " +
                            std::to_string(first_of_group(machine, w.index) + 3),
                        Kind::wgmma_in_flight);
    g.has_actor = true;
  }
  const auto descriptor = [&](unsigned source) {
    const std::uint64_t bits = w.values<std::uint64_t>(i.source(source))[0];
    for (unsigned lane = 1; lane < warp_size; ++lane) {
      if (w.values<std::uint64_t>(i.source(source))[lane] == bits) continue;
      FINDING(machine.report, invalid_argument, i.site,
              "lanes 0 and %u of warp %u pass different matrix descriptors to wgmma",
              lane, w.index);
      break;
    }
    if ((bits >> 49 & 7) != 0) {
      FINDING(machine.report, invalid_argument, i.site,
              "the emulator does not execute matrix descriptors with a base offset (%u): align the matrix to the "
              "repetition of its swizzle pattern",
              static_cast<unsigned>(bits >> 49 & 7));
    }
    return bits;
  };
  for (unsigned source = 0; source < i.sources; ++source) {
    const Register& r = w.head(i.source(source));
    const bool is_metadata = sparse && source + 1 == i.sources;
    if (const Lanes lanes = is_metadata ? Metadata::lanes(a_type, k, selector) : all_lanes; (lanes & ~r.defined) != 0) {
      FINDING(machine.report, undefined_register, r.origin != 0 ? r.origin : i.site,
              "warp %u passes wgmma an operand that was never written on the executed path", w.index);
      break;
    }
  }
  const std::uint64_t a_bits = a_in_registers ? 0 : descriptor(0), b_bits = descriptor(a_sources);
  if (sparse && !b_transposed && Descriptor::of_wgmma(b_bits).swizzle_bytes == row_bytes) {
    FINDING(machine.report, invalid_argument, i.site,
            "a sparse wgmma reads %u bytes of B along k, which do not fit the descriptor's swizzle of %u bytes",
            2 * row_bytes, row_bytes);
  }
  // Checks that all four warps execute the same operations in the same order.
  const std::uint32_t operation = s.issued++;
  if (operation - g.first >= g.operations.size()) g.operations.push_back({i.site, a_bits, b_bits, columns, 0, {}, {}});
  Operation& o = g.operations[operation - g.first];
  if (o.site != i.site || o.a != a_bits || o.b != b_bits) {
    FINDING(machine.report, invalid_argument, i.site,
            "warp %u of its warpgroup executes a different wgmma than the previous warps (%s), or passes different matrix descriptors",
            index_in_group(machine, w.index), describe_site(machine.report, o.site).c_str());
  }
  o.issued |= 1u << index_in_group(machine, w.index);
  machine.clocks.precede(w.index, all_lanes, true, o.before);
  machine.clocks.now[g.actor] = std::max(machine.clocks.now[g.actor], machine.clocks.first + operation);
  check_registers(w, i, a_in_registers ? a_sources : 0);

  static float a[rows_of_warp * most_k], d[rows_of_warp * most_columns];
  const unsigned first_row = index_in_group(machine, w.index) * rows_of_warp;
  if (a_in_registers) {
    const unsigned run = 4 / element;  // values per register, which are adjacent along k
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < 4 * run; ++v) {
        const unsigned reg = v / run, row = lane / 4 + 8 * (reg % 2), col = lane % 4 * run + v % run + 4 * run * (reg / 2);
        a[row * kept + col] = value_at(a_type, register_bytes(w, i, reg, lane) + v % run * element);
      }
    }
  } else {
    read_matrix(w, g, operation, Descriptor::of_wgmma(a_bits), a_transposed, a_type, first_row, rows_of_warp, kept,
                [&](unsigned row, unsigned col, float x) { a[row * kept + col] = x; });
  }
  if (i.immediate[8] != 0) {
    for (unsigned e = 0; e < rows_of_warp * kept; ++e) a[e] = -a[e];
  }
  const bool negate_b = i.immediate[9] != 0;
  std::vector<float>& b = o.right;
  b.resize(std::size_t{columns} * k);
  // Each warp reads B, because the reads of all warps are checked.
  read_matrix(w, g, operation, Descriptor::of_wgmma(b_bits), b_transposed, b_type, 0, columns, k,
              [&](unsigned col, unsigned l, float x) { b[(col / 8 * k + l) * 8 + col % 8] = negate_b ? -x : x; });

  const unsigned accumulate_source = a_sources + 1;
  const bool accumulate = read_bits(w, i.source(accumulate_source), i.width_of_source(accumulate_source), 0) != 0;
  const unsigned values = columns / 2;
  if (accumulate) {
    for (unsigned r = 0; r < i.destinations; ++r) {
      if (w.head(i.destination(r)).defined == all_lanes) continue;
      FINDING(machine.report, undefined_register, w.head(i.destination(r)).origin != 0 ? w.head(i.destination(r)).origin : i.site,
              "warp %u accumulates by wgmma in a register that was never written on the executed path", w.index);
      break;
    }
  }
  static unsigned positions[rows_of_warp * most_k];  // columns of A's stored elements
  if (sparse) {
    const Metadata metadata(w, i, i.source(i.sources - 1), a_type, k, selector, false);
    for (unsigned row = 0; row < rows_of_warp; ++row) metadata.read(machine, row, positions + row * kept);
  }
  const auto join = [&](auto multiplied) {
    sparse ? multiplied([kept](unsigned row, unsigned l) { return positions[row * kept + l]; })
           : multiplied([](unsigned, unsigned l) { return l; });
  };
  if (d_type == s32) {
    static std::int32_t x[rows_of_warp * most_k], sum[rows_of_warp * most_columns];
    std::vector<std::int32_t> y(b.begin(), b.end());
    for (unsigned e = 0; e < rows_of_warp * kept; ++e) x[e] = static_cast<std::int32_t>(a[e]);
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < values; ++v) {
        sum[row_of(v, lane) * columns + column_of(v, lane)] = accumulate ? w.values<std::int32_t>(i.destination(v))[lane] : 0;
      }
    }
    join([&](auto line) {
      multiply_integer_rows(columns, k, kept, reinterpret_cast<std::uint32_t*>(x), reinterpret_cast<std::uint32_t*>(y.data()),
                        reinterpret_cast<std::uint32_t*>(sum), line, a_type == b1, (i.flags & satfinite) != 0);
    });
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < values; ++v) {
        w.values<std::int32_t>(i.destination(v))[lane] = sum[row_of(v, lane) * columns + column_of(v, lane)];
      }
    }
  } else {
    const bool half = d_type == f16;
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < values; ++v) {
        float x = 0;
        if (accumulate) {
          x = half ? f32_of_f16(w.values<std::uint16_t>(i.destination(v / 2))[lane * 2 + v % 2])
                   : w.values<float>(i.destination(v))[lane];
        }
        d[row_of(v, lane) * columns + column_of(v, lane)] = x;
      }
    }
    join([&](auto line) { multiply_floats(columns, k, kept, a, b.data(), d, line); });
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < values; ++v) {
        const float y = d[row_of(v, lane) * columns + column_of(v, lane)];
        if (half) {
          w.values<std::uint16_t>(i.destination(v / 2))[lane * 2 + v % 2] = f16_of_f32(y);
        } else {
          w.values<float>(i.destination(v))[lane] = y;
        }
      }
    }
  }
  const std::uint32_t n = number(s, operation);
  for (unsigned r = 0; r < i.destinations; ++r) {
    Register& head = w.head(i.destination(r));
    head.defined = all_lanes;
    head.flying = head.carries = n;
    head.written = 0;
  }
  for (unsigned r = 0; a_in_registers && r < a_sources; ++r) w.head(i.source(r)).flying = n;
  machine.idle_polls = 0;
}

void wgmma_fence(Warp& w, const Instruction&, Lanes) { ++w.machine->wgmmas.states[w.index].fences; }

void wgmma_commit(Warp& w, const Instruction&, Lanes) {
  State& s = w.machine->wgmmas.states[w.index];
  s.groups.push_back(s.issued);
}

// Immediate 1: number of groups that may stay in flight. A wait only succeeds when all warps of the warpgroup have
// issued the operations.
void wgmma_wait(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  State& s = machine.wgmmas.states[w.index];
  const auto pending = static_cast<std::size_t>(i.immediate[1]);
  if (s.groups.size() <= pending) return;
  const std::uint32_t end = s.groups[s.groups.size() - 1 - pending];
  if (end <= s.done) return;
  Group& g = machine.wgmmas.groups[group_of(machine, w.index)];
  for (std::uint32_t o = s.done; o < end; ++o) {
    if (o >= g.first && g.operations[o - g.first].issued != (1u << warps_of_group) - 1) {
      s.awaited = end;
      w.retry = true;
      ++machine.idle_polls;
      return;
    }
  }
  s.awaited = 0;
  s.done = end;
  machine.clocks.learn(w.index, g.actor, machine.clocks.first + end - 1);
  if (end > g.first) machine.clocks.known[w.index].earlier.join(g.operations[end - 1 - g.first].before);
  // Operations that all warps have waited for are no longer needed.
  std::uint32_t least = ~0u;
  for (unsigned v = first_of_group(machine, w.index); v < first_of_group(machine, w.index) + warps_of_group; ++v) {
    least = std::min(least, machine.wgmmas.states[v].done);
  }
  for (; g.first < least; ++g.first) g.operations.pop_front();
}

constexpr Row wgmma_table[] = {
    {"wgmma.mma_async", issue, satfinite, "*:*", Flow::collective, false, true},
    {"wgmma.fence", wgmma_fence, 0, ":", Flow::collective, false, true},
    {"wgmma.commit_group", wgmma_commit, 0, ":", Flow::collective, false, true},
    {"wgmma.wait_group", wgmma_wait, 0, ":", Flow::collective, false, true},
};

}  // namespace

const Rows wgmma_rows{std::begin(wgmma_table), std::end(wgmma_table)};

void track_registers(Warp& w, const Instruction& i) {
  Machine& machine = *w.machine;
  if (w.index >= machine.wgmmas.states.size()) return;
  const State& s = machine.wgmmas.states[w.index];
  std::uint32_t carried = 0;
  if (s.issued > s.done) {
    for (unsigned k = 0; k < i.sources; ++k) {
      const Register& r = w.head(i.source(k));
      if (!in_flight(s, r.carries)) continue;
      if (i.copies) {
        carried = r.carries;
      } else {
        report_register(w, i, r.carries, "reads");
        break;
      }
    }
    for (unsigned k = 0; k < i.destinations; ++k) {
      const Register& r = w.head(i.destination(k));
      if (in_flight(s, r.flying) && carried == 0) {
        report_register(w, i, r.flying, "writes");
        break;
      }
    }
  }
  for (unsigned k = 0; k < i.destinations; ++k) {
    Register& r = w.head(i.destination(k));
    r.carries = carried;
    r.written = i.copies ? w.head(i.source(0)).written : s.fences + 1;
  }
}

void start_block_wgmma(Machine& machine) {
  machine.wgmmas.states.resize(machine.warps.all.size());
  for (State& s : machine.wgmmas.states) {
    s.before += s.issued;
    s.issued = s.done = s.awaited = 0;
    s.fences_before = s.fences;
    s.groups.clear();
  }
  machine.wgmmas.groups.assign(group_of(machine, static_cast<unsigned>(machine.warps.all.size())) + 1, Group{});
}

void end_block_wgmma(Machine& machine) {
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    const Group& g = machine.wgmmas.groups[group_of(machine, w)];
    for (const Operation& o : g.operations) {
      if (o.issued >> index_in_group(machine, w) & 1u) continue;
      FINDING(machine.report, missing_lanes, o.site,
              "warp %u never executes a wgmma that other warps of its warpgroup execute", w);
      break;
    }
  }
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Wgmmas);

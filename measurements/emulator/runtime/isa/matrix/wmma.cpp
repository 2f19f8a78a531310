// wmma: PTX ISA 9.7.14. The function that implements an instruction runs when all lanes of the warp have arrived.
#include <algorithm>
#include <cmath>

#include "isa/matrix/matrix.hpp"
#include "isa/access/memory.hpp"
#include "isa/program.hpp"
#include "memory/counting.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/memory.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace wmma_instructions {

using namespace matrix;

// The PTX ISA does not specify how wmma fragments are distributed to lanes. Here, word `word` of a tile, in storage
// order, is in register slot / 32 of lane slot % 32. The slots are rotated by `turn`, which depends on the operand and
// its storage order, so that a fragment that is loaded as another operand or in another order gives wrong results.
// Fragments of f16 operands have twice as many registers as needed. The second half is a copy from which mma takes odd
// words, so that a kernel that does not treat all registers alike gives wrong results.
enum Operand { operand_a, operand_b, operand_c };
struct Fragment {
  unsigned rows, cols;
  std::int64_t type;
  unsigned element_bits, word_bytes, words, registers, turn;
  bool row_major, copied;
  std::uint64_t bytes_of(std::uint64_t elements) const { return elements * element_bits / 8; }
  unsigned slot(unsigned word) const { return (word + turn) % words; }
};
Fragment fragment(Operand which, unsigned m, unsigned n, unsigned k, std::int64_t type, bool row_major, unsigned registers) {
  const unsigned rows = which == operand_b ? k : m, cols = which == operand_a ? k : n;
  const unsigned bits = bits_of(type), word_bytes = type == f64 ? 8 : 4;
  const unsigned words = rows * cols * bits / (8 * word_bytes);
  const unsigned turn = which == operand_c ? 0u : (which == operand_a ? 21u : 74u) + (row_major ? 0u : 37u);
  return {rows, cols, type, bits, word_bytes, words, registers, turn, row_major, registers * 32 == 2 * words};
}

// Reads or writes one row (or column) of a tile for the warp.
bool line_access(Warp& w, const Instruction& i, Space space, std::uint64_t address, void* data, int bytes, bool store,
                 const char* name) {
  Machine& machine = *w.machine;
  run_as(w, 0);
  machine.self->site = i.site;
  const Location location = resolve(machine, space, address, name);
  if (!location.good) return false;
  if (location.space == Space::shared) {
    unsigned char* at = collective_shared_access(machine, store ? Access::write : Access::read,
                                                 static_cast<unsigned>(location.offset), bytes, 1, name);
    if (at == nullptr) return false;
    store ? std::memcpy(at, data, static_cast<std::size_t>(bytes)) : std::memcpy(data, at, static_cast<std::size_t>(bytes));
    return true;
  }
  for (int done = 0; done < bytes; done += 4) {
    auto* piece = static_cast<unsigned char*>(data) + done;
    const std::uint64_t at = location.offset + static_cast<unsigned>(done);
    if (store) {
      write_global(machine, reinterpret_cast<void*>(at), piece, 4, name, false);
    } else {
      read_global(machine, piece, reinterpret_cast<const void*>(at), 4, name, false, false);
    }
  }
  return true;
}

// The PTX ISA does not specify the shared-memory requests of wmma. The counts match the code that nvcc 13 generates for
// sm_80 to sm_90.
void count_wmma(Machine& machine, const Instruction& i, const Fragment& f, Operand which, bool store, const char* name,
                std::uint64_t address, unsigned stride) {
  if (f.type != f32 && f.type != f16 && f.type != bf16 && f.type != tf32) {  // one request per register
    const unsigned line_words = f.words / (f.row_major ? f.rows : f.cols);
    for (unsigned first = 0; first < f.words; first += warp_size) {
      std::uint64_t addresses[warp_size];
      for (unsigned lane = 0; lane < warp_size; ++lane) {
        const unsigned word = first + lane;
        addresses[lane] = address + f.bytes_of(std::uint64_t{word / line_words} * stride) + word % line_words * f.word_bytes;
      }
      count_shared_request(machine, i.site, name, static_cast<int>(f.word_bytes), all_lanes, addresses);
    }
    return;
  }
  const unsigned element_bytes = f.element_bits / 8;
  if (element_bytes == 2 && !store) {  // one ldmatrix.x4, in phases of 8 rows of 16 bytes
    unsigned rows[32];
    for (unsigned k = 0; k < 32; ++k) {
      rows[k] = static_cast<unsigned>(address) + (k / 16 * 8 + k % 8) * stride * 2 + k / 8 % 2 * 16;
    }
    count_shared_rows(machine, i.site, name, 16, rows, 4);
    return;
  }
  for (unsigned part = 0; part < 4; ++part) {
    std::uint64_t addresses[warp_size];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned group = lane / 4, t = lane % 4;
      if (which == operand_c && !f.row_major) {  // one request per element
        addresses[lane] = address + element_bytes * ((t * 2 + 8 * (part / 2)) * stride + group + 8 * (part % 2));
      } else if (which == operand_c) {  // two elements per lane, as in the accumulators of mma
        addresses[lane] = address + element_bytes * ((group + 8 * (part % 2)) * stride + t * 2 + 8 * (part / 2));
      } else {  // four 4-byte loads in the pattern of mma.m16n8k8
        const unsigned row = which == operand_a ? group + 8 * (part % 2) : t + 4 * (part % 2);
        const unsigned col = which == operand_a ? t + 4 * (part / 2) : group + 8 * (part / 2);
        addresses[lane] = address + 4 * (f.row_major ? row * stride + col : col * stride + row);
      }
    }
    const auto element = static_cast<int>(element_bytes);
    if (which != operand_c) {
      count_shared_request(machine, i.site, name, 4, all_lanes, addresses);
    } else if (f.row_major) {
      count_shared_request(machine, i.site, name, 2 * element, all_lanes, addresses);
    } else {
      count_shared_request(machine, i.site, name, element, all_lanes, addresses);
      for (std::uint64_t& a : addresses) a += element_bytes * stride;
      count_shared_request(machine, i.site, name, element, all_lanes, addresses);
    }
  }
}

// wmma.load and wmma.store. Immediates: 1 (whole warp), operand, m, n, k, type, whether it is row-major, offset, state
// space. Sources: address, stride, and for stores the registers.
template <bool Store>
void wmma_access(Warp& w, const Instruction& i, Lanes) {
  Machine& machine = *w.machine;
  constexpr const char* names[] = {"wmma.load.a", "wmma.load.b", "wmma.load.c", "wmma.store.d"};
  const auto which = static_cast<Operand>(i.immediate[1]);
  const char* name = names[Store ? 3 : which];
  const unsigned registers = Store ? i.sources - 2 : i.destinations;
  const Fragment f =
      fragment(which, static_cast<unsigned>(i.immediate[2]), static_cast<unsigned>(i.immediate[3]),
               static_cast<unsigned>(i.immediate[4]), i.immediate[5], i.immediate[6] != 0, registers);
  const auto space = static_cast<Space>(i.immediate[8]);
  const std::uint64_t address = address_of(w, i, 0, i.immediate[7], 0);
  const std::uint32_t stride = w.values<std::uint32_t>(i.source(1))[0];
  for (unsigned lane = 1; lane < warp_size; ++lane) {
    if (address_of(w, i, 0, i.immediate[7], lane) != address || w.values<std::uint32_t>(i.source(1))[lane] != stride) {
      FINDING(machine.report, invalid_argument, i.site, "%s: lanes 0 and %u of a warp pass different addresses or strides",
              name, lane);
      break;
    }
  }
  const bool shared = space == Space::shared || (space == Space::generic && is_generic_of(shared_base, address));
  // Each row must be aligned to the size of a lane's registers (PTX ISA, wmma.load): 32 bytes for f16, 8 bytes for u8
  // in m16n16k16. From sm_75 on, elements of up to 8 bits that are contiguous along k in shared memory are loaded by
  // ldmatrix, which needs rows aligned to 16 bytes: an H100 faults at an alignment of 8.
  const bool along_k = which == operand_a ? f.row_major : which == operand_b && !f.row_major;
  const bool by_ldmatrix = shared && !Store && along_k && f.element_bits <= 8;
  const unsigned alignment = std::clamp(registers * f.word_bytes, by_ldmatrix ? 16u : 0u, 32u);
  const unsigned of_rows = std::min(16u, alignment);
  if (f.bytes_of(stride) % of_rows != 0) {
    FINDING(machine.report, invalid_argument, i.site, "%s: the stride of %u elements is not a multiple of %u bytes", name,
            stride, of_rows);
  }
  if (address % alignment != 0) {
    FINDING(machine.report, misaligned_access, i.site, "%s: the address is not aligned to %u bytes", name, alignment);
  }
  if (shared) count_wmma(machine, i, f, which, Store, name, space == Space::generic ? offset_in(shared_base, address) : address, stride);
  if (which == operand_c && !f.row_major) {
    // Accumulator registers are in row-major order, so a column-major tile is copied element by element.
    for (unsigned col = 0; col < f.cols; ++col) {
      unsigned char data[32 * 4];  // large enough: accumulator elements have at most 4 bytes
      const unsigned element_bytes = f.element_bits / 8;
      const auto bytes = static_cast<int>(f.rows * element_bytes);
      const std::uint64_t at = address + f.bytes_of(std::uint64_t{col} * stride);
      if (!Store && !line_access(w, i, space, at, data, bytes, false, name)) std::memset(data, 0xff, sizeof data);
      for (unsigned row = 0; row < f.rows; ++row) {
        const unsigned byte = (row * f.cols + col) * element_bytes, slot = f.slot(byte / f.word_bytes);
        const std::uint32_t reg = Store ? i.source(2 + slot / 32) : i.destination(slot / 32);
        unsigned char* element = value_bytes(w, reg, f.word_bytes, slot % 32) + byte % f.word_bytes;
        unsigned char* tile_element = data + row * element_bytes;
        std::memcpy(Store ? tile_element : element, Store ? element : tile_element, element_bytes);
      }
      if (Store) line_access(w, i, space, at, data, bytes, true, name);
    }
    return;
  }
  const unsigned lines = f.row_major ? f.rows : f.cols;
  const unsigned word_bytes = f.word_bytes, line_words = f.words / lines;
  for (unsigned line = 0; line < lines; ++line) {
    unsigned char data[16 * 8];
    const auto bytes = static_cast<int>(line_words * word_bytes);
    const std::uint64_t at = address + f.bytes_of(std::uint64_t{line} * stride);
    const auto word_in_registers = [&](unsigned word, unsigned copy) {
      const unsigned slot = f.slot(line * line_words + word);
      const std::uint32_t reg = Store ? i.source(2 + slot / 32 + copy) : i.destination(slot / 32 + copy);
      return value_bytes(w, reg, word_bytes, slot % 32);
    };
    if (Store) {
      for (unsigned word = 0; word < line_words; ++word)
        std::memcpy(data + word * word_bytes, word_in_registers(word, 0), word_bytes);
      line_access(w, i, space, at, data, bytes, true, name);
    } else {
      if (!line_access(w, i, space, at, data, bytes, false, name)) std::memset(data, 0xff, sizeof data);
      for (unsigned word = 0; word < line_words; ++word) {
        std::memcpy(word_in_registers(word, 0), data + word * word_bytes, word_bytes);
        if (f.copied) std::memcpy(word_in_registers(word, f.registers / 2), data + word * word_bytes, word_bytes);
      }
    }
  }
}

// Collects the tile of a fragment, in row-major order, from the registers of all lanes.
template <class T>
void collect(Warp& w, const Instruction& i, const Fragment& f, const std::uint32_t* registers, T* to) {
  const unsigned per = 8 * f.word_bytes / f.element_bits;
  for (unsigned word = 0; word < f.words; ++word) {
    const unsigned slot = f.slot(word);
    const unsigned copy = f.copied && word % 2 == 1 ? f.registers / 2 : 0;
    const std::uint64_t bits = read_bits(w, registers[slot / 32 + copy], f.word_bytes, slot % 32);
    if (f.type == tf32) check_tf32(*w.machine, i, bits);
    for (unsigned e = 0; e < per; ++e) {
      const unsigned at = word * per + e;
      const unsigned row = f.row_major ? at / f.cols : at % f.rows, col = f.row_major ? at % f.cols : at / f.rows;
      const std::uint64_t one = per == 1 ? bits : bits >> (f.element_bits * e) & ((1u << f.element_bits) - 1);
      to[row * f.cols + col] =
          f.type == f32 ? static_cast<T>(from_bits(static_cast<unsigned>(bits))) : static_cast<T>(value_of(f.type, one));
    }
  }
}

// wmma.mma. Immediates: 1 (whole warp); m, n, k; types of d, a, b, c; whether a is row-major; whether b is row-major;
// numbers of registers of a, b and c; whether bits are combined by xor.
void wmma_mma(Warp& w, const Instruction& i, Lanes) {
  const auto m = static_cast<unsigned>(i.immediate[1]), n = static_cast<unsigned>(i.immediate[2]),
             k = static_cast<unsigned>(i.immediate[3]);
  const auto a_registers = static_cast<unsigned>(i.immediate[10]), b_registers = static_cast<unsigned>(i.immediate[11]),
             c_registers = static_cast<unsigned>(i.immediate[12]);
  const Fragment a = fragment(operand_a, m, n, k, i.immediate[5], i.immediate[8] != 0, a_registers);
  const Fragment b = fragment(operand_b, m, n, k, i.immediate[6], i.immediate[9] != 0, b_registers);
  // Accumulators are in row-major order in registers, whatever order wmma.load and wmma.store use in memory.
  const Fragment c = fragment(operand_c, m, n, k, i.immediate[7], true, c_registers);
  const std::uint32_t* ra = i.operand + i.destinations;
  if (is_integer(a.type)) {
    static std::int32_t ia[32 * 128], ib[32 * 128], id[32 * 32];
    collect(w, i, a, ra, ia);
    collect(w, i, b, ra + a_registers, ib);
    collect(w, i, c, ra + a_registers + b_registers, id);
    multiply_integers(m, n, k, ia, ib, id, i.immediate[13] != 0, (i.flags & satfinite) != 0);
    for (unsigned e = 0; e < m * n; ++e) {
      const unsigned slot = c.slot(e);
      w.values<std::int32_t>(i.destination(slot / 32))[slot % 32] = id[e];
    }
    return;
  }
  if (a.type == f64) {
    double da[8 * 4], db[4 * 8], dd[8 * 8];
    collect(w, i, a, ra, da);
    collect(w, i, b, ra + a_registers, db);
    collect(w, i, c, ra + a_registers + b_registers, dd);
    for (unsigned e = 0; e < m * n; ++e) {
      for (unsigned l = 0; l < k; ++l) dd[e] = std::fma(da[e / n * k + l], db[l * n + e % n], dd[e]);
      const unsigned slot = c.slot(e);
      w.values<double>(i.destination(slot / 32))[slot % 32] = dd[e];
    }
    return;
  }
  static float ta[32 * 16], tb[32 * 16], td[32 * 32];
  collect(w, i, a, ra, ta);
  collect(w, i, b, ra + a_registers, tb);
  collect(w, i, c, ra + a_registers + b_registers, td);
  multiply(m, n, k, ta, tb, td);
  const Fragment d = fragment(operand_c, m, n, k, i.immediate[4], true, i.destinations);
  const unsigned per = 32 / d.element_bits;
  for (unsigned e = 0; e < m * n; ++e) {
    const unsigned slot = d.slot(e / per);
    if (d.type == f32) {
      w.values<float>(i.destination(slot / 32))[slot % 32] = td[e];
    } else {
      w.values<std::uint16_t>(i.destination(slot / 32))[slot % 32 * 2 + e % per] = f16_of_f32(td[e]);
    }
  }
}

constexpr Row rows[] = {
    {"wmma.load", wmma_access<false>, 0, "*:**", Flow::collective, true},
    {"wmma.store", wmma_access<true>, 0, ":***", Flow::collective, true},
    {"wmma.mma", wmma_mma, satfinite, "*:*", Flow::collective},
};

}  // namespace wmma_instructions
}  // namespace

const Rows wmma_rows{std::begin(wmma_instructions::rows), std::end(wmma_instructions::rows)};

}  // namespace autosched::emulator::ptx

// tcgen05.mma: PTX ISA 9.7.16.10. One thread multiplies operands in shared memory (A also in tensor memory) and
// accumulates in tensor memory, for its block or for a pair of blocks. Each block of a pair has its own rows of A and
// D, and half of the columns of B.
#include <cmath>
#include <string>
#include <vector>

#include "isa/numbers/encodings.hpp"
#include "isa/counts.hpp"
#include "isa/numbers/products.hpp"
#include "isa/numbers/round.hpp"
#include "isa/matrix/tcgen05.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace tcgen05_mma_instructions {

constexpr const char* name = "tcgen05.mma";
constexpr unsigned k_bytes = 32;  // bytes of an operand along k

// In the order of _KINDS in measurements/emulator/ptx/families/tcgen05.py.
enum ProductKind : std::int64_t { kind_f16, kind_tf32, kind_f8f6f4, kind_i8, kind_mxf8f6f4, kind_mxf4, kind_mxf4nvf4 };
constexpr bool is_scaled(std::int64_t kind) { return kind >= kind_mxf8f6f4; }
// two 4-bit values per byte
constexpr bool is_packed(std::int64_t kind) { return kind == kind_mxf4 || kind == kind_mxf4nvf4; }

enum class Element { f16, bf16, tf32, u8, s8, e4m3, e5m2, e2m3, e3m2, e2m1, unknown };
constexpr unsigned bits_of(Element e) {
  constexpr unsigned bits[] = {16, 16, 32, 8, 8, 8, 8, 6, 6, 4, 8};
  return bits[static_cast<int>(e)];
}

// A small float without infinity or NaN.
double small_value(unsigned bits, unsigned exponent_bits, unsigned mantissa_bits, int bias) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1), exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - static_cast<int>(mantissa_bits))
                                         : std::ldexp(mantissa | 1u << mantissa_bits,
                                                      static_cast<int>(exponent) - bias - static_cast<int>(mantissa_bits));
  return bits >> (exponent_bits + mantissa_bits) & 1u ? -magnitude : magnitude;
}

double value_of(Element type, std::uint32_t bits) {
  switch (type) {
    case Element::f16: return f32_of_f16(static_cast<unsigned short>(bits));
    case Element::bf16: return f32_of_bf16(static_cast<unsigned short>(bits));
    case Element::tf32: return from_bits(bits & 0xffffe000u);
    case Element::u8: return bits & 0xffu;
    case Element::s8: return static_cast<signed char>(bits);
    case Element::e4m3: return decode(e4m3_format, bits & 0xffu);
    case Element::e5m2: return decode(e5m2_format, bits & 0xffu);
    case Element::e2m3: return small_value(bits & 0x3fu, 2, 3, 1);
    case Element::e3m2: return small_value(bits & 0x3fu, 3, 2, 3);
    case Element::e2m1: return small_value(bits & 0xfu, 2, 1, 1);
    default: return 0;
  }
}

Element element_of(std::int64_t kind, unsigned code) {
  if (is_packed(kind)) return code == 1 ? Element::e2m1 : Element::unknown;
  constexpr Element narrow[] = {Element::e4m3, Element::e5m2, Element::unknown, Element::e2m3, Element::e3m2, Element::e2m1};
  switch (kind) {
    case kind_f16: return code == 0 ? Element::f16 : code == 1 ? Element::bf16 : Element::unknown;
    case kind_tf32: return code == 2 ? Element::tf32 : Element::unknown;
    case kind_i8: return code == 0 ? Element::u8 : code == 1 ? Element::s8 : Element::unknown;
    default: return code < std::size(narrow) ? narrow[code] : Element::unknown;
  }
}

// ue8m0: a power of two, or NaN. ue4m3: e4m3 without a sign.
double scale_value(bool ue8m0, unsigned byte) {
  if (!ue8m0) return decode(e4m3_format, byte & 0x7fu);
  return byte == 0xffu ? NAN : std::ldexp(1.0, static_cast<int>(byte) - 127);
}

// The instruction descriptor (PTX ISA 9.7.16.4.2).
struct Product {
  std::int64_t kind;
  unsigned blocks, m, n, k;
  Element a, b;
  bool transposed_a, transposed_b, negated_a, negated_b, saturates, ue8m0;
  unsigned sums;  // type of the accumulators: 0 f16, 1 f32, 2 s32
  unsigned scale_a, scale_b;  // index of the first byte used in each word of scales
};

// Decodes an instruction descriptor; reports a finding if it is invalid.
bool read_product(Machine& machine, std::uint32_t bits, std::int64_t kind, unsigned blocks, unsigned scale_block, Product& p) {
  const auto field = [bits](unsigned first, unsigned count) { return bits >> first & ((1u << count) - 1); };
  const bool scaled = is_scaled(kind);
  p = {kind, blocks, field(24, 5) << 4, field(17, 6) << 3, 0, element_of(kind, field(7, 3)), element_of(kind, field(10, 3)),
       field(15, 1) != 0, field(16, 1) != 0, field(13, 1) != 0, field(14, 1) != 0, !scaled && field(3, 1) != 0,
       scaled && field(23, 1) != 0, scaled ? 1 : field(4, 2), scaled ? field(29, 2) : 0, scaled ? field(4, 2) : 0};
  const char* wrong = nullptr;
  if (p.a == Element::unknown || p.b == Element::unknown) {
    wrong = "operand types that its .kind does not support";
  } else if (field(0, 3) != 0) {
    wrong = "sparsity, which the emulator does not execute";
  } else if (field(6, 1) != 0 || (!scaled && (field(23, 1) != 0 || field(29, 1) != 0 || field(30, 2) != 0)) ||
             (scaled && field(3, 1) != 0)) {
    wrong = "reserved bits";
  } else if (scaled && field(31, 1) != 0) {
    wrong = "96 values along k, which the emulator does not execute";
  } else if (!scaled && (kind == kind_i8 ? p.sums != 2 : p.sums > 1 || (kind == kind_tf32 && p.sums != 1))) {
    wrong = "an accumulator type that its .kind does not support";
  } else if (kind == kind_f16 && p.a != p.b) {
    wrong = "products of f16 and bf16";
  } else if (p.saturates && kind != kind_i8) {
    wrong = "saturation, which only integers support";
  } else if ((p.negated_a || p.negated_b) && kind == kind_i8) {
    wrong = "negated integers";
  } else if (p.transposed_a || p.transposed_b) {
    const auto wide = [&](Element e) { return bits_of(e) == 16 || (bits_of(e) == 8 && !is_packed(kind)); };
    if ((p.transposed_a && !wide(p.a)) || (p.transposed_b && !wide(p.b)))
      wrong = "a transposed operand, which its type or the emulator does not support";
  }
  const bool m_known = scaled ? p.m == 128 * blocks || (blocks == 2 && p.m == 128 && is_packed(kind))
                              : p.m == 64 * blocks || p.m == 128 * blocks;
  const unsigned steps = scaled ? 8 * blocks : kind == kind_i8 ? (blocks == 2 ? 32 : p.n <= 32 ? 8 : 16)
                                             : blocks == 2 || p.m == 128 ? 16 : 8;
  if (wrong == nullptr && (!m_known || p.n < steps || p.n > 256 || p.n % steps != 0)) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: %s.cta_group::%u with m = %u and n = %u, which its .kind does not support",
            describe_self(machine).c_str(), name, blocks,
            p.m, p.n);
    return false;
  }
  if (wrong == nullptr && scaled) {
    const unsigned scales = (is_packed(kind) ? 64 : 32) / scale_block;  // scales per row
    const unsigned step = scales == 1 ? 1 : scales;
    if (kind == kind_mxf4 && !p.ue8m0) wrong = "ue4m3 scales, which mxf4 does not support";
    if (kind == kind_mxf8f6f4 && !p.ue8m0) wrong = "ue4m3 scales, which mxf8f6f4 does not support";
    if (p.scale_a % step != 0 || p.scale_b % step != 0) wrong =
            "a scale id that is not a multiple of the number of scales per row";
  }
  if (wrong != nullptr) {
    FINDING(machine.report, invalid_argument, machine.self->site, "%s: %s with the instruction descriptor %#x: %s",
            describe_self(machine).c_str(), name, bits, wrong);
    return false;
  }
  p.k = kind == kind_tf32 ? 8 : kind == kind_f16 ? 16 : is_packed(kind) ? 64 : 32;
  return true;
}

std::string shape_of(const Product& p) {
  constexpr const char* names[] = {"f16", "bf16", "tf32", "u8", "s8", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", ""};
  return "m" + std::to_string(p.m) + "n" + std::to_string(p.n) + "k" + std::to_string(p.k) + "." + names[static_cast<int>(p.a)];
}

// Lane and column at which tensor memory holds the element (m, n) of D: PTX ISA 9.7.16.10.5. `m` is the row within the
// block.
struct SumPlace {
  unsigned lane, column;
};
SumPlace place_of_sum(const Product& p, unsigned m, unsigned n) {
  const unsigned rows = p.m / p.blocks;
  if (rows == 128) return {m, n};
  if (p.blocks == 1) return {m % 16 + 32 * (m / 16), n};
  return {m + 64 * (n / (p.n / 2)), n % (p.n / 2)};
}

// Bits of value `v` in a piece of 16 bytes. 16 values of 4 bits only occupy the first 8 bytes of a piece, and 16 values
// of 6 bits the first 12 bytes. Packed values occupy all 16 bytes.
std::uint32_t bits_of_piece(const unsigned char* bytes, unsigned v, unsigned bits) {
  std::uint32_t word = 0;
  const unsigned first = v * bits;
  std::memcpy(&word, bytes + first / 8, std::min(4u, 16 - first / 8));
  return word >> first % 8 & static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
}

// Reads rows of an operand from the shared memory of one block, and calls put(row, k, bits) for each value.
template <class Put>
void read_shared_operand(Machine& machine, const Descriptor& d, bool transposed, Element type, const Product& p, unsigned rows,
                         unsigned rank, const TensorActor& actor, const TensorUse& use, Put put) {
  unsigned char bytes[16];
  if (!transposed) {
    const unsigned per = p.k / 2;
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned piece = 0; piece < 2; ++piece) {
        read_operand(machine, d.along_k(row, piece), rank, actor, use, name, bytes);
        for (unsigned v = 0; v < per; ++v) put(row, piece * per + v, bits_of_piece(bytes, v, bits_of(type)));
      }
    }
    return;
  }
  const unsigned per = 128 / bits_of(type);
  for (unsigned k = 0; k < p.k; ++k) {
    for (unsigned piece = 0; piece < rows / per; ++piece) {
      read_operand(machine, d.along_mn(k, piece), rank, actor, use, name, bytes);
      for (unsigned v = 0; v < per; ++v) put(piece * per + v, k, bits_of_piece(bytes, v, bits_of(type)));
    }
  }
}

// Checks and records a read of columns of tensor memory. `lanes`: the lanes that are read, as one mask per quarter.
// Reports a finding if a cell that is read was never written.
void read_columns(Machine& machine, unsigned rank, unsigned column, unsigned columns, const std::uint32_t (&lanes)[tensor_quarters],
                  const TensorUse& use) {
  for (unsigned c = column; c < column + columns; ++c) {
    for (unsigned q = 0; q < tensor_quarters; ++q) {
      if (lanes[q] == 0) continue;
      if (read_tensor_cell(machine, rank, c, q, lanes[q], use, machine.self->agent, name) != 0)
        report_undefined_tensor_memory(machine, c, machine.self->agent, name);
    }
  }
}

// Reads the scales of `rows` rows from tensor memory, four bytes per row. The scales of row r are in column r / 32 and
// lane r % 32, with copies in all four quarters of the lanes.
void read_scales(Machine& machine, unsigned rank, unsigned column, unsigned rows, const TensorUse& use,
                 std::vector<std::uint32_t>& words) {
  words.assign(rows, ~0u);
  const unsigned columns = (rows + quarter_lanes - 1) / quarter_lanes;
  if (!check_tensor_columns(machine, rank, column, columns, name)) return;
  constexpr std::uint32_t all[tensor_quarters] = {~0u, ~0u, ~0u, ~0u};
  TensorMemory& memory = tensor_memory(machine, rank);
  for (unsigned c = 0; c < columns; ++c) {
    std::uint32_t lanes[tensor_quarters];
    const unsigned left = rows - c * quarter_lanes;
    for (std::uint32_t& mask : lanes) mask = left < quarter_lanes ? (1u << left) - 1 : all[0];
    read_columns(machine, rank, column + c, 1, lanes, use);
  }
  for (unsigned r = 0; r < rows; ++r) {
    words[r] = memory.word(column + r / quarter_lanes, r % quarter_lanes);
    for (unsigned q = 1; q < tensor_quarters; ++q) {
      if (memory.word(column + r / quarter_lanes, r % quarter_lanes + q * quarter_lanes) == words[r]) continue;
      FINDING(machine.report, tensor_memory_misuse, machine.self->site,
              "%s: %s reads the scale of row %u from column %u of tensor memory, but lanes %u and %u hold different copies",
              describe_self(machine).c_str(), name, r, column + r / quarter_lanes, r % quarter_lanes + q * quarter_lanes,
              r % quarter_lanes);
      return;
    }
  }
}

// Converts the value of an operand to the type T in which products are computed. Integers wrap.
template <class T>
T number(double x) {
  if constexpr (std::is_same_v<T, std::uint32_t>) return static_cast<std::uint32_t>(static_cast<std::int64_t>(x));
  return static_cast<T>(x);
}

struct Operands {
  std::uint32_t d, a_column;
  std::uint64_t a_bits, b_bits;
  std::uint32_t scale_a, scale_b;
  std::uint32_t disabled[2 * tensor_quarters];  // lanes of D that are not written
  bool a_in_tensor_memory, accumulate;
  unsigned scale_block;
  int power;  // D is divided by 2 to this power before the product is added
};

// Multiplies the rows of A that block `rank` holds by all of B. B is stored as b[k][n].
template <class T>
void multiply(Machine& machine, const Product& p, const Operands& o, unsigned rank, unsigned half, const T* b,
              TensorActor& actor, const TensorUse& use) {
  const unsigned rows = p.m / p.blocks;
  const unsigned columns = rows == 64 && p.blocks == 2 ? p.n / 2 : p.n;
  const unsigned column = o.d & 0xffff, first_lane = o.d >> 16;
  if (first_lane % 128 != 0 && !(rows == 64 && p.blocks == 1 && first_lane == 16)) {
    FINDING(machine.report, tensor_memory_misuse, machine.self->site,
            "%s: %s with %u rows per block cannot write to lane %u of tensor memory",
            describe_self(machine).c_str(), name, rows, first_lane);
    return;
  }
  if (!check_tensor_columns(machine, rank, column, columns, name)) return;
  std::vector<T> a(std::size_t{rows} * p.k);
  const double sign = p.negated_a ? -1 : 1;
  if (o.a_in_tensor_memory) {
    if (rows != 128) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s: the emulator does not execute %s with A in tensor memory and %u rows per block",
              describe_self(machine).c_str(), name, rows);
      return;
    }
    const unsigned a_column = o.a_column & 0xffff, width = is_packed(p.kind) ? 4 : bits_of(p.a) < 8 ? 8 : bits_of(p.a);
    if (!check_tensor_columns(machine, rank, a_column, k_bytes / 4, name)) return;
    constexpr std::uint32_t all[tensor_quarters] = {~0u, ~0u, ~0u, ~0u};
    read_columns(machine, rank, a_column, k_bytes / 4, all, use);
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned l = 0; l < p.k; ++l) {
        const std::uint32_t word = tensor_memory(machine, rank).word(a_column + l * width / 32, row);
        a[row * p.k + l] = number<T>(sign * value_of(p.a, width == 32 ? word : word >> l * width % 32));
      }
    }
  } else {
    read_shared_operand(
        machine, read_descriptor(machine, o.a_bits, name), p.transposed_a, p.a, p, rows, rank, actor, use,
        [&](unsigned row, unsigned l, std::uint32_t bits) { a[row * p.k + l] = number<T>(sign * value_of(p.a, bits)); });
  }
  if (is_scaled(p.kind)) {
    std::vector<std::uint32_t> scales;
    read_scales(machine, rank, o.scale_a & 0xffff, rows, use, scales);
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned l = 0; l < p.k; ++l) {
        a[row * p.k + l] =
            static_cast<T>(a[row * p.k + l] * scale_value(p.ue8m0, scales[row] >> 8 * (p.scale_a + l / o.scale_block) & 0xffu));
      }
    }
  }
  // The lanes that hold rows of D.
  TensorMemory& memory = tensor_memory(machine, rank);
  std::uint32_t lanes[tensor_quarters];
  for (unsigned q = 0; q < tensor_quarters; ++q) {
    lanes[q] = rows == 64 && p.blocks == 1 ? 0xffffu << first_lane % quarter_lanes : ~0u;
    lanes[q] &= ~o.disabled[half * tensor_quarters + q];
  }
  if (o.accumulate) read_columns(machine, rank, column, columns, lanes, use);
  using Sum = std::conditional_t<std::is_same_v<T, std::uint32_t>, std::uint32_t, float>;
  std::vector<Sum> d(std::size_t{rows} * p.n);
  const unsigned lane_offset = first_lane % 128;
  if (o.accumulate) {
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned n = 0; n < p.n; ++n) {
        const SumPlace at = place_of_sum(p, row, n);
        const std::uint32_t word = memory.word(column + at.column, at.lane + lane_offset);
        if constexpr (std::is_same_v<Sum, float>) {
          const float x = p.sums == 0 ? f32_of_f16(static_cast<unsigned short>(word)) : from_bits(word);
          d[row * p.n + n] = o.power == 0 ? x : std::ldexp(x, -o.power);
        } else {
          d[row * p.n + n] = word;
        }
      }
    }
  }
  add_products(rows, p.n, p.k, a.data(), b, d.data());
  for (unsigned row = 0; row < rows; ++row) {
    for (unsigned n = 0; n < p.n; ++n) {
      const SumPlace at = place_of_sum(p, row, n);
      const unsigned lane = at.lane + lane_offset;
      if ((lanes[lane / quarter_lanes] >> lane % quarter_lanes & 1u) == 0) continue;
      std::uint32_t& word = memory.word(column + at.column, lane);
      if constexpr (std::is_same_v<Sum, float>) {
        word = p.sums == 0 ? f16_of_f32(d[row * p.n + n]) : to_bits(d[row * p.n + n]);
      } else {
        word = d[row * p.n + n];
      }
    }
  }
  for (unsigned c = column; c < column + columns; ++c) {
    for (unsigned q = 0; q < tensor_quarters; ++q) {
      if (lanes[q] != 0) write_tensor_cell(machine, rank, c, q, lanes[q], use, machine.self->agent, name);
    }
  }
}

template <class T>
void multiply_blocks(Machine& machine, const Product& p, const Operands& o) {
  const unsigned first = p.blocks == 1 ? machine.self->rank : machine.self->rank / 2 * 2;
  TensorActor& actor = tensor_actor(machine, machine.self->agent, TensorWork::products);
  // Products of the same shape with the same accumulators are executed in order, so they need no wait in between.
  const TensorUse use = issue_tensor_work(machine, actor, static_cast<std::uint32_t>(p.kind + 1) << 20 | p.m << 10 | p.n);
  std::vector<T> b(std::size_t{p.k} * p.n);
  const double sign = p.negated_b ? -1 : 1;
  const Descriptor descriptor = read_descriptor(machine, o.b_bits, name);
  const unsigned half = p.n / p.blocks;
  for (unsigned block = 0; block < p.blocks; ++block) {
    read_shared_operand(machine, descriptor, p.transposed_b, p.b, p, half, first + block, actor, use,
                        [&](unsigned column, unsigned l, std::uint32_t bits) {
                          b[l * p.n + block * half + column] = number<T>(sign * value_of(p.b, bits));
                        });
  }
  for (unsigned block = 0; block < p.blocks; ++block) {
    if (!is_scaled(p.kind)) {
      multiply(machine, p, o, first + block, block, b.data(), actor, use);
      continue;
    }
    // Each block has the scales of all columns of B.
    std::vector<std::uint32_t> scales;
    read_scales(machine, first + block, o.scale_b & 0xffff, p.n, use, scales);
    std::vector<T> scaled(b);
    for (unsigned l = 0; l < p.k; ++l) {
      for (unsigned n = 0; n < p.n; ++n) {
        scaled[l * p.n + n] =
            static_cast<T>(b[l * p.n + n] * scale_value(p.ue8m0, scales[n] >> 8 * (p.scale_b + l / o.scale_block) & 0xffu));
      }
    }
    multiply(machine, p, o, first + block, block, scaled.data(), actor, use);
  }
}

// For the operands, see _mma in families/tcgen05.py. Immediates: blocks; Kind; values along k per scale; whether A is
// in tensor memory; whether there is a mask of disabled lanes; the power of two by which D is divided; offsets of D, A
// and the scales.
void mma(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const auto blocks = static_cast<unsigned>(i.immediate[0]);
  const std::int64_t kind = i.immediate[1];
  if ((active & (active - 1)) != 0) {
    FINDING(machine.report, invalid_argument, i.site,
            "several lanes (the first is %u) of warp %u execute %s: only one thread of a block may execute it",
            static_cast<unsigned>(__builtin_ctz(active)), w.index, name);
  }
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    if (blocks == 2 && (cluster_blocks(machine) % 2 != 0 || machine.self->rank % 2 != 0)) {
      FINDING(machine.report, invalid_argument, i.site,
              "%s: %s.cta_group::2 in block %u of a cluster of %u: only the even block of a pair may execute it",
              describe_self(machine).c_str(), name, machine.self->rank, cluster_blocks(machine));
      return;
    }
    Operands o{};
    unsigned source = 0, offset = 6;
    const auto word = [&] { return w.values<std::uint32_t>(i.source(source++))[k]; };
    const auto tensor_address = [&] { return word() + static_cast<std::uint32_t>(i.immediate[offset++]); };
    o.d = tensor_address();
    o.a_in_tensor_memory = i.immediate[3] != 0;
    if (o.a_in_tensor_memory) {
      o.a_column = tensor_address();
    } else {
      o.a_bits = w.values<std::uint64_t>(i.source(source++))[k];
      ++offset;
    }
    o.b_bits = w.values<std::uint64_t>(i.source(source++))[k];
    const std::uint32_t descriptor = word();
    o.scale_block = static_cast<unsigned>(i.immediate[2]);
    if (is_scaled(kind)) {
      o.scale_a = tensor_address();
      o.scale_b = tensor_address();
    }
    if (i.immediate[4] != 0) {
      for (unsigned q = 0; q < blocks * tensor_quarters; ++q) o.disabled[q] = word();
    }
    o.accumulate = read_bits(w, i.source(source), i.width_of_source(source), k) != 0;
    o.power = static_cast<int>(i.immediate[5]);
    Product p;
    if (!read_product(machine, descriptor, kind, blocks, o.scale_block, p)) return;
    if (machine.launch.count) note_product(machine, i, shape_of(p));
    if (kind == kind_i8) {
      multiply_blocks<std::uint32_t>(machine, p, o);
    } else if (is_scaled(kind)) {
      multiply_blocks<double>(machine, p, o);
    } else {
      multiply_blocks<float>(machine, p, o);
    }
  });
  machine.idle_polls = 0;
}

constexpr Row rows[] = {
    {"tcgen05.mma", mma, 0, "*:*", Flow::plain, true},
};

}  // namespace tcgen05_mma_instructions
}  // namespace

const Rows tcgen05_mma_rows{std::begin(tcgen05_mma_instructions::rows), std::end(tcgen05_mma_instructions::rows)};

}  // namespace autosched::emulator::ptx

// Warp-wide instructions: shfl, ldmatrix, mma.sync, wmma. A lane hands its registers over as a struct; the last lane
// to come computes for all 32. To add an instruction: its arguments, its Collective row, and its execute function.
#include <autosched_emulator/convert.hpp>
#include <cstring>

#include "counting.hpp"
#include "machine.hpp"

namespace autosched::emulator {
namespace {

template <class Arguments>
const Arguments& of_lane(void* const* arguments, unsigned lane) {
  return *static_cast<const Arguments*>(arguments[lane]);
}

unsigned short half_of(const unsigned* words, unsigned i) {
  return static_cast<unsigned short>(words[i / 2] >> (16 * (i % 2)));
}

// Value i of a lane's registers: 16-bit types lie two to a register, the lower half first.
float multiplicand(Multiplicand type, const unsigned* registers, unsigned i) {
  switch (type) {
    case Multiplicand::f16: return f32_of_f16(half_of(registers, i));
    case Multiplicand::bf16: return f32_of_bf16(half_of(registers, i));
    case Multiplicand::tf32: break;
  }
  if (unsigned low = registers[i] & 0x1fffu; low != 0 && (registers[i] & 0x7fffffffu) <= 0x7f800000u) {
    FINDING(unrounded_tf32, self->site,
            "an operand holds %08x, which is not a tf32 value: the tensor core drops its low 13 bits", registers[i]);
  }
  return from_bits(registers[i] & 0xffffe000u);
}

// d += a * b, row by row. Products of f16, bf16 and tf32 values are exact in f32; they are added one by one in the
// order of k, each sum rounded to f32. The tensor core adds those of one instruction at a time, with more bits but
// truncating, in an order that is not specified: the results agree within the rounding error of the sum, not bit by
// bit.
void multiply(unsigned m, unsigned n, unsigned k, const float* a, const float* b, float* d) {
  for (unsigned i = 0; i < m; ++i) {
    for (unsigned l = 0; l < k; ++l) {
      const float x = a[i * k + l];
      for (unsigned j = 0; j < n; ++j) d[i * n + j] += x * b[l * n + j];
    }
  }
}

// shfl -----------------------------------------------------------------------------------------------------------

struct ShuffleArguments {
  unsigned value;
  int operand;
  unsigned* result;
};

// Source lanes of PTX's pseudocode for a warp-wide segment (c = 0x1f); out of range: the lane's own value.
void execute_shuffle(Shuffle mode, void* const* arguments) {
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const auto& mine = of_lane<ShuffleArguments>(arguments, lane);
    const unsigned operand = static_cast<unsigned>(mine.operand) & 0x1fu;
    unsigned source = mode == Shuffle::butterfly ? lane ^ operand : mode == Shuffle::down ? lane + operand : operand;
    if (source >= warp_size) source = lane;
    *mine.result = of_lane<ShuffleArguments>(arguments, source).value;
  }
}

constexpr Collective shfl_bfly{"shfl.sync.bfly", false, false};
constexpr Collective shfl_down{"shfl.sync.down", false, false};
constexpr Collective shfl_idx{"shfl.sync.idx", false, false};

// ldmatrix -------------------------------------------------------------------------------------------------------

struct LdmatrixArguments {
  unsigned* registers;
  unsigned matrices;
  bool transposed;
  unsigned address;
};

void execute_ldmatrix(void* const* arguments) {
  const auto& call = of_lane<LdmatrixArguments>(arguments, 0);
  const char* names[2][3] = {{"ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"},
                             {"ldmatrix.x1.trans", "ldmatrix.x2.trans", "ldmatrix.x4.trans"}};
  const char* name = names[call.transposed][call.matrices / 2];
  unsigned rows[32];
  for (unsigned i = 0; i < call.matrices * 8; ++i) rows[i] = of_lane<LdmatrixArguments>(arguments, i).address;
  count_shared_rows(self->site, name, 16, rows, call.matrices);
  for (unsigned matrix = 0; matrix < call.matrices; ++matrix) {
    unsigned short element[8][8];
    for (unsigned row = 0; row < 8; ++row) {
      const unsigned char* p = collective_shared_access(Access::read, rows[matrix * 8 + row], 16, 16, name);
      if (p != nullptr) {
        std::memcpy(element[row], p, 16);
      } else {
        std::memset(element[row], 0xff, 16);
      }
    }
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned row = lane / 4, col = lane % 4 * 2;
      const unsigned low = call.transposed ? element[col][row] : element[row][col];
      const unsigned high = call.transposed ? element[col + 1][row] : element[row][col + 1];
      of_lane<LdmatrixArguments>(arguments, lane).registers[matrix] = low | high << 16;
    }
  }
}

constexpr Collective ldmatrix_sync{"ldmatrix", true, false};

// mma.sync -------------------------------------------------------------------------------------------------------

struct MmaArguments {
  Multiplicand type;
  float* d;
  const unsigned *a, *b;
};

// Fragments of m16n8k16 (16-bit types) and m16n8k8 (tf32): a lane's registers are `run` neighbours along k each.
void execute_mma(void* const* arguments) {
  const Multiplicand type = of_lane<MmaArguments>(arguments, 0).type;
  const unsigned run = type == Multiplicand::tf32 ? 1 : 2;
  const unsigned k = 8 * run;
  float a[16 * 16], b[16 * 8], d[16 * 8];
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const auto& mine = of_lane<MmaArguments>(arguments, lane);
    const unsigned group = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4 * run; ++i) {
      const unsigned reg = i / run;
      const unsigned row = group + 8 * (reg % 2), col = t * run + i % run + k / 2 * (reg / 2);
      a[row * k + col] = multiplicand(type, mine.a, i);
    }
    for (unsigned i = 0; i < 2 * run; ++i) {
      const unsigned row = t * run + i % run + k / 2 * (i / run);
      b[row * 8 + group] = multiplicand(type, mine.b, i);
    }
    for (unsigned i = 0; i < 4; ++i) d[(group + 8 * (i / 2)) * 8 + 2 * t + i % 2] = mine.d[i];
  }
  multiply(16, 8, k, a, b, d);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    const auto& mine = of_lane<MmaArguments>(arguments, lane);
    for (unsigned i = 0; i < 4; ++i) mine.d[i] = d[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2];
  }
}

constexpr Collective mma_sync{"mma.sync", true, false};

// wmma -----------------------------------------------------------------------------------------------------------

struct WmmaTile {
  unsigned rows, cols, words;  // words of 32 bits that hold all elements once
  unsigned elements_per_word;
};

WmmaTile wmma_tile(Multiplicand type, WmmaOperand operand) {
  const bool tf32 = type == Multiplicand::tf32;
  const unsigned k = tf32 ? 8 : 16;
  return {operand == WmmaOperand::a ? 16 : k, operand == WmmaOperand::a ? k : 16, 128, tf32 ? 1u : 2u};
}

// Which word of the 32 lanes' registers holds word w of the tile in storage order; slot / 32 is the register and
// slot % 32 the lane. The turn differs between operands and storage orders, so that a fragment loaded in one order
// and multiplied in the other is wrong here too.
unsigned wmma_slot(WmmaOperand operand, bool row_major, unsigned word) {
  return (word + (operand == WmmaOperand::a ? 21 : 74) + (row_major ? 0 : 37)) % 128;
}

// f16 fragments have twice the registers that they need. The second half is a copy, and mma takes even words from
// the first and odd words from the second, so that a kernel must treat all registers alike.
bool wmma_has_copy(Multiplicand type) { return type == Multiplicand::f16; }

struct WmmaLoadArguments {
  Multiplicand type;
  WmmaOperand operand;
  bool row_major;
  unsigned* registers;
  unsigned address, stride;
};

// What a wmma access asks of the banks is not specified; counted is what nvcc 13 makes of it for sm_80 to sm_90.
// 16-bit loads: one ldmatrix.x4, that is phases of 8 lines by 16 bytes.
void count_wmma_load_16(const char* name, unsigned address, unsigned stride_bytes) {
  unsigned rows[32];
  for (unsigned i = 0; i < 32; ++i) rows[i] = address + (i / 16 * 8 + i % 8) * stride_bytes + i / 8 % 2 * 16;
  count_shared_rows(self->site, name, 16, rows, 4);
}
// tf32 loads: four 4-byte loads in the pattern of mma.m16n8k8.
void count_wmma_load_tf32(const char* name, WmmaOperand operand, bool row_major, unsigned address, unsigned stride) {
  for (unsigned i = 0; i < 4; ++i) {
    unsigned addresses[32];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned group = lane / 4, t = lane % 4;
      const unsigned row = operand == WmmaOperand::a ? group + 8 * (i % 2) : t + 4 * (i % 2);
      const unsigned col = operand == WmmaOperand::a ? t + 4 * (i / 2) : group + 8 * (i / 2);
      addresses[lane] = address + 4 * (row_major ? row * stride + col : col * stride + row);
    }
    count_shared_warp(self->site, name, 4, addresses);
  }
}
// Stores: four 8-byte stores in the accumulator pattern of mma.
void count_wmma_store(unsigned address, unsigned stride) {
  for (unsigned i = 0; i < 4; ++i) {
    unsigned addresses[32];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      addresses[lane] = address + 4 * ((lane / 4 + 8 * (i % 2)) * stride + lane % 4 * 2 + 8 * (i / 2));
    }
    count_shared_warp(self->site, "wmma.store.d", 8, addresses);
  }
}

// The rules of wmma addresses (PTX ISA, wmma.load): 256-bit aligned, strides of multiples of 16 bytes, one for all.
template <class Arguments>
void check_wmma(void* const* arguments, const char* name, unsigned element_bytes) {
  const auto& call = of_lane<Arguments>(arguments, 0);
  for (unsigned lane = 1; lane < warp_size; ++lane) {
    const auto& other = of_lane<Arguments>(arguments, lane);
    if (other.address != call.address || other.stride != call.stride) {
      FINDING(invalid_argument, self->site, "%s: lanes 0 and %u of a warp give different addresses or strides", name,
              lane);
      break;
    }
  }
  if (call.stride * element_bytes % 16 != 0) {
    FINDING(invalid_argument, self->site, "%s: the stride of %u elements is not a multiple of 16 bytes", name,
            call.stride);
  }
  if (call.address % 32 != 0) {
    FINDING(misaligned_access, self->site, "%s: the address is not aligned to 32 bytes", name);
  }
}

void execute_wmma_load(void* const* arguments) {
  const auto& call = of_lane<WmmaLoadArguments>(arguments, 0);
  const char* name = call.operand == WmmaOperand::a ? "wmma.load.a" : "wmma.load.b";
  const WmmaTile tile = wmma_tile(call.type, call.operand);
  const unsigned element_bytes = 4 / tile.elements_per_word;
  check_wmma<WmmaLoadArguments>(arguments, name, element_bytes);
  const unsigned lines = call.row_major ? tile.rows : tile.cols;
  const unsigned line_words = tile.words / lines;
  const unsigned stride_bytes = call.stride * element_bytes;
  if (call.type == Multiplicand::tf32) {
    count_wmma_load_tf32(name, call.operand, call.row_major, call.address, call.stride);
  } else {
    count_wmma_load_16(name, call.address, stride_bytes);
  }
  for (unsigned line = 0; line < lines; ++line) {
    unsigned words[16];
    const unsigned char* p = collective_shared_access(Access::read, call.address + line * stride_bytes,
                                                      static_cast<int>(line_words * 4), 1, name);
    if (p != nullptr) {
      std::memcpy(words, p, line_words * 4);
    } else {
      std::memset(words, 0xff, sizeof words);
    }
    for (unsigned i = 0; i < line_words; ++i) {
      const unsigned slot = wmma_slot(call.operand, call.row_major, line * line_words + i);
      unsigned* registers = of_lane<WmmaLoadArguments>(arguments, slot % 32).registers;
      registers[slot / 32] = words[i];
      if (wmma_has_copy(call.type)) registers[slot / 32 + 4] = words[i];
    }
  }
}

struct WmmaMmaArguments {
  Multiplicand type;
  bool a_row_major, b_row_major;
  float* d;
  const unsigned *a, *b;
};

// The tile of an operand, row-major in f32, from all lanes' registers.
void collect_wmma(void* const* arguments, WmmaOperand operand, float* values) {
  const auto& call = of_lane<WmmaMmaArguments>(arguments, 0);
  const WmmaTile tile = wmma_tile(call.type, operand);
  const bool row_major = operand == WmmaOperand::a ? call.a_row_major : call.b_row_major;
  for (unsigned word = 0; word < tile.words; ++word) {
    const unsigned slot = wmma_slot(operand, row_major, word);
    const auto& lane = of_lane<WmmaMmaArguments>(arguments, slot % 32);
    const unsigned* registers = operand == WmmaOperand::a ? lane.a : lane.b;
    const unsigned copy = wmma_has_copy(call.type) && word % 2 == 1 ? 4 : 0;
    for (unsigned i = 0; i < tile.elements_per_word; ++i) {
      const unsigned at = word * tile.elements_per_word + i;  // in storage order
      const unsigned row = row_major ? at / tile.cols : at % tile.rows;
      const unsigned col = row_major ? at % tile.cols : at / tile.rows;
      values[row * tile.cols + col] = multiplicand(call.type, registers + slot / 32 + copy, i);
    }
  }
}

// Accumulators: register r of lane l is element (2r + l / 16, l % 16).
void execute_wmma_mma(void* const* arguments) {
  const unsigned k = of_lane<WmmaMmaArguments>(arguments, 0).type == Multiplicand::tf32 ? 8 : 16;
  float a[16 * 16], b[16 * 16], d[16 * 16];
  collect_wmma(arguments, WmmaOperand::a, a);
  collect_wmma(arguments, WmmaOperand::b, b);
  for (unsigned i = 0; i < 256; ++i) d[i] = of_lane<WmmaMmaArguments>(arguments, i % 32).d[i / 32];
  multiply(16, 16, k, a, b, d);
  for (unsigned i = 0; i < 256; ++i) of_lane<WmmaMmaArguments>(arguments, i % 32).d[i / 32] = d[i];
}

struct WmmaStoreArguments {
  unsigned address, stride;
  const float* d;
};

void execute_wmma_store(void* const* arguments) {
  const auto& call = of_lane<WmmaStoreArguments>(arguments, 0);
  check_wmma<WmmaStoreArguments>(arguments, "wmma.store.d", 4);
  count_wmma_store(call.address, call.stride);
  for (unsigned row = 0; row < 16; ++row) {
    float line[16];
    for (unsigned col = 0; col < 16; ++col) {
      const unsigned i = row * 16 + col;
      line[col] = of_lane<WmmaStoreArguments>(arguments, i % 32).d[i / 32];
    }
    unsigned char* p =
        collective_shared_access(Access::write, call.address + row * call.stride * 4, sizeof line, 1, "wmma.store.d");
    if (p != nullptr) std::memcpy(p, line, sizeof line);
  }
}

constexpr Collective wmma_load_a{"wmma.load.a", true, false};
constexpr Collective wmma_load_b{"wmma.load.b", true, false};
constexpr Collective wmma_mma_sync{"wmma.mma", true, false};
constexpr Collective wmma_store{"wmma.store.d", true, false};

}  // namespace

unsigned shuffle(Shuffle mode, unsigned value, int operand, Site site) {
  unsigned result = 0;
  ShuffleArguments arguments{value, operand, &result};
  switch (mode) {
    case Shuffle::butterfly:
      gather(shfl_bfly, site, &arguments, [](void* const* a) { execute_shuffle(Shuffle::butterfly, a); });
      break;
    case Shuffle::down:
      gather(shfl_down, site, &arguments, [](void* const* a) { execute_shuffle(Shuffle::down, a); });
      break;
    case Shuffle::index:
      gather(shfl_idx, site, &arguments, [](void* const* a) { execute_shuffle(Shuffle::index, a); });
      break;
  }
  return result;
}

void ldmatrix(unsigned* registers, int matrices, bool transposed, unsigned address, Site site) {
  LdmatrixArguments arguments{registers, static_cast<unsigned>(matrices), transposed, address};
  gather(ldmatrix_sync, site, &arguments, execute_ldmatrix);
}

void mma_m16n8(Multiplicand type, float* d, const unsigned* a, const unsigned* b, Site site) {
  MmaArguments arguments{type, d, a, b};
  gather(mma_sync, site, &arguments, execute_mma);
}

void wmma_load(Multiplicand type, WmmaOperand operand, bool row_major, unsigned* registers, unsigned address,
               unsigned stride, Site site) {
  WmmaLoadArguments arguments{type, operand, row_major, registers, address, stride};
  gather(operand == WmmaOperand::a ? wmma_load_a : wmma_load_b, site, &arguments, execute_wmma_load);
}

void wmma_mma(Multiplicand type, bool a_row_major, bool b_row_major, float* d, const unsigned* a, const unsigned* b,
              Site site) {
  WmmaMmaArguments arguments{type, a_row_major, b_row_major, d, a, b};
  gather(wmma_mma_sync, site, &arguments, execute_wmma_mma);
}

void wmma_store_d(unsigned address, const float* d, unsigned stride, Site site) {
  WmmaStoreArguments arguments{address, stride, d};
  gather(wmma_store, site, &arguments, execute_wmma_store);
}

}  // namespace autosched::emulator

// Execution of PTX: decoded instructions, and warps whose lanes run in lockstep while they are at the same instruction.
// The values of a register in all lanes are contiguous, so that an instruction is a loop over 32 lanes.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator::ptx {

using Lanes = std::uint32_t;
constexpr Lanes all_lanes = ~Lanes{0};

// Header of a register. The values of the 32 lanes follow it in memory. `defined`: the lanes that have written the
// register and in which all its bits are known.
struct Register {
  Lanes defined;
  // values of a predicate; for a parameter of a device function: the lanes in which some bits are unknown
  Lanes bits;
  SiteIndex origin;  // site of the instruction from which the unknown bits come
  // For wgmma (matrix/wgmma.cpp). flying: the warp's last wgmma that has this register as an operand. carries: the
  // wgmma whose result was copied to this register. Both are counted from 1. written: the number of wgmma.fence that
  // the warp had executed when the register was written, plus 1.
  std::uint32_t flying, carries, written;
  std::uint32_t loading;  // the warp's tcgen05.ld (matrix/tcgen05.cpp) whose result this register holds, counted from 1
  std::uint32_t ready;  // cycle at which the value is available (counts.cpp)
};
static_assert(sizeof(Register) == 32);

// Qualifiers of an instruction that its handler checks at run time (measurements/emulator/ptx/forms.py).
enum Flag : std::uint32_t {
  ftz = 1u << 0,
  sat = 1u << 1,
  approx = 1u << 2,
  full = 1u << 3,
  relu = 1u << 4,
  nan_wins = 1u << 5,
  xorsign = 1u << 6,
  carry_out = 1u << 7,
  satfinite = 1u << 8,
  shiftamt = 1u << 9,
  read_only = 1u << 10,   // .nc
  by_l2 = 1u << 11,       // .cg, .volatile, .relaxed: the instruction may poll for another thread's write
  acquire = 1u << 12,
  release = 1u << 13,
  nontrans = 1u << 14,
  transposed = 1u << 15,
  rounding_shift = 16,  // three bits: Rounding
  rounding_mask = 7u << 16,
  block_scope = 1u << 19,
  to_integral = 1u << 20,  // .rni, .rzi, .rmi, .rpi
  is_volatile = 1u << 21,
};
enum class Rounding { none, nearest, zero, down, up, away };
constexpr Rounding rounding(std::uint32_t flags) {
  return static_cast<Rounding>((flags & rounding_mask) >> rounding_shift);
}

struct Warp;
struct Instruction;
using Execute = void (*)(Warp&, const Instruction&, Lanes);

// How the main loop executes an instruction.
enum class Flow : std::uint8_t {
  plain,       // executes immediately, for the active lanes
  branch,      // immediate 0: target
  indexed,     // source 0: the index; immediates: the targets
  call,        // see Function
  leave,       // ret: of a function, or of the kernel
  exit,
  trap,
  collective,  // waits for the whole warp if immediate 0 is 1, otherwise for the lanes of the mask in source 0
  barrier,     // a barrier of the block
  yields,      // like plain, but other warps may run before it
  polls,  // polls for an event; otherwise like `yields`
};

// One variant of an instruction. Tables of such rows define which instructions are supported.
struct Row {
  const char* name;
  Execute execute;
  std::uint32_t flags;   // supported flags
  // Widths in bytes, one character per operand: destinations, ':', sources. 0: a predicate; *: any number of operands
  // of any width.
  const char* operands;
  Flow flow = Flow::plain;
  bool strict = false;  // an undefined source is reported at once, and does not make the destinations undefined
  bool own = false;     // `execute` determines in which lanes destinations are defined
  Collective collective{name, flow == Flow::barrier};
};

struct Instruction {
  Execute execute = nullptr;
  const Row* row = nullptr;
  Flow flow = Flow::plain;
  bool strict = false, own = false, negated = false;
  bool copies = false;  // mov of one register or constant
  // index (from 1) among the instructions through which values leave a lane's registers; 0 for all other instructions
  std::uint32_t effect = 0;
  std::uint32_t reading = 0;  // index among the loads whose addresses are recorded; 0 for all other instructions
  SiteIndex site = 0;
  std::uint32_t guard = 0;  // register of the predicate; 0: none
  std::uint32_t flags = 0;
  std::uint32_t destinations = 0, sources = 0, immediates = 0;
  const std::uint32_t* operand = nullptr;  // offsets of registers: destinations, then sources
  const std::uint8_t* width = nullptr;     // widths of the operands in bytes; 0 for a predicate
  const std::int64_t* immediate = nullptr;
  // for each operand, the index of its register in the list of registers that may hold copies (copies.cpp); 0 if the
  // register cannot hold a copy
  const std::uint32_t* followed = nullptr;

  std::uint32_t destination(unsigned k) const { return operand[k]; }
  std::uint32_t source(unsigned k) const { return operand[destinations + k]; }
  unsigned width_of_destination(unsigned k) const { return width[k]; }
  unsigned width_of_source(unsigned k) const { return width[destinations + k]; }
};

// Bytes that a move writes to a destination or reads from a source. For 8-bit elements of a vector, this is 1, although
// their registers have 2 bytes.
inline unsigned piece_of_destination(const Instruction& i, unsigned k) {
  const unsigned width = i.width_of_destination(k);
  return i.immediates == 0 ? width : std::min(width, static_cast<unsigned>(i.immediate[0]));
}

inline unsigned piece_of_source(const Instruction& i, unsigned k) {
  const unsigned width = i.width_of_source(k);
  return i.immediates == 0 ? width : std::min(width, static_cast<unsigned>(i.immediate[1]));
}

// A register or a parameter of a function: its bytes in each lane.
struct Span {
  std::uint32_t offset, bytes;
  bool is_register = false;
};
struct Function {
  // the function's number, which is the same for every kernel of the module: its address relative to function_base
  std::uint64_t number = 0;
  std::uint32_t entry = 0;
  std::uint32_t local_bytes = 0;
  std::vector<Span> registers;  // all registers of the function
  std::vector<Span> results, parameters;
};

// A call in progress of one lane.
struct Activation {
  std::uint32_t call;      // the call instruction
  std::uint32_t function;
  std::uint32_t local;     // end of the caller's local memory
  std::uint32_t old_base;  // local frame of the same function's previous active call
  std::vector<unsigned char> saved;  // the function's registers in this lane, saved during a recursive call
};

struct Local {
  std::vector<unsigned char> bytes;
  std::vector<unsigned char> known;                      // the known bits of each byte
  std::unordered_map<std::uint64_t, SiteIndex> origins;  // sources of undefined bytes, by offset
  struct Gap {
    std::uint32_t begin, end;
  };
  std::vector<Gap> gaps;  // unallocated bytes around the allocations of alloca, in ascending order
};

// The tick at which each lane last executed an instruction through which values leave registers. For the lanes in
// `lanes`, this is `tick`; for each other lane, it is `last`.
struct Effect {
  Lanes lanes = 0;
  std::uint64_t tick = 0;
  std::uint64_t last[warp_size] = {};
  std::uint64_t of(unsigned lane) const { return lanes >> lane & 1u ? tick : last[lane]; }
};

// The addresses that a load has read in the running block. For each lane: the last address, the tick at which the lane
// began to read it (a count of effects, see dropped.cpp), and the range of all addresses. `returned`: lanes whose
// address has moved back into this range; they may have read the same address before.
struct Reading {
  std::uint64_t address[warp_size] = {}, since[warp_size] = {}, lowest[warp_size] = {}, highest[warp_size] = {};
  unsigned bytes = 0;
  Lanes returned = 0;
};
constexpr std::uint32_t most_readings = 256;  // maximum number of such loads per kernel

// The last execution of a shared-memory load in the running block: its time, its epoch, the epoch of the execution
// before it, and the address that each lane has read.
struct LastRead {
  std::uint64_t tick = 0;  // a count of effects, like Effect::tick
  Epoch epoch = 0, before = 0;
  Lanes lanes = 0;
  unsigned bytes = 0, address[warp_size] = {};

  bool holds(unsigned byte) const {
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      if ((lanes >> lane & 1u) != 0 && address[lane] <= byte && byte < address[lane] + bytes) return true;
    }
    return false;
  }
};

struct Warp {
  Machine* machine = nullptr;
  unsigned char* registers = nullptr;
  // for lanes in which a register is only partly defined: masks of the defined bits, in the layout of `registers`
  unsigned char* known = nullptr;
  unsigned index = 0;
  Thread* thread = nullptr;  // thread of lane 0
  std::uint32_t pc[warp_size] = {};
  std::vector<Activation> calls[warp_size];
  std::uint32_t local_top[warp_size] = {};
  std::vector<std::uint32_t> local_base[warp_size];  // by index of the function
  std::vector<std::uint32_t> active_calls[warp_size];  // by index of the function
  Local local[warp_size];
  bool knows_parts = false;  // true if `known` was ever written
  Lanes carry = 0;
  std::uint32_t yielded_at = ~0u;
  // For each polling access (a digest of its instruction, addresses and lanes): a digest of the values that it read last.
  std::unordered_map<std::uint64_t, std::uint64_t> answers;
  // for each polling instruction: a digest of the warp's registers at its last poll
  std::unordered_map<const Instruction*, std::uint64_t> states;
  bool ahead = false;  // true: the lanes that are furthest ahead in the program run next
  const Instruction* waiting[warp_size] = {};  // the collective or barrier at which a lane waits
  std::vector<Effect> effects;                 // indexed by Instruction::effect
  std::vector<std::unique_ptr<Reading>> readings;  // indexed by Instruction::reading; nullptr: not executed yet
  std::vector<std::unique_ptr<LastRead>> last_reads;
  // locations of loaded values, by the register's number (copies.cpp); number 0 is unused
  std::vector<std::array<std::uint64_t, warp_size>> loaded_from;
  // For counts.cpp: the cycle in which the basic block began, the latest cycle in which one of its instructions issued,
  // and the number of instructions issued.
  std::uint32_t block_began = 0, latest = 0, issued = 0;
  // Cycles at which cp.async copies complete: of the open group (`copying`), and of each committed group (`copied`).
  std::uint32_t copying = 0;
  std::vector<std::uint32_t> copied;
  bool retry = false;  // a collective cannot complete yet, and its lanes must retry

  template <class T>
  T* values(std::uint32_t at) {
    return reinterpret_cast<T*>(registers + at + sizeof(Register));
  }
  Register& head(std::uint32_t at) { return *reinterpret_cast<Register*>(registers + at); }
  unsigned char* known_at(std::uint32_t at) { return known + at + sizeof(Register); }
};

// Runs body(lane) for each lane of `lanes`. There is no separate loop for the case of all lanes, because each body
// would then be compiled twice.
template <class Body>
inline void for_lanes(Lanes lanes, Body body) {
  for (Lanes left = lanes; left != 0; left &= left - 1) body(static_cast<unsigned>(__builtin_ctz(left)));
}

inline void run_as(Warp& warp, unsigned lane) { warp.machine->self = warp.thread + lane; }

// The bytes of a register's value in one lane.
inline unsigned char* value_bytes(Warp& warp, std::uint32_t at, unsigned width, unsigned lane) {
  return warp.values<unsigned char>(at) + std::size_t{lane} * width;
}
inline std::uint64_t read_bits(Warp& warp, std::uint32_t at, unsigned width, unsigned lane) {
  switch (width) {
    case 0: return warp.head(at).bits >> lane & 1u;
    case 2: return warp.values<std::uint16_t>(at)[lane];
    case 4: return warp.values<std::uint32_t>(at)[lane];
    default: return warp.values<std::uint64_t>(at)[lane];
  }
}
inline void write_bits(Warp& warp, std::uint32_t at, unsigned width, unsigned lane, std::uint64_t value) {
  switch (width) {
    case 2: warp.values<std::uint16_t>(at)[lane] = static_cast<std::uint16_t>(value); break;
    case 4: warp.values<std::uint32_t>(at)[lane] = static_cast<std::uint32_t>(value); break;
    default: warp.values<std::uint64_t>(at)[lane] = value;
  }
}

// The tables of instructions, one for each file that implements instructions.
struct Rows {
  const Row* begin;
  const Row* end;
};
extern const Rows integer_rows, bit_rows, float_rows, half_rows, compare_rows, convert_rows, address_rows,
    memory_rows, atomic_rows, async_rows, warp_rows, ldmatrix_rows, mma_rows, wmma_rows, call_rows, control_rows, mbarrier_rows,
    bulk_rows, tensor_rows, tensor_map_rows, wgmma_rows, cluster_rows, launch_control_rows, block_scaled_rows, print_rows,
    texture_rows, tcgen05_rows, tcgen05_mma_rows, sparse_mma_rows, stack_rows, video_rows, quad_mma_rows, narrow_rows,
    fence_rows;

}  // namespace autosched::emulator::ptx

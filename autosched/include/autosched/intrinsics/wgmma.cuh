// Operands of wgmma in shared memory: boxes as TMA writes them, and their matrix descriptors (PTX ISA 9.7.15.5, "Matrix
// descriptor" and "Strides").
#pragma once
#include <autosched/ptx/wgmma/wgmma.cuh>

namespace autosched {

// Start of a matrix in this block's shared memory, encoded for descriptors: in units of 16 bytes. Bits 24 and above are
// removed, because they are the block's rank in its cluster, and would change the descriptor's leading byte offset.
__device__ __forceinline__ unsigned encoded_start(unsigned address) { return (address & 0x3ffff) >> 4; }

// A tile of Extent (along m or n) x TileK elements. It consists of adjacent boxes, each of `lines` lines of `line`
// bytes. `line` is the swizzle's width, or 16 without a swizzle. The lines of a box are along k if AlongK, and along m
// or n otherwise.
template <class T, int Extent, int TileK, bool AlongK, int Swizzle>
struct WgmmaOperand {
  static_assert(Swizzle == 0 || Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "rule swizzle: must be 32, 64, 128, or 0");
  static constexpr int major = AlongK ? 0 : 1;
  static constexpr int line = Swizzle ? Swizzle : 16;
  static constexpr int width = line / int(sizeof(T));
  static constexpr int lines = AlongK ? Extent : TileK;
  static constexpr int across = AlongK ? TileK : Extent;
  static constexpr int boxes = across / width;
  static constexpr int box_bytes = lines * line;
  static constexpr int bytes = boxes * box_bytes;
  static constexpr int k_bytes = 32;  // bytes along k that one multiplication reads
  static_assert(across % width == 0, "rule layout: a tile of an operand needs whole boxes");
  static_assert(Extent % 8 == 0 && TileK * int(sizeof(T)) % k_bytes == 0, "rule layout: tiles need whole core matrices");

  // The two distances in a matrix descriptor, in bytes: one is between groups of 8 lines, the other between boxes. The
  // leading distance is
  // - unused if the operand has a swizzle and its lines are along k
  // - the distance between groups if the operand has no swizzle and its lines are along Extent
  // - the distance between boxes otherwise
  static constexpr int group_bytes = 8 * line;
  static constexpr int leading = AlongK ? (Swizzle ? 16 : box_bytes) : (Swizzle ? box_bytes : group_bytes);
  static constexpr int stride = AlongK || Swizzle ? group_bytes : box_bytes;
  static constexpr unsigned long long mode = Swizzle == 128 ? 1 : Swizzle == 64 ? 2 : Swizzle == 32 ? 3 : 0;

  // Descriptor of a tile that starts at `address`, a multiple of the swizzle's period. The block must not be in a
  // cluster. Its rank is therefore 0, so the address needs no mask.
  __device__ static __forceinline__ unsigned long long descriptor(unsigned address) {
    return base((unsigned(leading >> 4) << 16) + (address >> 4));
  }
  // The sum of base() and from_base() is the descriptor for multiplication number `step` along k, at row or column
  // `at`. ptxas compiles the sum to one addition. Shared memory is smaller than 2^18 bytes, so the addition does not
  // carry into another field.
  __device__ static __forceinline__ unsigned long long base(unsigned start) {
    return start | static_cast<unsigned long long>(stride >> 4) << 32 | mode << 62;
  }
  __host__ __device__ static constexpr int from_base(int step, int at) {
    return ((leading >> 4) << 16) + advance(step, at);
  }

  // Offset in a tile, in bytes, of one byte of a line: `of` is the number of the line, `byte` the position in it. A
  // line extends through all boxes (PTX ISA 5.5.6).
  __device__ static __forceinline__ unsigned at(int of, int byte) {
    const unsigned linear = unsigned(of * line + byte % line);
    return (linear ^ ((linear >> 7 & (line / 16 - 1)) << 4)) + unsigned(byte / line * box_bytes);
  }

  // Increment of the descriptor for multiplication number `step` along k, at row or column `at` (a multiple of 64).
  __host__ __device__ static constexpr int advance(int step, int at) {
    const int byte = step * k_bytes;  // offset along k in a line
    const int offset = AlongK ? byte / line * box_bytes + byte % line + at * line
                              : step * (k_bytes / int(sizeof(T))) * line + at / width * box_bytes;
    return offset >> 4;
  }
};

}  // namespace autosched

// Operands of wgmma in shared memory: boxes as TMA writes them, and the descriptors that the multiplication reads them
// by (PTX ISA 9.7.15.5, "Matrix descriptor" and "Strides").
#pragma once
#include <autosched/ptx/wgmma/wgmma.cuh>

namespace autosched {

// Start of a matrix in this block's shared memory, encoded for descriptors: in units of 16 bytes, without bits 24 and above.
// Those bits are the block's rank in its cluster, and would be added to the leading byte offset.
__device__ __forceinline__ unsigned encoded_start(unsigned address) { return (address & 0x3ffff) >> 4; }

// A tile of Extent (along m or n) x TileK elements as boxes side by side, each of `lines` lines of `line` bytes: of the
// swizzle's width, or 16 without one. A box's lines lie along k, or else along m or n.
template <class T, int Extent, int TileK, bool AlongK, int Swizzle>
struct WgmmaOperand {
  static_assert(Swizzle == 0 || Swizzle == 32 || Swizzle == 64 || Swizzle == 128, "rule swizzle: 32, 64, 128, or 0");
  static constexpr int major = AlongK ? 0 : 1;
  static constexpr int line = Swizzle ? Swizzle : 16;
  static constexpr int width = line / int(sizeof(T));
  static constexpr int lines = AlongK ? Extent : TileK;
  static constexpr int across = AlongK ? TileK : Extent;
  static constexpr int boxes = across / width;
  static constexpr int box_bytes = lines * line;
  static constexpr int bytes = boxes * box_bytes;
  static constexpr int k_bytes = 32;  // of one multiplication
  static_assert(across % width == 0, "rule layout: whole boxes make up the tile of an operand");
  static_assert(Extent % 8 == 0 && TileK * int(sizeof(T)) % k_bytes == 0, "rule layout: whole core matrices");

  // Bytes from one group of 8 lines, or box, to the next. Which of the two is the leading one depends on the layout:
  // swizzled, it leads from box to box, and has no meaning along k, where one box holds the k of a multiplication.
  static constexpr int group_bytes = 8 * line;
  static constexpr int leading = AlongK ? (Swizzle ? 16 : box_bytes) : (Swizzle ? box_bytes : group_bytes);
  static constexpr int stride = AlongK || Swizzle ? group_bytes : box_bytes;
  static constexpr unsigned long long mode = Swizzle == 128 ? 1 : Swizzle == 64 ? 2 : Swizzle == 32 ? 3 : 0;

  // The descriptor of a tile that starts at `address`, a multiple of what the swizzle repeats after, in a block that is alone
  // in its cluster: whose rank, 0, needs no mask.
  __device__ static __forceinline__ unsigned long long descriptor(unsigned address) {
    return base((unsigned(leading >> 4) << 16) + (address >> 4));
  }
  // The same as a base and what to add to it for multiplication `step` along k and row or column `at`: one addition of
  // ptxas for each. Shared memory ends before 2^18 bytes, so adding to the start carries into no other field.
  __device__ static __forceinline__ unsigned long long base(unsigned start) {
    return start | static_cast<unsigned long long>(stride >> 4) << 32 | mode << 62;
  }
  __host__ __device__ static constexpr int from_base(int step, int at) {
    return ((leading >> 4) << 16) + advance(step, at);
  }

  // Bytes from the start of a tile to byte `byte` of line `of`, lines of several boxes being one (PTX ISA 5.5.6).
  __device__ static __forceinline__ unsigned at(int of, int byte) {
    const unsigned linear = unsigned(of * line + byte % line);
    return (linear ^ ((linear >> 7 & (line / 16 - 1)) << 4)) + unsigned(byte / line * box_bytes);
  }

  // Increment of the descriptor for multiplication `step` along k and row or column `at`, a multiple of 64.
  __host__ __device__ static constexpr int advance(int step, int at) {
    const int byte = step * k_bytes;  // along k, of a line
    const int offset = AlongK ? byte / line * box_bytes + byte % line + at * line
                              : step * (k_bytes / int(sizeof(T))) * line + at / width * box_bytes;
    return offset >> 4;
  }
};

}  // namespace autosched

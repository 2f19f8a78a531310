// Operands of products in tile programs: a tile in shared memory, and the fragments that a warp reads from it.
//
// L: constants of one tile:
// - T, Layout, row_major, rows, columns
// - array_major and array_minor: sizes of the array in memory, contiguous along minor
// - threads, copy_async
// - anywhere: tiles may begin at any element of the array
// - copy_columns, vector, copy_store, stage_bytes
// - alignment: alignment of every tile's address, in bytes
// - advance: direction between iterations (0: none, 1: along major, 2: along minor)
//
// For an operand of a product also:
// - I: the intrinsic
// - left: true for the left operand
// - transposed: read by ldmatrix.trans
// - access_vector
// - groups: number of subgroups along m or n
// - group_size: size of a sub-tile
// - fragments: number of fragments of a subgroup, along m or n
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/common/shared_layout.cuh>
#include <autosched/common/tile_copy.cuh>

namespace autosched::tile {

// Distance of a subgroup's fragment i from its first fragment. Sub-tiles are distributed round robin.
__host__ __device__ constexpr int fragment_at(int i, int size, int groups, int group_size) {
  const int each = group_size / size;
  return i / each * groups * group_size + i % each * size;
}

// True if the launch passes the line stride of an operand (L has a member `pitched`).
template <class L>
constexpr bool is_pitched(...) {
  return false;
}
template <class L>
constexpr bool is_pitched(decltype(L::pitched)*) {
  return L::pitched;
}

// A tile in shared memory, in the array's storage type. Threads convert the elements that they read.
template <class L>
struct StoredTile : L {
  using T = typename L::T;
  using Layout = typename L::Layout;
  static constexpr int rows = L::rows, columns = L::columns;
  using Copy = TileCopy<T, Layout, L::row_major ? rows : columns, L::row_major ? columns : rows, L::array_major,
                        L::array_minor, L::row_major, L::threads, L::copy_columns, L::vector, L::copy_store,
                        L::copy_async, L::anywhere, is_pitched<L>(nullptr)>;
  __device__ static __forceinline__ void advance(Copy& copy) {
    if constexpr (L::advance == 1) copy.advance_major();
    if constexpr (L::advance == 2) copy.advance_minor();
  }
};

template <class L>
struct Operand : StoredTile<L> {
  using I = typename L::I;
  using T = typename L::T;
  using Layout = typename L::Layout;
  static constexpr int rows = L::rows, columns = L::columns;
  static constexpr int vector = L::access_vector;  // number of elements per load of the intrinsic
  // Number of fragments of B per ldmatrix.
  static constexpr int group = L::group_size / I::n % I::b_group == 0 ? I::b_group : 1;

  __host__ __device__ static constexpr int at(int i) {
    return fragment_at(i, L::left ? I::m : I::n, L::groups, L::group_size);
  }
  // True if a lane's offset and the distances between fragments have no common bit within the layout's period.
  __host__ __device__ static constexpr bool splits() {
    if constexpr (Layout::splits && L::matrices) {
      int places = 0, steps = 0;
      for (int i = 0; i < 32 * L::groups; ++i) {
        if constexpr (L::left) {
          places |= Layout::low_bits(i / 32 * L::group_size + I::template a_row<Operand>(i % 32),
                                     I::template a_depth<Operand>(i % 32));
        } else {
          places |= Layout::low_bits(I::template b_depth<Operand, group>(i % 32),
                                     i / 32 * L::group_size + I::template b_col<Operand, group>(i % 32));
        }
      }
      for (int depth = 0; depth < (L::left ? columns : rows); depth += I::k) {
        if constexpr (L::left) {
          for (int i = 0; i < L::fragments; ++i) steps |= Layout::low_bits(at(i), depth);
        } else {
          for (int j = 0; j < L::fragments; j += group) steps |= Layout::low_bits(depth, at(j));
        }
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ static __forceinline__ unsigned offset(int row, int column, int rows_on, int columns_on) {
    return byte_offset<Layout, int(sizeof(T)), splits()>(row, column, rows_on, columns_on);
  }
  // Bits in which the offsets of fragments differ.
  __host__ __device__ static constexpr int flipped() {
    int flips = 0;
    for (int depth = 0; depth < (L::left ? columns : rows); depth += I::k) {
      for (int i = 0; i < L::fragments; ++i) {
        flips |= L::left ? Layout::flips(at(i), depth) : Layout::flips(depth, at(i));
      }
    }
    return flips;
  }
  // True if more than two bits differ: more than four offsets would need too many registers in a loop.
  __host__ __device__ static constexpr bool flips_many() {
    const int but_one = flipped() & (flipped() - 1);
    return (but_one & (but_one - 1)) != 0;
  }
  // Address of an element of a tile. If the bits in which fragments differ are 0 in the addresses of all tiles, they
  // are flipped last, after the tile's address has been added. So one address per iteration suffices for all fragments.
  __device__ static __forceinline__ unsigned address(unsigned tile, int row, int column, int rows_on, int columns_on) {
    if constexpr (splits()) {
      if constexpr (flips_many() && flipped() * int(sizeof(T)) < L::alignment) {
        const unsigned base = tile + unsigned(Layout::offset(row, column)) * unsigned(sizeof(T));
        return (base ^ unsigned(Layout::flips(rows_on, columns_on)) * unsigned(sizeof(T))) +
               unsigned(Layout::adds(rows_on, columns_on)) * unsigned(sizeof(T));
      }
    }
    return tile + offset(row, column, rows_on, columns_on);
  }
};

// A warp's fragments for one step of the intrinsic along k. `group`: index of the subgroup along m.
template <class Operand>
struct LeftFragments {
  using I = typename Operand::I;
  typename I::FragmentA x[Operand::fragments];
  __device__ __forceinline__ void load(unsigned tile, int step, int group, int lane) {
#pragma unroll
    for (int i = 0; i < Operand::fragments; ++i) {
      I::template load_a<Operand>(x[i], tile, group * Operand::group_size, Operand::at(i), step * I::k, lane);
    }
  }
};
template <class Operand>
struct RightFragments {
  using I = typename Operand::I;
  typename I::FragmentB x[Operand::fragments];
  __device__ __forceinline__ void load(unsigned tile, int step, int group, int lane) {
#pragma unroll
    for (int j = 0; j < Operand::fragments; j += Operand::group) {
      I::template load_b<Operand, Operand::group>(&x[j], tile, step * I::k, group * Operand::group_size,
                                                  Operand::at(j), lane);
    }
  }
};

// An operand whose values are not rounded when they are loaded to registers.
template <class Operand>
struct Unrounded : Operand {};

// An operand with two buffers of fragments. The offsets of fragments are kept in registers. Recomputing the offsets
// from one address in each iteration would take ten more instructions per 64 products, and would not save registers.
template <class Operand>
struct ReadEarly : Operand {};

// Converts a word of a fragment to the type of a value's registers: packed elements in a word, or a single number.
template <class Register, class X>
__device__ __forceinline__ Register of_register(X x) {
  if constexpr (is_same<Register, float> && !is_same<X, float>) {
    return ptx::float_of(x);
  } else {
    return Register(x);
  }
}

// Loads fragments from a tile into registers: all that a warp needs, in the order of the multiplication's k-steps.
template <class Operand, class Register>
__device__ __forceinline__ void load_fragments(Register* x, unsigned tile, int group, int lane) {
  using I = typename Operand::I;
  using Fragment = conditional<Operand::left, typename I::FragmentA, typename I::FragmentB>;
  constexpr int steps = (Operand::left ? Operand::columns : Operand::rows) / I::k;
  constexpr int registers = int(sizeof(Fragment) / sizeof(Register));
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    using Kept = Unrounded<Operand>;
    conditional<Operand::left, LeftFragments<Kept>, RightFragments<Kept>> fragments;
    fragments.load(tile, step, group, lane);
#pragma unroll
    for (int i = 0; i < Operand::fragments; ++i) {
#pragma unroll
      for (int r = 0; r < registers; ++r) {
        x[(step * Operand::fragments + i) * registers + r] = of_register<Register>(fragments.x[i].x[r]);
      }
    }
  }
}

// acc += a @ b for FM x FN fragments, which are in row-major order in acc. A and B are operand types. They select the
// intrinsic if the type of a fragment does not determine it.
template <class I, int FM, int FN, class A = void, class B = void, class Sum>
__device__ __forceinline__ void multiply(Sum* acc, const typename I::FragmentA* a, const typename I::FragmentB* b) {
#pragma unroll
  for (int i = 0; i < FM; ++i) {
#pragma unroll
    for (int j = 0; j < FN; ++j) {
      I::template multiply<A, B>(
          *reinterpret_cast<typename I::FragmentC*>(acc + (i * FN + j) * I::c_registers), a[i], b[j]);
    }
  }
}

}  // namespace autosched::tile
namespace autosched {
template <class Operand>
inline constexpr bool keeps_bits<tile::Unrounded<Operand>> = true;
template <class L>
inline constexpr bool has_addresses<tile::Operand<L>> = true;
template <class Operand>
inline constexpr bool has_addresses<tile::Unrounded<Operand>> = true;
}  // namespace autosched

// Operands whose tile positions are computed in each iteration, such as pages of a table. `Locate` returns the matrix
// (for TMA its index) and the position of the tile in the matrix. `Locate` may load table entries, and there may be no
// further entry after the last iteration. So it is called only when a tile is copied.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched::tile {

template <class T>
struct TilePlace {
  const T* matrix;
  int major, minor;
};
struct BoxedPlace {
  int lead, major, minor;
};

// A tile that all threads copy, with any shared-memory layout.
template <class Operand, class Locate>
struct PlacedOperand : Operand {
  struct Copy : Operand::Copy {
    using Tile = typename Operand::Copy;
    Locate locate;
    int thread, turn = 0;
    __device__ __forceinline__ Copy(const Locate& locate, int thread)
        : Tile(nullptr, 0, 0, thread), locate(locate), thread(thread) {}
    __device__ __forceinline__ Tile now() const {
      const auto at = locate(turn);
      return Tile(at.matrix, at.major, at.minor, thread);
    }
    template <int Whole = 0>
    __device__ __forceinline__ void start(unsigned address) const {
      now().template start<Whole>(address);
    }
    template <int Whole = 0>
    __device__ __forceinline__ void load() {
      static_cast<Tile&>(*this) = now();
      Tile::template load<Whole>();
    }
  };
  __device__ static __forceinline__ void advance(Copy& copy) { ++copy.turn; }
};

// A tile of scattered rows. Row i of the tile is row `row_of(i)` of the matrix. The row may be outside of the matrix.
template <class T, class RowOf>
struct GatheredPlace {
  const T* matrix;
  int minor;
  RowOf row_of;
};
template <class T, class RowOf>
__device__ __forceinline__ GatheredPlace<T, RowOf> gathered(const T* matrix, int minor, const RowOf& row_of) {
  return {matrix, minor, row_of};
}
template <class Operand, class Locate>
struct GatheredOperand : Operand {
  struct Copy : Operand::Copy {
    using Tile = typename Operand::Copy;
    Locate locate;
    int turn = 0;
    __device__ __forceinline__ Copy(const Locate& locate, int thread) : Tile(nullptr, 0, 0, thread), locate(locate) {}
    // Calls use(i, j, address) for each vector of the thread. The address is null for rows outside of the matrix.
    template <class Use>
    __device__ __forceinline__ void each(const Use& use) const {
      const auto at = locate(turn);
      constexpr bool fits = !Operand::anywhere && Operand::array_minor % (Tile::minor_step * Tile::minor_passes) == 0;
      int rows[Tile::major_passes];  // load all row numbers before the first is used
#pragma unroll
      for (int i = 0; i < Tile::major_passes; ++i) rows[i] = at.row_of(Tile::major + i * Tile::major_step);
#pragma unroll
      for (int i = 0; i < Tile::major_passes; ++i) {
        const typename Tile::T* line = at.matrix + static_cast<long long>(rows[i]) * Operand::array_minor;
#pragma unroll
        for (int j = 0; j < Tile::minor_passes; ++j) {
          const int along = at.minor + Tile::minor + j * Tile::minor_step;
          const bool ok = unsigned(rows[i]) < unsigned(Operand::array_major) && (fits || along < Operand::array_minor);
          use(i, j, ok, ok ? line + along : at.matrix);
        }
      }
    }
    template <int Whole = 0>
    __device__ __forceinline__ void start(unsigned address) const {
      each([&](int i, int j, bool ok, const typename Tile::T* from) {
        if constexpr (Tile::bytes == 16) {
          ptx::cp_async_cg(address + Tile::offset(i, j, 0), from, ok ? Tile::bytes : 0);
        } else {
          ptx::cp_async_ca<Tile::bytes>(address + Tile::offset(i, j, 0), from, ok ? Tile::bytes : 0);
        }
      });
    }
    template <int Whole = 0>
    __device__ __forceinline__ void load() {
      each([&](int i, int j, bool ok, const typename Tile::T* from) {
        auto& packet = Tile::staged[i * Tile::minor_passes + j];
        packet = AlignedVector<Tile::bytes>{};
        if (ok) packet = ptx::ld_global_nc<Tile::bytes>(from);
      });
    }
  };
  __device__ static __forceinline__ void advance(Copy& copy) { ++copy.turn; }
};

// A tile of scattered rows that all threads copy to boxes.
template <class Operand, class Locate>
struct GatheredBoxes : Operand {
  struct Copy {
    Locate locate;
    int thread, turn = 0;
    __device__ __forceinline__ void begin(unsigned address) const {
      const auto at = locate(turn);
      using Pieces = typename Operand::ByThreads::template Pieces<Operand>;
      Pieces(thread).begin_rows(at.matrix, address, at.minor, at.row_of);
    }
  };
  __device__ static __forceinline__ void advance(Copy& copy) { ++copy.turn; }
};

// A tile that all threads, or TMA, copy to boxes.
template <class Operand, class Locate>
struct PlacedBoxes : Operand {
  struct ByThreads {
    Locate locate;
    int thread, turn = 0;
    __device__ __forceinline__ void begin(unsigned address) const {
      const auto at = locate(turn);
      typename Operand::ByThreads{at.matrix, at.major, at.minor, thread}.begin(address);
    }
  };
  struct ByTma {
    const ptx::TensorMap* map;
    Locate locate;
    int turn = 0;
    __device__ __forceinline__ void fetch(unsigned address, unsigned full) const {
      const auto at = locate(turn);
      typename Operand::ByTma{map, at.lead, at.major, at.minor}.fetch(address, full);
    }
  };
  using Copy = conditional<Operand::tma, ByTma, ByThreads>;
  __device__ static __forceinline__ void advance(Copy& copy) { ++copy.turn; }
};

}  // namespace autosched::tile

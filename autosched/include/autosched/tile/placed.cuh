// Operands whose tiles lie where a function of the iteration says, such as pages of a table. `Place` returns the matrix, or
// for TMA its number, and where the tile begins in it; it is called when the tile is copied, as numbers that it loads may
// not exist behind the last iteration.
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

// Copied by all threads to any layout.
template <class Operand, class Place>
struct PlacedOperand : Operand {
  struct Copy : Operand::Copy {
    using Tile = typename Operand::Copy;
    Place place;
    int thread, turn = 0;
    __device__ __forceinline__ Copy(const Place& place, int thread)
        : Tile(nullptr, 0, 0, thread), place(place), thread(thread) {}
    __device__ __forceinline__ Tile now() const {
      const auto at = place(turn);
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

// Copied to boxes, by all threads or by TMA.
template <class Operand, class Place>
struct PlacedBoxes : Operand {
  struct ByThreads {
    Place place;
    int thread, turn = 0;
    __device__ __forceinline__ void begin(unsigned address) const {
      const auto at = place(turn);
      typename Operand::ByThreads{at.matrix, at.major, at.minor, thread}.begin(address);
    }
  };
  struct ByTma {
    const ptx::TensorMap* map;
    Place place;
    int turn = 0;
    __device__ __forceinline__ void fetch(unsigned address, unsigned full) const {
      const auto at = place(turn);
      typename Operand::ByTma{map, at.lead, at.major, at.minor}.fetch(address, full);
    }
  };
  using Copy = conditional<Operand::tma, ByTma, ByThreads>;
  __device__ static __forceinline__ void advance(Copy& copy) { ++copy.turn; }
};

}  // namespace autosched::tile

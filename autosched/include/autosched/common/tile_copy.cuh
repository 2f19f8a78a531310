// The cooperative copy of one operand tile from global to shared memory.
// Threads form a grid of Threads / Columns rows by Columns columns (the copy's wg_map) over the tile. `minor` is the
// dimension that is contiguous in global memory, and `major` is the other dimension. Every thread copies Vector
// elements at a time, round robin, until the tile is covered. Vector divides the array's contiguous extent, so that
// each vector is completely inside or outside of the array. Elements outside are zero.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/common/shared_layout.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// The tile has TileMajor x TileMinor elements of type T, and the array has ArrayMajor x ArrayMinor elements. Both are
// contiguous along minor.
// - MinorIsColumn: minor is the tile's column (a row-major array).
// - StoreVector: number of elements, at most Vector, that the layout keeps contiguous and aligned.
// - Anywhere: tiles may begin at any element. So they may extend beyond the array even if their size divides its
//   extent.
// - Pitched: the launch passes the number of elements between the starts of lines, which is at least ArrayMinor.
template <class T_, class Layout, int TileMajor, int TileMinor, int ArrayMajor, int ArrayMinor, bool MinorIsColumn,
          int Threads, int Columns, int Vector, int StoreVector, bool Async, bool Anywhere = false, bool Pitched = false>
struct TileCopy {
  using T = T_;
  static constexpr bool async = Async;
  static constexpr int bytes = Vector * int(sizeof(T));
  static constexpr int major_step = Threads / Columns, minor_step = Columns * Vector;
  static constexpr int major_passes = TileMajor / major_step, minor_passes = TileMinor / minor_step;
  static_assert(Threads % Columns == 0 && TileMajor % major_step == 0 && TileMinor % minor_step == 0,
                "rule copy_map: threads x vector must divide the tile");
  static_assert(ArrayMinor % Vector == 0, "rule copy_alignment: the vector must divide the array's contiguous extent");
  static_assert(bytes <= 16, "rule copy_width: a thread moves at most 16 bytes at a time");
  static_assert(!Async || (bytes >= 4 && StoreVector == Vector),
                "rule copy_async: cp.async copies 4, 8 or 16 bytes that are contiguous in shared memory");

  const T* source;     // this thread's first vector of the current tile
  int major, minor;    // coordinates of this thread's first vector in the tile
  int major_origin, minor_origin;  // start of the current tile in the array
  int pitch_of_launch;
  AlignedVector<bytes> staged[Async ? 1 : major_passes * minor_passes];

  __device__ __forceinline__ TileCopy(const T* array, int major_origin_, int minor_origin_, int thread,
                                      int pitch_ = ArrayMinor)
      : major(thread / Columns),
        minor(thread % Columns * Vector),
        major_origin(major_origin_),
        minor_origin(minor_origin_),
        pitch_of_launch(pitch_) {
    source = array + static_cast<long long>(major_origin + major) * pitch() + minor_origin + minor;
  }

  // Number of elements between the starts of adjacent lines.
  __device__ __forceinline__ int pitch() const {
    if constexpr (Pitched) return pitch_of_launch;
    return ArrayMinor;
  }

  // Moves to the next tile along major or minor.
  __device__ __forceinline__ void advance_major() {
    major_origin += TileMajor;
    source += static_cast<long long>(TileMajor) * pitch();
  }
  __device__ __forceinline__ void advance_minor() {
    minor_origin += TileMinor;
    source += TileMinor;
  }

  // Whole: 1 if the tile is known to be inside the array along major, 2 if along minor, otherwise 0.
  template <int Whole = 0>
  __device__ __forceinline__ bool inside(int i, int j) const {
    constexpr bool major_fits = !Anywhere && ArrayMajor % TileMajor == 0, minor_fits = !Anywhere && ArrayMinor % TileMinor == 0;
    const bool major_ok = major_fits || Whole == 1 || major_origin + major + i * major_step < ArrayMajor;
    const bool minor_ok = minor_fits || Whole == 2 || minor_origin + minor + j * minor_step < ArrayMinor;
    return major_ok && minor_ok;
  }
  __device__ __forceinline__ const T* address(int i, int j) const {
    return source + static_cast<long long>(i) * major_step * pitch() + j * minor_step;
  }
  // splits(): true if each offset in shared memory is the sum of an offset of the thread and an offset of the vector,
  // without carries within the layout's period. One xor-ed address per thread is then enough (SharedLayout).
  __host__ __device__ static constexpr int low_bits(int a, int b) {
    return MinorIsColumn ? Layout::low_bits(a, b) : Layout::low_bits(b, a);
  }
  __host__ __device__ static constexpr bool splits() {
    if constexpr (Layout::splits) {
      int places = 0, steps = 0;
      for (int thread = 0; thread < Threads; ++thread) places |= low_bits(thread / Columns, thread % Columns * Vector);
      for (int i = 0; i < major_passes; ++i) {
        for (int j = 0; j < minor_passes; ++j) {
          for (int e = 0; e < Vector; e += StoreVector) steps |= low_bits(i * major_step, j * minor_step + e);
        }
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ __forceinline__ unsigned offset(int i, int j, int element) const {
    const int a = i * major_step, b = j * minor_step + element;
    constexpr bool split = splits();
    if constexpr (MinorIsColumn) {
      return byte_offset<Layout, int(sizeof(T)), split>(major, minor, a, b);
    } else {
      return byte_offset<Layout, int(sizeof(T)), split>(minor, major, b, a);
    }
  }

  // Starts cp.async copies of the current tile. Other threads see them after a wait for the group and a barrier.
  template <int Whole = 0>
  __device__ __forceinline__ void start(unsigned tile_address) const {
#pragma unroll
    for (int i = 0; i < major_passes; ++i) {
#pragma unroll
      for (int j = 0; j < minor_passes; ++j) {
        const bool ok = inside<Whole>(i, j);
        const T* from = ok ? address(i, j) : source;  // any valid address, because the copy reads 0 bytes
        if constexpr (bytes == 16) {
          ptx::cp_async_cg(tile_address + offset(i, j, 0), from, ok ? bytes : 0);
        } else {
          ptx::cp_async_ca<bytes>(tile_address + offset(i, j, 0), from, ok ? bytes : 0);
        }
      }
    }
  }

  // Loads the current tile into registers.
  template <int Whole = 0>
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < major_passes; ++i) {
#pragma unroll
      for (int j = 0; j < minor_passes; ++j) {
        AlignedVector<bytes>& packet = staged[i * minor_passes + j];
        packet = AlignedVector<bytes>{};
        if (inside<Whole>(i, j)) packet = ptx::ld_global_nc<bytes>(address(i, j));
      }
    }
  }
  // Stores to shared memory the tile that `load` has loaded.
  __device__ __forceinline__ void store(unsigned tile_address) const {
#pragma unroll
    for (int i = 0; i < major_passes; ++i) {
#pragma unroll
      for (int j = 0; j < minor_passes; ++j) {
#pragma unroll
        for (int e = 0; e < Vector; e += StoreVector) {
          ptx::st_shared(tile_address + offset(i, j, e), slice<T, StoreVector>(staged[i * minor_passes + j], e));
        }
      }
    }
  }
};

}  // namespace autosched

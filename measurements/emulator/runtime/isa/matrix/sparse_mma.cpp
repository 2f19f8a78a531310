// mma.sp.sync: PTX ISA 9.7.14.6, "Sparse matrix storage". The function of an instruction runs once all lanes of the
// warp have arrived at the instruction.
#include "isa/matrix/sparsity.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace sparse_mma_instructions {

using namespace matrix;

constexpr unsigned m = 16, n = 8;

template <class T>
T element_of(Warp& w, const Instruction& i, const std::uint32_t* registers, std::int64_t type, unsigned v, unsigned lane) {
  const std::uint64_t bits = element_bits(w, registers, 4, type, v, lane);
  if (type == tf32) check_tf32(*w.machine, i, bits);
  return static_cast<T>(value_of(type, bits));
}

// Reads B and the stored elements of A (k / 2 per row). Adds the products of the stored elements to d in the order of
// k.
template <class T, class Sum>
void multiply_kept(Warp& w, const Instruction& i, unsigned k, const Metadata& metadata, const std::uint32_t* ra,
                   const std::uint32_t* rb, Sum* d) {
  const std::int64_t a_type = i.immediate[3], b_type = i.immediate[4];
  const unsigned run = 32 / bits_of(a_type), kept = k / 2;
  T a[m * 64], b[128 * n];
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < m * kept / 32; ++v) {
      const Position p = position_a(m, run, v, lane);
      a[p.row * kept + p.col] = element_of<T>(w, i, ra, a_type, v, lane);
    }
    for (unsigned v = 0; v < k * n / 32; ++v) {
      const Position p = position_b(run, v, lane);
      b[p.row * n + p.col] = element_of<T>(w, i, rb, b_type, v, lane);
    }
  }
  unsigned column[64];
  for (unsigned row = 0; row < m; ++row) {
    metadata.read(*w.machine, row, column);
    for (unsigned p = 0; p < kept; ++p) {
      for (unsigned j = 0; j < n; ++j) {
        d[row * n + j] += static_cast<Sum>(a[row * kept + p]) * static_cast<Sum>(b[column[p] * n + j]);
      }
    }
  }
}

// Immediates: 1 (whole warp); k; types of d, a, b, c; numbers of registers of d, a, b, c; the selector of the lanes
// that have the metadata; whether indices must ascend.
void mma_sparse(Warp& w, const Instruction& i, Lanes) {
  const auto k = static_cast<unsigned>(i.immediate[1]);
  const std::int64_t d_type = i.immediate[2], a_type = i.immediate[3], c_type = i.immediate[5];
  const std::uint32_t* ra = i.operand + i.destinations;
  const std::uint32_t* rb = ra + i.immediate[7];
  const std::uint32_t* rc = rb + i.immediate[8];
  const Metadata metadata(w, i, rc[i.immediate[9]], a_type, k, static_cast<unsigned>(i.immediate[10]),
                          i.immediate[11] != 0);
  constexpr unsigned of_lane = m * n / 32;
  if (is_integer(a_type)) {
    std::int64_t d[m * n];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < of_lane; ++v) {
        const Position p = position_c(v, lane);
        d[p.row * n + p.col] = w.values<std::int32_t>(rc[v])[lane];
      }
    }
    multiply_kept<std::int32_t>(w, i, k, metadata, ra, rb, d);
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      for (unsigned v = 0; v < of_lane; ++v) {
        const Position p = position_c(v, lane);
        std::int64_t sum = d[p.row * n + p.col];
        if (i.flags & satfinite) sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
        w.values<std::int32_t>(i.destination(v))[lane] = static_cast<std::int32_t>(sum);
      }
    }
    return;
  }
  float d[m * n];
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < of_lane; ++v) {
      const Position p = position_c(v, lane);
      d[p.row * n + p.col] = c_type == f32 ? w.values<float>(rc[v])[lane]
                                           : f32_of_f16(w.values<std::uint16_t>(rc[v / 2])[lane * 2 + v % 2]);
    }
  }
  multiply_kept<float>(w, i, k, metadata, ra, rb, d);
  for (unsigned lane = 0; lane < warp_size; ++lane) {
    for (unsigned v = 0; v < of_lane; ++v) {
      const Position p = position_c(v, lane);
      const float y = d[p.row * n + p.col];
      if (d_type == f32) {
        w.values<float>(i.destination(v))[lane] = y;
      } else {
        w.values<std::uint16_t>(i.destination(v / 2))[lane * 2 + v % 2] = f16_of_f32(y);
      }
    }
  }
}

constexpr Row rows[] = {
    {"mma.sp", mma_sparse, satfinite, "*:*", Flow::collective},
};

}  // namespace sparse_mma_instructions
}  // namespace

const Rows sparse_mma_rows{std::begin(sparse_mma_instructions::rows), std::end(sparse_mma_instructions::rows)};

}  // namespace autosched::emulator::ptx

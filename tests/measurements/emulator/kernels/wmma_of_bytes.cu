// wmma tiles of bytes in shared memory need 16-byte alignment (with 8-byte alignment, a GPU reports a fault). f16 tiles
// need 32 bytes.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ __align__(32) signed char s[16 * 32 + 64];
  const unsigned t = threadIdx.x;
  for (unsigned i = t; i < sizeof s; i += 32) s[i] = i < 64 ? static_cast<signed char>(a[i]) : 1;
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
  wmma::fill_fragment(sum, 0);
  wmma::load_matrix_sync(left, s + (BROKEN ? 8 : 16), 16);  // found here
  wmma::load_matrix_sync(right, s + 48, 16);
  wmma::mma_sync(sum, left, right, sum);
  int total = 0;
  for (int i = 0; i < sum.num_elements; ++i) total += sum.x[i];
  o[t] = float(total);
}

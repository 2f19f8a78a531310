// The functions of cuBLAS that other people's programs compare their kernels with, on the host: device memory of
// `autosched run` is mapped there. Column-major, all in double.
#include <stdint.h>
#include <string.h>
enum { REAL_32F = 0, REAL_16F = 2, REAL_16BF = 14 };  // cudaDataType
static double get(const void* from, int64_t at, int type) {
  if (type == REAL_32F) return ((const float*)from)[at];
  if (type == REAL_16F) return (double)((const _Float16*)from)[at];
  const uint32_t bits = (uint32_t)((const uint16_t*)from)[at] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static void put(void* to, int64_t at, int type, double value) {
  if (type == REAL_32F) {
    ((float*)to)[at] = (float)value;
  } else if (type == REAL_16F) {
    ((_Float16*)to)[at] = (_Float16)value;
  } else {
    const float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    ((uint16_t*)to)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}
int cublasGemmStridedBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda,
                               long long a_step, const void* b, int b_type, int ldb, long long b_step, const void* beta, void* c,
                               int c_type, int ldc, long long c_step, int count, int compute, int algorithm) {
  const double by = *(const float*)alpha, old = *(const float*)beta;
  for (int64_t x = 0; x < count; ++x) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += get(a, x * a_step + (ta ? p + i * lda : i + p * lda), a_type) * get(b, x * b_step + (tb ? j + p * ldb : p + j * ldb), b_type);
        }
        const int64_t at = x * c_step + i + j * ldc;
        put(c, at, c_type, by * sum + (old != 0 ? old * get(c, at, c_type) : 0));
      }
    }
  }
  return 0;
}
int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda, const void* b,
                 int b_type, int ldb, const void* beta, void* c, int c_type, int ldc, int compute, int algorithm) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
int cublasSgemm_v2(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                   const float* beta, float* c, int ldc) {
  return cublasGemmEx(handle, ta, tb, m, n, k, alpha, a, REAL_32F, lda, b, REAL_32F, ldb, beta, c, REAL_32F, ldc, 0, 0);
}
int cublasSgemmStridedBatched(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, long long a_step,
                              const float* b, int ldb, long long b_step, const float* beta, float* c, int ldc, long long c_step, int count) {
  return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, REAL_32F, lda, a_step, b, REAL_32F, ldb, b_step, beta, c, REAL_32F, ldc, c_step,
                                    count, 0, 0);
}

// stmatrix: PTX ISA 9.7.14.5.16. Matrices have 8x8 elements of 16 bits. Lane l passes the 16-byte-aligned shared
// address of row l % 8 of matrix l / 8. Lane l holds word l % 4 (32 bits) of row l / 4 of each matrix.
#pragma once

namespace autosched::ptx {

__device__ __forceinline__ void stmatrix_x2(unsigned address, const unsigned (&r)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(r[0]), "r"(r[1])
               : "memory");
}
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace autosched::ptx

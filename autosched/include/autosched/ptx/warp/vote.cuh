// vote.sync over the whole warp: PTX ISA 9.7.9.7.
#pragma once

namespace autosched::ptx {

// Returns true if the predicate is true in all lanes of the warp. All lanes must call it. ptxas knows that the result
// is warp-uniform, so counters of a loop that branches on it are in uniform registers.
__device__ __forceinline__ bool vote_all(bool predicate) {
  unsigned all;
  asm volatile(
      "{\n\t"
      ".reg .pred p, q;\n\t"
      "setp.ne.u32 p, %1, 0;\n\t"
      "vote.sync.all.pred q, p, 0xffffffff;\n\t"
      "selp.u32 %0, 1, 0, q;\n\t"
      "}"
      : "=r"(all)
      : "r"(unsigned(predicate))
      : "memory");
  return all != 0;
}

// Returns a bit mask of the predicates of all lanes of the warp. All lanes must call it.
__device__ __forceinline__ unsigned vote_ballot(bool predicate) {
  unsigned lanes;
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "setp.ne.u32 p, %1, 0;\n\t"
      "vote.sync.ballot.b32 %0, p, 0xffffffff;\n\t"
      "}"
      : "=r"(lanes)
      : "r"(unsigned(predicate)));
  return lanes;
}

}  // namespace autosched::ptx

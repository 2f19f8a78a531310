// Cluster launch control: PTX ISA 9.7.13.17. A running cluster takes over the grid index of one that has not started.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

// Requests the index of a cluster that has not started. The response has 16 bytes. It is written to shared memory at
// `answer`, and the mbarrier at `barrier` counts its bytes. In a pair, both blocks get the response. Must not be called
// again after a negative response.
template <int Blocks>
__device__ __forceinline__ void try_cancel(unsigned answer, unsigned barrier) {
  if constexpr (Blocks == 2) {
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], "
        "[%1];" ::"r"(answer),
        "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(answer),
        "r"(barrier)
        : "memory");
  }
}

// Returns the x of the first block of the cluster in a response, or -1 if no cluster remained.
__device__ __forceinline__ int canceled_block(unsigned answer) {
  int x;
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b128 a;\n\t.reg .b32 y, z, w;\n\t"
      "ld.shared.b128 a, [%1];\n\t"
      "mov.b32 %0, -1;\n\t"
      "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a;\n\t"
      "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, y, z, w}, a;\n\t}"
      : "=r"(x)
      : "r"(answer)
      : "memory");
  return x;
}

}  // namespace autosched::ptx

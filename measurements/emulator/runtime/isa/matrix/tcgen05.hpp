// What the files of tcgen05 share.
#pragma once
#include "isa/warps.hpp"
#include "isa/matrix/matrix_descriptor.hpp"
#include "isa/async/mbarrier.hpp"
#include "memory/tensor_memory.hpp"

namespace autosched::emulator::ptx {

void start_block_tcgen05(Machine& machine);
void end_block_tcgen05(Machine& machine);
void report_waiting_for_tensor_memory(Machine& machine);
// What an instruction does to registers that a load of tensor memory fills, and what is wrong with that.
void track_tensor_loads(Warp& w, const Instruction& i);

// A descriptor of a matrix in shared memory; findings at self->site where it is none that the emulator knows.
Descriptor read_descriptor(Machine& machine, std::uint64_t bits, const char* name);
// 16 bytes of the shared memory of a block of the cluster, as an operation of self reads them; all ones where that cannot be.
void read_operand(Machine& machine, std::uint32_t address, unsigned rank, const TensorActor& actor, const TensorUse& use,
                  const char* name, void* to);

}  // namespace autosched::emulator::ptx

// Declarations shared by the files of tcgen05.
#pragma once
#include "isa/warps.hpp"
#include "isa/matrix/matrix_descriptor.hpp"
#include "isa/async/mbarrier.hpp"
#include "memory/tensor_memory.hpp"

namespace autosched::emulator::ptx {

void start_block_tcgen05(Machine& machine);
void end_block_tcgen05(Machine& machine);
void report_waiting_for_tensor_memory(Machine& machine);
// Checks an instruction's use of registers that a load of tensor memory fills.
void track_tensor_loads(Warp& w, const Instruction& i);

// Decodes the descriptor of a matrix in shared memory; a finding at self->site if it is unsupported.
Descriptor read_descriptor(Machine& machine, std::uint64_t bits, const char* name);
// Reads 16 bytes of a cluster block's shared memory for an operation of self; all ones if they cannot be read.
void read_operand(Machine& machine, std::uint32_t address, unsigned rank, const TensorActor& actor, const TensorUse& use,
                  const char* name, void* to);

}  // namespace autosched::emulator::ptx

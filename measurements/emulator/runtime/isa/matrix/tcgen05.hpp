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
// Reports an instruction that uses a register before the warp has waited for the tcgen05.ld that writes it.
void track_tensor_loads(Warp& w, const Instruction& i);

// Decodes a matrix descriptor. Reports a finding at self->site if it is invalid or not supported.
Descriptor read_descriptor(Machine& machine, std::uint64_t bits, const char* name);
// Reads 16 bytes of the shared memory of the block `rank`, on behalf of the thread `self`. If they cannot be read, the
// result is all ones.
void read_operand(Machine& machine, std::uint32_t address, unsigned rank, const TensorActor& actor, const TensorUse& use,
                  const char* name, void* to);

}  // namespace autosched::emulator::ptx

// Memory of launches that the running one may overlap (programmatic dependent launch, PTX ISA 9.7.13.13 griddepcontrol).
#pragma once
#include <cstddef>

namespace autosched::emulator {

struct Machine;

// Before the launch: bytes that earlier launches in its stream write, or may write; with `only_read` bytes that they
// read.
void add_unfinished(Machine& machine, const void* begin, std::size_t bytes, bool only_read);
void start_block_dependence(Machine& machine);
// The running thread waits for those launches: their writes are visible to threads that are ordered after that.
void wait_for_launches(Machine& machine);
// The running thread lets later launches begin.
void launch_dependents(Machine& machine);
// True if a block has waited before it let later launches begin: all earlier launches have then ended before these.
bool waited_for_launches(Machine& machine);

}  // namespace autosched::emulator

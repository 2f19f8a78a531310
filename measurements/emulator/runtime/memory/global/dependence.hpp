// Memory of launches that the running one may overlap (programmatic dependent launch, PTX ISA 9.7.13.13 griddepcontrol).
#pragma once
#include <cstddef>

namespace autosched::emulator {

struct Machine;

// Called before the launch with bytes that earlier launches in its stream may write, or (`only_read`) may read.
void add_unfinished(Machine& machine, const void* begin, std::size_t bytes, bool only_read);
void start_block_dependence(Machine& machine);
// The running thread waits for those launches. Their writes are visible to threads that are ordered after the wait.
void wait_for_launches(Machine& machine);
// The running thread allows later launches to start.
void launch_dependents(Machine& machine);
// True if a block has waited before it let later launches begin: all earlier launches have then ended before these.
bool waited_for_launches(Machine& machine);

}  // namespace autosched::emulator

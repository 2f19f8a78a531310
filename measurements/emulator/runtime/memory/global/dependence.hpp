// Programmatic dependent launch (PTX ISA 9.7.13.13 griddepcontrol): the running launch may overlap earlier launches.
#pragma once
#include <cstddef>

namespace autosched::emulator {

struct Machine;

// Declares bytes that earlier launches in the stream may still write or, with `only_read`, may still read. Called
// before the launch.
void add_unfinished(Machine& machine, const void* begin, std::size_t bytes, bool only_read);
void start_block_dependence(Machine& machine);
// The running thread waits for these launches. Their writes are then visible to threads that are ordered after the
// wait.
void wait_for_launches(Machine& machine);
// The running thread allows later launches to start.
void launch_dependents(Machine& machine);
// True if a block has waited before it allowed later launches to start. All earlier launches have then ended before the
// later launches start.
bool waited_for_launches(Machine& machine);

}  // namespace autosched::emulator

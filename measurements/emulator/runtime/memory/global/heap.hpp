// malloc and free of device code.
#pragma once
#include <cstddef>
#include <cstdint>

#include "machine/machine.hpp"
#include "memory/global/buffers.hpp"

namespace autosched::emulator {

// malloc and free at self->site (global/heap.cpp); address 0 for a failure. A heap that outlives this process is in a
// region of the program's memory, including its bookkeeping. ``most``: largest number of allocated bytes. ``resets``:
// how often the host has emptied it. ``copied``: the region is a copy.
void open_heap(Machine& machine, void* region, std::size_t bytes, std::size_t most, std::uint64_t resets, bool copied);
bool heap_is_used(Machine& machine);  // by earlier launches
std::size_t heap_used_bytes(Machine& machine);  // of the buffer
BufferSpec heap_spec(Machine& machine);
void keep_heap(Machine& machine);  // saves the flags of defined bytes for the next launch
std::uint64_t heap_malloc(Machine& machine, std::uint64_t bytes);
void heap_free(Machine& machine, std::uint64_t address);

}  // namespace autosched::emulator

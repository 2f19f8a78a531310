// malloc and free of device code.
#pragma once
#include <cstddef>
#include <cstdint>

#include "machine/machine.hpp"
#include "memory/global/buffers.hpp"

namespace autosched::emulator {

// malloc and free of device code (global/heap.cpp). heap_malloc returns 0 if it fails. open_heap opens a heap in a
// region of a program's memory, which outlives this process. ``most``: maximum number of allocated bytes. ``resets``:
// how often the host has reset the device. ``copied``: the region is a private copy.
void open_heap(Machine& machine, void* region, std::size_t bytes, std::size_t most, std::uint64_t resets, bool copied);
bool heap_is_used(Machine& machine);  // whether earlier launches have allocated memory
std::size_t heap_used_bytes(Machine& machine);  // number of bytes of the heap's buffer that are in use
BufferSpec heap_spec(Machine& machine);
void keep_heap(Machine& machine);  // saves, for the next launch, which bytes are defined
std::uint64_t heap_malloc(Machine& machine, std::uint64_t bytes);
void heap_free(Machine& machine, std::uint64_t address);

}  // namespace autosched::emulator

// Global memory, as threads and bulk copies read and write it.
#pragma once
#include <cstdint>

namespace autosched::emulator {

struct Machine;

// Accesses of one thread, at self->site, that are not counted. ``relaxed``: it does not race with atomics.
// ``narrow``: of the scope of its block. ``known``: of a lazy read, which makes no finding where a byte holds no value, but
// says here which do, and returns whether all do.
bool read_global(Machine& machine, void* to, const void* address, int bytes, const char* instruction, bool read_only, bool relaxed,
                 bool narrow = false, unsigned char* known = nullptr);
// Whether lanes read so many bytes each of one array that the kernel only reads, and at aligned addresses: nothing there is
// judged or remembered, and the bytes are those at the addresses.
bool read_input(Machine& machine, const std::uint64_t* addresses, std::uint32_t lanes, int bytes);
void write_global(Machine& machine, void* address, const void* from, int bytes, const char* instruction, bool relaxed,
                  bool narrow = false);
unsigned char* update_global(Machine& machine, void* address, int bytes, const char* instruction, bool narrow = false);

// Checks a read of global memory for cp.async; false where it is out of bounds.
bool check_global_read(Machine& machine, const void* address, int bytes);
// What a bulk copy reads or writes, of any length and alignment. Out of bounds reads as 0xFF.
void read_global_bulk(Machine& machine, void* to, const void* address, int bytes, const char* instruction);
void write_global_bulk(Machine& machine, void* address, const void* from, int bytes, const char* instruction);

}  // namespace autosched::emulator

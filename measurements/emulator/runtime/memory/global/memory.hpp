// Reads and writes of global memory by threads and bulk copies.
#pragma once
#include <cstdint>

namespace autosched::emulator {

struct Machine;

// Accesses of one thread at self->site. Their transactions are not counted. ``relaxed``: the access does not race with
// atomics. ``narrow``: the access has block scope. ``known``: if it is not nullptr, the read is lazy, so undefined
// bytes cause no finding. If a lazy read includes undefined bytes, read_global stores in ``known`` which bytes are
// defined, and returns false. Otherwise it returns true.
bool read_global(Machine& machine, void* to, const void* address, int bytes, const char* instruction, bool read_only, bool relaxed,
                 bool narrow = false, unsigned char* known = nullptr);
// True if all lanes read aligned values from one array that the kernel never writes. The caller can then read memory
// directly, because nothing needs to be checked or recorded.
bool read_input(Machine& machine, const std::uint64_t* addresses, std::uint32_t lanes, int bytes);
void write_global(Machine& machine, void* address, const void* from, int bytes, const char* instruction, bool relaxed,
                  bool narrow = false);
unsigned char* update_global(Machine& machine, void* address, int bytes, const char* instruction, bool narrow = false);

// Checks a read of global memory by cp.async. Returns false if it is out of bounds.
bool check_global_read(Machine& machine, const void* address, int bytes);
// Read and write memory for a bulk copy. Lengths and alignments may be arbitrary. Out-of-bounds bytes are read as 0xFF.
void read_global_bulk(Machine& machine, void* to, const void* address, int bytes, const char* instruction);
void write_global_bulk(Machine& machine, void* address, const void* from, int bytes, const char* instruction);

}  // namespace autosched::emulator

// Shared memory: its window, and accesses of threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "machine/machine.hpp"

namespace autosched::emulator {

constexpr unsigned reserved_shared_bytes = 1024;  // of the window, before the kernel's variables

// In a cluster an address contains the rank of its block in bits 24 and up, as in hardware. Kernels use these bits (bit
// 24 distinguishes the blocks of a pair), and must mask them in a matrix descriptor. The highest bit is then set as
// well: an address without it belongs to the running thread's block.
constexpr unsigned rank_shift = 24;
constexpr std::uint32_t names_block = 0x80000000u;
constexpr std::uint32_t address_in_block(std::uint32_t address, unsigned rank) {
  return (address & ((1u << rank_shift) - 1)) | names_block | rank << rank_shift;
}
std::uint32_t cluster_address(Machine& machine, std::uint32_t address);  // converts any address to the form with a rank
inline unsigned rank_of_address(std::uint32_t in_cluster) { return in_cluster >> rank_shift & 0x7fu; }

void name_shared(Machine& machine, std::string name, unsigned begin, unsigned bytes);  // a static array
void reserve_shared(Machine& machine, std::size_t static_bytes);
void allot_shared(Machine& machine);  // for blocks that are not resident yet
std::size_t shared_books_bytes(Machine& machine);  // upper limit of its size, including bookkeeping
void start_block_shared(Machine& machine);
void end_block_shared(Machine& machine);
unsigned dynamic_shared_address(Machine& machine);
// Accesses of one thread, at self->site, that are not counted. Out-of-bounds bytes are read as 0xFF. ``lazily``:
// returns false for bytes that are undefined, which is not a fault until they are used.
bool read_shared(Machine& machine, void* to, unsigned address, int bytes, const char* instruction, bool lazily = false);
void write_shared(Machine& machine, unsigned address, const void* from, int bytes, const char* instruction);
// Get the known bits of a thread's last lazy read, and the source of the other bits; set the known bits of its last
// write.
SiteIndex known_shared(Machine& machine, unsigned address, int bytes, unsigned char* bits);
void note_unknown_shared(Machine& machine, unsigned address, int bytes, const unsigned char* bits, SiteIndex origin);
// Checks an atomic update and returns its bytes, or nullptr if they are out of bounds.
unsigned char* update_shared(Machine& machine, unsigned address, int bytes, const char* instruction);
bool shared_window_holds(Machine& machine, unsigned address, int bytes);
// Marks a site whose accesses do not race with each other: atomics, volatile and relaxed loads and stores.
void mark_strong(Machine& machine, SiteIndex site);
void mark_volatile(Machine& machine, SiteIndex site);
std::string describe_shared(Machine& machine, unsigned address);

// cp.async of one thread.
void start_copy(Machine& machine, unsigned shared, const void* global, int bytes, int source_bytes);
void commit_copies(Machine& machine);
void wait_copies(Machine& machine, int in_flight);
enum class Access { read, write };
// Checks a warp-wide access and returns its bytes, or nullptr if they are out of bounds. ``value``: the written value.
// ``whole``: the read is lazy, and whether all of it was known.
unsigned char* collective_shared_access(Machine& machine, Access access, unsigned address, int bytes, int alignment,
                                        const char* instruction, const void* value = nullptr, bool* whole = nullptr);

}  // namespace autosched::emulator

// Shared memory: its window, and accesses of threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "machine/machine.hpp"

namespace autosched::emulator {

constexpr unsigned reserved_shared_bytes = 1024;  // reserved at the start of the window

// In a cluster, an address has the rank of its block in bits 24 and higher, as in hardware. Kernels rely on these bits
// (bit 24 distinguishes the blocks of a pair), and must mask them in a matrix descriptor. An address with a rank also
// has the highest bit set. An address without this bit belongs to the running thread's block.
constexpr unsigned rank_shift = 24;
constexpr std::uint32_t names_block = 0x80000000u;
constexpr std::uint32_t address_in_block(std::uint32_t address, unsigned rank) {
  return (address & ((1u << rank_shift) - 1)) | names_block | rank << rank_shift;
}
// adds the running block's rank to an address without a rank
std::uint32_t cluster_address(Machine& machine, std::uint32_t address);
inline unsigned rank_of_address(std::uint32_t in_cluster) { return in_cluster >> rank_shift & 0x7fu; }

void name_shared(Machine& machine, std::string name, unsigned begin, unsigned bytes);  // gives a static array its name
void reserve_shared(Machine& machine, std::size_t static_bytes);
void allot_shared(Machine& machine);  // allocates memory for blocks that become resident
std::size_t shared_books_bytes(Machine& machine);  // upper limit of the size of shared memory and its bookkeeping
void start_block_shared(Machine& machine);
void end_block_shared(Machine& machine);
unsigned dynamic_shared_address(Machine& machine);
// Accesses of one thread at self->site. Their transactions are not counted. Out-of-bounds bytes are read as 0xFF.
// ``lazily``: undefined bytes are not a fault until they are used; returns false if there are any.
bool read_shared(Machine& machine, void* to, unsigned address, int bytes, const char* instruction, bool lazily = false);
void write_shared(Machine& machine, unsigned address, const void* from, int bytes, const char* instruction);
// known_shared stores in `bits` which bits of a thread's last lazy read are known, and returns the source of the
// unknown bits. note_unknown_shared records which bits of a thread's last write are known.
SiteIndex known_shared(Machine& machine, unsigned address, int bytes, unsigned char* bits);
void note_unknown_shared(Machine& machine, unsigned address, int bytes, const unsigned char* bits, SiteIndex origin);
// Checks an atomic update and returns its bytes, or nullptr if they are out of bounds.
unsigned char* update_shared(Machine& machine, unsigned address, int bytes, const char* instruction);
bool shared_window_holds(Machine& machine, unsigned address, int bytes);
// Mark the accesses at a site as strong or as volatile. Atomics and volatile or relaxed loads and stores are strong:
// they do not race with each other.
void mark_strong(Machine& machine, SiteIndex site);
void mark_volatile(Machine& machine, SiteIndex site);
std::string describe_shared(Machine& machine, unsigned address);

// cp.async copies of one thread.
void start_copy(Machine& machine, unsigned shared, const void* global, int bytes, int source_bytes);
void commit_copies(Machine& machine);
void wait_copies(Machine& machine, int in_flight);
enum class Access { read, write };
// Checks a warp-wide access and returns its bytes, or nullptr if they are out of bounds. ``value``: the written value.
// ``whole``: if it is not nullptr, a read is lazy, and ``*whole`` receives whether all bytes were known.
unsigned char* collective_shared_access(Machine& machine, Access access, unsigned address, int bytes, int alignment,
                                        const char* instruction, const void* value = nullptr, bool* whole = nullptr);

}  // namespace autosched::emulator

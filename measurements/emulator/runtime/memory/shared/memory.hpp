// Shared memory: its window, and what threads do there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "machine/machine.hpp"

namespace autosched::emulator {

constexpr unsigned reserved_shared_bytes = 1024;  // of the window, in front of the kernel's variables

// In a cluster an address says whose it is, as on hardware: the rank of the block in bits
// 24 and up, which kernels use (bit 24 tells the blocks of a pair apart) and which the descriptor of a matrix must leave out.
// The highest bit is set with it: an address without is of the running thread's block.
constexpr unsigned rank_shift = 24;
constexpr std::uint32_t names_block = 0x80000000u;
constexpr std::uint32_t address_in_block(std::uint32_t address, unsigned rank) {
  return (address & ((1u << rank_shift) - 1)) | names_block | rank << rank_shift;
}
std::uint32_t cluster_address(std::uint32_t address);  // the latter, of either
inline unsigned rank_of_address(std::uint32_t in_cluster) { return in_cluster >> rank_shift & 0x7fu; }

void name_shared(std::string name, unsigned begin, unsigned bytes);  // a static array
void reserve_shared(std::size_t static_bytes);
void allot_shared();  // to blocks that are not resident yet
std::size_t shared_books_bytes();  // what they take at most, with the books about it
void start_block_shared();
void end_block_shared();
unsigned dynamic_shared_address();
// Accesses of one thread, at self->site, that are not counted. What is out of bounds reads as 0xFF.
// ``lazily``: false where bytes were never written, or hold what was not, which is no fault before they are used.
bool read_shared(void* to, unsigned address, int bytes, const char* instruction, bool lazily = false);
void write_shared(unsigned address, const void* from, int bytes, const char* instruction);
// Which bits of shared memory are known, as a thread finds that did not read all of them lazily, and where the others
// come from; and that of what it has just written only these are.
SiteIndex known_shared(unsigned address, int bytes, unsigned char* bits);
void note_unknown_shared(unsigned address, int bytes, const unsigned char* bits, SiteIndex origin);
// Checks an atomic update and returns its bytes, or nullptr where they are out of bounds.
unsigned char* update_shared(unsigned address, int bytes, const char* instruction);
bool shared_window_holds(unsigned address, int bytes);
// Accesses of such sites do not race with each other: atomics, volatile and relaxed loads and stores.
void mark_strong(SiteIndex site);
void mark_volatile(SiteIndex site);
std::string describe_shared(unsigned address);

// cp.async of one thread.
void start_copy(unsigned shared, const void* global, int bytes, int source_bytes);
void commit_copies();
void wait_copies(int in_flight);
enum class Access { read, write };
// Checks a warp-wide access and returns its bytes, or nullptr where they are out of bounds. ``value``: what is written.
// ``whole``: the read is a lazy one, and whether it found all known.
unsigned char* collective_shared_access(Access access, unsigned address, int bytes, int alignment,
                                        const char* instruction, const void* value = nullptr, bool* whole = nullptr);

}  // namespace autosched::emulator

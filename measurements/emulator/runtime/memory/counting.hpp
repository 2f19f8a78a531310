// Memory transactions per source site. A request is one instruction of the lanes that execute it together.
#pragma once
#include <cstdint>

#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// A request of some lanes of a warp, of `bytes` at addresses[lane].
void count_shared_request(Machine& machine, SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses);
void count_global_request(Machine& machine, SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses);
// One warp-wide request in phases of 8 rows of 16 bytes (ldmatrix, wmma): `phases` times 8 row addresses.
void count_shared_rows(Machine& machine, SiteIndex site, const char* instruction, int bytes, const unsigned* rows, unsigned phases);

// With launch.count, the farthest memory that the lanes of a warp's last load reached. Loads of constant memory cost a
// request per distinct address.
enum class Reached { shared, constant, l1, memory };
Reached take_reached(Machine& machine);
void count_constant_request(Machine& machine, SiteIndex site, int bytes, std::uint32_t lanes, const std::uint64_t* addresses);
void begin_block_counts(Machine& machine);  // all sectors are new to each block

void report_counts(Machine& machine);

}  // namespace autosched::emulator

// Counts memory transactions per source site. A request is an instruction that some lanes of a warp execute together.
#pragma once
#include <cstdint>

#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// Count a request in which each of `lanes` accesses `bytes` bytes at addresses[lane].
void count_shared_request(Machine& machine, SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses);
void count_global_request(Machine& machine, SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses);
// Counts a warp-wide request (ldmatrix, wmma) that takes `phases` phases, each of which accesses 8 rows of 16 bytes.
// `rows`: the addresses of all rows.
void count_shared_rows(Machine& machine, SiteIndex site, const char* instruction, int bytes, const unsigned* rows, unsigned phases);

// The farthest level of memory that any lane of the last load reached. This level determines the load's latency. Used
// with launch.count.
enum class Reached { shared, constant, l1, memory };
Reached take_reached(Machine& machine);
void count_constant_request(Machine& machine, SiteIndex site, int bytes, std::uint32_t lanes, const std::uint64_t* addresses);
void begin_block_counts(Machine& machine);  // a new block starts: no sector has been requested by it

void report_counts(Machine& machine);

}  // namespace autosched::emulator

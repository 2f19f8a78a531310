// Memory transactions per source site.
//
// Lanes of a warp are grouped into requests by their k-th visit of a site, counted anew from each point where the
// whole warp meets (collective or barrier).
#pragma once
#include <cstdint>

#include "report.hpp"

namespace autosched::emulator {

void count_shared(SiteIndex site, const char* instruction, int bytes, unsigned address);
void count_global(SiteIndex site, const char* instruction, int bytes, const void* address);
// A request of a whole warp, of `bytes` at addresses[lane].
void count_shared_warp(SiteIndex site, const char* instruction, int bytes, const unsigned* addresses);
// A request of some lanes of a warp, of `bytes` at addresses[lane].
void count_shared_request(SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses);
void count_global_request(SiteIndex site, const char* instruction, int bytes, std::uint32_t lanes,
                          const std::uint64_t* addresses);
// One warp-wide request of 8-row phases of 16 bytes a row (ldmatrix, wmma): `phases` times 8 row addresses.
void count_shared_rows(SiteIndex site, const char* instruction, int bytes, const unsigned* rows, unsigned phases);

// The lanes of a warp meet: incomplete requests end.
void realign_warp(unsigned warp);
void report_counts();

}  // namespace autosched::emulator

// Barriers of the threads of a block (isa/sync/collective.cpp).
#pragma once
#include <utility>
#include <vector>

#include "machine.hpp"

namespace autosched::emulator {

// All living threads of a warp have reached a barrier. False where its arguments are invalid; `completed` lists the warps
// that go on.
bool arrive_at_barrier(unsigned w, int id, int count, bool waits, std::vector<unsigned>& completed);
// All threads of a warp have exited: barriers of the whole block wait for those that have not (Volta and later). The
// numbers of those that go on, each with the warps that do.
std::vector<std::pair<int, std::vector<unsigned>>> leave_barriers(unsigned w);
// Whether a thread that has exited has gone around a barrier, and done something behind it.
bool skipped_barrier(const Thread& thread, SiteIndex barrier);

}  // namespace autosched::emulator

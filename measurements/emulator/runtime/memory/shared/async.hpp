// Accesses to shared memory by other blocks of the cluster, and by the async proxy.
#pragma once
#include <cstdint>
#include <functional>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Records an access of `agent` in `epoch` to shared memory of block `rank`, which must not exit before this access.
void touch_block(Machine& machine, unsigned rank, Agent agent, Epoch epoch);
void check_exits(Machine& machine);

// Accesses of the async proxy (bulk copies and wgmma) on behalf of the running thread.
bool check_shared(Machine& machine, unsigned address, int bytes, int alignment, const char* instruction);
// Marks bytes as in flight: they may change at any time until the copy completes. `async_proxy`: name of the
// instruction if it writes through the async proxy; nullptr for st.async.
void start_bulk_write(Machine& machine, unsigned address, int bytes, const char* async_proxy);
void land_bulk_write(Machine& machine, unsigned address, const unsigned char* data, int bytes, unsigned actor, Epoch epoch,
                     SiteIndex site);
// Like start_bulk_write and land_bulk_write, for a reduction. Other reductions may be in flight to the same bytes.
// `update` changes the bytes.
void start_bulk_update(Machine& machine, unsigned address, int bytes, const char* async_proxy);
void land_bulk_update(Machine& machine, unsigned address, int bytes, unsigned actor, Epoch epoch, SiteIndex site,
                      const std::function<void(unsigned char*)>& update);
// Records a read that completes at an actor's epoch, and returns the bytes. Returns nullptr if it is out of bounds.
const unsigned char* read_by_engine(Machine& machine, unsigned address, int bytes, Agent me, unsigned actor,
                                    Epoch epoch, const char* instruction);
void place_mbarrier(Machine& machine, unsigned address, bool present);
// Reports a finding unless the initialisation of an mbarrier happened before the current action. Returns true if the
// initialisation is visible; for the async proxy (`to_engine`), this requires a proxy fence.
bool check_mbarrier_visible(Machine& machine, unsigned address, const char* instruction, bool to_engine);

}  // namespace autosched::emulator

// Accesses to shared memory by other blocks of the cluster and the async proxy.
#pragma once
#include <cstdint>
#include <functional>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Records an action on another block, by `who` in `epoch`, before which the block must not have exited.
void touch_block(Machine& machine, unsigned rank, Who who, Epoch epoch);
void check_exits(Machine& machine);

// Accesses of the async proxy on behalf of the running thread: bulk copies and wgmma.
bool check_shared(Machine& machine, unsigned address, int bytes, int alignment, const char* instruction);
// Marks bytes that may change at any time until the copy completes. `async_proxy`: the instruction that writes
// through it; nullptr for st.async.
void start_bulk_write(Machine& machine, unsigned address, int bytes, const char* async_proxy);
void land_bulk_write(Machine& machine, unsigned address, const unsigned char* data, int bytes, unsigned actor, Epoch epoch,
                     SiteIndex site);
// The same for a reduction; other reductions may be in flight. `update` changes the bytes.
void start_bulk_update(Machine& machine, unsigned address, int bytes, const char* async_proxy);
void land_bulk_update(Machine& machine, unsigned address, int bytes, unsigned actor, Epoch epoch, SiteIndex site,
                      const std::function<void(unsigned char*)>& update);
// A read that completes at an actor's epoch; nullptr if it is out of bounds.
const unsigned char* read_by_engine(Machine& machine, unsigned address, int bytes, Who me, unsigned actor, Epoch epoch,
                                    const char* instruction);
void place_mbarrier(Machine& machine, unsigned address, bool there);
// Reports a finding unless the initialisation of an mbarrier happened before. Returns true if a proxy fence makes it
// visible to the async proxy.
bool check_mbarrier_visible(Machine& machine, unsigned address, const char* instruction, bool to_engine);

}  // namespace autosched::emulator

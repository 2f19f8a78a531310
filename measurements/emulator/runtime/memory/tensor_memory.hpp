// Tensor memory (PTX ISA 9.7.16.1): 128 lanes by 512 columns of 32 bits per block, accessed only by tcgen05
// instructions. They are asynchronous: the shadow records reads and writes, and unordered ones are reported.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator {

constexpr unsigned tensor_lanes = 128, tensor_columns = 512, quarter_lanes = 32, tensor_quarters = 4;

// An asynchronous executor, in the order of issue: the products and copies of a thread, or the loads, or the stores, of
// a warp. Operation n is done when the actor's epoch of that number is.
struct TensorActor {
  unsigned actor = 0;
  Who issuer = 0;             // a thread, or a warp
  bool commits = false;       // tcgen05.commit signals the end to others, and includes a fence before it
  std::uint32_t issued = 0;   // operations
  Epoch fenced = 0;           // operations up to this one are followed by a tcgen05.fence::before_thread_sync
};
enum class TensorWork { products, loads, stores };
TensorActor& tensor_actor(Machine& machine, Who issuer, TensorWork work);

struct TensorUse {
  Epoch epoch = 0;
  Who who = 0;                // the actor
  SiteIndex site = 0;
  std::uint32_t shape = 0;    // of a product: consecutive products of one shape need no wait in between
};
// Begins an actor's next operation, by self at self->site.
TensorUse issue_tensor_work(Machine& machine, TensorActor& actor, std::uint32_t shape = 0);
// Last epoch of an actor's operations.
inline Epoch last_tensor_epoch(Machine& machine, const TensorActor& a) { return machine.clocks.first + a.issued - 1; }

struct TensorAllocation {
  unsigned column, columns;
  SiteIndex site;
};

struct TensorMemory {
  struct Cell {  // a column of 32 lanes
    std::uint32_t defined = 0;     // lanes
    TensorUse write;
    std::vector<TensorUse> reads;  // since the write, the newest of each actor
  };
  std::vector<std::uint32_t> words;  // [column][lane]
  std::vector<Cell> cells;           // [column][quarter]
  std::vector<TensorAllocation> allocations;
  unsigned least = tensor_columns;   // columns of the smallest allocation so far; later ones must not be larger
  unsigned most = 0;                 // most columns allocated at a time
  SiteIndex allocated_at = 0;        // the last tcgen05.alloc
  bool relinquished = false;

  std::uint32_t& word(unsigned column, unsigned lane) { return words[column * tensor_lanes + lane]; }
  Cell& cell(unsigned column, unsigned quarter) { return cells[column * tensor_quarters + quarter]; }
};
TensorMemory& tensor_memory(Machine& machine, unsigned rank);  // of a block of the cluster
void start_block_tensor_memory(Machine& machine);
void end_block_tensor_memory(Machine& machine);  // a finding if columns or the permit were not released

// Returns true if all columns exist and are allocated; otherwise reports a finding at self->site.
bool check_tensor_columns(Machine& machine, unsigned rank, unsigned column, unsigned columns, const char* name);
// Checks a read or write `use` on behalf of `me`: a finding at self->site if nothing orders it with operations of
// others. Returns the lanes of a read that were never written.
std::uint32_t read_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                               const TensorUse& use, Who me, const char* name);
void write_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                       const TensorUse& use, Who me, const char* name);
void report_undefined_tensor_memory(Machine& machine, unsigned column, Who me, const char* name);
// Reports a finding if an operation on these columns need not have finished before the action of `me`.
void check_tensor_columns_idle(Machine& machine, unsigned rank, unsigned column, unsigned columns, Who me, const char* name);

// tcgen05.fence of some lanes of a warp.
void fence_before_thread_sync(Machine& machine, unsigned warp);
void fence_after_thread_sync(Machine& machine, unsigned warp, std::uint32_t lanes, bool whole);

}  // namespace autosched::emulator

// Tensor memory (PTX ISA 9.7.16.1): 128 lanes by 512 columns of 32 bits per block. Only tcgen05 instructions access it.
// Because they are asynchronous, all reads and writes are recorded, and unordered ones are reported.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator {

constexpr unsigned tensor_lanes = 128, tensor_columns = 512, quarter_lanes = 32, tensor_quarters = 4;

// An actor that executes asynchronous operations in the order of issue: the products and copies of a thread, the loads
// of a warp, or the stores of a warp. Operation n has completed when the actor has completed epoch n.
struct TensorActor {
  unsigned actor = 0;
  Agent issuer = 0;           // a thread, or a warp
  bool commits = false;       // tcgen05.commit signals completion to other threads, and implies a preceding fence
  std::uint32_t issued = 0;   // number of operations issued
  Epoch fenced = 0;           // operations up to this epoch are followed by a tcgen05.fence::before_thread_sync
};
enum class TensorWork { products, loads, stores };
TensorActor& tensor_actor(Machine& machine, Agent issuer, TensorWork work);

struct TensorUse {
  Epoch epoch = 0;
  Agent agent = 0;  // the actor, without lanes
  SiteIndex site = 0;
  // shape of a product (0: not a product); consecutive products of the same shape need no wait in between
  std::uint32_t shape = 0;
};
// Issues an actor's next operation, on behalf of the thread self at self->site.
TensorUse issue_tensor_work(Machine& machine, TensorActor& actor, std::uint32_t shape = 0);
// The epoch of an actor's last operation.
inline Epoch last_tensor_epoch(Machine& machine, const TensorActor& a) { return machine.clocks.first + a.issued - 1; }

struct TensorAllocation {
  unsigned column, columns;
  SiteIndex site;
};

struct TensorMemory {
  struct Cell {  // 32 lanes of a column
    std::uint32_t defined = 0;     // bit mask of the lanes that have been written
    TensorUse write;
    std::vector<TensorUse> reads;  // reads since the last write: the last one of each actor
  };
  std::vector<std::uint32_t> words;  // [column][lane]
  std::vector<Cell> cells;           // [column][quarter]
  std::vector<TensorAllocation> allocations;
  unsigned least = tensor_columns;   // columns of the smallest allocation so far; later allocations must not be larger
  unsigned most = 0;                 // maximum number of columns allocated at the same time
  SiteIndex allocated_at = 0;        // site of the last tcgen05.alloc
  bool relinquished = false;

  std::uint32_t& word(unsigned column, unsigned lane) { return words[column * tensor_lanes + lane]; }
  Cell& cell(unsigned column, unsigned quarter) { return cells[column * tensor_quarters + quarter]; }
};
TensorMemory& tensor_memory(Machine& machine, unsigned rank);  // tensor memory of the block with this rank
void start_block_tensor_memory(Machine& machine);
// Reports allocated columns and allocation permits that were not released.
void end_block_tensor_memory(Machine& machine);

// Returns true if all columns exist and are allocated; otherwise reports a finding at self->site.
bool check_tensor_columns(Machine& machine, unsigned rank, unsigned column, unsigned columns, const char* name);
// Checks and records the read or write `use` of a cell on behalf of `me`. Reports a finding at self->site if nothing
// orders `use` and another operation on the cell. read_tensor_cell returns the lanes that were never written.
std::uint32_t read_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                               const TensorUse& use, Agent me, const char* name);
void write_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                       const TensorUse& use, Agent me, const char* name);
void report_undefined_tensor_memory(Machine& machine, unsigned column, Agent me, const char* name);
// Reports operations on these columns that may still be in flight when `me` frees the columns.
void check_tensor_columns_idle(Machine& machine, unsigned rank, unsigned column, unsigned columns, Agent me, const char* name);

// Execute a tcgen05.fence of some lanes of a warp.
void fence_before_thread_sync(Machine& machine, unsigned warp);
void fence_after_thread_sync(Machine& machine, unsigned warp, std::uint32_t lanes, bool whole);

}  // namespace autosched::emulator

// Copies that the async proxy does for an mbarrier: on their way, and how they come in. cp.async.bulk without tensors,
// and the groups of bulk copies that read shared memory: PTX ISA 9.7.9.25 to 9.7.9.27.
#include <algorithm>
#include <deque>

#include "mbarrier.hpp"

namespace autosched::emulator::ptx {
namespace {

std::vector<BulkLoad> under_way;

void land(std::size_t index) {
  const BulkLoad load = std::move(under_way[index]);
  under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(index));
  Thread* const asking = self;
  const SiteIndex site = self->site;
  self = load.thread;
  const SiteIndex issuer_site = self->site;
  self->site = load.site;
  Mbarrier* m = mbarrier_at(load.mbarrier, "the end of a bulk copy", true);
  if (m != nullptr) {
    std::size_t at = 0;
    for (const BulkLoad::Piece& piece : load.pieces) {
      land_bulk_write(piece.address, load.data.data() + at, static_cast<int>(piece.bytes), m->actor, m->epoch(), load.site);
      at += piece.bytes;
    }
    complete_bytes(*m, load.bytes, load.site);
  }
  self->site = issuer_site;
  self = asking;
  self->site = site;
}

}  // namespace

const Rows bulk_rows{nullptr, nullptr};

void start_bulk_load(BulkLoad load) {
  for (const BulkLoad::Piece& piece : load.pieces) start_bulk_write(piece.address, static_cast<int>(piece.bytes));
  under_way.push_back(std::move(load));
  idle_polls = 0;
}

// Without a seed, all that the mbarrier counts comes in, first come first served, but never before somebody has asked in
// vain; with one, anything may.
void land_some(std::uint32_t address) {
  if (!seeded()) {
    for (std::size_t k = 0; k < under_way.size();) {
      if (under_way[k].mbarrier == address) {
        land(k);
      } else {
        ++k;
      }
    }
    return;
  }
  if (!under_way.empty() && random_below(2) != 0) {
    std::vector<std::size_t> wanted;
    for (std::size_t k = 0; k < under_way.size(); ++k) {
      if (under_way[k].mbarrier == address) wanted.push_back(k);
    }
    if (!wanted.empty()) land(wanted[random_below(static_cast<unsigned>(wanted.size()))]);
  }
  if (!under_way.empty() && random_below(4) == 0) land(random_below(static_cast<unsigned>(under_way.size())));
}

void start_block_bulk() { under_way.clear(); }

void end_block_bulk() {
  for (const BulkLoad& load : under_way) {
    FINDING(bulk_copy_in_flight, load.site, "a bulk copy of %s has not come in when its block ends: nobody waits for it",
            describe(load.thread->who, block_index).c_str());
  }
  under_way.clear();
}

}  // namespace autosched::emulator::ptx

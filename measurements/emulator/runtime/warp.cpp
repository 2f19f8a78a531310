// Operations of some lanes of a warp, as CUDA's functions with a mask do them: shuffles, votes, __syncwarp. The last
// lane of the mask to come computes for all of them. Source lanes are those of PTX's pseudocode of shfl.sync.
#include <algorithm>

#include "machine.hpp"

namespace autosched::emulator {
namespace {

template <class Arguments>
const Arguments& of_lane(void* const* arguments, unsigned lane) {
  return *static_cast<const Arguments*>(arguments[lane]);
}

struct ShuffleArguments {
  LaneShuffle mode;
  unsigned long long value;
  int operand, width;
  unsigned long long* result;
};

// Where out of the segment: the lane itself.
unsigned source_lane(unsigned lane, const ShuffleArguments& call) {
  const unsigned within = static_cast<unsigned>(call.width) - 1, first = lane & ~within, last = first | within;
  const unsigned operand = static_cast<unsigned>(call.operand) & 31u;
  unsigned source = lane;
  switch (call.mode) {
    case LaneShuffle::up: return lane >= first + operand ? lane - operand : lane;
    case LaneShuffle::down: source = lane + operand; break;
    case LaneShuffle::butterfly: source = lane ^ operand; break;
    case LaneShuffle::index: source = first | (operand & within); break;
  }
  return source <= last ? source : lane;
}

void execute_shuffle(void* const* arguments, unsigned lanes) {
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    const auto& mine = of_lane<ShuffleArguments>(arguments, lane);
    const unsigned source = source_lane(lane, mine);
    // The value of a lane that takes no part is undefined.
    *mine.result = lanes >> source & 1u ? of_lane<ShuffleArguments>(arguments, source).value : ~0ull;
  }
}

struct VoteArguments {
  bool predicate;
  unsigned* result;
};

void execute_vote(void* const* arguments, unsigned lanes) {
  unsigned ballot = 0;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(left));
    if (of_lane<VoteArguments>(arguments, lane).predicate) ballot |= 1u << lane;
  }
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    *of_lane<VoteArguments>(arguments, static_cast<unsigned>(__builtin_ctz(left))).result = ballot;
  }
}

struct MatchArguments {
  unsigned long long value;
  unsigned* result;
};

void execute_match(void* const* arguments, unsigned lanes) {
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const auto& mine = of_lane<MatchArguments>(arguments, static_cast<unsigned>(__builtin_ctz(left)));
    unsigned equal = 0;
    for (unsigned others = lanes; others != 0; others &= others - 1) {
      const auto lane = static_cast<unsigned>(__builtin_ctz(others));
      if (of_lane<MatchArguments>(arguments, lane).value == mine.value) equal |= 1u << lane;
    }
    *mine.result = equal;
  }
}

// A warp's epoch ends for all its lanes, also where only some of them synchronize.
void execute_sync(void* const*, unsigned) { clocks.advance(self->warp); }

// Between two counting barriers, threads add to one count and read the one before; the third is empty.
int counts[3];

constexpr Collective shuffles[] = {{"__shfl_up_sync", false, false},
                                   {"__shfl_down_sync", false, false},
                                   {"__shfl_xor_sync", false, false},
                                   {"__shfl_sync", false, false}};
constexpr Collective voting{"a vote of lanes", false, false};
constexpr Collective matching{"__match_any_sync", false, false};
constexpr Collective syncing{"__syncwarp", false, true};

}  // namespace

unsigned long long shuffle_lanes(LaneShuffle mode, unsigned mask, unsigned long long value, int operand, int width,
                                 Site site) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    FINDING(invalid_argument, site_index(site), "%s: the width of a shuffle is a power of two up to 32, not %d",
            describe_self().c_str(), width);
    width = 32;
  }
  unsigned long long result = 0;
  ShuffleArguments arguments{mode, value, operand, width, &result};
  gather_lanes(shuffles[static_cast<int>(mode)], mask, site, &arguments, execute_shuffle);
  return result;
}

unsigned vote(unsigned mask, bool predicate, Site site) {
  unsigned result = 0;
  VoteArguments arguments{predicate, &result};
  gather_lanes(voting, mask, site, &arguments, execute_vote);
  return result;
}

unsigned match_lanes(unsigned mask, unsigned long long value, Site site) {
  unsigned result = 0;
  MatchArguments arguments{value, &result};
  gather_lanes(matching, mask, site, &arguments, execute_match);
  return result;
}

void sync_lanes(unsigned mask, Site site) { gather_lanes(syncing, mask, site, nullptr, execute_sync); }

void start_block_counts() { std::fill_n(counts, 3, 0); }

int barrier_count(bool predicate, Site site) {
  const unsigned now = self->counted++ % 3;
  counts[now] += predicate;
  counts[(now + 1) % 3] = 0;
  barrier_sync(0, all_threads, site);
  return counts[now];
}

}  // namespace autosched::emulator

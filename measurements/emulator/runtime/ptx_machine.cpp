// Runs the warps of a block. Lanes at the same instruction go on together, those that are behind first, so that they
// meet again where their paths do. A lane that waits for others of its warp lets these go on.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "counting.hpp"
#include "mbarrier.hpp"
#include "ptx_memory.hpp"

namespace autosched::emulator::ptx {

Program program;

namespace {

std::vector<Warp> machine;  // by warp

// Turns after which lanes that others of their warp or block may wait for are let go on.
constexpr unsigned patience = 4096;

// Partial results of bar.red, by barrier.
struct BarrierReduction {
  bool all = true, any = false;
  std::uint32_t count = 0;
};
std::vector<BarrierReduction> reductions;  // 16 of each block

struct Group {
  Lanes lanes = 0;
  std::uint32_t pc = 0;
  std::uint32_t meets = ~0u;  // the next instruction at which other lanes wait to be joined
};

Lanes runnable_lanes(const Warp& w) {
  Lanes lanes = 0;
  for (unsigned k = 0; k < emulator::warps[w.index].lanes; ++k) {
    lanes |= static_cast<Lanes>(w.thread[k].state == State::runnable) << k;
  }
  return lanes;
}

// The lanes that run next: those deepest in calls, of these the first in the program; the last with `ahead`.
Group choose(const Warp& w, Lanes runnable, bool ahead) {
  Group group;
  std::size_t depth = 0;
  bool first = true;
  for (Lanes left = runnable; left != 0; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    const std::size_t d = w.calls[k].size();
    const std::uint32_t pc = w.pc[k];
    const bool better = d != depth ? d > depth : ahead ? pc > group.pc : pc < group.pc;
    if (first || better) {
      group.pc = pc;
      group.lanes = 0;
      depth = d;
      first = false;
    }
    if (pc == group.pc && d == depth) group.lanes |= 1u << k;
  }
  for (Lanes left = runnable & ~group.lanes; left != 0; left &= left - 1) {
    const std::uint32_t pc = w.pc[__builtin_ctz(left)];
    if (pc > group.pc) group.meets = std::min(group.meets, pc);
  }
  return group;
}

void place_lanes(Warp& w, Lanes lanes, std::uint32_t pc) {
  for (Lanes left = lanes; left != 0; left &= left - 1) w.pc[__builtin_ctz(left)] = pc;
}

// What an instruction does with registers that were never written.
[[gnu::noinline]] void undefined_sources(Warp& w, const Instruction& i, Lanes undefined) {
  SiteIndex origin = 0;
  for (unsigned s = 0; s < i.sources && origin == 0; ++s) {
    const Register& r = w.head(i.source(s));
    if ((undefined & ~r.defined) != 0) origin = r.origin != 0 ? r.origin : i.site;
  }
  if (i.strict) {
    run_as(w, static_cast<unsigned>(__builtin_ctz(undefined)));
    self->site = i.site;
    if (const char* read = uninitialized_at(origin)) {
      FINDING(uninitialized_shared_read, origin, "%s", read);
    } else {
      FINDING(undefined_register, origin, "%s reads a register that was never written on the path taken, for %s",
              describe_self().c_str(), i.row->name);
    }
    return;
  }
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).origin = origin;
}

[[gnu::noinline]] void undefined_guard(Warp& w, const Instruction& i, Lanes undefined) {
  const Register& r = w.head(i.guard);
  run_as(w, static_cast<unsigned>(__builtin_ctz(undefined)));
  self->site = i.site;
  if (const char* read = uninitialized_at(r.origin)) {
    FINDING(uninitialized_shared_read, r.origin, "%s", read);
    return;
  }
  FINDING(undefined_register, r.origin != 0 ? r.origin : i.site,
          "%s takes a decision on a predicate that was never written on the path taken", describe_self().c_str());
}

void execute(Warp& w, const Instruction& i, Lanes active) {
  if (program.uses_wgmma) [[unlikely]] track_registers(w, i);
  if (i.own) {
    if (i.strict) {
      Lanes defined = all_lanes;
      for (unsigned s = 0; s < i.sources; ++s) defined &= w.head(i.source(s)).defined;
      if ((active & ~defined) != 0) undefined_sources(w, i, active & ~defined);
    }
    i.execute(w, i, active);
    return;
  }
  Lanes defined = all_lanes;
  for (unsigned s = 0; s < i.sources; ++s) defined &= w.head(i.source(s)).defined;
  Lanes undefined = active & ~defined;
  if (undefined != 0) [[unlikely]] {
    undefined_sources(w, i, undefined);
    if (i.strict) undefined = 0;
  }
  i.execute(w, i, active);
  for (unsigned d = 0; d < i.destinations; ++d) {
    Lanes& known = w.head(i.destination(d)).defined;
    known = (known | active) & ~undefined;
  }
}

// Lanes come to a collective; it runs once all that it names are there.
void gather(Warp& w, const Instruction& i, std::uint32_t pc, Lanes arriving) {
  const bool whole = i.row->flow == Flow::barrier || i.immediate[0] != 0;
  for_lanes(arriving, [&](unsigned k) {
    Thread& t = w.thread[k];
    t.state = State::gathering;
    t.site = i.site;
    t.collective = &i.row->collective;
    t.mask = whole ? 0 : w.values<std::uint32_t>(i.source(0))[k];
    if (!whole && (t.mask >> k & 1u) == 0) {
      run_as(w, k);
      self->site = i.site;
      FINDING(invalid_argument, i.site, "%s executes %s with the mask %#010x, which does not name its own lane",
              describe_self().c_str(), i.row->name, t.mask);
      t.mask |= 1u << k;
    }
    w.waiting[k] = &i;
    w.pc[k] = pc;
  });
}

// The waiting lanes that belong to the operation of `lane`.
Lanes companions(const Warp& w, unsigned lane) {
  const Instruction& i = *w.waiting[lane];
  const bool same_place = w.thread[lane].mask == 0 && (i.row->flow == Flow::collective || i.immediate[4] != 0);
  Lanes lanes = 0;
  for (unsigned k = 0; k < emulator::warps[w.index].lanes; ++k) {
    const Thread& t = w.thread[k];
    if (t.state != State::gathering || t.mask != w.thread[lane].mask) continue;
    const Instruction& other = *w.waiting[k];
    if (other.row != i.row || other.flags != i.flags || (same_place && &other != &i)) continue;
    // "The same qualifiers" (PTX ISA, shfl.sync): a shuffle down does not meet one that goes up.
    if (i.row->flow == Flow::collective && i.immediates > 1 && other.immediate[1] != i.immediate[1]) continue;
    lanes |= 1u << k;
  }
  return lanes;
}

BarrierReduction& reduction(const Warp& w, int id) {
  return reductions[w.index / block_warps() * 16 + static_cast<unsigned>(id)];
}

void arrive(Warp& w, const Instruction& i, Lanes lanes);

// Executes what waiting lanes are ready for; whether any were.
bool complete_collectives(Warp& w) {
  bool any = false;
  for (unsigned k = 0; k < emulator::warps[w.index].lanes; ++k) {
    if (w.thread[k].state != State::gathering) continue;
    const Instruction& i = *w.waiting[k];
    const Lanes there = companions(w, k), live = live_lanes(w);
    // Instructions of the whole warp need all 32 lanes, but barriers those that the block has.
    const unsigned exist = i.row->flow == Flow::barrier ? emulator::warps[w.index].lanes : warp_size;
    const Lanes needed = w.thread[k].mask != 0 ? w.thread[k].mask & live : all_lanes >> (warp_size - exist);
    if ((needed & ~there) != 0) continue;
    any = true;
    for_lanes(there, [&](unsigned l) {
      w.thread[l].state = State::runnable;
      ++w.pc[l];
    });
    run_as(w, k);
    self->site = i.site;
    if (i.row->flow == Flow::barrier) {
      arrive(w, i, there);
    } else if (i.own) {
      if (i.strict) {
        for_lanes(there, [&](unsigned l) {
          const Instruction& own = *w.waiting[l];
          for (unsigned s = 0; s < own.sources; ++s) {
            if ((w.head(own.source(s)).defined >> l & 1u) == 0) undefined_sources(w, own, 1u << l);
          }
        });
      }
      i.execute(w, i, there);
      if (w.retry) {
        for_lanes(there, [&](unsigned l) { --w.pc[l]; });
        return true;
      }
    } else {
      execute(w, i, there);
    }
  }
  return any;
}

// A warp comes to a barrier of the block. Sources: id, count, predicate; immediates: 0: waits, 1: has a count,
// 2: reduction (0 none, 1 popc, 2 and, 3 or), 3: the predicate is negated, 4: .aligned.
void arrive(Warp& w, const Instruction& i, Lanes lanes) {
  const auto first = static_cast<unsigned>(__builtin_ctz(lanes));
  const auto value = [&](unsigned source, unsigned lane) {
    return static_cast<int>(w.values<std::uint32_t>(w.waiting[lane]->source(source))[lane]);
  };
  const bool counted = i.immediate[1] != 0;
  const int id = value(0, first), count = counted ? value(1, first) : all_threads;
  bool differ = false;
  for_lanes(lanes, [&](unsigned k) { differ = differ || value(0, k) != id || (counted && value(1, k) != count); });
  if (differ) {
    FINDING(invalid_argument, i.site, "lanes of warp %u name different barriers or thread counts", w.index);
    return;
  }
  if (i.immediate[2] != 0 && id >= 0 && id < 16) {
    BarrierReduction& r = reduction(w, id);
    for_lanes(lanes, [&](unsigned k) {
      const Instruction& own = *w.waiting[k];
      const bool x = (w.head(own.source(own.sources - 1)).bits >> k & 1u) != (own.immediate[3] != 0);
      r.all = r.all && x;
      r.any = r.any || x;
      r.count += x;
    });
  }
  std::vector<unsigned> completed;
  if (!arrive_at_barrier(w.index, id, count, i.immediate[0] != 0, completed) || completed.empty()) return;
  const BarrierReduction result = reduction(w, id);
  reduction(w, id) = {};
  for (const unsigned v : completed) {
    Warp& other = machine[v];
    for_lanes(live_lanes(other), [&](unsigned k) {
      const Instruction& own = *other.waiting[k];
      if (own.destinations == 0) return;
      Register& d = other.head(own.destination(0));
      d.defined |= 1u << k;
      if (own.immediate[2] == 1) {
        other.values<std::uint32_t>(own.destination(0))[k] = result.count;
      } else {
        const bool y = own.immediate[2] == 2 ? result.all : result.any;
        d.bits = (d.bits & ~(1u << k)) | static_cast<Lanes>(y) << k;
      }
    });
  }
}

void enter(Warp& w, std::uint32_t callee, unsigned lane, std::uint32_t call) {
  const Function& f = program.functions[callee];
  Activation a{call, callee, w.local_top[lane], w.local_base[lane][callee], {}};
  if (w.active_calls[lane][callee]++ != 0) {
    // It calls itself: the lane's column of its registers is kept until it returns.
    for (const Span& r : f.registers) {
      const unsigned char* from = w.values<unsigned char>(r.offset) + std::size_t{lane} * r.bytes;
      a.saved.insert(a.saved.end(), from, from + r.bytes);
      const Register& head = w.head(r.offset);
      a.saved.push_back(static_cast<unsigned char>((head.defined >> lane & 1u) | (head.bits >> lane & 1u) << 1));
    }
  }
  for (const Span& r : f.registers) {
    if (!r.is_register) continue;
    w.head(r.offset).defined &= ~(1u << lane);
    w.head(r.offset).origin = 0;
  }
  const std::uint32_t base = (w.local_top[lane] + 15) / 16 * 16;
  w.local_base[lane][callee] = base;
  w.local_top[lane] = base + f.local_bytes;
  if (w.local_top[lane] > w.local[lane].bytes.size()) {
    w.local[lane].bytes.resize(w.local_top[lane]);
    w.local[lane].written.resize(w.local_top[lane]);
  }
  std::fill(w.local[lane].written.begin() + base, w.local[lane].written.begin() + base + f.local_bytes, false);
  w.calls[lane].push_back(std::move(a));
}

constexpr std::size_t deepest = 4096;

// Immediates of a call: function (-1: source 0 holds its address), results, (offset, bytes)..., parameters, ...
void call(Warp& w, const Instruction& i, std::uint32_t pc, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    self->site = i.site;
    std::int64_t callee = i.immediate[0];
    if (callee < 0) {
      const std::uint64_t address = w.values<std::uint64_t>(i.source(0))[k];
      callee = static_cast<std::int64_t>(address & ~window_mask);
      if ((address & window_mask) != function_base || callee >= static_cast<std::int64_t>(program.functions.size())) {
        FINDING(wrong_state_space, i.site, "%s calls %#llx, which is not the address of a function",
                describe_self().c_str(), static_cast<unsigned long long>(address));
        w.pc[k] = pc + 1;
        return;
      }
    }
    const Function& f = program.functions[static_cast<std::size_t>(callee)];
    if (w.calls[k].size() >= deepest) {
      stop_launch(Kind::trap, i.site, "calls are nested more than 4096 deep");
    }
    // The arguments are read before the callee's frame, which may be this one, is entered.
    const auto results = static_cast<unsigned>(i.immediate[1]);
    const std::int64_t* argument = i.immediate + 2 + 2 * results;
    const auto arguments = static_cast<unsigned>(*argument++);
    std::vector<unsigned char> bytes[32];
    for (unsigned p = 0; p < arguments && p < 32; ++p) {
      const auto size = static_cast<std::size_t>(argument[2 * p + 1]);
      const unsigned char* from = w.values<unsigned char>(static_cast<std::uint32_t>(argument[2 * p])) + k * size;
      bytes[p].assign(from, from + size);
    }
    enter(w, static_cast<std::uint32_t>(callee), k, pc);
    for (unsigned p = 0; p < arguments && p < f.parameters.size(); ++p) {
      const Span& to = f.parameters[p];
      std::memcpy(w.values<unsigned char>(to.offset) + std::size_t{k} * to.bytes, bytes[p].data(),
                  std::min<std::size_t>(to.bytes, bytes[p].size()));
      w.head(to.offset).defined |= 1u << k;
    }
    w.pc[k] = f.entry;
  });
}

void leave(Warp& w, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    Thread& t = w.thread[k];
    if (w.calls[k].empty()) {
      t.state = State::exited;
      return;
    }
    Activation a = std::move(w.calls[k].back());
    w.calls[k].pop_back();
    const Function& f = program.functions[a.function];
    const Instruction& i = program.code[a.call];
    const auto results = static_cast<unsigned>(i.immediate[1]);
    std::vector<unsigned char> bytes[4];
    for (unsigned r = 0; r < results && r < f.results.size() && r < 4; ++r) {
      const Span& from = f.results[r];
      const unsigned char* p = w.values<unsigned char>(from.offset) + std::size_t{k} * from.bytes;
      bytes[r].assign(p, p + from.bytes);
    }
    if (--w.active_calls[k][a.function] != 0) {
      const unsigned char* p = a.saved.data();
      for (const Span& r : f.registers) {
        std::memcpy(w.values<unsigned char>(r.offset) + std::size_t{k} * r.bytes, p, r.bytes);
        p += r.bytes;
        Register& head = w.head(r.offset);
        head.defined = (head.defined & ~(1u << k)) | static_cast<Lanes>(*p & 1u) << k;
        head.bits = (head.bits & ~(1u << k)) | static_cast<Lanes>(*p >> 1 & 1u) << k;
        ++p;
      }
    }
    w.local_top[k] = a.local;
    w.local_base[k][a.function] = a.old_base;
    for (unsigned r = 0; r < results && r < 4; ++r) {
      const auto offset = static_cast<std::uint32_t>(i.immediate[2 + 2 * r]);
      const auto size = static_cast<std::size_t>(i.immediate[3 + 2 * r]);
      std::memcpy(w.values<unsigned char>(offset) + k * size, bytes[r].data(), std::min(size, bytes[r].size()));
      w.head(offset).defined |= 1u << k;
    }
    w.pc[k] = a.call + 1;
  });
}

}  // namespace

[[noreturn]] void stop_launch(emulator::Kind kind, SiteIndex site, const char* message) {
  if (count_finding(kind, site)) write_finding(kind, site, "%s: %s", describe_self().c_str(), message);
  report_counts();
  report_end("stopped", site, message);
  std::_Exit(0);
}

void start() {
  machine.resize(warp_count);
  for (unsigned w = 0; w < warp_count; ++w) {
    Warp& warp = machine[w];
    warp.index = w;
    warp.registers = static_cast<unsigned char*>(reserve_zeroed(program.register_bytes));
    fill_constants(warp);
    for (unsigned k = 0; k < warp_size; ++k) {
      warp.local_base[k].assign(program.functions.size(), 0);
      warp.active_calls[k].assign(program.functions.size(), 0);
    }
  }
}

void start_block() {
  for (unsigned w = 0; w < warp_count; ++w) {
    Warp& warp = machine[w];
    warp.thread = &threads[w * warp_size];
    const std::uint32_t local = program.functions[0].local_bytes;
    for (unsigned k = 0; k < warp_size; ++k) {
      warp.pc[k] = program.functions[0].entry;
      warp.calls[k].clear();
      warp.local_top[k] = local;
      std::fill(warp.local_base[k].begin(), warp.local_base[k].end(), 0u);
      std::fill(warp.active_calls[k].begin(), warp.active_calls[k].end(), 0u);
      if (warp.local[k].bytes.size() < local) warp.local[k].bytes.resize(local);
      warp.local[k].written.assign(warp.local[k].bytes.size(), false);
    }
    warp.yielded_at = ~0u;
    fill_special(warp);
  }
  reductions.assign(std::size_t{16} * cluster_blocks(), {});
  start_block_mbarriers();
  start_block_bulk();
  start_block_wgmma(machine);
  start_block_cluster();
}

void end_block() {
  end_block_bulk();
  end_block_wgmma();
  check_exits();
}

void run_warp(unsigned index) {
  Warp& w = machine[index];
  unsigned turns = 0;
  bool ahead = false;
  for (;;) {
    Lanes runnable = runnable_lanes(w);
    if (runnable == 0) {
      if (complete_collectives(w) && !w.retry) continue;
      if (!w.retry) idle_polls = 0;
      w.retry = false;
      return;
    }
    // Where some lanes wait for others of their warp, fairness matters more than meeting again.
    if (turns >= patience) {
      turns = 0;
      ahead = !ahead;
      idle_polls = 0;
      if (!ahead) return;  // other warps too
    }
    const Group group = choose(w, runnable, ahead);
    Lanes active = group.lanes;
    std::uint32_t pc = group.pc;
    const bool alone = active == runnable;
    for (;;) {
      const Instruction& i = program.code[pc];
      Lanes now = active;
      if (i.guard != 0) {
        const Register& guard = w.head(i.guard);
        now &= i.negated ? ~guard.bits : guard.bits;
        if ((active & ~guard.defined) != 0) [[unlikely]] undefined_guard(w, i, active & ~guard.defined);
      }
      if (i.flow == Flow::plain) {
        if (now != 0) execute(w, i, now);
        if (++pc == group.meets) break;
        continue;
      }
      if (i.flow == Flow::branch) {
        const auto target = static_cast<std::uint32_t>(i.immediate[0]);
        if (target <= pc && now != 0) ++turns;
        if (now == active || now == 0) {
          const std::uint32_t next = now != 0 ? target : pc + 1;
          const bool go_on = alone ? turns < patience : next > pc && next < group.meets;
          pc = next;
          if (go_on) continue;
          break;
        }
        place_lanes(w, active & ~now, pc + 1);
        place_lanes(w, now, target);
        active = 0;
        break;
      }
      if (now == 0) {
        if (++pc == group.meets) break;
        continue;
      }
      place_lanes(w, active & ~now, pc + 1);
      active = 0;
      switch (i.flow) {
        case Flow::indexed:
          for_lanes(now, [&](unsigned k) {
            const std::uint32_t which = w.values<std::uint32_t>(i.source(0))[k];
            if (which < i.immediates) {
              w.pc[k] = static_cast<std::uint32_t>(i.immediate[which]);
            } else {
              run_as(w, k);
              stop_launch(Kind::trap, i.site, "brx.idx with an index beyond its list of targets");
            }
          });
          break;
        case Flow::call: call(w, i, pc, now); break;
        case Flow::leave: leave(w, now); break;
        case Flow::exit:
          for_lanes(now, [&](unsigned k) { w.thread[k].state = State::exited; });
          break;
        case Flow::trap:
          run_as(w, static_cast<unsigned>(__builtin_ctz(now)));
          stop_launch(Kind::trap, i.site, "the kernel stops here (trap, or a failed assertion)");
        case Flow::polls:
        case Flow::yields:
          if (w.yielded_at != pc) {
            w.yielded_at = pc;
            if (i.flow == Flow::yields) idle_polls = 0;
            place_lanes(w, now, pc);
            return;
          }
          w.yielded_at = ~0u;
          execute(w, i, now);
          place_lanes(w, now, pc + 1);
          break;
        default:
          gather(w, i, pc, now);
          complete_collectives(w);
          if (w.retry) {
            w.retry = false;
            return;
          }
      }
      break;
    }
    if (active != 0) place_lanes(w, active, pc);
  }
}

namespace {

void unreachable(Warp&, const Instruction&, Lanes) {}

constexpr Row rows[] = {
    {"bra", unreachable, 0, ":", Flow::branch},
    {"brx.idx", unreachable, 0, ":4", Flow::indexed, true},
    {"call", unreachable, 0, ":*", Flow::call, true},
    {"ret", unreachable, 0, ":", Flow::leave},
    {"exit", unreachable, 0, ":", Flow::exit},
    {"trap", unreachable, 0, ":", Flow::trap},
    {"bar", unreachable, 0, "*:**", Flow::barrier, true},
};

}  // namespace

const Rows control_rows{std::begin(rows), std::end(rows)};

}  // namespace autosched::emulator::ptx

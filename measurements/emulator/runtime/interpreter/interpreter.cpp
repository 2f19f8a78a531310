// Runs the warps of a block. Lanes at the same instruction run together. Lanes at earlier instructions run first, so
// that lanes reconverge where their paths join. A lane that polls for another lane of its warp lets the other lanes
// run.
#include "isa/values/copies.hpp"
#include "isa/counts.hpp"
#include "isa/values/dropped.hpp"
#include "interpreter/interpreter.hpp"
#include "isa/matrix/tcgen05.hpp"
#include "isa/matrix/wgmma.hpp"
#include "isa/async/bulk.hpp"
#include "isa/program.hpp"
#include "isa/sync/cluster.hpp"
#include "isa/async/launch_control.hpp"
#include "isa/values/undefined.hpp"
#include "memory/counting.hpp"
#include "memory/poison.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/shadow.hpp"
#include "memory/shared/async.hpp"
#include "memory/watched_reads.hpp"
#include "isa/async/mbarrier.hpp"

#include <algorithm>
#include <cstdlib>

namespace autosched::emulator::ptx {

namespace {

// After this many iterations of a loop, the other lanes of the warp run. The loop, or another warp of the block, may be
// waiting for these lanes.
constexpr unsigned patience = 4096;
// After this many unsuccessful polls per warp, a warp's registers are compared with its registers at the previous poll.
constexpr unsigned patience_before_state = 512;
constexpr std::size_t most_answers = 1 << 14;  // maximum number of polled values that are remembered per warp

struct Group {
  Lanes lanes = 0;
  std::uint32_t pc = 0;
  std::uint32_t meets = ~0u;  // next instruction at which other lanes wait to reconverge
};

Lanes runnable_lanes(const Warp& w) {
  Lanes lanes = 0;
  for (unsigned k = 0; k < w.machine->warp_lanes[w.index]; ++k) {
    lanes |= static_cast<Lanes>(w.thread[k].state == State::runnable) << k;
  }
  return lanes;
}

// Lanes whose last poll of an mbarrier was unsuccessful.
Lanes polling_lanes(const Warp& w, Lanes lanes) {
  Lanes polling = 0;
  for_lanes(lanes, [&](unsigned k) { polling |= static_cast<Lanes>(w.thread[k].polls) << k; });
  return polling;
}

// Chooses the lanes that run next: the lanes with the most nested calls, and among these the lanes at the earliest
// instruction. With `ahead`, this order is reversed, and spinning lanes run last: other lanes may hold a lock for which
// the spinning lanes wait.
Group choose(const Warp& w, Lanes runnable, bool ahead) {
  Group group;
  Lanes candidates = runnable;
  if (ahead) {
    Lanes spinning = polling_lanes(w, runnable);
    for_lanes(runnable, [&](unsigned k) { spinning |= static_cast<Lanes>(w.thread[k].spins) << k; });
    if (spinning != runnable) candidates &= ~spinning;
  }
  std::size_t depth = 0;
  bool first = true;
  for_lanes(candidates, [&](unsigned k) {
    const std::size_t d = w.calls[k].size();
    const std::uint32_t pc = w.pc[k];
    const bool better = d != depth ? (d > depth) != ahead : ahead ? pc > group.pc : pc < group.pc;
    if (!first && !better) return;
    group.pc = pc;
    depth = d;
    first = false;
  });
  for_lanes(runnable, [&](unsigned k) {
    if (w.pc[k] == group.pc && w.calls[k].size() == depth) group.lanes |= 1u << k;
  });
  for (Lanes left = runnable & ~group.lanes; left != 0; left &= left - 1) {
    const std::uint32_t pc = w.pc[__builtin_ctz(left)];
    if (pc > group.pc) group.meets = std::min(group.meets, pc);
  }
  return group;
}

// Compares the values that lanes polled at this instruction with the values that they polled here the previous time. If
// the values are unchanged, the lanes may be waiting, and are marked as spinning. Not inlined, because inlined code
// would take registers from run_warp.
[[gnu::noinline]] void compare_answer(Warp& w, const Instruction& i, Lanes lanes) {
  Machine& machine = *w.machine;
  const auto mix = [](std::uint64_t x, std::uint64_t y) {
    x = (x ^ y) * 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
  };
  if (w.answers.size() > most_answers) w.answers.clear();
  const auto instruction = reinterpret_cast<std::uintptr_t>(&i);
  // Most loads are not polls: they are executed once per address. So the values of all lanes are only compared if the
  // first lane has loaded from the same address before.
  const auto one = static_cast<unsigned>(__builtin_ctz(lanes));
  const std::uint64_t key = mix(mix(instruction, ~std::uint64_t{lanes}), read_bits(w, i.source(0), i.width_of_source(0), one));
  if (w.answers.try_emplace(key, 0).second) {
    w.ahead = false;
    for_lanes(lanes, [&](unsigned k) { w.thread[k].spins = false; });
    machine.idle_polls = 0;
    return;
  }
  std::uint64_t question = mix(instruction, lanes), answer = 0;
  for_lanes(lanes, [&](unsigned k) {
    question = mix(question, read_bits(w, i.source(0), i.width_of_source(0), k));
    for (unsigned d = 0; d < i.destinations; ++d) {
      const unsigned width = i.width_of_destination(d);
      answer = mix(answer, width <= 8 ? read_bits(w, i.destination(d), width, k) : width);
    }
  });
  const auto [known, first] = w.answers.try_emplace(question, answer);
  const bool same = !first && known->second == answer;
  known->second = answer;
  w.ahead = same && !w.ahead;
  for_lanes(lanes, [&](unsigned k) {
    Thread& t = w.thread[k];
    t.spins = same;
    t.spin_site = i.site;
    t.spin_address = read_bits(w, i.source(0), i.width_of_source(0), k) + static_cast<std::uint64_t>(i.immediate[0]);
  });
  if (!same) {
    machine.idle_polls = 0;
    return;
  }
  ++machine.idle_polls;
  // If warps meet at barriers between polls, unchanged memory alone does not show that a loop is waiting. The registers
  // must be unchanged as well.
  if (!machine.idle_polls.met() || machine.idle_polls.vain() < std::uint64_t{patience_before_state} * machine.warp_count) return;
  // The comparison excludes the cycles at which values are ready (counts.cpp), because these increase even in a waiting
  // warp.
  static std::vector<unsigned char> registers;
  registers.assign(w.registers, w.registers + machine.program.register_bytes);
  for (const Function& f : machine.program.functions) {
    for (const Span& r : f.registers) reinterpret_cast<Register*>(&registers[r.offset])->ready = 0;
  }
  std::uint64_t state = 0;
  for (std::size_t at = 0; at + 8 <= registers.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, &registers[at], 8);
    state = mix(state, word);
  }
  std::uint64_t& before = w.states[&i];
  if (before != state) machine.idle_polls.move();
  before = state;
}

void place_lanes(Warp& w, Lanes lanes, std::uint32_t pc) {
  for (Lanes left = lanes; left != 0; left &= left - 1) w.pc[__builtin_ctz(left)] = pc;
}

}  // namespace

void execute(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  if (i.effect != 0) note_effect(w, i, active);
  if (i.followed != nullptr) [[unlikely]] follow_copies(w, i, active);
  if (machine.program.uses_wgmma) [[unlikely]] track_registers(w, i);
  if (machine.program.uses_tcgen05) [[unlikely]] track_tensor_loads(w, i);
  if (i.own) {
    if (i.strict) {
      Lanes defined = all_lanes;
      for (unsigned s = 0; s < i.sources; ++s) defined &= w.head(i.source(s)).defined;
      if ((active & ~defined) != 0) report_undefined_sources(w, i, active & ~defined);
    }
    i.execute(w, i, active);
    return;
  }
  Lanes defined = all_lanes;
  for (unsigned s = 0; s < i.sources; ++s) defined &= w.head(i.source(s)).defined;
  const Lanes undefined = active & ~defined;
  if (undefined != 0) [[unlikely]] {
    execute_undefined(w, i, active, undefined);
    return;
  }
  i.execute(w, i, active);
  for (unsigned d = 0; d < i.destinations; ++d) w.head(i.destination(d)).defined |= active;
}

void start(Machine& machine) {
  if (machine.launch.check && global_shadow::any_variable(machine)) find_copies(machine);
  machine.warps.all.resize(machine.warp_count);
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    Warp& warp = machine.warps.all[w];
    warp.machine = &machine;
    warp.index = w;
    warp.effects.resize(machine.program.effects + std::size_t{1});
    warp.readings.resize(machine.program.readings + std::size_t{1});
    warp.last_reads.resize(machine.program.readings + std::size_t{1});
    warp.loaded_from.resize(machine.program.followed + std::size_t{1});
    warp.registers = static_cast<unsigned char*>(reserve_zeroed(machine, machine.program.register_bytes));
    warp.known = static_cast<unsigned char*>(reserve_zeroed(machine, machine.program.register_bytes));
    fill_constants(warp);
    for (unsigned k = 0; k < warp_size; ++k) {
      warp.local_base[k].assign(machine.program.functions.size(), 0);
      warp.active_calls[k].assign(machine.program.functions.size(), 0);
    }
  }
}

void start_block(Machine& machine) {
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    Warp& warp = machine.warps.all[w];
    warp.thread = &machine.threads[w * warp_size];
    const std::uint32_t local = machine.program.functions[0].local_bytes;
    for (unsigned k = 0; k < warp_size; ++k) {
      warp.pc[k] = machine.program.functions[0].entry;
      warp.calls[k].clear();
      warp.local_top[k] = local;
      std::fill(warp.local_base[k].begin(), warp.local_base[k].end(), 0u);
      std::fill(warp.active_calls[k].begin(), warp.active_calls[k].end(), 0u);
      if (warp.local[k].bytes.size() < local) warp.local[k].bytes.resize(local);
      warp.local[k].known.assign(warp.local[k].bytes.size(), 0);
      if (machine.poison != 0) fill_poison(machine, warp.local[k].bytes.data(), warp.local[k].bytes.size());
      warp.local[k].origins.clear();
      warp.local[k].gaps.clear();
    }
    // Registers written by an earlier block are undefined in this block.
    for (const Span& r : machine.program.functions[0].registers) {
      Register& head = warp.head(r.offset);
      head.defined = 0;
      head.bits = 0;
      head.origin = 0;
      if (machine.poison != 0) leave_poison(warp, r, all_lanes);
    }
    if (warp.knows_parts) {
      std::memset(warp.known, 0, machine.program.register_bytes);
      warp.knows_parts = false;
    }
    warp.yielded_at = ~0u;
    warp.ahead = false;
    if (!warp.answers.empty()) warp.answers.clear();
    warp.states.clear();
    fill_special(warp);
    if (machine.launch.count) begin_counting(warp);
  }
  if (machine.launch.count) begin_block_counts(machine);
  start_block_collectives(machine);
  start_block_mbarriers(machine);
  start_block_bulk(machine);
  start_block_wgmma(machine);
  start_block_cluster(machine);
  start_block_launch_control(machine);
  start_block_effects(machine);
  start_block_tcgen05(machine);
}

void end_block(Machine& machine) {
  for (unsigned w = 0; machine.launch.count && w < machine.warp_count; ++w) end_counting(machine.warps.all[w]);
  end_block_bulk(machine);
  end_block_wgmma(machine);
  settle_watched_reads(machine);
  end_block_tcgen05(machine);
  check_exits(machine);
}

void run_warp(Machine& machine, unsigned index) {
  Warp& w = machine.warps.all[index];
  unsigned turns = 0;
  bool ahead = w.ahead;  // true: lanes that polled an unchanged value run after the other lanes of their warp
  for (;;) {
    Lanes runnable = runnable_lanes(w);
    if (runnable == 0) {
      if (complete_collectives(w) && !w.retry) continue;
      w.retry = false;
      return;
    }
    // The lanes that run may be waiting for other lanes of the warp. The other lanes must then run first, even if this
    // delays the reconvergence of the warp.
    if (turns >= patience) {
      turns = 0;
      ahead = !ahead;
      machine.idle_polls = 0;
      machine.idle_polls.add_lap();
      if (!ahead) return;  // let other warps run, too
    }
    const Group group = choose(w, runnable, ahead);
    Lanes active = group.lanes;
    std::uint32_t pc = group.pc;
    const bool alone = active == runnable;
    for (;;) {
      const Instruction& i = machine.program.code[pc];
      Lanes now = active;
      if (i.guard != 0) {
        const Register& guard = w.head(i.guard);
        now &= i.negated ? ~guard.bits : guard.bits;
        if (const Lanes unsure = active & ~guard.defined; unsure != 0) [[unlikely]] {
          std::size_t end = 0;
          if (machine.poison != 0 || !choose_unknown(w, i, unsure, end)) {
            report_undefined_guard(w, i, unsure);
          } else if (i.flow == Flow::plain) {
            now &= ~unsure;
          } else {
            place_lanes(w, active & ~unsure, pc);
            place_lanes(w, unsure, static_cast<std::uint32_t>(end));
            active = 0;
            break;
          }
        }
      }
      if (i.flow == Flow::plain) {
        if (now != 0) execute(w, i, now);
        if (machine.launch.count) [[unlikely]] note_executed(w, i, pc);
        if (++pc == group.meets) break;
        continue;
      }
      if (machine.launch.count) [[unlikely]] note_executed(w, i, pc);
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
      if (i.sources != 0 && (i.flow == Flow::indexed || i.flow == Flow::call)) {
        const Lanes unsure = now & ~w.head(i.source(0)).defined;
        if (unsure != 0) [[unlikely]] report_undefined_sources(w, i, unsure);
      }
      switch (i.flow) {
        case Flow::indexed:
          for_lanes(now, [&](unsigned k) {
            const std::uint32_t which = w.values<std::uint32_t>(i.source(0))[k];
            if (which < i.immediates) {
              w.pc[k] = static_cast<std::uint32_t>(i.immediate[which]);
            } else {
              run_as(w, k);
              stop_launch(machine, Kind::trap, i.site, "brx.idx with an index beyond its list of targets");
            }
          });
          break;
        case Flow::call: call(w, i, pc, now); break;
        case Flow::leave:
          leave(w, now);
          exit_lanes(w);
          break;
        case Flow::exit:
          for_lanes(now, [&](unsigned k) { w.thread[k].state = State::exited; });
          exit_lanes(w);
          break;
        case Flow::trap:
          run_as(w, static_cast<unsigned>(__builtin_ctz(now)));
          stop_launch(machine, Kind::trap, i.site,
                      i.immediates != 0 ? describe_assertion(w, i).c_str()
                      : machine.program.uses_grid_workspace && !machine.launch.cooperative
                          ? "the kernel stops here (trap), as this_grid().sync() does in a launch that is not cooperative"
                          : "the kernel stops here (trap)");
        case Flow::polls:
        case Flow::yields:
          if (w.yielded_at != pc) {
            w.yielded_at = pc;
            place_lanes(w, now, pc);
            return;
          }
          w.yielded_at = ~0u;
          if (const std::uint64_t before = machine.idle_polls.progress(); i.row->flow == Flow::yields) {
            execute(w, i, now);
            if (before != machine.idle_polls.progress()) {
              for_lanes(now, [&](unsigned k) { w.thread[k].spins = false; });
            } else if (i.destinations != 0) {
              compare_answer(w, i, now);
            }
          } else {
            // the warp yields because blocks alternate, not because it waits
            if (i.flow == Flow::yields) machine.idle_polls = 0;
            const Lanes polling = polling_lanes(w, now);
            execute(w, i, now);
            // Lanes that have polled unsuccessfully twice let the other lanes of their warp run.
            if (i.flow == Flow::polls) w.ahead = (polling & polling_lanes(w, now)) != 0 && !w.ahead;
          }
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

constexpr Row control_table[] = {
    {"bra", unreachable, 0, ":", Flow::branch},
    {"brx.idx", unreachable, 0, ":4", Flow::indexed, true},
    {"call", unreachable, 0, ":*", Flow::call, true},
    {"ret", unreachable, 0, ":", Flow::leave},
    {"exit", unreachable, 0, ":", Flow::exit},
    {"trap", unreachable, 0, ":", Flow::trap},
    {"bar", unreachable, 0, "*:**", Flow::barrier, true},
};

}  // namespace

const Rows control_rows{std::begin(control_table), std::end(control_table)};

}  // namespace autosched::emulator::ptx

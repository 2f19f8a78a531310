"""A thread that may miss two phases of an mbarrier is reported in the first run. Correct pipelines are accepted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from measurements.emulator.order import Order

pytestmark = [needs_compiler, needs_nvrtc]

# Warp 0 fills a slot `TURNS` times. Warps 1 and 2 add up the slot's values.
SOURCE = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned b, unsigned n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(b), "r"(n)); }
__device__ void arrive(unsigned b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(b) : "memory"); }
__device__ unsigned long long token(unsigned b) {
  unsigned long long t;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(t) : "r"(b) : "memory");
  return t;
}
__device__ void wait(unsigned b, unsigned parity) {
  asm volatile("{ .reg .pred p;\\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\\n@!p bra AGAIN; }"
               :: "r"(b), "r"(parity) : "memory");
}
__device__ void wait_for(unsigned b, unsigned long long token) {
  asm volatile("{ .reg .pred p;\\nAGAIN: mbarrier.test_wait.shared.b64 p, [%0], %1;\\n@!p bra AGAIN; }"
               :: "r"(b), "l"(token) : "memory");
}
__device__ unsigned elected() {
  unsigned e;
  asm volatile("{ .reg .pred p;\\nelect.sync _|p, 0xffffffff;\\nselp.u32 %0, 1, 0, p; }" : "=r"(e));
  return e;
}
extern "C" __global__ void k(int* out) {
  __shared__ alignas(8) unsigned long long full, empty, other;
  __shared__ int slot[32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int sum = 0;
  if (threadIdx.x == 0) { init(at(&full), 32); init(at(&empty), RELEASES); init(at(&other), 64); }
  __syncthreads();
  BODY
  out[threadIdx.x] = sum;
}
"""
PIPELINE = """
  for (int turn = 0; turn < TURNS; ++turn) {
    if (warp == 0) {
      wait(at(&empty), turn & 1 ^ 1);
      slot[lane] = turn + lane;
      arrive(at(&full));
    } else if (warp < 3) {
      wait(at(&full), turn & 1);
      READ
      RELEASE
    }
  }"""


@dataclass(frozen=True)
class Release:
    """Statements that release the slot, and the number of arrivals that the mbarrier `empty` expects per phase."""

    statements: str
    arrivals: int
    reads: str = "sum += slot[lane];"

    def run(self, seed: int, body: str = PIPELINE, turns: int = 6) -> autosched.EmulatedLaunch:
        body = body.replace("RELEASE", self.statements).replace("READ", self.reads).replace("TURNS", str(turns))
        source = SOURCE.replace("BODY", body).replace("RELEASES", str(self.arrivals))
        out = np.zeros(96, np.int32)
        order = Order("ascending", seed)
        return autosched.emulate(
            source,
            [out],
            grid=1,
            block=96,
            outputs=(0,),
            kernel="k",
            options=["-arch=sm_90"],
            order=order,
            time_limit=20,
        )


SOUND = {
    "all_threads": Release("arrive(at(&empty));", 64),
    "a_lane_of_each_warp": Release("__syncwarp(); if (lane == 0) arrive(at(&empty));", 2),
    "an_elected_lane_of_each_warp": Release("__syncwarp(); if (elected()) arrive(at(&empty));", 2),
    "one_thread_behind_a_barrier": Release(
        'asm volatile("bar.sync 1, 64;" ::: "memory"); if (threadIdx.x == 32) arrive(at(&empty));', 1
    ),
    "one_thread_behind_another_mbarrier": Release(
        "arrive(at(&other)); if (threadIdx.x == 40) { wait(at(&other), turn & 1); arrive(at(&empty)); }", 1
    ),
    # No warp reads the slot, so only the phases must be ordered.
    "relaxed_arrivals": Release(
        'asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" :: "r"(at(&empty)) : "memory");', 64, ""
    ),
    "a_lane_behind_a_shuffle": Release("sum += __shfl_sync(~0u, lane, 3); if (lane == 3) arrive(at(&empty));", 2, ""),
}
# Warp 2 never releases the slot, so the producer may fill the slot twice before warp 2 checks the phase.
FAULTY = {
    "one_warp_releases_for_two": Release("if (warp == 1) arrive(at(&empty));", 32, ""),
    "a_lane_of_one_warp": Release("__syncwarp(); if (threadIdx.x == 32) arrive(at(&empty));", 1, ""),
    "released_before_the_wait_of_the_other": Release(
        "if (warp == 1) { arrive(at(&empty)); arrive(at(&other)); } else { arrive(at(&other)); }", 32, ""
    ),
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("release", SOUND.values(), ids=SOUND)
def test_pipelines_that_release_after_the_wait(release: Release, seed: int) -> None:
    done = release.run(seed)
    assert done.status == "ok", done.reason


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("release", FAULTY.values(), ids=FAULTY)
def test_a_waiter_that_may_miss_two_phases(release: Release, seed: int) -> None:
    done = release.run(seed, turns=4)
    assert {f.kind for f in done.faults} & {"mbarrier_misuse", "barrier_not_reached"}, done.reason
    if seed == 0:
        assert any(f.kind == "mbarrier_misuse" for f in done.faults), done.reason


BY_STATE = """
  for (int turn = 0; turn < TURNS; ++turn) {
    const unsigned long long mine = token(at(&other));
    WAIT
  }"""


def test_waiting_for_the_previous_phase_is_tracked() -> None:
    """All 96 threads arrive at an mbarrier and wait for the state that their arrival returned, or for an older one."""
    each = BY_STATE.replace("WAIT", "wait_for(at(&other), mine);")
    all_of_them = SOURCE.replace("init(at(&other), 64)", "init(at(&other), 96)")
    late = BY_STATE.replace("WAIT", "if (turn == 0) first = mine; wait_for(at(&other), mine);")
    late = "unsigned long long first = 0;" + late + "\n  wait_for(at(&other), first);"
    for body, status in ((each, "ok"), (late, "findings")):
        source = all_of_them.replace("BODY", body.replace("TURNS", "3")).replace("RELEASES", "1")
        out = np.zeros(96, np.int32)
        done = autosched.emulate(source, [out], grid=1, block=96, outputs=(0,), kernel="k", options=["-arch=sm_90"])
        assert done.status == status, done.reason
    assert {f.kind for f in done.faults} == {"mbarrier_misuse"}


@dataclass(frozen=True)
class Lanes:
    """Code of a producer and a consumer warp, and the arrivals per phase of mbarriers `full`, `empty` and `other`."""

    consumer: str
    producer: str = "wait(at(&empty), turn & 1 ^ 1); arrive(at(&full));"
    full: int = 32
    empty: int = 1
    other: int = 32

    def run(self, seed: int) -> autosched.EmulatedLaunch:
        body = f"""
  for (int turn = 0; turn < 4; ++turn) {{
    if (warp == 0) {{ {self.producer} }} else if (warp == 1) {{ {self.consumer} }}
  }}"""
        source = SOURCE.replace("init(at(&full), 32)", f"init(at(&full), {self.full})")
        source = source.replace("init(at(&other), 64)", f"init(at(&other), {self.other})")
        source = source.replace("BODY", body).replace("RELEASES", str(self.empty))
        return autosched.emulate(
            source,
            [np.zeros(64, np.int32)],
            grid=1,
            block=64,
            outputs=(0,),
            kernel="k",
            options=["-arch=sm_90"],
            order=Order("ascending", seed),
            time_limit=20,
        )


WAIT = "wait(at(&full), turn & 1);"
RELEASE = "if (lane == 0) arrive(at(&empty));"
RELAY = "if (lane == 3) { wait(at(&other), turn & 1); arrive(at(&empty)); }"
FLAG = """
  if (turn == 0) { if (lane == 3) slot[0] = 0; __syncwarp(); }
  if (lane == 3 || lane == 5) wait(at(&full), turn & 1);
  if (lane == 5) { __threadfence_block(); atomicExch(&slot[0], turn + 1); }
  if (lane == 3) { while (atomicAdd(&slot[0], 0) != turn + 1); __threadfence_block(); arrive(at(&empty)); }"""
SOUND_LANES = {
    "one_lane_behind_syncwarp": Lanes(f"{WAIT} __syncwarp(); {RELEASE}"),
    "one_lane_behind_a_vote": Lanes(f"{WAIT} sum += __all_sync(~0u, lane < 40); {RELEASE}"),
    "an_elected_lane": Lanes(f"{WAIT} if (elected()) arrive(at(&empty));"),
    "a_lane_of_its_own": Lanes(f"if (lane == 0) {{ {WAIT} {RELEASE} }}"),
    "two_lanes_that_meet": Lanes(f"if (lane == 0 || lane == 7) {{ {WAIT} __syncwarp(0x81); }} {RELEASE}"),
    "half_a_warp_behind_a_shuffle": Lanes(
        f"if (lane < 16) {{ {WAIT} sum += __shfl_sync(0xffff, lane, 3); }} {RELEASE}"
    ),
    "one_lane_behind_another_mbarrier": Lanes(f"{WAIT} arrive(at(&other)); {RELAY}"),
    "one_lane_behind_a_flag": Lanes(FLAG),
    "one_lane_fills_behind_syncwarp": Lanes(
        f"{WAIT} arrive(at(&empty));",
        "wait(at(&empty), turn & 1 ^ 1); __syncwarp(); if (lane == 0) arrive(at(&full));",
        full=1,
        empty=32,
    ),
    "both_sides_in_one_warp": Lanes(f"if (lane == 0) arrive(at(&full)); else {WAIT} __syncwarp();", "", full=1),
    "all_lanes_of_one_warp": Lanes(f"arrive(at(&full)); {WAIT}", ""),
}
FAULTY_LANES = {
    "one_lane_releases_for_all": Lanes(f"{WAIT} {RELEASE}"),
    "a_lane_elected_before": Lanes(f"const unsigned e = elected(); {WAIT} if (e) arrive(at(&empty));"),
    "one_of_two_lanes": Lanes(f"if (lane == 0 || lane == 7) {WAIT} {RELEASE}"),
    "the_other_half_meets": Lanes(f"if (lane < 16) {WAIT} else __syncwarp(0xffff0000); {RELEASE}"),
    "too_few_lanes_meet": Lanes(f"if (lane < 16) {WAIT} __syncwarp(lane < 8 ? 0xff : 0xffffff00); {RELEASE}"),
    "a_lane_is_left_out_of_another_mbarrier": Lanes(f"{WAIT} if (lane != 5) arrive(at(&other)); {RELAY}", other=31),
    "one_lane_fills_for_all": Lanes(
        f"{WAIT} arrive(at(&empty));",
        "wait(at(&empty), turn & 1 ^ 1); if (lane == 0) arrive(at(&full));",
        full=1,
        empty=32,
    ),
    "both_sides_in_one_warp": Lanes(f"if (lane == 0) arrive(at(&full)); else {WAIT}", "", full=1),
    "half_of_one_warp_arrives": Lanes(f"if (lane < 16) arrive(at(&full)); {WAIT}", "", full=16),
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("lanes", SOUND_LANES.values(), ids=SOUND_LANES)
def test_lanes_that_wait_for_each_other_before_one_arrives(lanes: Lanes, seed: int) -> None:
    done = lanes.run(seed)
    assert done.status == "ok", done.reason


@pytest.mark.parametrize("lanes", FAULTY_LANES.values(), ids=FAULTY_LANES)
def test_a_lane_that_may_miss_two_phases(lanes: Lanes) -> None:
    """Lanes of a warp may diverge until they wait for each other, so any lane may miss two phases of the mbarrier."""
    done = lanes.run(seed=0)
    assert "mbarrier_misuse" in {f.kind for f in done.faults}, done.reason

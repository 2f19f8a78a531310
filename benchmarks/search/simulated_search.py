"""Simulate searches of 10 seconds on a GPU. Report trials, modules, and how close the winner is to the best schedule.

    python -m benchmarks.search.simulated_search [--runs 20] [--seconds 10] [--cores 16] [--device h100] [--cpu-time]

All clocks are simulated. The process that proposes schedules counts its steps, and advances the clock by a constant CPU
time per step, as measured on quiet cores (SETUP, ESTIMATE, PROPOSAL). A run therefore gives the same result on any
machine. A slower sampler does not change this counted time, so the measured CPU time is printed next to it. With
``--cpu-time``, the clock advances by the measured time instead. The GPU is
``benchmarks.gpu.virtual_gpu``, with launch delays, a varying clock, and a power limit that lowers the clock by a fifth.
Trials are timed in pairs with the incumbent by the code that is used on a GPU (``measurements.runners.cuda.race``).
Compilation of a new module takes COMPILE seconds of a core.

The true time of a schedule is the time model's estimate, multiplied by factors that the search does not know: one per
structure, per parameter value and per schedule. The best schedule is approximated by SEARCHES searches with the true
times, and by local searches that start from the results of these searches and from the winner.
"""

from __future__ import annotations

import argparse
import heapq
import math
import statistics
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from autosched.samplers.first_choices.descent import descended
from autosched.samplers.first_choices.model_search import fastest
from autosched.samplers.first_choices.portfolio import structure
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.options import TuneOptions
from autosched.tuning.plan import SearchPlan
from autosched.tuning.proposing import sampler_of
from autosched.tuning.winner.paired_timing import FIRST_ROUNDS, select_entrants
from benchmarks.gpu.virtual_gpu import VirtualGpu, VirtualKernel
from cost_models.estimates import AnalyticEstimates, Estimates
from cost_models.trees.evaluation import rank_correlation
from measurements.runners.cuda.launch_timer import LaunchTimer
from measurements.runners.cuda.race import RaceRule, race
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.near_ties import plausible
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(4096, 4096, 4096, a="bf16")
# Standard deviations of the logarithms of the true time's factors: per structure, per parameter value, per schedule.
STRUCTURE, VALUE, OWN = 0.05, 0.01, 0.008
# mean and standard deviation of the factor by which the power limit lowers the clock
SUSTAINED, SUSTAINED_DEVIATION = 0.8, 0.015
COMPILE = (0.15, 0.5)  # minimum and maximum seconds to compile a module, as measured
START = 0.3  # seconds to start CUDA, in parallel with the set-up of the search
# CPU seconds of the proposing process: for set-up (imports, counting and sampling the space), per estimate, per
# proposal.
SETUP, ESTIMATE, PROPOSAL = 0.9, 0.1e-3, 3e-3
INPUTS = 0.2  # seconds that the GPU's process takes for inputs and reference before the first trial
# seconds that the GPU's process takes to load a module, and to check the results of a launch
LOAD, VERIFY = 0.5e-3, 1.5e-3
FINAL = 1.0  # seconds reserved for the final timing of the finalists
SETTLES, STEADY = 6e-3, 4e-3  # seconds that a finalist runs in each round, first untimed, then timed
COPIES, LIMIT = 4, 1.0
SEARCHES = 3  # number of searches with the true times: a single search missed the best schedule in 3 of 40 runs
HIT = 0.01  # a winner counts as a hit if it is at most this fraction slower than the best known schedule


def deviate(seed: int, *subject: object) -> float:
    """Return a pseudo-random number from the standard normal distribution, determined by the arguments."""
    bits = zlib.crc32(repr((seed, *subject)).encode())
    return statistics.NormalDist().inv_cdf((bits + 0.5) / 2.0**32)


@dataclass
class Truth:
    """True times of one simulated GPU.

    Attributes:
        estimates: Estimates of the time model.
        seed: Seed of the factors.
    """

    estimates: Estimates
    seed: int

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the logarithm of each schedule's seconds in steady state, shape [n]."""
        deviations = np.array([self._deviation(s) for s in schedules])
        values: FloatArray = self.estimates.log_seconds(schedules) + deviations
        return values

    def _deviation(self, schedule: Schedule) -> float:
        values = sum(deviate(self.seed, schedule.template, name, value) for name, value in schedule.items)
        structure = STRUCTURE * deviate(self.seed, structure_of(schedule))
        return structure + VALUE * values + OWN * deviate(self.seed, schedule.items)

    def kernel(self, schedule: Schedule) -> VirtualKernel:
        """Return the kernel of a schedule on the virtual GPU."""
        sustained = SUSTAINED + SUSTAINED_DEVIATION * deviate(self.seed, "power", structure_of(schedule))
        return VirtualKernel(math.exp(self.log_seconds([schedule])[0]) * sustained, sustained)


def structure_of(schedule: Schedule) -> tuple[object, ...]:
    """Return the template and the parameters with the largest effect, with their values."""
    prefixes = ("tile_", "stages", "consumer_warpgroups", "cluster_")
    return (schedule.template, *(item for item in schedule.items if item[0].startswith(prefixes)))


@dataclass
class SimulatedGpu:
    """The process that times candidates, with a virtual GPU.

    Attributes:
        truth: True times, from which the virtual kernel of a schedule is made.
        seed: Seed of launch delays.
    """

    truth: Truth
    seed: int
    incumbent: Schedule | None = None
    seconds: float = math.inf  # measured seconds of the incumbent, the fastest schedule so far
    kernels: dict[Schedule, VirtualKernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gpu = VirtualGpu(self.seed)
        gpu = self.gpu
        self.timer = LaunchTimer(gpu.cupy, gpu.stream, gpu.state, gpu, gpu.host)  # type: ignore[arg-type]

    def raced(self, schedule: Schedule, rule: RaceRule) -> float:
        """Return the seconds of a schedule: the incumbent's seconds times the ratio that a paired timing gives."""
        gpu, own_kernel = self.gpu, self.kernels.setdefault(schedule, self.truth.kernel(schedule))
        other = own_kernel if self.incumbent is None else self.kernels[self.incumbent]
        reference = own_kernel.steady if self.incumbent is None else self.seconds
        result = race(
            self.timer, lambda _: gpu.launch(other), lambda _: gpu.launch(own_kernel), reference, COPIES, LIMIT, rule
        )
        assert result is not None
        return reference * statistics.median(result.ratios)

    def trial(self, schedule: Schedule, ready: float, new_module: bool) -> tuple[float, float]:
        """Return the measured seconds of a candidate, and the simulated time at the end of the measurement."""
        host = self.gpu.host
        host.now = max(host.now, ready) + LOAD * new_module + VERIFY
        measured = self.raced(schedule, RaceRule())
        if measured < self.seconds:
            self.incumbent, self.seconds = schedule, measured
        return measured, host.now

    def final(self, schedules: Sequence[Schedule], until: float) -> dict[Schedule, float]:
        """Return the steady-state seconds of each finalist: the median over rounds of a few milliseconds each."""
        times: dict[Schedule, list[float]] = {schedule: [] for schedule in schedules}
        rng = np.random.default_rng(self.seed)
        running = list(schedules)
        while self.gpu.host.now < until:
            if len(times[running[0]]) == FIRST_ROUNDS:
                running = [running[i] for i in plausible([times[schedule] for schedule in running])]
            for i in rng.permutation(len(running)).tolist():
                kernel = self.kernels[running[i]]
                settles, count = (math.ceil(seconds / kernel.steady) for seconds in (SETTLES, STEADY))

                def group(kernel: VirtualKernel = kernel, n: int = count) -> None:
                    for _ in range(n):
                        self.gpu.launch(kernel)

                timings = self.timer.timed(LIMIT, [group], lambda k=kernel, n=settles: group(k, n))
                times[running[i]].append(timings[0] / count)
        return {schedule: statistics.median(times[schedule]) for schedule in running}


@dataclass(frozen=True)
class Outcome:
    """Result of one simulated search."""

    trials: int
    modules: int
    winner: Schedule
    log_seconds: float  # true log seconds of the winner
    finished: float
    counted: float  # CPU seconds of the proposing process, computed from its number of estimates and proposals
    measured: float  # measured CPU seconds of the proposing process


class Search:
    """A search with the steps of ``tune``, on simulated cores and a simulated GPU.

    Args:
        task: Task of the search.
        truth: True times.
        seed: Seed of the sampler and of the delays.
        cores: Number of cores. One core runs the sampler, all other cores compile.
        seconds: Duration of the search.
        cpu_time: If True, the clock advances by the measured CPU time of the process that proposes schedules. If False,
            it advances by the counted CPU time.
    """

    def __init__(
        self,
        task: SearchTask,
        truth: Truth,
        seed: int,
        cores: int,
        seconds: float,
        *,
        cpu_time: bool = False,
    ) -> None:
        self._task, self._truth, self._seconds, self._cpu_time = task, truth, seconds, cpu_time
        self._gpu = SimulatedGpu(truth, seed)
        self._compilers = [0.0] * (cores - 1)
        self._modules: dict[str, float] = {}  # time at which the module's compilation ends, by digest of its code
        self._digests: dict[Schedule, str] = {}  # digest of the code of each proposed schedule
        self._in_flight = InFlightLimit(compilers=cores - 1)
        self._now = self._measured = 0.0
        self._num_proposed = 0
        # heap of compiled candidates, ordered by the time when each is ready
        self._waiting: list[tuple[float, int, Schedule, bool]] = []
        # Use a new table of estimates, because cached estimates of an earlier run would take no time.
        self._estimates = AnalyticEstimates(task.problem, task.templates, task.device)
        with self._computing():
            plan = SearchPlan(trials=10**6, sampler="bayes")
            self._sampler = sampler_of(task, TuneOptions(seed=seed), plan, self._estimates, recorded=False).sampler
        self._now = max(START, self._now if cpu_time else self._now + SETUP)
        self._gpu.gpu.host.now = self._now + INPUTS

    @property
    def _counted(self) -> float:
        return SETUP + ESTIMATE * len(self._estimates.known) + PROPOSAL * self._num_proposed

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Advance the clock by the time that the proposing process takes for the work within the ``with`` block."""
        counted, began = self._counted, time.process_time()
        yield
        measured = time.process_time() - began
        self._measured += measured
        self._now += measured if self._cpu_time else self._counted - counted

    def _propose(self, free_slots: int, number: int) -> int:
        began = self._now
        with self._computing():
            schedules = self._sampler.ask(free_slots)
            kernels = [self._task.templates.kernel(self._task.problem, s, self._task.device) for s in schedules]
            self._num_proposed += len(schedules)
        if schedules:
            self._in_flight.note("propose", [(self._now - began) / len(schedules)] * len(schedules))
        submitted = self._now
        with self._computing():
            self._sampler.prepare()
        for schedule, kernel in zip(schedules, kernels, strict=True):
            self._digests[schedule] = kernel.code_digest
            new = kernel.code_digest not in self._modules
            if not new:
                self._in_flight.note("compile", [0.0])
            else:
                low, high = COMPILE
                cost = low + (high - low) * zlib.crc32(kernel.code_digest.encode()) / 2.0**32
                self._modules[kernel.code_digest] = max(heapq.heappop(self._compilers), submitted) + cost
                heapq.heappush(self._compilers, self._modules[kernel.code_digest])
                self._in_flight.note("compile", [cost])
            ready = max(submitted, self._modules[kernel.code_digest])
            number += 1
            heapq.heappush(self._waiting, (ready, number, schedule, new))
        return number

    def run(self) -> Outcome:
        """Search until the final timing must begin, and choose the winner among the finalists."""
        times: dict[Schedule, float] = {}
        proposed = 0
        while self._now < self._seconds - FINAL:
            free_slots, least = self._in_flight.free_slots(len(times), len(self._waiting), self._sampler.batch)
            if free_slots >= least:
                proposed = self._propose(free_slots, proposed)
            ready, _, schedule, new = heapq.heappop(self._waiting)
            before = max(self._gpu.gpu.host.now, ready)
            measured, done = self._gpu.trial(schedule, ready, new)
            if done > self._seconds - FINAL:
                break
            self._in_flight.note("measure", [done - before])
            self._now = max(self._now, done)
            times[schedule] = measured
            with self._computing():
                timing = Timing.of([measured])
                self._sampler.tell(schedule, Measurement(Status.OK, Provenance.MEASURED, timing=timing))
        tried = list(times)
        timings = [Timing.of([times[schedule]]) for schedule in tried]
        selected = select_entrants(timings, lambda i: self._digests[tried[i]], lambda i: structure(tried[i]))
        finalists = [tried[i] for i in selected]
        self._gpu.gpu.host.now = max(self._gpu.gpu.host.now, self._seconds - FINAL)
        final = self._gpu.final(finalists, self._seconds)
        winner = min(final, key=final.__getitem__)
        true = float(self._truth.log_seconds([winner])[0])
        finished = self._gpu.gpu.host.now
        return Outcome(len(times), len(self._modules), winner, true, finished, self._counted, self._measured)


def task_of(problem: Matmul, target: Device) -> SearchTask:
    """Return a search task with all templates."""
    templates = templates_for(problem, target)
    return SearchTask(problem, target, templates, templates.space(problem, target))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first run, which is also its seed (default: 0)"
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--device", default="h100")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="advance the clock by the sampler's measured CPU time (default: counted work)",
    )
    options = parser.parse_args(arguments)
    task = task_of(PROBLEM, device(options.device))
    columns = ("run", "trials", "modules", "winner / best known", "seconds", "CPU seconds counted", "measured")
    print(f"| {' | '.join(columns)} |\n|{'---:|' * len(columns)}", flush=True)
    losses, trials = [], []
    for run in range(options.first, options.first + options.runs):
        estimates = AnalyticEstimates(task.problem, task.templates, task.device)
        truth = Truth(estimates, run)
        outcome = Search(task, truth, run, options.cores, options.seconds, cpu_time=options.cpu_time).run()
        best = known_best(task, truth, outcome)
        losses.append(math.exp(outcome.log_seconds - best) - 1)
        trials.append(outcome.trials)
        row = f"| {run} | {outcome.trials} | {outcome.modules} | {1 + losses[-1]:.4f} | {outcome.finished:.1f} "
        print(f"{row}| {outcome.counted:.2f} | {outcome.measured:.2f} |", flush=True)
    hits = sum(loss <= HIT for loss in losses)
    print(f"\n{hits} of {options.runs} winners within {HIT:.0%} of the best known; at least {min(trials)} trials.")
    estimates = AnalyticEstimates(task.problem, task.templates, task.device)
    near = fastest(task.space, estimates, 0)[0]
    guesses, true = (np.exp(x) for x in (estimates.log_seconds(near), Truth(estimates, 0).log_seconds(near)))
    print(
        f"Spearman correlation of estimates and true times for the {len(near)} best estimates: "
        f"{rank_correlation(guesses, true):.2f}."
    )
    return 0


def known_best(task: SearchTask, truth: Truth, outcome: Outcome) -> float:
    """Return the log seconds of the best schedule that was found by this run or by searches with the true times."""
    handed = Estimates(truth.estimates.features, truth.log_seconds, most=math.inf)
    known = [outcome.winner]
    for seed in range(SEARCHES):
        best, _ = fastest(task.space, handed, seed)
        known += [*best, *descended(task.space, handed, [outcome.winner, *best[:4]])]
    return float(handed.log_seconds(known).min())


if __name__ == "__main__":
    sys.exit(main())

"""``tune``: search the schedules of a problem, with every trial kept in a database."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.programs import loading
from autosched.samplers import DEFAULT, MODEL, Sampler
from autosched.samplers import sampler as make_sampler
from autosched.samplers.first_choices import nvidia_heuristics
from autosched.samplers.first_choices.model_choice import default_choice
from autosched.samplers.scalarized import ScalarizedSampler
from autosched.samplers.seeded import SeededSampler
from autosched.tuning import backends, preconditions, warm_start
from autosched.tuning import effort as efforts
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import Verifier
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.objectives import Objectives
from autosched.tuning.options import MODEL_GAIN, MODEL_TRIALS, TRIALS, TuneOptions
from autosched.tuning.progress_line import shown
from autosched.tuning.result import Observer, TuneResult, completed
from autosched.tuning.trial_table import Direction
from autosched.tuning.winner import winner_proof
from autosched.tuning.winner.finalists import simplicity
from autosched.user_kernels.entry import COMPILED_FIRST, check_entry
from autosched.user_kernels.problem import KernelProblem
from autosched.verify.machine_counting import why_ptx
from cost_models.estimates import estimates_of
from measurements.records.measurement import Provenance
from measurements.records.policy import Policy
from measurements.runners.cuda.runner import CudaOptions
from measurements.runners.fleet.cluster import Fleet
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.programs.builder import Program
from search_spaces.spaces.recorded_space import recorded_union
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.union_space import UnionSpace
from search_spaces.templates.template import KernelTemplate

if TYPE_CHECKING:
    from measurements.store.store import Store


def tune(
    problem: Problem | Program,
    *,
    trials: int | None = None,
    database: str | Path | None = None,
    device: str | Device | None = None,
    backend: str = "auto",
    sampler: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    verify: bool = True,
    warm_cache: bool = False,
    eager: bool = False,
    clocks: int | None = None,
    gpus: backends.Gpus | None = None,
    ray: str | Fleet | None = None,
    progress: Observer | bool | None = True,
    templates: Iterable[str | KernelTemplate] | None = None,
    model: str | Path | None = None,
    min_gain: float | None = None,
    seconds: float | None = None,
    proof_seconds: float | None = None,
    effort: str | None = None,
    objective: str | Sequence[str] | Mapping[str, Direction] | None = None,
    recording: str | Path | None = None,
    **sizes: int,
) -> TuneResult:
    """Search the schedules of ``problem``, and keep every trial in a database, where ``autosched.matmul`` and the like
    find the best.

    On a GPU the fastest are timed in turns at the end, which decides. A matmul is first asked of nvMatmulHeuristics,
    where that is installed.

    Args:
        problem: What is computed, such as ``autosched.Matmul(m=4096, n=4096, k=4096)``, or a tile program.
        trials: Number of further schedules to try. Default: 64; where a time model alone makes the times, as without a
            GPU, the model itself is searched, and its best schedules are compiled until it expects none to be faster.
        database: A path or an SQLAlchemy URL; by default the one of AUTOSCHED_DB, else ``autosched/best.db`` in the
            user's data folder. ``result.database`` says which.
        device: The name of the GPU to tune for; by default the one of this machine, or h200 where there is none.
        backend: How candidates are timed: "auto", "cuda", "estimate", "ray" or "replay".
        sampler: Name of the sampler. Default: "bayes"; "model" where the model itself is searched.
        seed: Random seed.
        workers: The number of compilers, by default one for each core.
        verify: Whether each new best is emulated before it is called best, on backends that do not run kernels, and the
            best at the end with a full proof.
        warm_cache: Whether to time with operands in the L2 instead of from memory. How times are taken, this and the
            next two, is a part of what they are ranked with.
        eager: Whether the host queues each launch, instead of a CUDA graph.
        clocks: SM clock in MHz if locked (verified); None if unlocked.
        gpus: GPUs to measure on: CUDA device numbers, or "all", all of one kind. Default: GPU 0.
        ray: The address of a Ray cluster ("auto": the one of this machine) or a Fleet, on all of whose GPUs of the kind
            ``device`` is measured instead.
        progress: An observer that is told of every trial; True draws a line on stderr, on a terminal and in a notebook,
            and prints a line every 10 seconds elsewhere; False or None shows nothing.
        templates: The kernel templates to search, by name or themselves; by default every one that can compute it.
        model: A file of ``autosched train``, from which the search starts, by default from the times of other problems
            in the database; where times are estimated, the model estimates them.
        min_gain: Ends the search once UNPROMISING proposals in a row are expected to shorten the best time by less than
            this fraction of it.
        seconds: Time limit of the search in seconds. Default: none. Trials in flight are completed, and the fastest
            schedules are still timed in turns or verified.
        proof_seconds: How long the full proof may take, by default PROOF_SECONDS; 0 leaves it out.
        effort: Stands for trials, min_gain and proof_seconds that are not given: "model" tries the time model's own
            choice alone, "quick" goes on while that promises 2%, "full" for long.
        objective: What decides in place of the time: a column of a trial's row, a metric of the problem among them,
            such as "registers", "GFLOP/s:max", "joules" (on a GPU); several give a Pareto front (``result.front``).
        recording: What the backend "replay" replays: a cache or T4 file of Kernel Tuner's, a recording of ours.
        sizes: Of a tile program, by name, such as ``m=4096``; those that are named like an option are said by
            ``autosched.programs.loading.problem(program, **sizes)``.

    Returns:
        The best of the database, the trials of this run, and how it ended.

    Raises:
        ValueError: Input that cannot be used (StoreError for the database), before anything is written; or
            CommonFailure: the first configurations fail for one reason, which the message states with its remedy.
        TypeError: An option that there is not.
        KeyboardInterrupt: Ctrl-C; every trial until then is stored, and the exception's ``result`` is what was found.
    """
    began = time.monotonic()
    problem = _problem(problem, sizes)
    unplanned = trials is None and sampler is None and effort in (None, "quick")
    trials, given = efforts.settings(effort, trials, min_gain=min_gain, proof_seconds=proof_seconds)
    min_gain = given["min_gain"] or 0.0
    policy = Policy("warm" if warm_cache else "cold", "eager" if eager else "graph", clocks)
    with shown(progress) as observer:
        options = TuneOptions(
            trials=TRIALS if trials is None else trials,
            database=database,
            device=device,
            backend=backend,
            sampler=sampler or DEFAULT,
            seed=seed,
            workers=workers,
            verify=verify,
            policy=policy,
            gpus=gpus,
            progress=observer,
            templates=templates,
            model=model,
            min_gain=min_gain,
            seconds=seconds,
            proof_seconds=given["proof_seconds"],
            model_first=effort is not None and efforts.effort(effort).model_first,
            objectives=Objectives.of(objective),
        )
        trained = None if model is None else warm_start.loaded(model)
        with backends.choose(
            backend,
            device,
            problem=problem,
            workers=workers,
            timing=CudaOptions(policy=policy, power=options.objectives.needs_power),
            gpus=gpus,
            ray=ray,
            templates=templates,
            model=trained,
            recording_file=recording,
        ) as chosen:
            preconditions.refuse_too_large(problem, chosen.device)
            space = _space(problem, chosen, seed)
            preconditions.refuse_unknown_objectives(options.objectives, problem, space.sample(1, seed)[0])
            direct = unplanned and options.objectives.is_time and chosen.model_alone(problem)
            if direct:
                options = _model_options(options, trials, given["min_gain"])
            searched = (chosen.templates, problem, chosen.device, space)
            start = None if trained is None else warm_start.from_model(trained, str(model), *searched)
            if chosen.pool is not None:
                chosen.pool.cache.check()  # before the emulator is compiled
            verifier, note = winner_proof.of_new_bests(chosen) if verify else (None, "")
            with _opened(options, chosen) as store:
                earlier = store.trials(problem, chosen.device.name, chosen.runner.provenance, policy=chosen.policy)
                preconditions.refuse_other_schedules(store.name, earlier, space)
                preconditions.refuse_other_model(store.name, earlier, chosen.runner)
                if start is None and direct:
                    start = warm_start.WarmStart(estimates_of(problem, chosen.templates, chosen.device, space))
                if start is None:
                    start = warm_start.from_other_problems(
                        store, chosen.runner.provenance, *searched, policy=chosen.policy
                    )
                tuner = build_tuner(problem, options, chosen, space, store, start, verifier, note)
                with_proof = verifier is not None and options.proof_limit > 0
                result = tuner.run(
                    options.trials,
                    options.search_limit,
                    earlier=earlier,
                    min_gain=options.min_gain,
                    full=winner_proof.of_winner(problem, chosen) if with_proof else None,
                    proof_seconds=options.proof_limit,
                )
                result = dataclasses.replace(
                    result,
                    worth=start.worth(result.trials),
                    database=str(options.database_or_default),
                    seconds=time.monotonic() - began,
                )
    return completed(result)


def _model_options(options: TuneOptions, trials: int | None, min_gain: float | None) -> TuneOptions:
    """Return options for searching the model itself; ``trials`` and ``min_gain`` as the user or an effort set them."""
    return dataclasses.replace(
        options,
        sampler=MODEL,
        trials=MODEL_TRIALS if trials is None else trials,
        min_gain=MODEL_GAIN if min_gain is None else min_gain,
        model_first=False,
        search_model=True,
    )


def _problem(problem: Problem | Program, sizes: Mapping[str, int]) -> Problem:
    if isinstance(problem, Program):
        return loading.problem(problem, **sizes)
    Problem.check(problem)
    if sizes:
        raise TypeError(f"tune() got an unexpected keyword argument {next(iter(sizes))!r}")
    return problem


def _space(problem: Problem, chosen: backends.Backend, seed: int) -> UnionSpace:
    """Return the schedules to search. Raises EmptySpace, a ValueError that names the rules, and ValueError for an entry
    point that the user's source does not have."""
    space = chosen.templates.space(problem, chosen.device)
    if chosen.schedules is not None:
        space = recorded_union(space, chosen.schedules)
    space.sample(1, seed)
    if isinstance(problem, KernelProblem) and chosen.pool is not None:
        check_entry(problem, space.sample(COMPILED_FIRST, seed), chosen.device)
    return space


@contextmanager
def _opened(options: TuneOptions, chosen: backends.Backend) -> Iterator[Store]:
    """Yield the database, made where it is missing, and the compilers' cache. What is refused leaves nothing behind."""
    from measurements.store.store import Store, StoreError  # with sqlalchemy, which the loop itself does without

    database = options.database_or_default
    if options.database is None and "://" not in str(database):
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    with Store.open(database) as store:
        if store.in_memory:
            raise StoreError(f"{database} is a database in memory, which keeps nothing: give the path of a file")
        if chosen.pool is not None:
            chosen.pool.cache.prepare()
        yield store


def build_tuner(
    problem: Problem,
    options: TuneOptions,
    chosen: backends.Backend,
    space: UnionSpace,
    store: Store,
    start: warm_start.WarmStart,
    verifier: Verifier | None,
    note: str,
) -> Tuner:
    """Return the loop over the parts of ``chosen``, with a sampler that knows what ``start`` knows.

    Args:
        problem: What is computed.
        options: Those of ``tune``, validated.
        chosen: The backend: what makes the times, of which templates, on which device.
        space: The legal schedules of all its templates.
        store: Where trials go.
        start: What is known before the first trial.
        verifier: Judges new bests; None where the runner compares results itself.
        note: A line for people about ``verifier``.

    Returns:
        The loop; nothing has been started.

    Raises:
        ValueError: A sampler that cannot be loaded.
    """
    advice = nvidia_heuristics.Advice()
    if chosen.schedules is None and not options.search_model:  # a recording holds only its own
        advice = nvidia_heuristics.advice(chosen.templates, problem, chosen.device, start.estimates)
    sampler = _sampler(problem, options, space, start)
    if isinstance(problem, KernelProblem) and (default := _default_configuration(space)) is not None:
        sampler = SeededSampler(sampler, (default,), "default", own_first=False)
    if options.model_first and (first := _default_schedule(problem, chosen)) is not None:
        sampler = SeededSampler(sampler, (first,), "model", own_first=False)
    if advice.schedules:
        sampler = SeededSampler(sampler, advice.schedules, nvidia_heuristics.NAME)
    optimised = "" if options.objectives.is_time else f"optimised: {options.objectives}"
    searching = SEARCHING if options.search_model else ""
    lines = (
        chosen.headline,
        chosen.line,
        searching,
        optimised,
        note,
        _unranked(chosen, problem),
        *start.lines,
        advice.line,
    )
    return Tuner(
        TunerParts(
            problem,
            chosen.device,
            chosen.runner,
            store,
            sampler,
            policy=chosen.policy,
            seed=options.seed,
            generate=chosen.templates.kernel,
            versions={t.name: t.version for t in chosen.templates},
            space_versions={name: member.fingerprint for name, member in space.members.items()},
            verifier=verifier,
            complexity=simplicity(space),
            default=lambda: _default_schedule(problem, chosen),
            lines=tuple(line for line in lines if line),
            observer=options.progress,
            in_flight=_in_flight_limit(chosen, options.workers),
            objectives=options.objectives,
            schedules=space.count,
        )
    )


def _sampler(problem: Problem, options: TuneOptions, space: UnionSpace, start: warm_start.WarmStart) -> Sampler:
    """Return the sampler of these options; for other objectives than the time one for each way to weigh them, without
    what is known of times."""
    if options.objectives.is_time:
        return make_sampler(options.sampler, space, seed=options.seed, estimates=start.estimates)
    weights = options.objectives.weights
    members = [make_sampler(options.sampler, space, seed=options.seed + i) for i in range(len(weights))]
    return ScalarizedSampler(members, weights, partial(options.objectives.costs, problem))


def _default_schedule(problem: Problem, chosen: backends.Backend) -> Schedule | None:
    choice = default_choice(problem, chosen.device, chosen.templates)
    return None if choice is None else choice.schedule


def _default_configuration(space: UnionSpace) -> Schedule | None:
    """Return the first values of a user's kernel, which say whether it works at all; None where they are not legal."""
    name, member = next(iter(space.members.items()))
    schedule = Schedule(name, tuple((p.name, p.default) for p in member.parameters))
    return schedule if schedule in space else None


def _in_flight_limit(chosen: backends.Backend, workers: int | None) -> InFlightLimit:
    """On a GPU, what costs ask for. Elsewhere there is no hurry, and the same seed tries the same on every machine."""
    if chosen.runner.provenance is not Provenance.MEASURED:
        return InFlightLimit()
    compilers = workers or (os.cpu_count() if chosen.fleet is None else chosen.fleet.compilers.members) or 1
    return InFlightLimit(gpus=chosen.gpus, compilers=compilers)


SEARCHING = (
    "the model that makes the times is searched itself; its best schedules are compiled, for registers and spills, "
    "until it expects none to be faster (--trials N tries N schedules instead)"
)
ESTIMATES_PAGE = "docs/reference/estimates.md"


def _unranked(chosen: backends.Backend, problem: Problem) -> str:
    """Return a line for people about templates whose schedules cannot be ranked here."""
    counted = [t.name for t in chosen.templates if backends.is_counted(t, problem)]
    if chosen.runner.provenance is not Provenance.ESTIMATED or not counted:
        return ""
    why = why_ptx()
    code = "spills and instruction mix by machine code" if why is None else f"instruction mix by PTX, as {why}"
    return (
        f"times of {', '.join(counted)} are ESTIMATED from what some blocks do in the emulator ({code}), and "
        f"one that it cannot run is not ranked; how well that ranks: {ESTIMATES_PAGE}"
    )

"""Function ``tune``, which searches the schedules of a problem and stores every trial in a database."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.programs import loading
from autosched.tuning import backends, order_rules, preconditions, warm_start
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.near_winners import near_winners
from autosched.tuning.options import TuneOptions
from autosched.tuning.order_rules import SearchOrder
from autosched.tuning.plan import SearchPlan
from autosched.tuning.progress_line import shown
from autosched.tuning.proposing import sampler_of
from autosched.tuning.result import Observer, TuneResult, completed
from autosched.tuning.winner import winner_verification
from autosched.verify.machine_counting import why_ptx
from cost_models.estimates import estimates_of
from measurements.runners.base import Runner
from measurements.trials.measurement import Provenance
from search_spaces.operators.problem import Problem
from search_spaces.programs.builder import Program
from search_spaces.search_task import SearchTask
from search_spaces.spaces.recorded_space import recorded_union
from search_spaces.spaces.sum_order import OrderRule
from search_spaces.sum_orders.orders import restricted

if TYPE_CHECKING:
    from measurements.store.store import Store


def tune(problem: Problem | Program, options: TuneOptions | None = None, **keywords: Any) -> TuneResult:
    """Search the schedules of ``problem`` and store every trial in a database.

    ``autosched.matmul`` and the other functions look up their kernels in the database. On a GPU, a final paired timing
    of the fastest schedules determines the best. For a matmul, the choices of nvMatmulHeuristics are tried early if it
    is installed.

    Args:
        problem: Problem to compute, such as ``autosched.Matmul(m=4096, n=4096, k=4096)``, or a tile program.
        options: Options of the search. Default: ``TuneOptions()``.
        keywords: Fields of ``TuneOptions`` by name, such as ``trials=200``, which override ``options``. Other names are
            sizes of a tile program, such as ``m=4096``; if a size has the same name as an option, pass
            ``autosched.programs.loading.problem(program, **sizes)`` as ``problem``.

    Returns:
        The best trial in the database, the trials of this run, and the reason why the run ended.

    Raises:
        ValueError: Invalid input (StoreError for the database); nothing has been written.
        CommonFailure: All first configurations failed for the same reason. This subclass of ValueError states the
            reason and the remedy.
        TypeError: An unknown option.
        KeyboardInterrupt: Ctrl-C. Completed trials are stored, and the exception's ``result`` contains them.
    """
    began = time.monotonic()
    options, sizes = TuneOptions.gathered(options, keywords)
    problem = _problem(problem, sizes)
    trained = None if options.model is None else warm_start.loaded(options.model)
    with shown(options.progress) as observer, backends.choose(problem, options, trained) as chosen:
        order = _search_order(problem, options, chosen) if options.rules_bits else None
        rule = None if order is None else order.rule
        backend = chosen if rule is None else _restricted(problem, chosen, rule)
        preconditions.refuse_too_large(problem.min_bytes, backend.device)
        space = backend.templates.space(problem, backend.device)
        if backend.schedules is not None:
            space = recorded_union(space, backend.schedules)
        task = SearchTask(problem, backend.device, backend.templates, space)
        preconditions.refuse_unsearchable(task, options.seed, compiled=backend.pool is not None)
        preconditions.refuse_unknown_objectives(options.objectives, task)
        if options.compiler_controls:
            preconditions.refuse_old_compiler(backend)
        run = RunIdentity.of(task, backend.runner.provenance, backend.policy, options.seed, rule)
        plan = options.plan(model_alone=backend.model_alone)
        estimates = estimates_of(task)
        start = None if trained is None else warm_start.from_model(trained, str(options.model), task, estimates)
        if backend.pool is not None:
            backend.pool.cache.check()  # first, because compiling the emulator takes a minute
        verifiers = (
            winner_verification.verifiers(task, backend, rule) if options.verify else winner_verification.Verifiers()
        )
        with _opened(options, backend) as store:
            earlier = store.trials(problem, run.device.name, run.provenance, policy=run.policy)
            preconditions.refuse_earlier(store.name, earlier, task, backend.runner)
            order_rules.refuse_other_orders(store.name, earlier, task, rule)
            if start is None and plan.search_model:
                start = warm_start.WarmStart(estimates)
            if start is None:
                start = warm_start.from_other_problems(store, run, task, estimates)
            lines = () if order is None else (order.line,)
            with starting(backend.runner):
                tuner = _tuner(task, run, options, plan, backend, store, start, verifiers, observer, lines)
            result = tuner.run(plan, earlier)
            result = dataclasses.replace(
                result,
                worth=start.worth(result.trials),
                database=str(options.database_or_default),
                seconds=time.monotonic() - began,
            )
    return completed(result)


def _problem(problem: Problem | Program, sizes: Mapping[str, Any]) -> Problem:
    if isinstance(problem, Program):
        return loading.problem(problem, **sizes)
    Problem.check(problem)
    if sizes:
        raise TypeError(f"tune() got an unexpected keyword argument {next(iter(sizes))!r}")
    return problem


def _search_order(problem: Problem, options: TuneOptions, backend: backends.Backend) -> SearchOrder:
    """Return the rule on the order of sums. Does not create the database: invalid input must not create files."""
    from measurements.store.store import Store

    database = options.database_or_default
    exists = "://" in str(database) or Path(database).exists()
    with Store.open(database if exists else "sqlite://") as store:
        return order_rules.search_order(options, problem, backend.device, backend.templates, store)


def _restricted(problem: Problem, backend: backends.Backend, rule: OrderRule) -> backends.Backend:
    return dataclasses.replace(backend, templates=restricted(backend.templates, problem, backend.device, rule))


@contextmanager
def _opened(options: TuneOptions, backend: backends.Backend) -> Iterator[Store]:
    """Open the database (created if missing) and the compilers' cache. Called after all checks of the input."""
    from measurements.store.store import Store, StoreError  # imported here, because importing sqlalchemy is slow

    database = options.database_or_default
    if options.database is None and "://" not in str(database):
        Path(database).parent.mkdir(parents=True, exist_ok=True)
    with Store.open(database) as store:
        if store.in_memory:
            raise StoreError(f"{database} is an in-memory database, which is lost at exit: pass the path of a file")
        if backend.pool is not None:
            backend.pool.cache.prepare()
        yield store


@contextmanager
def starting(runner: Runner) -> Iterator[None]:
    """Start the GPU's process in the background while the search is prepared.

    Errors are ignored, because the search raises them again.
    """

    def start() -> None:
        with suppress(Exception):
            runner.fingerprint()

    if runner.provenance is not Provenance.MEASURED:
        yield
        return
    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _tuner(
    task: SearchTask,
    run: RunIdentity,
    options: TuneOptions,
    plan: SearchPlan,
    backend: backends.Backend,
    store: Store,
    start: warm_start.WarmStart,
    verifiers: winner_verification.Verifiers,
    observer: Observer | None,
    order_lines: Sequence[str],
) -> Tuner:
    """Assemble the search loop for ``backend``.

    Args:
        task: Task of the search.
        run: Properties shared by all trials.
        options: Options of ``tune``.
        plan: Limits of the run.
        backend: Backend that compiles and times candidates.
        store: Database of the trials.
        start: State before the first trial.
        verifiers: Verifiers for each new best trial and for the winner.
        observer: Observer to which every trial is reported.
        order_lines: Messages about the order of sums.

    Returns:
        The loop, not started yet.

    Raises:
        ValueError: The sampler cannot be loaded.
    """
    measured = backend.runner.provenance is Provenance.MEASURED
    proposing = sampler_of(
        task,
        options,
        plan,
        start.estimates,
        recorded=backend.schedules is not None,
        winners=lambda: near_winners(task.problem, task.device, store) if measured else (),
    )
    lines = (
        backend.headline,
        backend.line,
        SEARCHING if plan.search_model else "",
        "" if options.objectives.is_time else f"optimised: {options.objectives}",
        *order_lines,
        verifiers.line,
        _unranked(backend),
        *start.lines,
        proposing.line,
    )
    return Tuner(
        TunerParts(
            run,
            backend.runner,
            store,
            proposing.sampler,
            generate=task.templates.kernel,
            verifiers=verifiers,
            complexity=task.num_changed,
            default=proposing.default,
            lines=tuple(line for line in lines if line),
            observer=observer,
            in_flight=_in_flight_limit(backend, options.workers),
            objectives=options.objectives,
            count=task.space.count,
        )
    )


def _in_flight_limit(backend: backends.Backend, workers: int | None) -> InFlightLimit:
    """Return the limit of trials in flight: computed from recorded costs on a GPU, otherwise constant.

    With a constant limit, a search with the same seed tries the same schedules on every machine.
    """
    if backend.runner.provenance is not Provenance.MEASURED:
        return InFlightLimit()
    compilers = workers or (os.cpu_count() if backend.fleet is None else backend.fleet.compilers.members) or 1
    return InFlightLimit(gpus=backend.gpus, compilers=compilers)


SEARCHING = (
    "searching with the time model: the schedules that it ranks best are compiled to learn their registers and spills, "
    "until the model expects no other schedule to be faster (to try N schedules one by one: --trials N)"
)
ESTIMATES_PAGE = "docs/reference/estimates.md"


def _unranked(backend: backends.Backend) -> str:
    """Return messages about templates whose times are estimated less accurately."""
    counted = [template.name for template in backend.templates if backends.is_counted(template)]
    if backend.runner.provenance is not Provenance.ESTIMATED or not counted:
        return ""
    why = why_ptx()
    counted_in_ptx = f"instructions counted in PTX, because {why}"
    code = "instructions and spills counted in machine code" if why is None else counted_in_ptx
    return (
        f"times of {', '.join(counted)} are ESTIMATED from some blocks that the emulator runs ({code}); kernels that "
        f"the emulator cannot run are not ranked; accuracy: {ESTIMATES_PAGE}"
    )

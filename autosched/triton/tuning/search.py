"""Search the configurations of a Triton function for one call. Every trial is stored in a database."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from autosched.samplers import sampler as make_sampler
from autosched.triton.storages import Storages
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.candidates import Candidates
from autosched.triton.tuning.compiling.processes import COMPILE_SECONDS, CompileProcesses
from autosched.triton.tuning.compiling.worker import NotPortable
from autosched.triton.tuning.function import TritonFunction
from autosched.triton.tuning.problem import PREFIX, TritonProblem, operator, problem_type
from autosched.triton.tuning.runner import TritonEstimateRunner
from autosched.triton.tuning.space import RuleText, TritonSpace, space_of
from autosched.triton.tuning.verifier import ConfigurationVerifier, Reference
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.options import SearchOptions
from autosched.tuning.progress_line import shown
from autosched.tuning.result import TuneResult, completed
from autosched.tuning.winner.winner_verification import Verifiers
from autosched.verify.launch_plan import EVERY_ORDER
from measurements.compiler.cores import usable_cores
from measurements.emulator import check_ready
from measurements.trials.tolerance import check_tolerances
from search_spaces.catalogue import register
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import whole_number
from search_spaces.search_task import SearchTask
from search_spaces.spaces.config import Config
from search_spaces.templates.template import KernelTemplate, TemplateSet


@dataclass(frozen=True, kw_only=True)
class TritonKernel(GeneratedKernel):
    """A Triton function with one configuration, as the search identifies it.

    ``source`` is the function's Python source, and ``compile_options`` is the configuration. Only Triton can launch
    this kernel.
    """


@dataclass(frozen=True, eq=False)
class TritonTuning:
    """A function and its tunable parameters.

    Args:
        function: Triton function, with or without ``@triton.autotune``.
        space: Values of ``tl.constexpr`` parameters and launch options, by name; see ``space_of``.
        rules: Conditions on parameters and integer arguments. Each is an expression, a pair of an expression and a
            reason, or a function of a dict of all values.
        default: Configuration with which all other configurations are compared.
        reference: Function that computes the outputs; see ``ConfigurationVerifier``.
        tolerance: Relative and absolute tolerance; see ``ConfigurationVerifier``.
    """

    function: TritonFunction
    space: Mapping[str, Sequence[Any]] | None = None
    rules: tuple[RuleText, ...] = ()
    default: Mapping[str, Any] | None = None
    reference: Reference | None = None
    tolerance: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a tolerance that is infinite, negative or not a number."""
        check_tolerances(self.tolerance)

    def space_of(self, problem: TritonProblem) -> TritonSpace:
        """Return the space of a call. Raises SpaceError for an invalid space."""
        return self.space_of_names(problem.names)

    def space_of_names(self, names: Collection[str]) -> TritonSpace:
        """Return the space of a call that passes arguments with these names. Raises SpaceError for an invalid space."""
        return space_of(self.function, names, self.space, self.rules, self.default)

    def problem(self, call: KernelCall) -> TritonProblem:
        """Return the problem of a call."""
        return problem_type(self.function.name)(call.described(self.function))

    @property
    def problem_name(self) -> str:
        """Name of the function's kernel template, which is also the name of the operator of the function's problems."""
        return f"{PREFIX}{self.function.name}"

    @cached_property
    def template(self) -> KernelTemplate:
        """Kernel template that represents the function in the catalogue and the database."""
        function = self.function
        name = self.problem_name

        @lru_cache(maxsize=64)
        def legal(problem: TritonProblem, device: Device) -> Any:
            return self.space_of(problem).space(problem.scalars, device)

        def lower(problem: TritonProblem, config: Config, device: Device) -> GeneratedKernel:
            values = tuple(f"-D{key}={value}" for key, value in config.schedule.items)
            warps = config.get("num_warps", 4)
            threads = device.warp_size * (warps if isinstance(warps, int) else 4)
            return TritonKernel(
                entry=function.name,
                arguments=(),
                grid=(1, 1, 1),
                block=(threads, 1, 1),
                source=function.source,
                compile_options=values,
                arch=device.arch,
            )

        return KernelTemplate(
            name=name,
            summary=f"the Triton function {function.name}",
            operators=(name,),
            source=None,
            space=legal,
            lower=lower,
            content=function.digest,
        )

    def register(self) -> KernelTemplate:
        """Register the function in the catalogue of this process, in place of an earlier function of the same name."""
        register(operator(self.function.name), self.template, replace=True)
        return self.template


def tune_call(
    tuning: TritonTuning,
    call: KernelCall,
    device: str | Device,
    options: SearchOptions,
    *,
    verification_call: KernelCall | None = None,
    storages: Storages | None = None,
    compile_seconds: float = COMPILE_SECONDS,
) -> TuneResult:
    """Try further configurations of one call, and store every result in a database.

    No GPU is used: each configuration is compiled for the device, some of its blocks are emulated, and its time is
    ESTIMATED from the work of these blocks. Each new best configuration is verified in the emulator before it is
    accepted. The final best is also verified in several orders of blocks.

    Args:
        tuning: The function with its space, rules and reference.
        call: The arguments, on the CPU, with the sizes to tune for.
        device: The GPU: its name, or its row of the device table.
        options: Options of the search. ``workers`` is the number of compile processes, which import the function's
            file. This process compiles instead if ``workers`` is 0, or if the function cannot be imported (from a
            notebook, or from the program itself).
        verification_call: A smaller call for verification; None for ``call`` itself.
        storages: Registry of undefined bytes of the arguments; None if all bytes are defined.
        compile_seconds: Time limit of a compilation. Configurations that exceed the limit, or crash the compiler, are
            rejected.

    Returns:
        The same kind of result as that of ``autosched.tune``.

    Raises:
        ValueError: Invalid input (CallError, SpaceError, NoReference, StoreError), before anything is written.
        HostFailure: This machine cannot run the emulator.
        KeyboardInterrupt: As in ``autosched.tune``.
    """
    from measurements.store.store import Store, StoreError  # imported lazily, because the store imports sqlalchemy

    began = time.monotonic()
    row = device_named(device) if isinstance(device, str) else device
    workers = None if options.workers is None else whole_number("workers", options.workers, 0)
    check_ready(source=False)
    problem = tuning.problem(call)
    domain = tuning.space_of(problem)
    template = tuning.register()
    space = template.space(problem, row)
    space.sample(1, options.seed)  # raises EmptySpace, a ValueError, if the rules exclude all configurations
    known = Storages() if storages is None else storages
    stack = ExitStack()
    processes, note = _processes(tuning.function, row, workers, compile_seconds)
    if processes is not None:
        stack.callback(processes.close)
    candidates = Candidates(tuning.function, call, domain, row, known, processes)
    runner = TritonEstimateRunner(row, candidates, candidates.start)
    checked = call if verification_call is None else verification_call
    verifier = ConfigurationVerifier(
        tuning.problem(checked),
        checked,
        candidates
        if verification_call is None
        else Candidates(tuning.function, checked, domain, row, known, processes),
        [s for s in domain.defaults() if s in space],
        tuning.reference,
        tuning.tolerance,
        restored=(*tuning.function.reset_to_zero, *tuning.function.restore_value),
        lacks=() if verification_call is None else ("the verified sizes differ from the timed sizes",),
    )
    with stack:
        if options.verify:
            verifier.prepare()
        database = options.database_or_default
        with shown(options.progress) as observer, Store.open(database) as store:
            if store.in_memory:
                raise StoreError(f"{database} is an in-memory database, which is lost at exit: pass a file's path")
            lines = ["times are ESTIMATED", runner.describe()]
            if options.verify:
                lines += [f"new best configurations are verified against {verifier.against}", *verifier.notes]
            if note:
                lines.append(note)
            verifiers = Verifiers()
            if options.verify:
                verifiers = Verifiers(
                    verifier.verify,
                    lambda schedule, _: verifier.verify(schedule, EVERY_ORDER),
                )
            plan = options.plan()
            task = SearchTask(problem, row, TemplateSet([template]), space)
            tuner = Tuner(
                TunerParts(
                    RunIdentity.of(task, runner.provenance, None, options.seed),
                    runner,
                    store,
                    make_sampler(plan.sampler, space, seed=options.seed),
                    generate=template.kernel,
                    verifiers=verifiers,
                    lines=lines,
                    observer=observer,
                    count=space.count,
                )
            )
            result = tuner.run(plan)
            result = dataclasses.replace(result, database=str(database), seconds=time.monotonic() - began)
    return completed(result)


def _processes(
    function: TritonFunction, device: Device, workers: int | None, seconds: float
) -> tuple[CompileProcesses | None, str]:
    """Return compile processes, or None with a message that gives the reason."""
    if workers == 0:
        return None, ""
    try:
        return CompileProcesses(function, device, workers or usable_cores(), seconds), ""
    except NotPortable as error:
        return (
            None,
            "a crash of Triton's compiler would end this process, because kernels are compiled in this process: "
            f"{error}",
        )

"""Emulate every launch of a Triton program, and collect the results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.triton.call_site import call_site
from autosched.triton.described import LaunchFailed, described_launch
from autosched.triton.driver import TritonLaunch, activated, first_configurations
from autosched.triton.estimate import estimated_seconds
from autosched.triton.ptxas import with_injected_waits
from autosched.triton.sample import Sample, sampled
from autosched.triton.simulated_cuda import SimulatedCuda
from autosched.triton.simulated_tensors import TrackedTensors
from autosched.triton.sizes import named, stress_sizes
from autosched.triton.storages import Storages, storage_bytes
from autosched.triton.streams import StreamOrder
from autosched.triton.torch_compile import torch_compiled
from autosched.triton.undefined import UndefinedValues
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_counting import CountedRun
from autosched.verify.launch_plan import QUICK, LaunchPlan
from autosched.verify.launches import runs_of_launch, verdict_of, verdict_of_program
from autosched.verify.oracle import Comparison
from autosched.verify.run import Run
from autosched.verify.verdict import Verdict
from measurements.emulator import Emulation, Finding, FindingKind
from measurements.emulator.findings import Grade
from search_spaces.arrays import Array
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named
from search_spaces.launches.launch import BytesArgument

_HOST_RACE = FindingKind.HOST_RACE


class FaultsFound(AssertionError):
    """Launches within ``emulated`` had faults. The message lists the faults, and ``session`` has all launches."""

    def __init__(self, session: Session) -> None:
        self.session = session
        super().__init__("\n".join(session.fault_lines()))


@dataclass(frozen=True, eq=False)
class VerifiedLaunch:
    """One launch of the program, and the verdict on it.

    Attributes:
        kernel: Name of the kernel.
        called_at: Line of the program that launched the kernel.
        grid: Blocks along each axis.
        threads: Threads of a block.
        ptx: PTX text of the kernel.
        verdict: The verdict, with each run of the plan. The program continues with the memory of the first run.
        constants: Values of the kernel's ``tl.constexpr`` parameters.
        written: Number of bytes that the launch wrote, by argument.
        seconds: Time in seconds, ESTIMATED by the time model from the executed work; 0 if the launch did not end.
        blocks: Number of blocks of the launch.
        left_out: Number of blocks that did not run.
        size: Sizes chosen by ``Session.at_sizes``, as text; "" if the launch was made elsewhere.
        numbers: Name and bytes of each parameter passed by value, by position.
    """

    kernel: str
    called_at: str
    grid: tuple[int, int, int]
    threads: int
    ptx: str
    verdict: Verdict
    constants: tuple[tuple[str, Any], ...] = ()
    written: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0
    blocks: int = 0
    left_out: int = 0
    size: str = ""
    numbers: Mapping[int, tuple[str, bytes]] = field(default_factory=dict)

    @property
    def runs(self) -> tuple[tuple[str, Emulation], ...]:
        """Name of each run, with its result."""
        return tuple((run.name, run.emulation) for run in self.verdict.runs)

    @property
    def emulation(self) -> Emulation:
        """Emulation of the first run. The program continued with the memory of this run."""
        return self.verdict.runs[0].emulation

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults and notes of all runs, without duplicates of the same grade, kind and line."""
        return self.verdict.findings

    @property
    def differing(self) -> tuple[str, ...]:
        """Arrays whose bits depend on the order of blocks."""
        return self.verdict.differing


@dataclass
class Session:
    """All launches within one ``emulated`` context. Implements ``driver.Launcher``."""

    device: Device
    plan: LaunchPlan = QUICK
    launches: list[VerifiedLaunch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    milliseconds: float = 0.0  # elapsed time of the simulated GPU
    storages: Storages = field(default_factory=Storages)
    host_findings: list[Finding] = field(default_factory=list)  # findings on host code between launches
    _streams: StreamOrder = field(init=False)
    _is_comparing: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _simulated: SimulatedCuda | None = None
    _size: str = ""

    def __post_init__(self) -> None:
        self._streams = StreamOrder(self.storages, lambda message, at: self._add_host_finding(_HOST_RACE, message, at))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults and notes of all launches and of host code between launches, once per grade, kind and line."""
        return (*(finding for _, finding in self._first_shown()), *self.host_findings)

    @property
    def ok(self) -> bool:
        """True if no finding is a fault."""
        return not any(f.is_fault for f in self.findings)

    def verdict(self, output: Comparison | None = None) -> Verdict:
        """Return the verdict on all launches so far.

        Args:
            output: Comparison of the program's output with an oracle; None without an oracle.

        Returns:
            The verdict.
        """
        return verdict_of_program([launch.verdict for launch in self.launches], output, self.host_findings)

    def fault_lines(self) -> list[str]:
        """Return one line per fault, with the first launch that has this fault."""
        return [*(_line(launch, f) for launch, f in self._first_shown() if f.is_fault), *self._host_lines("fault")]

    def note_lines(self) -> list[str]:
        """Return one line per note (a harmless finding): the emulator's notes, and ``notes`` of the session."""
        own = [f"note: {note}" for note in self.notes]
        of_launches = [_line(launch, f) for launch, f in self._first_shown() if not f.is_fault]
        return [*of_launches, *self._host_lines("note"), *own]

    def _host_lines(self, grade: Grade) -> list[str]:
        return [str(f) for f in self.host_findings if f.grade == grade]

    def _add_host_finding(self, kind: FindingKind, message: str, at: tuple[str, int], grade: Grade = "fault") -> None:
        """Add a finding on host code between launches, once per line."""
        finding = Finding(kind, message, *at, grade=grade)
        known = {(f.kind, f.grade, f.file, f.line) for f in self.host_findings}
        expected = any(suppression.matches(finding) for suppression in self.plan.suppressions)
        if (kind, grade, *at) not in known and not expected:
            self.host_findings.append(finding)

    @contextmanager
    def comparing(self) -> Iterator[None]:
        """Within the context, treat reads of tensors as part of a comparison of results, not as part of the program."""
        self._is_comparing = True
        try:
            yield
        finally:
            self._is_comparing = False

    def _add_undefined_use(self, message: str, grade: Grade) -> None:
        if self._is_comparing:
            return
        self._add_host_finding(FindingKind.UNINITIALIZED_HOST_READ, message, call_site(), grade)

    def forget(self) -> None:
        """Forget all launches and findings so far."""
        self.launches.clear()
        self.host_findings.clear()

    def _first_shown(self) -> list[tuple[VerifiedLaunch, Finding]]:
        first: dict[tuple[object, ...], tuple[VerifiedLaunch, Finding]] = {}
        for launch in self.launches:
            for f in launch.findings:
                first.setdefault((f.grade, f.kind, f.file, f.line), (launch, f))
        return list(first.values())

    def at_sizes(self, run: Callable[..., Any], **ranges: tuple[int, int]) -> None:
        """Call ``run`` with each combination of stress sizes as keyword arguments. ``ranges`` limit each size.

        Raises ValueError for an empty range, and any exception of ``run``.
        """
        for size in stress_sizes(**ranges):
            self._size = named(size)
            try:
                run(**size)
            finally:
                self._size = ""

    def launch(self, launch: TritonLaunch) -> None:
        """Emulate one launch, write the outputs to the program's tensors, and record the launch.

        Raises LaunchFailed if the launch has no outputs, so that the program cannot continue.
        """
        with self._lock:
            trial = self._launch(launch)
            self.launches.append(trial)
            self.milliseconds += 1e3 * trial.seconds

    def _launch(self, launch: TritonLaunch) -> VerifiedLaunch:
        site = call_site()
        where = f"{site[0]}:{site[1]}"
        arguments, described = described_launch(launch, self.storages)
        inputs, memory = arguments.inputs(), arguments.memory()
        stream, overlaps = self._streams.current, self._streams.overlaps
        if self.device.has("programmatic_launch") and getattr(launch.metadata, "launch_pdl", False):
            described = replace(described, dependent=True)
            memory = replace(memory, unfinished=overlaps.unfinished(stream, arguments.tensors))

        sample = Sample(described.grid, sampled(described.grid, self.plan.blocks))

        def runs_of_sample() -> Iterator[Run]:
            under_test = LaunchUnderTest(
                launch.ptx, inputs, described, memory, sample.blocks,
                read=lambda done: with_injected_waits(done, launch.ptx, self.device.sm),
            )  # fmt: skip
            return runs_of_launch(under_test, self.plan, count=True)

        runs = runs_of_sample()
        first = next(runs)
        while (cause := sample.waits(first.emulation)) is not None:
            wider = sample.widened(first.emulation)
            # the sample cannot grow, because all samples together have executed too many instructions
            if wider == sample.blocks:
                raise LaunchFailed(f"{launch.name}, launched at {where}: unsupported: {cause}")
            sample.blocks = wider
            runs = runs_of_sample()
            first = next(runs)
        verdict, blocks = verdict_of([first, *runs], self.plan), sample.blocks
        ctas = described.cluster[0]  # number of blocks per cluster; a cluster's blocks always run together
        ran = described.blocks if blocks is None else ctas * len({block // ctas for block in blocks})
        verified = VerifiedLaunch(
            launch.name,
            where,
            launch.grid,
            described.threads,
            launch.ptx,
            verdict,
            tuple(sorted(launch.constants.items(), key=lambda item: str(item[0]))),
            tuple((name, int(np.count_nonzero(flags))) for name, flags in first.emulation.written.items()),
            estimated_seconds(described, [CountedRun(1.0, ran, first.emulation)], launch.cubin, self.device),
            described.blocks,
            described.blocks - ran,
            self._size,
            {k: (a.name, a.content) for k, a in enumerate(described.arguments) if isinstance(a, BytesArgument)},
        )
        done = verified.emulation
        if done.printed:
            print(done.printed, end="" if done.printed.endswith("\n") else "\n", flush=True)
        if done.status not in ("ok", "findings"):
            self.launches.append(verified)
            raise LaunchFailed(f"{launch.name}, launched at {where}: {done.status}: {done.reason}")
        used = [(storage, done.used[name]) for name, storage in arguments.tensors.items() if name in done.used]
        self._streams.launch(launch.name, site, used)
        overlaps.launched(stream, used, after_all=not described.dependent or done.waited)
        for name, storage in arguments.tensors.items():
            after = done.outputs[name].reshape(-1).view(np.uint8)
            before = storage_bytes(storage)
            flags = done.defined.get(name)
            if blocks is not None and flags is not None and done.written[name].any():
                after, flags = np.where(flags, after, np.uint8(0)), np.ones_like(flags)
            if not np.array_equal(before, after):
                before[:] = after
            if flags is not None:
                self.storages.set_defined(storage, flags)
        return verified

    def benchmark(self, call: Callable[[], Any]) -> float:
        """Return the time model's milliseconds for one call.

        The call is made twice, to check that a repeated call gives the same results.
        """
        before, first = self.milliseconds, len(self.launches)
        call()
        elapsed, once = self.milliseconds - before, self.launches[first:]
        call()
        repeated = self.launches[first + len(once) :]
        for a, b in zip(once, repeated, strict=False):
            changed = [n for n, values in a.emulation.outputs.items() if not _same(values, b.emulation.outputs.get(n))]
            if changed:
                note = (
                    f"{a.kernel}, launched at {a.called_at}: a repeated call changes the values of "
                    f"{', '.join(changed)}. Autotuning repeats calls, so list these arguments in reset_to_zero= or "
                    f"restore_value="
                )
                if note not in self.notes:
                    self.notes.append(note)
        self.milliseconds = before + elapsed
        return max(elapsed, 1e-6)

    def torch_device(self) -> Any:
        """Return "cuda:0" if CUDA tensors are simulated, else "cpu"."""
        import torch

        return torch.device("cuda", 0) if self._simulated is not None else torch.device("cpu")

    def device_interface(self) -> Any:
        """Return ``torch.cuda`` if CUDA tensors are simulated, else ``torch.cpu``."""
        import torch

        return torch.cuda if self._simulated is not None else torch.cpu


@contextmanager
def emulated(
    device: str | Device,
    *,
    plan: LaunchPlan = QUICK,
    fake_cuda: bool = True,
    undefined_memory: bool = True,
    first_configuration: bool = False,
    check: bool = True,
) -> Iterator[Session]:
    """Within the context, run every launch of a Triton kernel in the emulator, on tensors in CPU memory.

    Args:
        device: Name of the GPU (``"h100"``), or its row of the device table.
        plan: Plan of the runs of each launch. ``THOROUGH`` runs each launch in several orders, and also twice in a row.
        fake_cuda: If True, torch reports one GPU of this type to the program (``device="cuda"``, ``torch.cuda``,
            ``is_cuda``). The tensors of this GPU are on the CPU.
        undefined_memory: If True, memory of ``torch.empty`` is undefined until it is written. It is a fault if the
            program reads a value that depends on undefined memory.
        first_configuration: If True, only the first configuration of each ``@triton.autotune`` runs.
        check: If True, raise FaultsFound at the end if a launch had a fault.

    Yields:
        The session.

    Raises:
        LaunchFailed: A launch does not terminate, or needs a feature that the emulator does not support.
        UnknownDevice: No row describes the device.
        HostFailure: This machine cannot run the emulator.
    """
    row = device_named(device) if isinstance(device, str) else device
    session = Session(row, plan)
    values = UndefinedValues(session.storages, session._add_undefined_use) if undefined_memory else None
    with ExitStack() as stack:
        stack.enter_context(activated(session))
        stack.enter_context(torch_compiled(fake_cuda))
        if first_configuration:
            stack.enter_context(first_configurations())
        if fake_cuda:
            simulated = SimulatedCuda(row, lambda: session.milliseconds, session.storages, session._streams, values)
            session._simulated = stack.enter_context(simulated)
        elif values is not None:
            stack.enter_context(TrackedTensors(session.storages, values, session._streams))
        yield session
    if check and not session.ok:
        raise FaultsFound(session)


def emulate(
    launch: Callable[..., Any], *arguments: Any, device: str | Device, plan: LaunchPlan = QUICK, **keywords: Any
) -> VerifiedLaunch:
    """Emulate one launch, as in ``emulate(kernel[grid], x, y, BLOCK=128, device="h100")``.

    Args:
        launch: A Triton kernel with its grid, or any function that launches.
        arguments: Arguments of the call. Tensors and numpy arrays are modified in place, as the kernel would.
        device: Name or row of the GPU that the kernel is compiled for.
        plan: The runs of each launch.
        keywords: Constants and launch options by name.

    Returns:
        The last launch, even if it did not terminate.

    Raises:
        ValueError: Nothing was launched, or an argument of ``emulated`` is invalid.
    """
    import torch

    values = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with emulated(device, plan=plan, fake_cuda=False, check=False) as session, suppress(LaunchFailed):
        launch(*values, **keywords)
    if not session.launches:
        raise ValueError("no kernel was launched: pass a kernel with its grid (kernel[grid]) and its arguments")
    return session.launches[-1]


def _line(launch: VerifiedLaunch, finding: Finding) -> str:
    size = f", at {launch.size}" if launch.size else ""
    return f"{finding} (kernel {launch.kernel}, launched at {launch.called_at}{size})"


def _same(a: Array, b: Array | None) -> bool:
    return b is not None and a.shape == b.shape and a.tobytes() == b.tobytes()

"""Runs every launch of a Triton program in the emulator, and keeps what came of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.triton.described import LaunchFailed, described_launch
from autosched.triton.driver import TritonLaunch, activated, first_configurations
from autosched.triton.estimate import estimated_seconds
from autosched.triton.ptxas import with_injected_waits
from autosched.triton.sample import Sample, sampled
from autosched.triton.simulated_cuda import SimulatedCuda
from autosched.triton.simulated_tensors import TrackedTensors
from autosched.triton.sizes import named, stress_sizes
from autosched.triton.storages import Storages, storage_bytes
from autosched.triton.torch_compile import torch_compiled
from autosched.verify.launch_counting import CountedRun
from measurements.emulator import ASCENDING, Emulation, Finding, Order, emulate_ptx
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named
from search_spaces.operators.problem import Array

_OURS = ("autosched.", "triton.", "torch.", "contextlib", "functools")


class FaultsFound(AssertionError):
    """Launches within ``emulated`` had faults. The message lists them; ``session`` has them all."""

    def __init__(self, session: Session) -> None:
        self.session = session
        super().__init__("\n".join(session.fault_lines()))


@dataclass(frozen=True)
class ProofSettings:
    """How each launch is proven.

    Args:
        orders: of blocks and threads; each launch runs once in each, from the same memory. The program goes on with
            what the first one left.
        second_launch: run each launch once more on what it left, to see what it does not leave as it found it.
        perturb: approximate instructions err as much as the PTX ISA allows, in one more run.
        time_limit: CPU seconds of one run of a launch.
        blocks: of a launch that has more, only so many run: the first ones, the last ones, and some in between. The
            memory that such a launch writes counts as filled, with zeros where no block that ran has written; values
            that the program computes from it are not its own. None: all run. Where blocks wait for others, those run,
            too, or all do.
    """

    orders: tuple[Order, ...] = (ASCENDING,)
    second_launch: bool = False
    perturb: bool = False
    time_limit: float = 60.0
    blocks: int | None = None

    def __post_init__(self) -> None:
        if not self.orders:
            raise ValueError("a proof needs at least one order of blocks")
        if not self.time_limit > 0:
            raise ValueError(f"time_limit must be more than 0 s, not {self.time_limit}")
        if self.blocks is not None and self.blocks < 1:
            raise ValueError(f"at least one block of a launch must run, not {self.blocks}")


QUICK = ProofSettings()
THOROUGH = ProofSettings(
    orders=(ASCENDING, Order("descending"), Order("interleaved", 7), Order("random", 11)), second_launch=True
)


@dataclass(frozen=True, eq=False)
class LaunchRecord:
    """What came of one launch.

    ``called_at`` is the line of the program that launched it. ``runs`` has each run's name and result, of which the
    first is what the program went on with. ``differing`` names the arrays that a run left with other bits than the
    first one did. ``written`` counts the bytes that the launch wrote, by argument. ``seconds`` are ESTIMATED by the
    time model from what the launch executed; 0 where it did not end. Of its ``blocks``, ``left_out`` were not
    run. ``size`` is that of ``Session.at_sizes``, or empty.
    """

    kernel: str
    called_at: str
    grid: tuple[int, int, int]
    threads: int
    ptx: str
    runs: tuple[tuple[str, Emulation], ...]
    differing: tuple[str, ...] = ()
    constants: tuple[tuple[str, Any], ...] = ()
    written: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0
    blocks: int = 0
    left_out: int = 0
    size: str = ""

    @property
    def emulation(self) -> Emulation:
        """Of the run that the program went on with."""
        return self.runs[0][1]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults and notes of all runs, each grade and kind at each line once."""
        found: dict[tuple[object, ...], Finding] = {}
        for _, run in self.runs:
            for f in run.findings:
                found.setdefault((f.grade, f.kind, f.file, f.line), f)
        return tuple(found.values())


@dataclass
class Session:
    """All launches within one ``emulated``. Satisfies ``driver.Launcher``."""

    device: Device
    settings: ProofSettings = QUICK
    launches: list[LaunchRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    milliseconds: float = 0.0  # of the simulated GPU, so far
    storages: Storages = field(default_factory=Storages)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _simulated: SimulatedCuda | None = None
    _size: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Faults and notes, each grade and kind at each line once, over all launches."""
        return tuple(finding for _, finding in self._first_shown())

    @property
    def ok(self) -> bool:
        return not any(f.is_fault for f in self.findings)

    def fault_lines(self) -> list[str]:
        """One line a fault, with the launch that showed it first."""
        return [_line(launch, f) for launch, f in self._first_shown() if f.is_fault]

    def note_lines(self) -> list[str]:
        """One line for what is true and harms nothing: notes of the emulator, and the session's own ``notes``."""
        own = [f"note: {note}" for note in self.notes]
        return [_line(launch, f) for launch, f in self._first_shown() if not f.is_fault] + own

    def _first_shown(self) -> list[tuple[LaunchRecord, Finding]]:
        found: dict[tuple[object, ...], tuple[LaunchRecord, Finding]] = {}
        for launch in self.launches:
            for f in launch.findings:
                found.setdefault((f.grade, f.kind, f.file, f.line), (launch, f))
        return list(found.values())

    def at_sizes(self, run: Callable[..., Any], **ranges: tuple[int, int]) -> None:
        """Call ``run`` with sizes by name that provoke, from the least to the most of each range.

        Raises ValueError for an empty range, and what ``run`` raises.
        """
        for size in stress_sizes(**ranges):
            self._size = named(size)
            try:
                run(**size)
            finally:
                self._size = ""

    def launch(self, launch: TritonLaunch) -> None:
        """Emulates one launch, writes its outputs into the program's tensors and records it.

        Raises LaunchFailed where there are no outputs to go on with.
        """
        with self._lock:
            record = self._launch(launch)
            self.launches.append(record)
            self.milliseconds += 1e3 * record.seconds

    def _launch(self, launch: TritonLaunch) -> LaunchRecord:
        where = _called_at()
        arguments, described = described_launch(launch, self.storages)
        inputs, memory = arguments.inputs(), arguments.memory()

        blocks = sampled(described.grid, self.settings.blocks)

        def run(order: Order, calls: int = 1, perturb: bool = False, count: bool = False) -> Emulation:
            done = emulate_ptx(
                launch.ptx,
                described,
                inputs,
                time_limit=self.settings.time_limit,
                order=order,
                calls=calls,
                perturb=perturb,
                memory=memory,
                count=count,
                blocks=blocks,
            )
            return with_injected_waits(done, launch.ptx, self.device.sm)

        first, *others = self.settings.orders
        runs = [(first.name, run(first, count=True))]
        sample = Sample(described.grid, blocks)
        while (cause := sample.waits(runs[0][1])) is not None:
            blocks = sample.widened(runs[0][1])
            if blocks == sample.blocks:  # wider ones have had their time
                raise LaunchFailed(f"{launch.name}, launched at {where}: unsupported: {cause}")
            sample.blocks = blocks
            runs = [(first.name, run(first, count=True))]
        ctas = described.cluster[0]  # run together
        ran = described.blocks if blocks is None else ctas * len({block // ctas for block in blocks})
        if runs[0][1].status in ("ok", "findings"):
            runs += [(order.name, run(order)) for order in others]
            if self.settings.second_launch:
                runs.append(("launched twice", run(first, calls=2)))
            if self.settings.perturb:
                runs.append(("approximate instructions err", run(first, perturb=True)))
        record = LaunchRecord(
            launch.name,
            where,
            launch.grid,
            described.threads,
            launch.ptx,
            tuple(runs),
            _differing(runs[0][1], [r for name, r in runs[1:] if name in {o.name for o in others}]),
            tuple(sorted(launch.constants.items(), key=lambda item: str(item[0]))),
            tuple((name, int(np.count_nonzero(flags))) for name, flags in runs[0][1].written.items()),
            estimated_seconds(described, [CountedRun(1.0, ran, runs[0][1])], launch.cubin, self.device),
            described.blocks,
            described.blocks - ran,
            self._size,
        )
        done = record.emulation
        if done.printed:
            print(done.printed, end="" if done.printed.endswith("\n") else "\n", flush=True)
        if done.status not in ("ok", "findings"):
            self.launches.append(record)
            raise LaunchFailed(f"{launch.name}, launched at {where}: {done.status}: {done.reason}")
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
        return record

    def benchmark(self, call: Callable[[], Any]) -> float:
        """Milliseconds of one call, by the time model: the call is made twice, and must do the same again."""
        before, first = self.milliseconds, len(self.launches)
        call()
        taken, once = self.milliseconds - before, self.launches[first:]
        call()
        again = self.launches[first + len(once) :]
        for a, b in zip(once, again, strict=False):
            changed = [n for n, values in a.emulation.outputs.items() if not _same(values, b.emulation.outputs.get(n))]
            if changed:
                note = (
                    f"{a.kernel}, launched at {a.called_at}: a repeated call leaves other values in "
                    f"{', '.join(changed)}. Autotuning repeats calls: name these arguments in reset_to_zero= or "
                    f"restore_value="
                )
                if note not in self.notes:
                    self.notes.append(note)
        self.milliseconds = before + taken
        return max(taken, 1e-6)

    def torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0) if self._simulated is not None else torch.device("cpu")

    def device_interface(self) -> Any:
        import torch

        return torch.cuda if self._simulated is not None else torch.cpu


@contextmanager
def emulated(
    device: str | Device,
    *,
    proof: ProofSettings = QUICK,
    pretend_cuda: bool = True,
    undefined_memory: bool = True,
    first_configuration: bool = False,
    check: bool = True,
) -> Iterator[Session]:
    """Every launch of a Triton kernel within runs in the emulator, for ``device``, on tensors in the CPU's memory.

    Args:
        device: a name (``"h100"``) or a row.
        proof: how each launch is proven; ``THOROUGH`` runs several orders and a second launch.
        pretend_cuda: the program sees one such GPU: ``device="cuda"``, ``torch.cuda`` and ``is_cuda``. Its tensors
            are on the CPU all the same.
        undefined_memory: what ``torch.empty`` returns holds no values until they are written.
        first_configuration: of each ``@triton.autotune`` only the first configuration runs.
        check: raise FaultsFound at the end where a launch had a fault.

    Raises LaunchFailed within, where a launch does not end or needs what the emulator lacks, UnknownDevice, and
    HostFailure where this machine cannot emulate.
    """
    row = device_named(device) if isinstance(device, str) else device
    session = Session(row, proof)
    with ExitStack() as stack:
        stack.enter_context(activated(session))
        stack.enter_context(torch_compiled(pretend_cuda))
        if first_configuration:
            stack.enter_context(first_configurations())
        if pretend_cuda:
            simulated = SimulatedCuda(row, lambda: session.milliseconds, session.storages, undefined=undefined_memory)
            session._simulated = stack.enter_context(simulated)
        elif undefined_memory:
            stack.enter_context(TrackedTensors(session.storages))
        yield session
    if check and not session.ok:
        raise FaultsFound(session)


def emulate(
    launch: Callable[..., Any], *arguments: Any, device: str | Device, proof: ProofSettings = QUICK, **keywords: Any
) -> LaunchRecord:
    """Emulate one launch: ``emulate(kernel[grid], x, y, BLOCK=128, device="h100")``.

    Args:
        launch: A Triton kernel with its grid, or any function that launches.
        arguments: What it is called with; tensors and numpy arrays are changed in place, as by the kernel itself.
        device: The name of the GPU that the kernel is compiled for, or its row.
        proof: Seeds, orders and limits.
        keywords: Constants and launch options by name.

    Returns:
        The record of the last launch, also where it did not end.

    Raises:
        ValueError: Nothing is launched; and as ``emulated`` does.
    """
    import torch

    values = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with emulated(device, proof=proof, pretend_cuda=False, check=False) as session, suppress(LaunchFailed):
        launch(*values, **keywords)
    if not session.launches:
        raise ValueError("nothing was launched: pass a kernel with its grid, kernel[grid], and its arguments")
    return session.launches[-1]


def _line(launch: LaunchRecord, finding: Finding) -> str:
    size = f", at {launch.size}" if launch.size else ""
    return f"{finding} (kernel {launch.kernel}, launched at {launch.called_at}{size})"


def _same(a: Array, b: Array | None) -> bool:
    return b is not None and a.shape == b.shape and a.tobytes() == b.tobytes()


def _differing(first: Emulation, others: Sequence[Emulation]) -> tuple[str, ...]:
    return tuple(
        name
        for name, values in first.outputs.items()
        if any(name in other.outputs and not _same(values, other.outputs[name]) for other in others)
    )


def _called_at() -> str:
    """Return the nearest line of the program that is not ours, Triton's or torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not f"{name}.".startswith(_OURS):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "unknown"

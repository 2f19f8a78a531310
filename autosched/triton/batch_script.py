"""Verify that a function that launches Triton kernels computes each row with the same bits in every batch.

The function receives the number of rows as a keyword argument and returns tensors whose first axis is the rows. Its
random inputs have the same rows in every batch: ``torch.randn``, ``rand`` and ``randint`` are replaced, so that each
row is generated from a separate seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from autosched.triton.session import Session, VerifiedLaunch
from autosched.verify.batch_causes import BatchSources, atomic_sums, batch_branches
from autosched.verify.batch_plan import FIRST, BatchPlan, Launched
from autosched.verify.batch_rows import BatchRows
from autosched.verify.planned_run import make_runs, results, until_failure
from autosched.verify.run import Run
from autosched.verify.verdict import BITS_DIFFER, Cause, Verdict
from measurements.emulator import Emulation, Order
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import BF16

_DRAWS = ("randn", "rand", "randint", "randn_like", "rand_like")


@dataclass(eq=False)
class FunctionInBatches:
    """A function that launches Triton kernels and is called for several batches of rows.

    Attributes:
        function: Launches kernels. The number of rows is a keyword argument with the name of the size.
        session: Session in which launches are emulated.
        rows: Number of rows of the first batch, and their axis in each result. The axes become known in the first
            launch.
        seed: Seed of the inputs.
    """

    function: Callable[..., Any]
    session: Session
    rows: BatchRows
    seed: int = 0
    repeatable: bool = True
    launches: dict[str, list[VerifiedLaunch]] = field(default_factory=dict)
    _drawn: list[dict[int, tuple[int, int]]] = field(
        default_factory=list
    )  # for each run: the number of rows, and the first extent in each call of a random function

    def why_not(self, positions: Sequence[int]) -> str:
        """Return "", because the function accepts every number of rows."""
        return ""

    def launch(self, name: str, positions: Sequence[int], order: Order, launches: int) -> Launched:
        """Call the function for a batch, with all launches in the given order of blocks.

        Raises:
            TypeError: The function returns something other than tensors, or no tensor whose first axis is the rows.
        """
        begun = len(self.session.launches)
        self.session.plan = replace(self.session.plan, orders=(order,))
        outputs: dict[str, Array] = {}
        for _ in range(launches):
            with self._rows_drawn(positions):
                outputs = self._results(self.function(**{self.rows.name: len(positions)}), len(positions))
        new_launches = self.session.launches[begun:]
        self.launches[name] = new_launches
        failed = next((launch for launch in new_launches if not launch.verdict.ok), None)
        nothing = Emulation("ok", {}, (), (), ())
        emulation = new_launches[-1].emulation.without_arrays() if new_launches else nothing
        status, reason = ("ok", "") if failed is None else (failed.verdict.status, failed.verdict.reason)
        run = Run(None, (), self.seed, order, None, status, reason, None, None, emulation, name=name, launches=launches)
        return Launched(run, outputs)

    def _results(self, returned: Any, rows: int) -> dict[str, Array]:
        import torch

        tensors = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if not tensors or not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
            raise TypeError(f"the function must return one or more tensors with {self.rows.name} rows")
        results: dict[str, Array] = {}
        for k, tensor in enumerate(tensors):
            name = f"result {k}" if len(tensors) > 1 else "the result"
            plain = tensor.detach().cpu().contiguous()
            half = plain.dtype == torch.bfloat16
            results[name] = (plain.view(torch.int16) if half else plain).numpy().copy()
            if name not in self.rows.axes:
                has_rows = tensor.dim() > 0 and tensor.shape[0] == rows
                self.rows.axes[name] = 0 if has_rows else None  # type: ignore[index]
                self.rows.load[name] = _load_bf16 if half else _load  # type: ignore[index]
        if all(axis is None for axis in self.rows.axes.values()):
            raise TypeError(f"no returned tensor has {self.rows.name} rows along its first axis")
        return results

    @contextmanager
    def _rows_drawn(self, positions: Sequence[int]) -> Iterator[None]:
        """Make torch's random functions generate each row of a batch from a separate seed."""
        import torch

        drawn: dict[int, tuple[int, int]] = {}
        all_rows = list(range(len(positions)))

        def wrapped(name: str) -> Callable[..., Any]:
            original = getattr(torch, name)

            def draw(*args: Any, **keywords: Any) -> Any:
                rows = original(*args, **keywords)
                if rows.dim() == 0:
                    return rows
                call = len(drawn)
                drawn[call] = (len(positions), rows.shape[0])
                moved = list(positions) != all_rows and self._is_batched(call, len(positions), rows.shape[0])
                ids = list(positions) if moved else list(range(rows.shape[0]))
                values = np.stack([self._row(name, call, i, tuple(rows.shape[1:]), args, keywords) for i in ids])
                rows.copy_(torch.from_numpy(values).to(rows.dtype))
                return rows

            return draw

        with ExitStack() as stack:
            for name in _DRAWS:
                stack.enter_context(patch.object(torch, name, wrapped(name)))
            yield
        self._drawn.append(drawn)

    def _is_batched(self, call: int, rows: int, extent: int) -> bool:
        """Return True if, in every run so far, the random array of this call had as many rows as the batch."""
        return extent == rows and all(d[call][0] == d[call][1] for d in self._drawn if call in d)

    def _row(
        self, name: str, call: int, row: int, shape: tuple[int, ...], args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Array:
        rng = np.random.default_rng([self.seed, call, row])
        if name.startswith("randn"):
            return np.asarray(rng.standard_normal(shape))
        values: Array = np.asarray(rng.random(shape))
        if name != "randint":
            return values
        numbers = [a for a in args if isinstance(a, int)][:2]
        low = keywords.get("low", numbers[0] if len(numbers) > 1 else 0)
        high = keywords.get("high", numbers[-1] if numbers else 2)
        drawn: Array = np.floor(low + values * (high - low))
        return drawn

    def causes(self, failed: Run) -> tuple[Cause, ...]:
        """Return the source lines where the order of sums may have changed because the failed run changed the batch."""
        first, other = self.launches[FIRST], self.launches[failed.name]
        all_causes: list[Cause] = []
        batch = failed.name.startswith(f"{self.rows.name} =")
        if batch and [launch.kernel for launch in first] != [launch.kernel for launch in other]:
            at = next((b for a, b in zip(first, other, strict=False) if a.kernel != b.kernel), (other or first)[-1])
            all_causes.append(Cause(*_file_and_line(at.called_at), f"other kernels are launched for {failed.name}"))
        for one, other_launch in zip(first, other, strict=False):
            if batch:
                all_causes += _configuration(one, other_launch, failed.name)
                all_causes += batch_branches(one.ptx, one.kernel, _sources(one, other_launch))
            elif failed.name.startswith("rows moved"):
                all_causes += batch_branches(one.ptx, one.kernel, BatchSources({}, position=True))
            all_causes += atomic_sums(one.ptx, one.kernel)
        return tuple(dict.fromkeys(all_causes))


def _configuration(one: VerifiedLaunch, other: VerifiedLaunch, batch: str) -> list[Cause]:
    """Return a list with a cause if the constants or threads of a launch differ between two batches, else []."""
    before = {**dict(one.constants), "threads": one.threads}
    after = {**dict(other.constants), "threads": other.threads}
    # Triton turns arguments that equal 1 into constants, so compare only names that are constants in both launches.
    both = [name for name in after if before.get(name) is not None and after[name] is not None]
    names = [str(name) for name in both if before[name] != after[name]]
    if not names:
        return []
    changes = ", ".join(f"{n} {_of(before, n)} and {_of(after, n)}" for n in names)
    return [
        Cause(
            *_file_and_line(other.called_at),
            f"the configuration of {other.kernel} depends on the batch ({changes}, {batch})",
        )
    ]


def _of(values: Mapping[Any, Any], name: str) -> Any:
    return next((value for key, value in values.items() if str(key) == name), None)


def _sources(one: VerifiedLaunch, other: VerifiedLaunch) -> BatchSources:
    """Return the parameters that differ between two launches, by position in ``one``, and whether the grids differ."""
    other_numbers = dict(other.numbers.values())
    changed = {k: name for k, (name, data) in one.numbers.items() if other_numbers.get(name) != data}
    return BatchSources(changed, grid=one.grid != other.grid)


def _file_and_line(called_at: str) -> tuple[str, int]:
    file, _, number = called_at.rpartition(":")
    return (file, int(number)) if number.isdecimal() else (called_at, 0)


def _load(array: Array) -> Any:
    return np.asarray(array, dtype=np.float64)


def _load_bf16(array: Array) -> Any:
    return BF16.load(array.view(np.uint16))


def verify_function(
    function: Callable[..., Any], session: Session, name: str, least: int, most: int, *, full: bool = False
) -> Verdict:
    """Verify that a function computes each row with the same bits in batches of ``least`` to ``most`` rows.

    Args:
        function: Launches Triton kernels and returns tensors whose first axis is the rows.
        session: Session in which launches are emulated. The session's plan is replaced.
        name: Parameter of ``function`` to which the number of rows is passed.
        least: Rows of the smallest batch.
        most: Rows of the first batch, which is the largest.
        full: If True, verify more batches, positions and orders.

    Returns:
        The verdict. Its status is "ok", "bits_differ" (with the first difference and its causes), or the status of a
        failed launch.

    Raises:
        TypeError: The function returns something other than tensors whose first axis is the rows.
        LaunchFailed: A launch does not terminate.
    """
    subject = FunctionInBatches(function, session, BatchRows(name, most, {}, {}))
    plan = BatchPlan.of(most, full=full, least=least, most=most)
    runs = list(until_failure(results(make_runs(plan.runs(subject)))))
    last = runs[-1]
    if not session.launches:
        return Verdict.not_launched("unsupported", "the function launched no Triton kernel")
    causes = subject.causes(last) if last.status == BITS_DIFFER else ()
    return Verdict(
        None, last.status, last.reason, None, None, last.emulation, tuple(runs), batch_invariant=last.status == "ok",
        causes=causes,
    )  # fmt: skip

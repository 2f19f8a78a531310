"""Simulated streams of a Triton program. Work runs immediately; ``HostOrder`` checks the program's synchronisation.

As in torch, streams do not wait for the default stream. The memory of a freed tensor is reused by the next tensor on
the same stream. A copy is asynchronous only with ``non_blocking=True``, from or to pinned memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosched.triton.call_site import call_site
from autosched.triton.host_threads import HostThreads
from autosched.triton.overlaps import Overlaps, stretches
from autosched.triton.storages import Storages
from measurements.emulator.host_order import (
    HOST,
    LEGACY,
    Clock,
    HostAccess,
    HostOrder,
    HostRace,
    Ranges,
    Use,
    one_range,
)

_MOST_ROWS = 4096  # maximum number of contiguous ranges of a tensor; tensors with more ranges are not checked

Raced = Callable[[str, tuple[str, int]], None]


@dataclass(frozen=True)
class Work:
    """Work that uses memory, and the source line of the program that issued the work."""

    operation: str
    file: str
    line: int


@dataclass(eq=False)
class _TensorMemory:
    """Memory of a tensor.

    After this memory is freed, the next tensor on ``stream`` may reuse it, unless streams in ``recorded`` still use it.
    """

    reference: StorageWeakRef
    first: int
    size: int
    stream: int
    recorded: set[int] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class _Freed:
    stream: int
    size: int
    pending: list[HostAccess]


class StreamOrder:
    """Tracks the order of a program's streams. Thread-safe.

    Args:
        storages: Registry of the program's tensors.
        raced: Called for each race, with a message, and the file and line of the later access.
    """

    def __init__(self, storages: Storages, raced: Raced) -> None:
        self.order = HostOrder()
        self.overlaps = Overlaps()
        self._host_threads = HostThreads()
        self._storages = storages
        self._raced = raced
        self._lock = threading.RLock()
        self._thread = threading.local()
        # by address: a number that identifies the tensor, and the tensor's memory
        self._blocks: dict[int, tuple[int, _TensorMemory]] = {}
        self._numbers = 0
        self._freed: list[_Freed] = []
        self._work = 0  # number of operations on the default stream before the program created another stream
        self._waited = 0
        # by address: memory that an operation wrote, and the operation; the host may not have waited for it yet
        self._written: dict[int, tuple[int, StorageWeakRef, Work]] = {}
        self.is_active = False

    # Streams --------------------------------------------------------------------------------------------------------

    @property
    def current(self) -> int:
        """Current stream of this thread."""
        return int(getattr(self._thread, "stream", LEGACY))

    @current.setter
    def current(self, stream: int) -> None:
        self._thread.stream = stream

    def add_stream(self) -> int:
        """Return a new stream. Tracking starts when the program creates its first stream."""
        with self._lock:
            self._activate()
            return self.order.add_stream(blocking=False)

    def _activate(self) -> None:
        if self.is_active:
            return
        self.is_active = True
        for work, reference, by in self._written.values():
            if work > self._waited and not reference.expired():
                storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
                first = storage.data_ptr()
                self.order.begin(LEGACY)
                self.order.use(LEGACY, self._number(storage), Use.WRITE, one_range(first, first + storage.nbytes()), by)
        self._written.clear()

    def record(self, stream: int) -> Clock:
        """Record an event on a stream, and return the work that the event represents."""
        with self._lock:
            self.overlaps.end(stream)
            return self.order.record(stream)

    def wait(self, stream: int, event: Clock) -> None:
        """Make a stream wait for an event."""
        with self._lock:
            self.overlaps.end(stream)
            self.order.wait(stream, event)

    def synchronize(self, stream: int | None = None) -> None:
        """Make the host wait for a stream, or for all streams."""
        self._yield_to_other_threads()
        with self._lock:
            self._waited = self._work
            self.overlaps.end(stream)
            if self.is_active and stream is not None:
                self.order.synchronize(stream)
            elif self.is_active:
                self.order.synchronize_device()

    def synchronize_event(self, clock: Clock) -> None:
        """Make the host wait for an event."""
        self._yield_to_other_threads()
        with self._lock:
            self.overlaps.end()
            self.order.synchronize_event(clock)
            if not self.is_active:
                self._waited = self._work

    def _yield_to_other_threads(self) -> None:
        if self.is_active:
            self._host_threads.yield_to_other_threads(call_site())

    # Uses -----------------------------------------------------------------------------------------------------------

    def operator(self, label: str, read: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
        """Record a torch operator on the current stream, including the operator's accesses to host memory."""
        if any(self._storages.host_of(t) is None for t in written):
            self.overlaps.end(self.current)
        if not self.is_active:
            if any(self._storages.host_of(t) is None for t in written):
                self._note(written, label)
            return
        with self._lock:
            by = Work(label, *call_site())
            stream = self.current
            self.order.begin(stream)
            if torch._C._current_graph_task_id() != -1:  # torch itself synchronises the streams in backward passes
                self.order.wait_for_all(stream)
            for use, tensors in ((Use.READ, read), (Use.WRITE, written)):
                for tensor in tensors:
                    host = self._storages.host_of(tensor)
                    if host != "plain":
                        self._use(stream if host is None else HOST, tensor, use, by)
            self._host_threads.note_action()

    def copy(self, source: torch.Tensor, target: torch.Tensor, *, non_blocking: bool) -> None:
        """Record a copy between the host and the device on the current stream."""
        hosts = [self._storages.host_of(t) for t in (source, target)]
        asynchronous = non_blocking and "pinned" in hosts and "plain" not in hosts
        self.overlaps.end(self.current)
        if not self.is_active and not asynchronous:
            self._waited = self._work
            return
        with self._lock:
            self._activate()
            by = Work("a copy", *call_site())
            self.order.begin(self.current)
            self._use(self.current, source, Use.READ, by)
            self._use(self.current, target, Use.WRITE, by)
            self._host_threads.note_action()
        if not asynchronous:
            self.synchronize(self.current)

    def launch(self, kernel: str, at: tuple[str, int], uses: Sequence[tuple[torch.UntypedStorage, Any]]) -> None:
        """Record a launch on the current stream.

        Args:
            kernel: Name of the kernel.
            at: File and line of the launch.
            uses: Storages, each with the use of every byte (``host_order.Use``); 0 if unused.
        """
        by = Work(f"kernel {kernel}", *at)
        with self._lock:
            if not self.is_active:
                self._work += 1
                for storage, used in uses:
                    if (used & Use.WRITE).any():
                        self._written[storage.data_ptr()] = (self._work, StorageWeakRef(storage), by)
                return
            self.order.begin(self.current)
            for storage, used in uses:
                for use in np.unique(used[used != 0]).tolist():
                    ranges = storage.data_ptr() + stretches(used == use)
                    self._check(self.current, self._number(storage), Use(use), ranges, by)
            self._host_threads.note_action()

    def host_reads(self, tensor: torch.Tensor) -> None:
        """Record that the host reads a tensor outside an operator, for example through numpy."""
        if self.is_active and self._storages.host_of(tensor) == "pinned":
            with self._lock:
                self._use(HOST, tensor, Use.READ, Work("the host", *call_site()))
                self._host_threads.note_action()

    def memory_allocated(self, tensor: torch.Tensor) -> None:
        """Register a new tensor of the device, which may reuse memory freed on the current stream."""
        if not self.is_active:
            return
        with self._lock:
            self._collect_freed()
            storage = tensor.untyped_storage()
            size = storage.nbytes()
            fitting = [f for f in self._freed if f.stream == self.current and f.size >= size > 0]
            number = self._number(storage)
            if fitting:
                block = min(fitting, key=lambda f: f.size)
                self._freed.remove(block)
                self.order.inherit(number, block.pending, one_range(storage.data_ptr(), storage.data_ptr() + size))

    def record_stream(self, tensor: torch.Tensor, stream: int) -> None:
        """Prevent reuse of a tensor's memory, once freed, until a stream has finished its current work."""
        if self.is_active:
            with self._lock:
                self._number(tensor.untyped_storage())
                self._blocks[tensor.untyped_storage().data_ptr()][1].recorded.add(stream)

    def _note(self, written: Sequence[torch.Tensor], label: str) -> None:
        self._work += 1
        for tensor in written:
            if tensor.layout is torch.strided and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                self._written[storage.data_ptr()] = (self._work, StorageWeakRef(storage), Work(label, "", 0))
        if len(self._written) > 1024 and self._work % 1024 == 0:
            self._written = {a: w for a, w in self._written.items() if w[0] > self._waited and not w[1].expired()}

    def _collect_freed(self) -> None:
        """Find freed tensors, and prevent reuse of their memory while other streams may use it."""
        for address, (number, block) in list(self._blocks.items()):
            if not block.reference.expired():
                continue
            del self._blocks[address]
            pending = [
                access
                for access in self.order.forget(number)
                if access.timeline not in block.recorded and not self.order.knows(block.stream, access)
            ]
            if pending:
                self._freed.append(_Freed(block.stream, block.size, pending))

    def _number(self, storage: torch.UntypedStorage) -> int:
        address = storage.data_ptr()
        if (known := self._blocks.get(address)) is not None and not known[1].reference.expired():
            return known[0]
        if known is not None:
            self._collect_freed()
        self._numbers += 1
        block = _TensorMemory(StorageWeakRef(storage), address, storage.nbytes(), self.current)
        self._blocks[address] = (self._numbers, block)
        return self._numbers

    def _use(self, timeline: int, tensor: torch.Tensor, use: Use, by: Work) -> None:
        if tensor.layout is not torch.strided or tensor.numel() == 0 or tensor.device.type == "meta":
            return
        rows = _rows(tensor)
        if rows is not None:
            self._check(timeline, self._number(tensor.untyped_storage()), use, rows, by)

    def _check(self, timeline: int, block: int, use: Use, ranges: Ranges, by: Work) -> None:
        race = self.order.use(timeline, block, use, ranges, by)
        if race is not None:
            self._raced(_message(race), (by.file, by.line))


def _message(race: HostRace) -> str:
    by_host = race.later.timeline == HOST
    remedy = "the host must wait first" if by_host else "synchronise the two streams"
    return (
        f"{_actor(race.later)} {_verb(race.later)} memory that {_actor(race.earlier)} {_verb(race.earlier)}: {remedy}"
    )


def _actor(access: HostAccess) -> str:
    stream = {HOST: "", LEGACY: " on the default stream"}.get(access.timeline, f" on stream {access.timeline - LEGACY}")
    at = f" ({Path(access.by.file).name}:{access.by.line})" if access.by.file else ""
    actor = "the host" if access.timeline == HOST else access.by.operation
    return f"{actor}{stream}{at}"


def _verb(access: HostAccess) -> str:
    return "writes" if access.use & Use.WRITE else "reads"


def _rows(tensor: torch.Tensor) -> Ranges | None:
    """Return the byte ranges of a tensor's elements; None if there are too many ranges."""
    each = tensor.element_size()
    run, starts = each, np.zeros(1, np.int64)
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda dim: dim[1]):
        step = each * stride
        if size == 1 or step == 0:
            continue
        if len(starts) == 1 and step == run:
            run *= size
            continue
        if len(starts) * size > _MOST_ROWS:
            return None
        starts = (starts[None, :] + step * np.arange(size, dtype=np.int64)[:, None]).reshape(-1)
    starts = np.sort(starts) + tensor.untyped_storage().data_ptr() + each * tensor.storage_offset()
    return np.stack([starts, starts + run], axis=1)

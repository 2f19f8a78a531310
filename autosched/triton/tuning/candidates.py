"""Candidates of one call, which are compiled on demand, or in advance by other processes."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field

from autosched.triton.storages import Storages
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling.candidate import CompiledCandidate, NotLaunched, compiled
from autosched.triton.tuning.compiling.processes import CompileProcesses
from autosched.triton.tuning.function import TritonFunction
from autosched.triton.tuning.space import TritonSpace
from search_spaces.hardware.devices import Device
from search_spaces.spaces.schedule import Schedule

_KEPT = 32  # maximum number of candidates kept in memory


@dataclass(eq=False)
class Candidates:
    """Compiled candidates.

    If ``processes`` is not None, each configuration is compiled by one of these processes first. A configuration that
    crashes a process is not compiled in the current process.
    """

    function: TritonFunction
    call: KernelCall
    domain: TritonSpace
    device: Device
    storages: Storages
    processes: CompileProcesses | None = None
    _ahead: dict[Schedule, Future[NotLaunched | None] | None] = field(default_factory=dict)
    _compiled: OrderedDict[Schedule, CompiledCandidate] = field(default_factory=OrderedDict)

    def start(self, schedule: Schedule) -> None:
        """Start compiling a configuration in another process."""
        if self.processes is not None and schedule not in self._ahead and schedule not in self._compiled:
            arguments = {**self.call.arguments, **self.domain.values(schedule)}
            hook = self.domain.hook(schedule)
            if hook is not None:
                hook(dict(arguments))
            self._ahead[schedule] = self.processes.submit(arguments)

    def __call__(self, schedule: Schedule) -> CompiledCandidate:
        """Return the compiled candidate of a schedule. Raises NotLaunched if it cannot be launched."""
        if schedule not in self._compiled:
            self.start(schedule)
            future = self._ahead.pop(schedule, None)
            refused = None if future is None else future.result()
            if refused is not None:
                raise refused
            values, hook = self.domain.values(schedule), self.domain.hook(schedule)
            self._compiled[schedule] = compiled(self.function, self.call, values, hook, self.device, self.storages)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
        return self._compiled[schedule]

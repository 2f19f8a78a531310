"""Record launches that the emulator ran without a finding, for ``python -m benchmarks.gpu.launches``.

Enabled by ``pytest --keep-launches``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchmarks.gpu.launches.kept import READ, WRITTEN, keep
from measurements.emulator import emulator
from measurements.emulator.findings import Emulation
from measurements.emulator.order import ASCENDING
from measurements.emulator.ptx.build import CompiledBytecode, compile_to_bytecode, compile_to_text, ptx_to_bytecode
from measurements.emulator.runner_files import RunSettings
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch
from search_spaces.launches.texture import LinearTexture

MOST_BYTES = 8 << 20  # limit of the total size of a launch's arrays
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


class KeepLaunches:
    """A pytest plugin that wraps ``emulate`` and ``emulate_ptx`` so that they also write launches to ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._test = ""
        self._compiled = threading.local()  # each thread's last compiled bytecode and the bytecode's PTX
        self._run = emulator.run_launch
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(emulator, "compile_to_bytecode", self._compile_to_bytecode)
        self._patch.setattr(emulator, "ptx_to_bytecode", self._ptx_to_bytecode)
        self._patch.setattr(emulator, "run_launch", self._run_launch)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    def pytest_unconfigure(self) -> None:
        self._patch.undo()

    def _remember(self, compiled: CompiledBytecode, text: Callable[[], tuple[str, str]]) -> CompiledBytecode:
        self._compiled.last = (compiled, text)
        return compiled

    def _compile_to_bytecode(self, kernel: GeneratedKernel) -> CompiledBytecode:
        return self._remember(compile_to_bytecode(kernel), lambda: compile_to_text(kernel))

    def _ptx_to_bytecode(self, text: str, entry: str = "") -> CompiledBytecode:
        return self._remember(ptx_to_bytecode(text, entry), lambda: (text, entry or _ENTRY.findall(text)[0]))

    def _run_launch(
        self,
        launch: Launch,
        arrays: Mapping[str, Array],
        compiled: CompiledBytecode,
        folder: Path,
        settings: RunSettings,
    ) -> Emulation:
        done = self._run(launch, arrays, compiled, folder, settings)
        last = getattr(self._compiled, "last", None)
        if done.ok and last is not None and last[0] is compiled and is_plain(launch, settings):
            self._keep(launch, arrays, settings, done, *last[1]())
        return done

    def _keep(
        self,
        launch: Launch,
        arrays: Mapping[str, Array],
        settings: RunSettings,
        done: Emulation,
        text: str,
        entry: str,
    ) -> None:
        alone = Launch(
            entry=entry,
            arguments=launch.arguments,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            dynamic_shared_bytes=launch.dynamic_shared_bytes,
            launches=launch.launches,
            symbols=launch.symbols,
        )
        keep(
            self.folder,
            self._test,
            text,
            alone,
            {o.name: arrays[o.name] for o in alone.operands if o.role in READ},
            {o.name: done.outputs[o.name] for o in alone.operands if o.role in WRITTEN},
            offsets=settings.memory.offsets,
            notes=[str(finding.kind) for finding in done.findings],
        )


def is_plain(launch: Launch, settings: RunSettings) -> bool:
    """Return True if a GPU can repeat a launch.

    It must be a complete launch that runs once, without textures, on arrays with known contents of at most MOST_BYTES.
    """
    memory = settings.memory
    beyond = (memory.defined, memory.addresses, memory.extra_operands, memory.inside, memory.symbols, memory.textures)
    return (
        settings.blocks is None
        and settings.order == ASCENDING
        and not settings.perturb
        and settings.calls == 1
        and not any(beyond)
        and not (launch.then or launch.unpassed)
        and not any(isinstance(argument, LinearTexture) for argument in launch.arguments)
        and sum(operand.bytes for operand in launch.operands) <= MOST_BYTES
    )

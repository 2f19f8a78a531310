"""Emulation of launches: results, races, bounds, barriers and memory transactions.

Start at ``emulator.py`` (``emulate``), which needs no GPU. ``ptx/`` translates PTX to bytecode, ``runtime/`` executes
it (C++; its state is in ``runtime/machine/machine.hpp``), ``host/`` compiles the runtime, and ``findings.py`` lists the
kinds of findings. ``executables/`` runs whole executables. From ``search_spaces``, this package may only import
launches, not operators, kernel templates or tile programs.
"""

from measurements.emulator.emulate_options import EmulateOptions
from measurements.emulator.emulator import emulate, emulate_ptx
from measurements.emulator.findings import Emulation, Finding, FindingKind, GlobalSite, SharedSite, by_cause
from measurements.emulator.host.build import brings_runner, cache_folder, check_ready, emulator_version
from measurements.emulator.host.compiler import (
    HostCompilerMissing,
    HostFailure,
    check_compiler,
    check_host,
    emulator_folder,
    host_compiler,
)
from measurements.emulator.memory import Memory, StoredAddress
from measurements.emulator.order import ASCENDING, Order
from measurements.emulator.ptx.build import ptx_digest
from measurements.emulator.sparse import emulate_blocks, emulate_ptx_blocks
from measurements.emulator.suppression import Suppression, suppress

__all__ = [
    "ASCENDING",
    "EmulateOptions",
    "Emulation",
    "Finding",
    "FindingKind",
    "GlobalSite",
    "HostCompilerMissing",
    "HostFailure",
    "Memory",
    "Order",
    "SharedSite",
    "StoredAddress",
    "Suppression",
    "brings_runner",
    "by_cause",
    "cache_folder",
    "check_compiler",
    "check_host",
    "check_ready",
    "emulate",
    "emulate_blocks",
    "emulate_ptx",
    "emulate_ptx_blocks",
    "emulator_folder",
    "emulator_version",
    "host_compiler",
    "ptx_digest",
    "suppress",
]

"""Runs kernels without a GPU: numbers, races, bounds, barriers, and memory transactions, on the CPU."""

from measurements.emulator.build import HostCompilerMissing, cache_folder, host_compiler
from measurements.emulator.emulator import EmulationJob, emulate, emulate_many
from measurements.emulator.findings import Emulation, Finding, FindingKind, GlobalSite, SharedSite

__all__ = [
    "Emulation",
    "EmulationJob",
    "Finding",
    "FindingKind",
    "GlobalSite",
    "HostCompilerMissing",
    "SharedSite",
    "cache_folder",
    "emulate",
    "emulate_many",
    "host_compiler",
]

"""Triton programs without a GPU: every launch runs in the emulator, and is proven there."""

from autosched.triton.described import LaunchFailed
from autosched.triton.session import (
    QUICK,
    THOROUGH,
    FaultsFound,
    LaunchRecord,
    ProofSettings,
    Session,
    emulate,
    emulated,
)

__all__ = [
    "QUICK",
    "THOROUGH",
    "FaultsFound",
    "LaunchFailed",
    "LaunchRecord",
    "ProofSettings",
    "Session",
    "emulate",
    "emulated",
]

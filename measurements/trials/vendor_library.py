"""Trials that represent a call of the vendor's library. They are stored if no generated kernel is as fast.

Such a trial has the schedule that this module defines, no kernel, and the library's version as its toolchain. The trial
is ranked like any other. If it is the best, a call for this problem runs the library.
"""

from __future__ import annotations

from search_spaces.spaces.schedule import Schedule

LIBRARY = "library"  # replaces the name of a kernel template in the schedule
LIBRARY_SCHEDULE = Schedule(LIBRARY, (("call", "cublasGemmStridedBatchedEx"),))


def is_library(schedule: Schedule) -> bool:
    """Return True if ``schedule`` represents a call of the vendor's library."""
    return schedule.template == LIBRARY

"""Trials that represent a call of the vendor's library, stored if no generated kernel is as fast.

Such a trial has the schedule of this module, no kernel, and the library's version as its toolchain. It is ranked like
any other trial; a call of the problem then calls the library.
"""

from __future__ import annotations

from search_spaces.spaces.schedule import Schedule

LIBRARY = "library"  # used instead of the name of a kernel template
LIBRARY_SCHEDULE = Schedule(LIBRARY, (("call", "cublasGemmStridedBatchedEx"),))


def is_library(schedule: Schedule) -> bool:
    """Return True if ``schedule`` represents a call of the vendor's library."""
    return schedule.template == LIBRARY

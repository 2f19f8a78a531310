"""The vendor's library as an answer: how a trial says that no kernel of ours is as fast as it.

Such a trial has the schedule of this file, no kernel, and the library's version as its toolchain. It takes part in
rankings like every other, and is served by a call of the library.
"""

from __future__ import annotations

from search_spaces.spaces.schedule import Schedule

LIBRARY = "library"  # in place of a kernel template's name
LIBRARY_SCHEDULE = Schedule(LIBRARY, (("call", "cublasGemmStridedBatchedEx"),))


def is_library(schedule: Schedule) -> bool:
    """Return True if ``schedule`` represents a call of the vendor's library."""
    return schedule.template == LIBRARY

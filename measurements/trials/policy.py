"""Timing policy. Times of different policies are not comparable, and are never ranked together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

CACHES, LAUNCHES = ("cold", "warm"), ("graph", "eager")
MOST_MHZ = 10_000
_TEXT = re.compile(rf"({'|'.join(CACHES)}) ({'|'.join(LAUNCHES)}) (?:free|([1-9][0-9]{{0,4}}) MHz)")


@dataclass(frozen=True, order=True)
class Policy:
    """Timing policy. Raises ValueError if an attribute is invalid.

    Attributes:
        cache: "cold" if operands come from DRAM, "warm" if they are in the L2 cache.
        launch: "graph" if times exclude the host, as for launches in a CUDA graph. "eager" if times include the host's
            work for each launch.
        clock_mhz: Locked SM clock in MHz; None if unlocked.
    """

    cache: str = "cold"
    launch: str = "graph"
    clock_mhz: int | None = None

    def __post_init__(self) -> None:
        if self.cache not in CACHES or self.launch not in LAUNCHES:
            raise ValueError(
                f"invalid policy: cache is {' or '.join(CACHES)}, and launch is {' or '.join(LAUNCHES)}, "
                f"not {self.cache!r:.40} and {self.launch!r:.40}"
            )
        clock = self.clock_mhz
        if clock is not None and not (type(clock) is int and 0 < clock <= MOST_MHZ):
            raise ValueError(f"a locked clock must be an integer of MHz up to {MOST_MHZ:,}, not {clock!r:.40}")

    @property
    def clocks(self) -> str:
        """The clock as text: "free" if unlocked, otherwise for example "1410 MHz"."""
        return "free" if self.clock_mhz is None else f"{self.clock_mhz} MHz"

    def __str__(self) -> str:
        """Text of the policy, such as "cold graph free"."""
        return f"{self.cache} {self.launch} {self.clocks}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the text of a policy. Raises ValueError for an invalid text."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"invalid policy {text!r:.60}: write for example {Policy()}")
        return cls(match[1], match[2], None if match[3] is None else int(match[3]))


# default policy; it also applies to trials that were measured before policies were recorded, unless L2 was warm
DEFAULT = str(Policy())
# stored in place of a policy if autosched did not measure the time: estimates, and replayed times of other tools
NONE = ""


def described(policy: Policy) -> str:
    """Return the policy as a phrase for messages."""
    words = ["in a warm L2" if policy.cache == "warm" else "from a cold L2"]
    if policy.launch == "eager":
        words.append("launched one by one")
    if policy.clock_mhz is not None:
        words.append(f"at {policy.clocks}")
    return ", ".join(words)

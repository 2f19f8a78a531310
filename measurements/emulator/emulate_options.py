"""How a launch is emulated: one object, validated where it is made and handed down unchanged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from measurements.emulator.memory import PLAIN_MEMORY, Memory
from measurements.emulator.order import ASCENDING, Order


@dataclass(frozen=True, kw_only=True)
class EmulateOptions:
    """Options of ``emulate`` and ``emulate_ptx``.

    Attributes:
        time_limit: CPU seconds of all launches, without the compile.
        check: Whether races and uninitialised reads are looked for; without them a launch runs faster. Bounds,
            alignment, deadlocks and counts are always checked.
        order: Order of blocks and of the turns of threads.
        perturb: Whether the approximate functions of PTX err as much as the PTX ISA allows.
        calls: Number of back-to-back launches on the same memory; before each, outputs are poisoned with 0xFF again.
        memory: Pointers into arrays, bytes that hold no value, and addresses that lie in arrays.
        count: Whether executed instructions are counted.
        blocks: Blocks of the grid that run, with the rest of their clusters. Default: all.

    Raises:
        ValueError: A time limit that is not positive.
    """

    time_limit: float = 60.0
    check: bool = True
    order: Order = ASCENDING
    perturb: bool = False
    calls: int = 1
    memory: Memory = PLAIN_MEMORY
    count: bool = False
    blocks: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not self.time_limit > 0:
            raise ValueError(f"time_limit must be more than 0 s, not {self.time_limit}")

    @classmethod
    def gathered(cls, options: EmulateOptions | None, keywords: Mapping[str, Any]) -> Self:
        """Return options with ``keywords`` in place of the fields that they name.

        Raises:
            TypeError: An unknown field.
            ValueError: A value that cannot be used.
        """
        fields = dataclasses.fields(EmulateOptions) if options is not None else ()
        return cls(**({field.name: getattr(options, field.name) for field in fields} | dict(keywords)))

"""Options of emulating a launch: one object, validated on creation and passed down unchanged."""

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
        time_limit: CPU seconds of all launches, without compilation.
        check: If True, races and uninitialised reads are detected, which makes a launch slower. Bounds, alignment and
            deadlocks are always checked.
        order: Order of blocks and of threads.
        perturb: If True, results of approximate instructions have the largest error that the PTX ISA allows.
        calls: Number of back-to-back launches on the same memory. Before each launch, outputs are poisoned with 0xFF
            bytes.
        memory: Properties of the initial memory other than array contents, such as undefined bytes and pointers stored
            in arrays.
        count: If True, executed instructions are counted.
        blocks: Indices of the blocks to run. All blocks of a cluster run if one of them is listed. Default: all blocks.

    Raises:
        ValueError: For a time limit that is not positive.
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
        """Return ``options`` with the fields in ``keywords`` replaced.

        Raises:
            TypeError: For an unknown field.
            ValueError: For an invalid value.
        """
        fields = dataclasses.fields(EmulateOptions) if options is not None else ()
        return cls(**({field.name: getattr(options, field.name) for field in fields} | dict(keywords)))

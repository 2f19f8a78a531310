"""Attributes for the use of shared memory: tiles that stay in shared memory, the ring of each loop, and exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.hardware.devices import Device
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.planning import estimates
from search_spaces.programs.planning.choices import Choices, choices_of, unique_operands
from search_spaces.programs.planning.estimates import Needs
from search_spaces.programs.planning.memory import barrier_bytes, shared_tile_bytes, stage_names
from search_spaces.programs.planning.scratch import flag_bytes, loops_of_stores, loops_of_sum, scratch_bytes
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.needs import each_needs
from search_spaces.programs.schedules.streams import early_copies, is_splittable
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.rules import Attribute

OUTSIDE = "outside"


def shared_memory(
    problem: ProgramProblem, device: Device, parameters: Sequence[Parameter], shaping: Mapping[str, str]
) -> list[Attribute]:
    """Return ``shared_bytes``, the shared memory of a block, with the attributes from which it is computed.

    Args:
        problem: The program and its sizes.
        device: The GPU.
        parameters: Parameters of the space.
        shaping: Names of the parameters that distributions depend on.
    """
    choices = choices_of(problem)
    first, operands = choices.first, unique_operands(choices.first)
    listed = _sum_bytes(choices, shaping)
    for suffix, loop in exchange_loops(first).items():
        listed += _scratch(choices, parameters, shaping, suffix, loop)
    resident = {f"resident_{i}": f"resident_bytes_{s.name}" for i, s in enumerate(operands) if s.loop is None}
    for index, array in enumerate(first.trace.shared):
        resident[f"shared_{index}"] = f"bytes_{array.name}"
        listed.append(_tile_bytes(choices, index, array.name))
    listed.append(
        Attribute(
            "resident_bytes",
            lambda outside, **c: sum(c.values()) + 0 * outside,
            "bytes of shared memory for tiles that are copied once and stay",
            names={"outside": scratch_name(OUTSIDE), **resident},
        )
    )
    rings: dict[int, str] = {}
    for loop, name in stage_names(first).items():
        rings[loop] = name.replace("stages", "ring_bytes")
        stage_bytes = [f"stage_bytes_{s.name}" for s in operands if s.loop == loop]
        listed += added(rings[loop], stage_bytes, "bytes of shared memory for one stage")
        names = {"stages": name, "stage": listed[-1].name}
        if is_splittable(choices) and len(stage_bytes) == len(operands) and not first.trace.shared:
            listed.append(early_copies(names["stage"]))
        listed.append(
            Attribute(
                rings[loop], lambda stages, stage: stages * stage, "bytes of shared memory for a ring", names=names
            )
        )
    listed += _peak(first, rings, barrier_bytes(choices.first) if choices.boxed_instructions(device) else 0)
    return listed


def exchange_loops(inference: Inference) -> dict[str, int | None]:
    """Map suffixes of attribute names to the outermost loops that may contain exchanges (None: outside of loops)."""
    around = (*inference.inside.values(), *inference.stored_in)
    loops = [n for n in inference.loops if any(estimates.outermost(inference, a) == n for a in around)]
    inside = {"inside" if len(loops) == 1 else f"inside_{i + 1}": loop for i, loop in enumerate(loops)}
    return {OUTSIDE: None, **inside}


def scratch_name(suffix: str) -> str:
    """Return the name of the attribute for the number of bytes that exchanges in a loop need.

    ``suffix``: A key of ``exchange_loops``.
    """
    return f"scratch_{suffix}"


def _scratch(
    choices: Choices, parameters: Sequence[Parameter], shaping: Mapping[str, str], suffix: str, loop: int | None
) -> list[Attribute]:
    """Return the attributes for the exchanges in one loop.

    The exchanges share memory, so the largest exchange determines the number of bytes.
    """
    shapes = sorted({shape for i in choices.inferences.values() for shape in i.exchangeable})
    bit = {shape: 1 << at for at, shape in enumerate(shapes)}
    known = [p.name for p in parameters]
    number = None if loop is None else list(choices.first.loops).index(loop)
    stores: dict[str, str] = {}
    for name, loop_of_store in loops_of_stores(choices.first).items():
        if name in known and loop_of_store == loop:
            stores |= {name: name, f"shape_{name}": f"shape_{name}"}
    exchange = {"exchange": "exchange"} if "exchange" in known else {}

    def at(inference: Inference) -> int | None:
        return None if number is None else list(inference.loops)[number]

    def exchanged(inference: Inference, needs: Needs) -> int:
        return sum(bit[shape] for shape in needs.tiles.get(at(inference), ()))

    def joined(inference: Inference, needs: Needs) -> int:
        return max(needs.joined.get(at(inference), {}).values(), default=0)

    flag = flag_bytes(choices.first) if loop is None else 0

    def scratch(exchanged: int, joined: int, exchange: str = "identity", **turned: Value) -> int:
        shapes_exchanged = {shape for shape, b in bit.items() if exchanged & b}
        shapes_exchanged |= {shapes[int(turned[f"shape_{name}"])] for name, how in turned.items() if how == "turned"}
        return scratch_bytes(exchange, shapes_exchanged, (joined, flag))

    where = "outside of loops" if loop is None else "in loops" if suffix == "inside" else f"in loop {(number or 0) + 1}"
    names = {"exchanged": f"exchanged_{suffix}", "joined": f"joined_{suffix}"}
    doc = f"bytes of shared memory for reductions across warps {where}"
    listed = [
        Attribute(
            names["exchanged"], each_needs(choices, exchanged),
            f"bit mask of the shapes of tiles that are exchanged {where}", names=shaping,
        ),
        Attribute(names["joined"], each_needs(choices, joined), doc, names=shaping),
    ]  # fmt: skip
    sums = _times(choices.first, loop)
    if sums:

        def with_sums(joined: IntArray, **columns: Any) -> IntArray:
            for name, times in sums.items():
                here = np.logical_or.reduce([columns[name] == time for time in times])
                joined = np.maximum(joined, np.where(here, columns[f"bytes_{name}"], 0))
            return joined

        columns = {**{name: name for name in sums}, **{f"bytes_{name}": f"bytes_{name}" for name in sums}}
        listed.append(
            Attribute(
                f"all_joined_{suffix}", with_sums, f"{doc}, with sums", names={"joined": names["joined"], **columns}
            )
        )
        names["joined"] = listed[-1].name
    listed.append(
        Attribute(
            scratch_name(suffix), each(scratch), f"bytes of shared memory for exchanges {where}",
            names={**names, **exchange, **stores},
        )
    )  # fmt: skip
    return listed


def _sum_bytes(choices: Choices, shaping: Mapping[str, str]) -> list[Attribute]:
    """Return an attribute for each partial sum: the bytes needed to combine it across warps."""

    def size(number: int) -> Callable[..., object]:
        return each_needs(choices, lambda _, needs: needs.sums.get(number, 0))

    return [
        Attribute(
            f"bytes_{estimates.sum_name(i)}", size(i), "bytes of shared memory for sums across warps", names=shaping
        )
        for i in range(len(choices.first.sums))
    ]


def _times(inference: Inference, loop: int | None) -> dict[str, list[str]]:
    """Return, by parameter, the values for which partial sums are combined in ``loop`` (None: outside of loops)."""
    times: dict[str, list[str]] = {}
    for i in range(len(inference.sums)):
        for time, loop_of_sum in loops_of_sum(inference, i).items():
            if loop_of_sum == loop:
                times.setdefault(estimates.sum_name(i), []).append(time)
    return times


def _peak(inference: Inference, rings: Mapping[int, str], barriers: int) -> list[Attribute]:
    """Return the attributes from which ``shared_bytes`` is computed, followed by ``shared_bytes``.

    The other attributes compute the maximum over the loops, one loop at a time. So each attribute depends on few
    columns.

    Args:
        inference: Inference of the program at one choice of sizes.
        rings: Names of the attributes with the bytes of each loop's ring.
        barriers: Bytes of mbarriers. They are included for every instruction, although only boxes need them. Otherwise
            the attribute would depend on the instruction, and the schedules of attention could no longer be counted
            efficiently.
    """
    doc = "bytes of shared memory for rings and exchanges: maximum over the loops up to this one"
    listed, most = list[Attribute](), scratch_name(OUTSIDE)
    for suffix, loop in exchange_loops(inference).items():
        if loop is None:
            continue
        inside = scratch_name(suffix)
        if loop in rings:
            names = {"scratch": inside, "ring": rings[loop]}
            inside = f"bytes_{suffix}"
            listed.append(Attribute(inside, lambda scratch, ring: scratch + ring, doc, names=names))
        names, most = {"before": most, "inside": inside}, f"peak_{suffix}"
        listed.append(Attribute(most, lambda before, inside: np.maximum(before, inside), doc, names=names))
    names = {"resident": "resident_bytes", "most": most}
    total = Attribute(
        "shared_bytes", lambda resident, most: resident + most + barriers, "shared memory of a block", names=names
    )
    return [*listed, total]


def _tile_bytes(choices: Choices, index: int, name: str) -> Attribute:
    def size(layout: str, **values: Value) -> int:
        return shared_tile_bytes(choices.inference(values).trace.shared[index], layout)

    names = {"layout": f"layout_{name}", **{n: n for n in choices.shaping}}
    return Attribute(f"bytes_{name}", each(size), f"bytes of shared memory for {name}", names=names)


def added(name: str, parts: Sequence[str], doc: str) -> list[Attribute]:
    """Return attributes that are cumulative sums of the columns ``parts``.

    A sequence of sums of two columns is cheaper to enumerate than one sum of all columns.
    """
    sums = [Attribute(f"{name}_{parts[0]}", lambda part: 1 * part, doc, names={"part": parts[0]})]
    for part in parts[1:]:
        names = {"before": sums[-1].name, "part": part}
        sums.append(Attribute(f"{name}_{part}", lambda before, part: before + part, doc, names=names))
    return sums

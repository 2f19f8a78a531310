"""``autosched devices``: list the GPUs for which schedules can be tuned.

``--json`` prints ``devices``, a list with the fields of ``search_spaces.hardware.devices.Device`` for each GPU.
``--markdown`` prints these fields as a table for documentation.
"""

from typing import Annotated

import typer

from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import answer, print_json
from autosched.reporting import formatting
from search_spaces.hardware.devices import Device, all_devices

_COLUMNS = ("device", "driver name", "cc", "SMs", "MHz", "L2 MiB", "memory MiB", "GB/s")
_RATES = ("f16", "tf32", "i8", "e4m3", "mxf8", "nvf4")
_LAST = ("f32 FMA", "note")


def devices(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> int:
    """List the GPUs that --device accepts, with figures from their data sheets.

    A GPU that is not listed is described by figures from its driver and by the rates of its architecture.
    """
    if json and markdown:
        raise InputError("--json and --markdown exclude each other: give one of them")
    if json:
        print_json({"devices": [row.to_json() for row in all_devices()]})
    elif markdown:
        for line in markdown_table():
            answer(line)
    else:
        table = formatting.table("device", "cc", "SMs", "memory", "GB/s", "f16 TFLOP/s", "note", fold=("note",))
        for row in sorted(all_devices(), key=_order):
            memory, tensor = formatting.size(row.memory_bytes), f"{row.tensor_peak('f16') / 1e12:.4g}"
            table.add_row(
                row.name, _cc(row), str(row.sm_count), memory, _rate(row.dram_bandwidth / 1e9), tensor, row.note
            )
        show(stdout_console(), table)
    return 0


def markdown_table() -> list[str]:
    """Return the lines of a table of all devices. Rates are peaks without sparsity in TFLOP/s (int8: TOP/s)."""
    heads = (*_COLUMNS, *_RATES, *_LAST)
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in sorted(all_devices(), key=_order):
        known = dict(row.tensor_flops_per_cycle)
        rates = [_rate(row.tensor_peak(kind) / 1e12) if kind in known else "" for kind in _RATES]
        cells = (
            row.name,
            row.driver_names[0] if row.driver_names else "",
            _cc(row),
            str(row.sm_count),
            _rate(row.clock_hz / 1e6),
            _rate(row.l2_bytes / 2**20),
            str(row.memory_bytes // 2**20),
            _rate(row.dram_bandwidth / 1e9),
            *rates,
            _rate(row.fma_peak / 1e12),
            row.note,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _order(row: Device) -> tuple[int, str]:
    return row.sm, row.name


def _cc(row: Device) -> str:
    return f"{row.sm / 10:.1f}"


def _rate(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

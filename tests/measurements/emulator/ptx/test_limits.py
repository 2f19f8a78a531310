"""Declarations beyond the limits of every GPU, and branches to missing labels, are rejected while PTX is parsed."""

from __future__ import annotations

import tracemalloc

import pytest

from measurements.emulator.ptx.bytecode import NotExecutable, translate
from measurements.emulator.ptx.parser import PtxError, parse

# This test lowers the limits, since parsing a program as large as the real limits takes seconds.
MOST_REGISTERS, MOST_INITIAL, MOST_FUNCTIONS = 1 << 10, 1 << 9, 1 << 8
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body: str, before: str = "") -> str:
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 p) {{\n{body}\nret;\n}}\n"


@pytest.mark.parametrize(
    ("text", "token"),
    [
        (kernel(".reg .b32 %r<50000000>;"), f"{MOST_REGISTERS:,}"),
        (kernel(f".reg .b32 %r<{'9' * 5000}>;"), f"{MOST_REGISTERS:,}"),
        (kernel(".reg .b32 %a<600>; .reg .b32 %b<600>;"), f"{MOST_REGISTERS:,}"),
        (kernel("", ".shared .align 4611686018427387904 .b8 g[4];"), "power of two"),
        (kernel("", ".global .align 3 .b8 g[4];"), "power of two"),
        (kernel(".shared .b8 g[1099511627776];"), "233,472"),
        (kernel(".local .b8 g[68719476736];"), "524,288"),
        (kernel(".local .b8 g[400000]; .local .b8 h[400000];"), "524,288"),
        (kernel("", ".const .b8 g[1099511627776];"), "720,896"),
        (kernel("", f".global .b8 g[{'9' * 5000}];"), "cannot be read"),
        (kernel("", ".global .b8 g[2] = {1, 2, 3};"), "more initial values"),
        (kernel("", f".global .b8 g[] = {{{'1,' * MOST_INITIAL}1}};"), f"{MOST_INITIAL:,}"),
        (f"{HEAD}.visible .entry k(.param .b8 p[1099511627776]) {{\nret;\n}}\n", "32,764"),
        (
            HEAD + ".func f()\n{\n}\n" + "".join(f".func f{i}();\n" for i in range(MOST_FUNCTIONS)),
            f"{MOST_FUNCTIONS:,}",
        ),
        (kernel("bra NOWHERE;"), "PTX line 6"),
        (kernel("ts: .branchtargets A, B; brx.idx 0, ts;"), "label A"),
        (kernel("mov.b32 %r1, 0fNOTHEX00;"), "cannot be read"),
    ],
    ids=lambda value: value[-20:].strip(),
)
def test_ptx_beyond_the_limits_of_gpus_is_rejected(text: str, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("measurements.emulator.ptx.body.MOST_REGISTERS", MOST_REGISTERS)
    monkeypatch.setattr("measurements.emulator.ptx.declarations.MOST_INITIAL", MOST_INITIAL)
    monkeypatch.setattr("measurements.emulator.ptx.parser.MOST_FUNCTIONS", MOST_FUNCTIONS)
    with pytest.raises(PtxError) as error:
        parse(text)
    message = str(error.value)
    assert token in message and "\n" not in message and len(message) < 300


def test_a_long_statement_takes_little_memory() -> None:
    text = kernel("", f".global .b8 table[20000] = {{{', '.join(['1'] * 20_000)}}};")
    tracemalloc.start()
    parse(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * len(text)


def test_all_static_shared_memory_together_is_bounded() -> None:
    names = [f"g{i}" for i in range(100)]
    arrays = "".join(f".shared .b8 {name}[200000];\n" for name in names)
    uses = "".join(f"st.shared.u8 [{name}], 1;\n" for name in names)
    with pytest.raises(NotExecutable, match="static shared memory"):
        translate(parse(kernel(uses, arrays)))


def test_ptx_of_compilers_is_within_the_limits() -> None:
    body = ".reg .b32 %r<10000>; .local .align 16 .b8 depot[65536]; bra DONE;\n{ bra INNER; INNER: }\nDONE:"
    table = ".global .align 4 .b8 table[4] = {1, 2, 1, 0xff};\n.shared .align 1024 .b8 s[49152];"
    module = parse(kernel(body, table))
    assert [v.bytes for v in module.variables] == [4, 49152]
    assert [value.bits for value in module.variables[0].initial] == [1, 2, 1, 255]  # type: ignore[union-attr]
    assert translate(module).entry == "k"

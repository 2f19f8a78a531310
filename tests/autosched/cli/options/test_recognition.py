"""``verify FILE`` recognises every supported file by its content, and rejects other files with a one-line message."""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.cli.options import spellings
from autosched.cli.options.recognition import FileKind, looks_like_a_file, recognise
from autosched.cli.terminal.errors import InputError

CUDA = "__global__ void fill(int* x) { x[threadIdx.x] = 1; }\n"
PTX = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry fill() { ret; }\n"
TRITON = "import triton\n\n@triton.jit\ndef fill(x):\n    pass\n"
TILE = "from autosched.tile import Input, Output, program\n"
KERNEL = '[kernel]\nsource = "k.cu"\nentry = "fill"\n'
FATBIN = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)


def elf(kind: int, machine: int = 62, interpreter: bool = False) -> bytes:
    """Return the header of an ELF file. Kind 1 is an object file, 2 a program, and 3 a library or program."""
    header = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, kind, machine, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    return header + struct.pack("<I52x", 3 if interpreter else 1)


FILES: dict[str, tuple[str, bytes, FileKind]] = {
    "CUDA source": ("k.cu", CUDA.encode(), FileKind.CUDA),
    "a header that another file has": ("k.cu", b'#include "kernel.cuh"\n', FileKind.CUDA),
    "CUDA source called C++": ("k.cpp", CUDA.encode(), FileKind.CUDA),
    "CUDA source without an extension": ("k", CUDA.encode(), FileKind.CUDA),
    "CUDA source called text": ("k.txt", CUDA.encode(), FileKind.CUDA),
    "CUDA source called Python": ("k.py", CUDA.encode(), FileKind.CUDA),
    "PTX": ("k.ptx", PTX.encode(), FileKind.PTX),
    "PTX called CUDA": ("k.cu", PTX.encode(), FileKind.PTX),
    "PTX without an extension": ("k", PTX.encode(), FileKind.PTX),
    "a cubin": ("k.cubin", elf(2, 190), FileKind.BINARY),
    "a cubin without an extension": ("k", elf(2, 190), FileKind.BINARY),
    "a fat binary": ("k.fatbin", FATBIN, FileKind.BINARY),
    "an object file": ("k.o", elf(1), FileKind.BINARY),
    "a library": ("k.so", elf(3), FileKind.BINARY),
    "a program": ("k", elf(2), FileKind.EXECUTABLE),
    "a program that can be anywhere": ("k", elf(3, interpreter=True), FileKind.EXECUTABLE),
    "a program called CUDA": ("k.cu", elf(2), FileKind.EXECUTABLE),
    "a Triton script": ("s.py", TRITON.encode(), FileKind.SCRIPT),
    "a Triton script without an extension": ("s", TRITON.encode(), FileKind.SCRIPT),
    "a Helion script": ("s.py", b"import helion.language as hl\n", FileKind.SCRIPT),
    "a script that imports its kernels": ("s.py", b"from kernels import fill\nfill()\n", FileKind.SCRIPT),
    "a script with CUDA source in it": ("s.py", f"import triton\nSOURCE = '''{CUDA}'''\n".encode(), FileKind.SCRIPT),
    "a script with PTX in it": ("s.py", f"import triton\nSOURCE = '''{PTX}'''\n".encode(), FileKind.SCRIPT),
    "a script with a tile program, too": ("s.py", (TILE + TRITON).encode(), FileKind.SCRIPT),
    "a tile program": ("t.py", TILE.encode(), FileKind.TILE_PROGRAM),
    "a tile program by its module": ("t.py", b"import autosched\nautosched.tile.program()\n", FileKind.TILE_PROGRAM),
    "a listing": ("t.mlir", b"#left = #xetile.wg_map<sg_layout = [2, 2]>\n", FileKind.TILE_PROGRAM),
    "a kernel file": ("k.toml", KERNEL.encode(), FileKind.KERNEL_FILE),
    "a kernel file without an extension": ("k", KERNEL.encode(), FileKind.KERNEL_FILE),
    "a kernel file of Kernel Tuner": ("k.json", b'{"KernelSpecification": {}}\n', FileKind.KERNEL_FILE),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    file, content, kind = FILES[name]
    (tmp_path / file).write_bytes(content)
    recognised = recognise(str(tmp_path / file))
    assert recognised.kind is kind and recognised.path == tmp_path / file and recognised.name == ""
    assert (recognised.text != "") == (kind in (FileKind.CUDA, FileKind.PTX))


def test_the_interpreter_is_an_executable() -> None:
    assert recognise(sys.executable).kind is FileKind.EXECUTABLE


@pytest.mark.parametrize(
    ("word", "name"), [("k.cu", ""), ("k.cu:fill", "fill"), ("k.cu:a::b<float, 4>", "a::b<float, 4>")]
)
def test_a_name_follows_a_colon(word: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(CUDA)
    assert (recognise(word).path, recognise(word).name) == (Path("k.cu"), name)


def test_a_colon_in_the_name_of_a_file_is_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "a:b.cu").write_text(CUDA)
    recognised = recognise(f"{tmp_path / 'a:b.cu'}:fill")
    assert recognised.path.name == "a:b.cu" and recognised.name == "fill"


def _folder(path: Path) -> None:
    path.mkdir()


def _dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.write(CUDA.encode() + b" " * 5000)
        file.truncate(1 << 40)


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE trials (id INTEGER)")


def _written(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


HOSTILE: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "empty": ("x.cu", _written(b""), "empty"),
    "empty Python": ("x.py", _written(b""), "empty"),
    "only blanks": ("x.cu", _written(b" \n\t\n"), "empty"),
    "a folder": ("x.cu", _folder, "folder"),
    "nothing": ("x.cu", lambda path: None, "x.cu"),
    "a dangling link": ("x.cu", _dangling_link, "x.cu"),
    "a link to itself": ("x.cu", _loop, "x.cu"),
    "binary junk": ("x.cu", _written(bytes(range(256)) * 40), "not recognised"),
    "junk without zeros": ("x.cu", _written(b"\xff\xfe\x80\x81" * 50), "not text"),
    "zeros after text": ("x.cu", _written(CUDA.encode() + b" " * 5000 + b"\0" * 10), "not recognised"),
    "huge": ("x.cu", _huge, "bytes"),
    "a database": ("x.db", _database, "autosched check"),
    "prose": ("x.md", _written(b"# A page\nof prose\n"), "not recognised"),
    "JSON": ("x.json", _written(b'{"schedule": {}}\n'), "not recognised"),
    "a shell script": ("x", _written(b"#!/bin/sh\necho\n"), "not recognised"),
    "Python that is none": ("x.py", _written(b"def (\n"), "Python"),
    "Python without end": ("x.py", _written(b"(" * 100_000), "Python"),
    "Python of another front end": ("x.py", _written(b"import tilelang\n"), "TileLang"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_unrecognised_files_are_rejected_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file, make, message = HOSTILE[name]
    make(Path(file))
    with pytest.raises(InputError):
        recognise(file)
    assert main(["verify", file]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("autosched: ") and err.count("\n") == 1 and message in err and file in err
    assert len(err) < 500


def test_a_pipe_is_read_once_and_only_for_source(tmp_path: Path) -> None:
    def piped(content: str) -> str:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(content,))
        writer.start()
        try:
            return recognise(str(pipe)).text
        finally:
            writer.join()
            pipe.unlink()

    assert piped(CUDA) == CUDA and piped(PTX) == PTX
    for text in (TRITON, KERNEL):
        with pytest.raises(InputError, match="pipe"):
            piped(text)


def test_a_pipe_without_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("measurements.files.bounded.WAIT_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe cannot be read"):
        recognise(str(tmp_path / "pipe"))


def test_the_name_of_an_operator_is_the_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("matmul").write_text(CUDA)
    assert spellings.expanded(["verify", "matmul", "-m", "8"]) == ["verify", "matmul", "-m", "8"]
    assert spellings.expanded(["verify", "./matmul"]) == [spellings.VERIFY_FILE, "./matmul"]
    Path("mine").write_text(CUDA)
    assert spellings.expanded(["verify", "mine"]) == [spellings.VERIFY_FILE, "mine"]
    assert not looks_like_a_file("matmull")


def test_schedules_of_a_file_are_verified_as_with_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(TILE)
    Path("k.toml").write_text(KERNEL)
    assert spellings.expanded(["verify", "t.py:mine", "--size", "n=4"]) == [
        "verify",
        "--program",
        "t.py:mine",
        "--size",
        "n=4",
    ]
    assert spellings.expanded(["verify", "k.toml"]) == ["verify", "--kernel", "k.toml"]
    with pytest.raises(InputError, match="leave :fill out"):
        spellings.expanded(["verify", "k.toml:fill"])
    task = ["verify", "t.py", "--task", "task.yml"]
    assert spellings.expanded(task) == [spellings.VERIFY_FILE, *task[1:]]


OPTIONS_OF_OTHER_KINDS = {
    "a script's": ("k.cu", ("--blocks", "2"), "a Python script"),
    "a kernel's": ("s.py", ("--grid", "2"), "CUDA source"),
    "a submission's": ("k.cu", ("--no-uneven",), "--task"),
    "an executable's": ("s.py", ("--driver",), "an executable"),
    "a device of a launch": ("k.cu", ("--device", "h100"), "--device applies to"),
    "a size of a launch": ("k.cu", ("--size", "n=3"), "--batch-invariant"),
    "arguments of a launch": ("k.cu", ("--", "3"), "takes no arguments"),
    "a function without sizes": ("s.py:fill", (), "--size"),
}


@pytest.mark.parametrize("name", OPTIONS_OF_OTHER_KINDS)
def test_options_of_other_kinds_are_rejected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "a function without sizes":
        pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(CUDA)
    Path("s.py").write_text(TRITON)
    file, options, message = OPTIONS_OF_OTHER_KINDS[name]
    assert main(["verify", file, *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err

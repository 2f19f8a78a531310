"""``autosched verify FILE`` recognises kernels of other compilers by the contents of the file."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from needs import needs_compiler

from autosched.cli import main
from autosched.verify.emulate.kernel_files import NoKernelFile, front_end_of, ptx_of_file

PTX = """.version 9.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 o) {
.reg .b64 %o; .reg .b32 %t;
ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %t;
ret;
}
"""
# a file in cuTile's format
TAIL = """.nv_intermediate_source_section {
.code_block {
.ir_name: "tile ir"
.source_begin
entry @fill()
.source_end
}
}
"""
CUTILE = PTX.replace("(.param .u64 o) {", "(.param .u64 o)\n.language 7\n{") + TAIL
HEADER, SECTION = struct.Struct("<4sBBB9xHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")


def elf(machine: int, sections: dict[str, bytes]) -> bytes:
    """Return a 64-bit ELF file with these sections."""
    names, body, headers = b"\0", b"", [SECTION.pack(*[0] * 10)]
    contents = {**sections, ".shstrtab": b""}
    table = b"\0" + b"".join(name.encode() + b"\0" for name in contents)
    contents[".shstrtab"] = table
    for name, content in contents.items():
        headers.append(SECTION.pack(len(names), 1, 0, 0, HEADER.size + len(body), len(content), 0, 0, 1, 0))
        names += name.encode() + b"\0"
        body += content
    count = len(headers)
    start = HEADER.size + len(body)
    head = HEADER.pack(b"\x7fELF", 2, 1, 1, 2, machine, 1, 0, 0, start, 0, 64, 0, 0, SECTION.size, count, count - 1)
    return head + body + b"".join(headers)


def fatbin(*entries: tuple[int, int, bytes]) -> bytes:
    """Return a fat binary of entries (kind, architecture, payload); kind 1 is PTX, 2 is machine code."""
    body = b""
    for kind, architecture, payload in entries:
        body += struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(payload), 0, 0, 0, 9, architecture).ljust(64, b"\0")
        body += payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


DEBUG_TEXT = CUTILE.replace("\n", "\0").encode()
FILES = {
    "ptx": PTX.encode(),
    "cubin": elf(190, {".text.fill": b"\1" * 16, ".nv_debug_ptx_txt": DEBUG_TEXT}),
    "fatbin": fatbin((2, 90, b"\1" * 8), (1, 80, PTX.replace("sm_90", "sm_80").encode()), (1, 90, PTX.encode())),
    "exe": elf(62, {".text": b"\1" * 16, ".nv_fatbin": fatbin((1, 90, PTX.encode()))}),
    "o": elf(62, {"__nv_relfatbin": fatbin((1, 90, PTX.encode()))}),
}


@needs_compiler
@pytest.mark.parametrize("kind", FILES)
def test_a_file_with_ptx_is_emulated(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"kernel.{kind}"
    path.write_bytes(FILES[kind])
    assert main(["verify", str(path), "-a", "out u32[32]", "--block", "32"]) == 0
    assert "nothing was found" in capsys.readouterr().out
    assert main(["verify", str(path), "-a", "out u32[31]", "--block", "32"]) == 1
    assert "out_of_bounds_global" in capsys.readouterr().out


def test_the_newest_architecture_of_a_fat_binary_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "kernel.fatbin"
    path.write_bytes(FILES["fatbin"])
    assert "sm_90" in (ptx_of_file(path) or "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (elf(190, {".text.fill": b"\1" * 16}), "only machine code"), (elf(62, {".text": b"\1"}), "no CUDA kernel"),
        (fatbin((2, 90, b"\1" * 8)), "only machine code"), (b"\x7fELF\1\1" + b"\0" * 60, "unsupported ELF"),
        (elf(190, {".text": b"\1"})[:-40], "damaged ELF"), (b"\x7fELF\2\1", "damaged ELF"),
        (b"\1\0\2\0", "not recognised"), (b"!<arch>\n", "is an archive"),
    ],
)  # fmt: skip
def test_files_without_ptx_are_rejected(tmp_path: Path, content: bytes, words: str, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "kernel.bin"
    path.write_bytes(content)
    with pytest.raises(NoKernelFile, match=words):
        ptx_of_file(path)
    assert main(["verify", str(path), "--grid", "1"]) == 2
    captured = capsys.readouterr()
    assert path.name in captured.err and captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("import cutlass.cute as cute", "CuTe DSL"), ("import cutlass\nfrom cutlass import cute", "CuTe DSL"),
        ("import cuda.tile as ct", "cuTile"), ("from cuda import tile", "cuTile"),
        ("import tilelang", "TileLang"), ("from numba import cuda", "numba-cuda"),
    ],
)  # fmt: skip
def test_other_front_ends_are_rejected_by_name(tmp_path: Path, program: str, name: str, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "kernel.py"
    path.write_text(program)
    front_end = front_end_of(path)
    assert front_end is not None and front_end.name == name and front_end.instead
    assert main(["verify", str(path)]) == 2
    stderr = capsys.readouterr().err
    assert f"holds kernels of {name}: {front_end.instead}" in stderr and stderr.count("\n") == 1


def test_a_script_of_another_front_end_is_rejected_after_its_run(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    path = tmp_path / "kernel.py"
    path.write_text("import triton\ntry:\n    from numba import cuda\nexcept ImportError:\n    pass\n")
    assert main(["verify", str(path), "--device", "h100"]) == 2
    stdout = " ".join(capsys.readouterr().out.split())
    assert "launched no Triton kernel" in stdout and "holds kernels of numba-cuda: write the PTX" in stdout


def test_triton_programs_are_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    path = tmp_path / "program.py"
    path.write_text("import triton\n")
    assert main(["verify", str(path), "--device", "h100"]) == 2
    assert "launched no Triton kernel" in capsys.readouterr().out
    path.write_text("def (")
    assert main(["verify", str(path)]) == 2
    assert "not valid Python" in capsys.readouterr().err


@needs_compiler
def test_files_compiled_by_nvcc_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    source = tmp_path / "fill.cu"
    source.write_text(
        'extern "C" __global__ void fill(int* o) { o[threadIdx.x] = threadIdx.x; }\n'
        'extern "C" __global__ void other(int* o) { o[threadIdx.x] = 1; }\nint main() {}\n'
    )
    program = tmp_path / "fill"
    code = "-gencode=arch=compute_90,code=[sm_90,compute_90]"
    lines = tmp_path / "lines.cubin"
    fat, library, bare = tmp_path / "fill.fatbin", tmp_path / "fill.a", tmp_path / "bare.cubin"
    for options, path in (
        ([code, "-lineinfo", "-fatbin"], fat),
        ([code, "-lineinfo"], program),
        (["-arch=sm_90", "-lineinfo", "-cubin"], lines),
        (["-arch=sm_90", "-cubin"], bare),
        ([code, "-lib"], library),
    ):
        subprocess.run([nvcc, *options, "-o", str(path), str(source)], check=True, timeout=250)
    for path, position in ((fat, "fill.cu:1: "), (program, "fill.cu:1: "), (lines, "ptx:")):
        launch = ["verify", f"{path}:fill", "--block", "32"]
        assert main([*launch, "-a", "out i32[32]"]) == 0
        assert main([*launch, "-a", "out i32[31]"]) == 1
        stdout = capsys.readouterr().out
        assert position in stdout and "out_of_bounds_global" in stdout
    assert main(["verify", str(fat)]) == 2
    assert "--kernel: fill, other" in capsys.readouterr().err
    assert main(["verify", str(bare)]) == 2
    assert "only machine code" in capsys.readouterr().err
    assert main(["verify", str(library)]) == 2
    assert "(ar x fill.a)" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "none.fatbin")]) == 2
    assert "none.fatbin cannot be read: No such file or directory" in capsys.readouterr().err

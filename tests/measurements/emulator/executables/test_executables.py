"""Complete CUDA programs, compiled by nvcc, have the right output, exit status and findings without a GPU."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from cuda_programs import cuda_program
from ended_processes import wait_until_ended
from needs import needs_compiler

from measurements.emulator.executables.fatbin import FatBinaryError, ptx_texts
from measurements.emulator.executables.libraries import DRIVER, library_folder

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]

CORPUS = Path(__file__).parent / "corpus"
# Every test run compiles these programs. The other programs are only compiled in nightly runs, since nvcc takes seconds
# for each program.
QUICK = ("symbols", "managed_list", "overrun")
CLEAN = (
    "vector_add", "reduction", "matrix_mul", "histogram", "convolution", "textures", "managed_list", "batched",
    "streams", "cooperative", "device_facts", "symbols", "stencil", "frontier", "graphs", "sorting", "by_key",
)  # fmt: skip


# On newer GPUs, CUB's merge sort in CUDA 13.0 has a real fault: a dependent launch without the necessary wait.
DEVICES = {"sorting": "a100"}


def marked(name: str) -> object:
    return pytest.param(name, marks=[] if name in QUICK else [pytest.mark.nightly])


def with_driver() -> tuple[str, str]:
    return "-Xlinker", str(library_folder() / DRIVER)  # nvcc itself rejects files whose names end with .so.1


def build(name: str, *options: str) -> Path:
    return cuda_program(CORPUS / f"{name}.cu", *options)


def run(program: Path, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autosched", "run", *options, str(program), *arguments]
    return forked_python.run(command, capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.parametrize("name", [marked(n) for n in CLEAN])
def test_sound_programs_run_to_their_end(name: str) -> None:
    done = run(build(name), options=("--device", DEVICES.get(name, "h200")))
    assert done.stdout.splitlines()[-1] == "PASS", done.stderr
    assert done.returncode == 0, done.stderr
    assert "nothing was found" in done.stderr


def test_a_stopped_command_ends_the_program() -> None:
    command = [sys.executable, "-m", "autosched", "run", str(build("waiting"))]
    process = forked_python.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        program = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=50)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130 and err == "autosched: stopped\n"
    wait_until_ended(program)


# The merging kernel loads the partitions before it waits for the kernel that computes these partitions.
@pytest.mark.nightly
def test_the_late_wait_of_a_merge_sort_is_found() -> None:
    program = build("sorting", "-arch=sm_90")
    if b"CUB_300001_" not in program.read_bytes():
        pytest.skip("needs CUB 3.0.1 (CUDA 13.0): later versions wait before they load")
    done = run(program)
    assert done.stdout.splitlines()[-1] == "PASS", done.stderr
    assert done.returncode == 1 and "agent_merge_sort.cuh:512" in done.stderr
    assert "2 faults in 26 launches" in done.stderr


@pytest.mark.nightly
def test_separately_compiled_files_are_linked() -> None:
    done = run(build("two_files", "-rdc=true", str(CORPUS / "second_file.cu")))
    assert done.stdout.splitlines()[-1] == "PASS", done.stderr
    assert done.returncode == 0 and "nothing was found in 1 launch" in done.stderr


def test_an_overrun_is_found_at_its_line() -> None:
    done = run(build("overrun"), options=("--json",))
    assert done.returncode == 1 and "PASS" in done.stderr.splitlines(), (
        "with --json, the program's output goes to stderr"
    )
    assert "out_of_bounds_global in fill(int*, int) at" in done.stderr
    assert "byte 400 of cudaMalloc#1, which has 400 bytes" in done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    lines = (CORPUS / "overrun.cu").read_text().splitlines()
    assert lines[finding["line"] - 1].endswith("// here")
    assert finding["kernel"] == "fill(int*, int)" and finding["launch"] == 1


@pytest.mark.parametrize("use", ["", "cleared", "filled", "half"])
def test_unread_results_of_uninitialised_reads_are_a_note(use: str) -> None:
    done = run(build("scratch"), use)
    assert done.stdout == "PASS\n" and done.returncode == 0, done.stderr
    assert "note: uninitialized_shared_read in sums_of_tiles(int const*, int*)" in done.stderr
    assert "nothing reads the memory" in done.stderr
    assert f"no fault and {2 if use == 'half' else 1} note" in done.stderr, (
        "copying half of the buffer leaves the other half unwritten"
    )


def test_unread_results_are_a_note_in_every_order() -> None:
    done = run(build("scratch"), options=("--full",))
    assert done.returncode == 0 and "no fault and 1 note" in done.stderr, done.stderr


@pytest.mark.parametrize("use", ["host", "copy", "launch", "managed"])
def test_uninitialised_results_read_by_the_host_are_a_fault(use: str) -> None:
    done = run(build("scratch"), use)
    assert done.stdout == "PASS\n" and done.returncode == 1, done.stderr
    assert "========= uninitialized_shared_read in sums_of_tiles(int const*, int*)" in done.stderr
    assert ("uninitialized_global_read in add_before" in done.stderr) == (use == "launch")


@pytest.mark.nightly
def test_arguments_and_options_of_the_program_are_its_own() -> None:
    assert run(build("vector_add"), "333", "--device").returncode == 0


@pytest.mark.nightly
def test_a_race_is_found_in_each_order() -> None:
    program = build("stencil", "-DRACE")
    for options in ((), ("--order", "descending"), ("--turns", "7")):
        done = run(program, options=options)
        assert done.returncode == 1 and "global_race in diffuse" in done.stderr


@pytest.mark.nightly
def test_more_orders_find_more_faults_and_keep_the_output() -> None:
    program = build("first_block")
    assert run(program).returncode == 0
    done = run(program, options=("--full",))
    assert done.returncode == 1 and done.stdout == "PASS\n"
    assert "out_of_bounds_global in count" in done.stderr and "order random, thread seed 1" in done.stderr


@pytest.mark.nightly
def test_an_unfilled_constant_is_found() -> None:
    done = run(build("convolution", "-DFORGET"))
    assert done.returncode == 1 and "FAIL" in done.stdout
    assert "unset_symbol in convolve" in done.stderr and "taps" in done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("-DCOPY", "cudaMemcpy of 256 bytes from byte 0 of cudaMalloc#1, which has 128"),
        ("-DFREED", "cudaMalloc#1(freed)"),
        ("-DTHREADS", "blocks of 2048 x 1 x 1 threads is invalid"),
        ("-DCLUSTER", "multiple of its clusters of 2 x 1 x 1 blocks"),
    ],
)
def test_misuse_is_found_and_rejected(option: str, message: str) -> None:
    done = run(build("misuse", option))
    assert done.returncode == 1 and done.stdout == "PASS\n"
    assert message in done.stderr


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ("-UTRAP", "cudaErrorAssert", """the assertion 'x[threadIdx.x] < most && "below"' fails"""),
        ("-DTRAP", "cudaErrorLaunchFailure", "the kernel stops here (trap)"),
    ],
)
def test_a_trapping_kernel_is_reported_with_its_reason(option: str, error: str, message: str) -> None:
    done = run(build("stops", option))
    assert done.returncode == 1 and done.stdout == f"{error}\nPASS\n", done.stderr
    assert "thread (20, 0, 0) of block (0, 0, 0)" in done.stderr and message in done.stderr


@pytest.mark.nightly
def test_unsupported_functions_are_reported_by_name() -> None:
    done = run(build("lacking"))
    assert done.returncode == 2 and done.stdout == "PASS\n"
    assert "cudaIpcGetMemHandle is not emulated" in done.stderr


@pytest.mark.nightly
def test_events_within_kernels_are_rejected_by_name() -> None:
    program = build("partial_order", *with_driver())
    assert run(program).returncode == 0
    for case in ("programmatic", "completion", "driver"):
        done = run(program, case)
        assert done.returncode == 2 and done.stdout == "PASS\n" and "Event is not emulated" in done.stderr


@pytest.mark.nightly
def test_output_of_kernels_and_host_keeps_its_order() -> None:
    done = run(build("printing"))
    assert done.stdout.splitlines() == [
        "before", "device 0 says hello 0.00", "device 1 says hello 1.50", "after",
    ]  # fmt: skip


def test_the_heap_of_the_device_lasts_from_launch_to_launch() -> None:
    done = run(build("device_heap"), options=("--full",))
    assert done.stdout == "PASS\n" and done.returncode == 0, done.stderr
    assert "nothing was found" in done.stderr


@pytest.mark.nightly
def test_the_heap_has_the_size_that_the_program_sets() -> None:
    done = run(build("device_heap", "-DFULL"))
    assert done.stdout == "PASS\n" and done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("option", "line", "message"),
    [
        ("-DFREED", "// read", "heap_misuse in read(int, int*)"),
        ("-DTWICE", "// drop", "heap_misuse in drop(Shape**, int)"),
        ("-DUNSET", "// read", "uninitialized_global_read in read(int, int*)"),
        ("-DOVERRUN", "// read", "out_of_bounds_global in read(int, int*)"),
        ("-DRESET", "// read", "freed by cudaDeviceReset in an earlier launch"),
    ],
)
def test_faults_of_later_launches_in_the_heap_are_found(option: str, line: str, message: str) -> None:
    done = run(build("device_heap", option))
    assert done.returncode == 1 and message in done.stderr
    source = (CORPUS / "device_heap.cu").read_text().splitlines()
    at = next(k for k, text in enumerate(source, 1) if text.endswith(line))
    assert f"device_heap.cu:{at}" in done.stderr


@pytest.mark.nightly
def test_a_crashed_executable_is_reported() -> None:
    done = run(build("dies"))
    assert done.returncode == 1
    assert "nothing was found in 1 launch" in done.stderr and "the program was ended by SIGSEGV" in done.stderr


@pytest.mark.nightly
def test_programs_of_the_driver_interface() -> None:
    done = run(build("driver", *with_driver()))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stderr


def test_a_tensor_map_keeps_its_address_after_cute_clears_a_bit() -> None:
    done = run(build("tensor_maps", "-arch=sm_90", *with_driver()), options=("--device", "h100"))
    assert (done.returncode, done.stdout) == (0, "PASS\n"), done.stderr


@pytest.mark.nightly
def test_a_newer_program_needs_a_newer_device() -> None:
    done = run(build("vector_add"), options=("--device", "t4"))
    assert done.returncode == 2
    assert "has PTX for sm_80 and newer" in done.stderr and "--device" in done.stderr


def test_a_program_runs_under_the_name_of_its_link() -> None:
    """A virtual environment's interpreter is a link. Python finds the environment's packages by the link's name."""
    program = [sys.executable, "-c", "import sys; print(sys.prefix)"]
    command = [sys.executable, "-m", "autosched", "run", "--driver", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stdout) == (2, f"{sys.prefix}\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/bin/ls"], "is not linked with the shared CUDA runtime"),
        (["/nonexistent"], "cannot be read"),
        (["--device", "h999", "/bin/ls"], "h999"),
        ([__file__], "is not an executable"),
        (["--time-limit", "0", "/bin/ls"], "--time-limit"),
    ],
)
def test_invalid_executables_are_rejected_in_one_line(arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "autosched", "run", *arguments]
    done = forked_python.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and message in done.stderr


@pytest.mark.parametrize("flags", [("--no-compress",), ("-Xfatbin", "-compress-all"), ()])
def test_ptx_is_read_from_fat_binaries(tmp_path: Path, flags: tuple[str, ...]) -> None:
    pytest.importorskip("zstandard")
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k(int* x) { x[threadIdx.x] = 3; }\n' + "// filler\n" * 50)
    image = tmp_path / "k.fatbin"
    subprocess.run(["nvcc", "-fatbin", "-arch=compute_80", *flags, "-o", str(image), str(source)], check=True)
    (texts,) = ptx_texts(image.read_bytes())
    assert list(texts) == [80] and ".entry k(" in texts[80]


def test_invalid_fat_binaries_are_rejected() -> None:
    with pytest.raises(FatBinaryError, match="neither a fat binary nor PTX"):
        ptx_texts(b"\x7fELF" + bytes(100))

"""``--kernel FILE``: every command with a user's kernel, and a one-line message for every mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from store_trials import make_trial

from autosched.cli import main
from autosched.cli.options.kernel import expanded
from autosched.cli.terminal.errors import InputError
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.verify.machine_counting import counted_in
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from search_spaces.spaces.schedule import Schedule

SOURCE = """\
extern "C" __global__ void twice(float* out, const float* x, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}
"""
TOML = """\
[kernel]
source = "twice.cu"
entry = "twice"

[sizes]
n = 1000

[[problem]]
n = 1000

[[problem]]
n = 77

[parameters]
block_size_x = [32, 64, 128, 256]

[[rule]]
expr = "block_size_x < 2 * n"
reason = "half of a block would do"

[launch]
block = "block_size_x"
grid = "ceil_div(n, block_size_x)"

[[argument]]
name = "out"
kind = "output"
dtype = "f32"
shape = "n"

[[argument]]
name = "x"
kind = "input"
dtype = "f32"
shape = "n"

[[argument]]
name = "n"
kind = "scalar"
value = "n"

[reference]
python = "reference.py:twice"

[cost]
bytes = "8 * n"
"""
REFERENCE = "def twice(x):\n    return 2 * x\n"

Write = Callable[..., str]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the kernel file with some of its text replaced, and return its path."""

    def written(*changes: tuple[str, str], source: str = SOURCE) -> str:
        text = TOML
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "twice.cu").write_text(source)
        (tmp_path / "reference.py").write_text(REFERENCE)
        path = tmp_path / "twice.toml"
        path.write_text(text)
        return str(path)

    return written


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return ran


class TestExpanded:
    def test_arguments_without_a_kernel_are_not_expanded(self) -> None:
        line = ["tune", "matmul", "-m", "4"]
        assert expanded(line) == [line]
        assert expanded(["doctor", "--kernel", "x"]) == [["doctor", "--kernel", "x"]]

    def test_the_kernel_is_an_operator_and_its_sizes_are_options(self, write: Write) -> None:
        path = write()
        assert expanded(["space", "--kernel", path, "--size", "n=5"]) == [["space", "twice", "--n", "5"]]
        assert expanded(["space", f"--kernel={path}", "--size=n=5"]) == [["space", "twice", "--n", "5"]]
        assert expanded(["tune", "--db", "a.db", "--kernel", path, "--n", "5"]) == [
            ["tune", "twice", "--db", "a.db", "--n", "5"]
        ]

    def test_each_problem_of_the_file_has_its_own_line(self, write: Write) -> None:
        lines = expanded(["tune", "--kernel", write(), "--db", "a.db"])
        assert lines == [["tune", "twice", "--n", n, "--db", "a.db"] for n in ("1000", "77")]

    def test_the_contents_of_a_database_are_read_once(self, write: Write) -> None:
        path = write()
        assert expanded(["best", "--kernel", path, "--db", "a.db"]) == [["best", "twice", "--db", "a.db"]]
        assert expanded(["verify", "--kernel", path, "--db", "a.db"]) == [["verify", "twice", "--db", "a.db"]]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("tune", "matmul", "--size", "n=3"), "--size needs --kernel FILE"),
            (("tune", "--kernel"), "--kernel needs a value"),
            (("tune", "--kernel", "FILE", "--kernel", "FILE"), "one --kernel FILE at a time"),
            (("tune", "--kernel", "FILE", "--size", "m=3"), 'invalid --size "m=3"'),
            (("tune", "--kernel", "FILE", "--size", "n"), 'invalid --size "n"'),
            (("space", "--kernel", "FILE", "--json"), "lists 2: choose one"),
            (("verify", "--kernel", "FILE", "--junit=j.xml"), "lists 2: choose one"),
        ],
    )
    def test_contradictory_kernel_arguments_are_rejected(
        self, write: Write, arguments: tuple[str, ...], message: str
    ) -> None:
        path = write()
        with pytest.raises(InputError, match=message):
            expanded([path if a == "FILE" else a for a in arguments])


@pytest.mark.parametrize("wrong", [("--backend", "x"), ("--bakend", "cuda")])
def test_hints_and_help_repeat_the_typed_command(write: Write, run: Run, wrong: tuple[str, ...]) -> None:
    path = write()
    command = f"autosched tune --kernel {path}"
    assert f"see '{command} --help'" in run("tune", "--kernel", path, "--size", "n=77", *wrong)[2]
    usage = " ".join(run("tune", "--kernel", path, "--help")[1].split())
    assert usage.startswith(f"Usage: {command} [PROBLEM] [OPTIONS]")


def test_space_counts_and_explains_a_user_kernel(write: Write, run: Run) -> None:
    status, out, _ = run("space", "--kernel", write(), "--size", "n=77", "--json", "--sample", "1")
    document = json.loads(out)
    assert status == 0 and document["legal"] == 4 - 1, "a block of 256 is twice as long as 77"
    (entry,) = document["templates"]
    assert entry["name"] == "twice" and "block_size_x < 2 * n" in [r["name"] for r in entry["rules"]]
    assert document["samples"][0]["template"] == "twice"


def test_a_user_kernel_is_verified_and_a_faulty_one_fails(write: Write, run: Run) -> None:
    status, out, _ = run("verify", "--kernel", write(), "--sample", "2")
    assert status == 0 and out.count("all 2 pass") == 2, "one line is expected for each problem of the file"
    status, out, _ = run("verify", "--kernel", write(source=SOURCE.replace("2.0f", "2.5f")), "--size", "n=50")
    assert status == 1 and "FAIL" in out


def test_a_second_launch_is_verified_on_request(write: Write, run: Run) -> None:
    """The kernel is wrong from the second launch on, because its block counter is not reset."""
    source = "__device__ unsigned threads = 0;\n" + SOURCE.replace(
        "if (i < n) out[i] = 2.0f", "bool first = atomicAdd(&threads, 1) < gridDim.x * blockDim.x;\n"
        "  if (i < n) out[i] = (first ? 2.0f : 3.0f)",
    )  # fmt: skip
    verify = ("verify", "--kernel", write(source=source), "--size", "n=50", "--sample", "1")
    assert run(*verify)[0] == 0
    status, out, _ = run(*verify, "--launches", "2")
    assert status == 1 and "launched 2 times" in " ".join(out.split())


def test_a_user_kernel_is_tuned_and_found_again(write: Write, run: Run, tmp_path: Path) -> None:
    path, db = write(), str(tmp_path / "own.db")
    assert run("tune", "--kernel", path, "--backend", "estimate", "--trials", "2", "--db", db)[0] == 0
    status, out, _ = run("best", "--kernel", path, "--db", db, "--json")
    best = json.loads(out)["best"]
    assert status == 0 and [b["problem"]["n"] for b in best] == [1000, 77]
    assert {b["template"] for b in best} == {"twice"} and all(b["template_version"] for b in best)
    out = run("best", "--kernel", path, "--size", "n=1000", "--db", db)[1]
    assert out.startswith("twice n=1000 on h200"), "default sizes of the file are reported"


def test_best_of_the_only_problem_needs_no_size_and_shows_the_configuration(
    write: Write, run: Run, tmp_path: Path
) -> None:
    path, db = write(), str(tmp_path / "own.db")
    assert run("tune", "--kernel", path, "--size", "n=77", "--backend", "estimate", "--trials", "1", "--db", db)[0] == 0
    status, out, _ = run("best", "--kernel", path, "--db", db)
    assert status == 0 and out.startswith("twice n=77 on h200") and re.search(r"block_size_x +\d+", out)


def test_best_ranks_by_any_metric_and_lists_the_front(write: Write, run: Run, tmp_path: Path) -> None:
    path, db = write(), str(tmp_path / "own.db")
    kernel = KernelSpec.from_file(path)
    problem = kernel.problem()
    with Store.open(db) as store:
        for block, seconds, registers in ((32, 3e-6, 10), (64, 1e-6, 30), (128, 2e-6, 20), (256, 4e-6, 40)):
            resources = Resources(registers, 0, 0, 0, 0, 0)
            measurement = Measurement(
                Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(seconds), resources=resources
            )
            trial = make_trial(Schedule("twice", (("block_size_x", block),)), measurement, problem)
            store.append(replace(trial, template_version=kernel.template.version, fingerprint="{}"))
    best = ("best", "--kernel", path, "--db", db, "--json")

    def block_of(*objective: str) -> int:
        status, out, message = run(*best, *objective)
        assert status == 0, message
        return int(json.loads(out)["best"][0]["schedule"]["block_size_x"])

    assert (block_of(), block_of("--objective", "registers"), block_of("--objective", "seconds:max")) == (64, 32, 256)
    both = ("--objective", "registers", "--objective", "GB/s:max")
    front = json.loads(run(*best, *both)[1])["best"][0]["front"]
    assert [row["block_size_x"] for row in front] == [32, 128, 64]
    assert "Pareto front of registers, GB/s" in run(*best[:-1], *both)[1]
    for wrong, message in (("quux", "unknown objective 'quux'"), ("registers:least", "must be min or max")):
        status, _, err = run(*best, "--objective", wrong)
        assert status == 2 and message in err and len(err.splitlines()) == 1


def test_tune_reports_candidates_with_equal_estimates(write: Write, run: Run, tmp_path: Path) -> None:
    unused = ("block_size_x = [32, 64, 128, 256]", "block_size_x = [64]\nunused = [1, 2, 3]")
    path, db = write(unused), str(tmp_path / "own.db")
    tune = ("tune", "--kernel", path, "--size", "n=77", "--backend", "estimate", "--trials", "3", "--db", db)
    status, out, _ = run(*tune)
    assert status == 0 and "2 other trials" in out
    one = ("tune", "--kernel", path, "--set", "unused=1", "--size", "n=78", "--backend", "estimate", "--trials", "1")
    assert "took the same time" not in run(*one, "--db", db)[1]


def test_a_kernel_without_a_cost_is_counted_by_the_emulator(write: Write, run: Run, tmp_path: Path) -> None:
    path = write(('[cost]\nbytes = "8 * n"\n', ""))
    tune = ("tune", "--kernel", path, "--size", "n=77", "--backend", "estimate", "--trials", "3", "--json")
    status, out, err = run(*tune, "--db", str(tmp_path / "own.db"))
    document = json.loads(out)
    assert status == 0 and document["best"]["template"] == "twice"
    assert document["trials"]["failures"] == {}
    assert "times of twice are ESTIMATED" in err and "docs/reference/estimates.md" in err
    mix = "counted in machine code" if counted_in() == "machine code" else "counted in PTX"
    assert mix in " ".join(err.split()) and f"({counted_in()})" in err


def test_kernels_without_a_cost_or_emulated_counts_are_unranked(
    write: Write, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.tuning.backends.estimators.counted", lambda *arguments: None)
    path = write(('[cost]\nbytes = "8 * n"\n', ""))
    tune = ("tune", "--kernel", path, "--size", "n=77", "--backend", "estimate", "--trials", "3", "--json")
    status, out, _ = run(*tune, "--db", str(tmp_path / "own.db"))
    assert status == 1 and json.loads(out)["trials"]["failures"] == {"unranked": 3}


def test_a_faulty_kernel_without_a_cost_is_found(write: Write, run: Run, tmp_path: Path) -> None:
    path = write(('[cost]\nbytes = "8 * n"\n', ""), source=SOURCE.replace("2.0f", "2.5f"))
    tune = ("tune", "--kernel", path, "--size", "n=77", "--backend", "estimate", "--trials", "3", "--json")
    _, out, _ = run(*tune, "--db", str(tmp_path / "own.db"))
    assert json.loads(out)["trials"]["failures"] == {"wrong_result": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[sizes]", "[sizes"), "twice.toml:5"),
        (('entry = "twice"', 'entry = "twice"\nentrance = "x"'), "twice.toml:4"),
        (('expr = "block_size_x < 2 * n"', 'expr = "block_size_x <"'), "twice.toml:18"),
        (('expr = "block_size_x < 2 * n"', 'expr = "1 < 2"'), "twice.toml:18"),
        (('expr = "block_size_x < 2 * n"', 'expr = "block_size < 2 * n"'), "did you mean block_size_x?"),
        (('source = "twice.cu"', 'source = "thrice.cu"'), "twice.toml:2"),
        (('shape = "n"', 'shape = "m"'), "twice.toml:29"),
    ],
)
def test_an_invalid_kernel_file_is_reported_with_its_position(
    write: Write, run: Run, change: tuple[str, str], message: str
) -> None:
    status, out, err = run("space", "--kernel", write(change))
    assert status == 2 and not out
    assert message in err and err.count("\n") == 1 and err.startswith("autosched: ")


def test_a_compile_error_is_reported_with_its_line(write: Write, run: Run, tmp_path: Path) -> None:
    path = write(source=SOURCE.replace("x[i]", "y[i]"))
    for command in ("tune", "verify"):
        status, out, err = run(*arguments(command, path, tmp_path))
        assert status == 2 and not out and err.count("\n") == 1
        assert "twice.cu:3" in err and 'identifier "y" is undefined' in err
    assert not (tmp_path / "own.db").exists()


@pytest.mark.parametrize(
    ("takes", "message"),
    [
        ("float* out, const float* x, int n, int m", "[3]: twice takes 4 arguments, but the file lists 3"),
        ("float* out, const float* x", "[3]: twice takes 2 arguments, but the file lists 3"),
        ("float* out, const float* x, float n", "[3]: n is i32, but parameter 3 of twice is a float of 32 bits"),
        ("float* out, float x, int n", "[2]: x is a pointer, but parameter 2 of twice is a float of 32 bits"),
        ("float* out, const float* x, long n", "[3]: n is i32, but parameter 3 of twice is a whole number of 64 bits"),
    ],
)
def test_mismatched_arguments_are_reported_with_their_line(
    write: Write, run: Run, tmp_path: Path, takes: str, message: str
) -> None:
    body = 'extern "C" __global__ void twice(TAKES) { if (threadIdx.x == 0) out[0] = 2.0f; }'
    path = write(source=body.replace("TAKES", takes))
    for command in ("tune", "verify"):
        status, out, err = run(*arguments(command, path, tmp_path))
        assert status == 2 and not out and err.count("\n") == 1
        assert re.search(rf"twice\.toml:\d+: argument{re.escape(message)}", err), err
    assert not (tmp_path / "own.db").exists()


def arguments(command: str, path: str, folder: Path) -> tuple[str, ...]:
    kernel = (command, "--kernel", path, "--size", "n=77")
    if command == "verify":
        return (*kernel, "--sample", "1")
    return (*kernel, "--backend", "estimate", "--trials", "1", "--db", str(folder / "own.db"))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("def twice(x):\n    return x[10**6]\n", "the reference reference.py:twice fails at line 2: IndexError"),
        ("def twice(x:\n", "the reference reference.py:twice fails: SyntaxError"),
        ("def twice(x):\n    return x[1:]\n", "shape (76,), but the shape must be (77,)"),
        ("def twice(y):\n    return y\n", "unknown parameter y: use n, x"),
    ],
)
def test_a_failing_reference_is_reported_with_its_position(
    write: Write, run: Run, tmp_path: Path, reference: str, message: str
) -> None:
    path = write()
    (tmp_path / "reference.py").write_text(reference)
    for command in (("verify", "--sample", "1"), ("tune", "--trials", "2", "--db", str(tmp_path / "own.db"))):
        status, _, err = run(*command, "--kernel", path, "--size", "n=77")
        last = err.splitlines()[-1]
        assert status == 2 and last.startswith("autosched: twice.toml:43: reference.python: ") and message in last


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ('bytes = "0 - 8 * n"', 'twice: cost.bytes: "0 - 8 * n" is -616 for n = 77: it must be 0 or more'),
        ('bytes = "n // (n - 77)"', "twice: cost.bytes: "),
        ('flops = "n - 100"', "twice: cost.flops: "),
        ('flops = "n / (n - 77)"', "twice: cost.flops: "),
    ],
)
def test_an_invalid_cost_is_reported_in_one_line(
    write: Write, run: Run, tmp_path: Path, cost: str, message: str
) -> None:
    path = write(('bytes = "8 * n"', cost))
    tune = ("tune", "--kernel", path, "--size", "n=77", "--backend", "estimate", "--trials", "1")
    status, _, err = run(*tune, "--db", str(tmp_path / "own.db"))
    assert status == 2 and message in err.splitlines()[-1]


def test_the_name_of_a_built_in_operator_is_rejected(write: Write, run: Run) -> None:
    status, _, err = run("space", "--kernel", write(('entry = "twice"', 'entry = "twice"\nname = "softmax"')))
    assert status == 2 and "another operator is already called 'softmax'" in err

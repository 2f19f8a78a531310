"""Tune a kernel, export and ship it, and call it in another process, with or without a GPU.

python examples/ship_tuned_kernels.py [FOLDER]

The best schedules are kept in a repository as JSON, so that reviews show changes. For a release, a small database is
built from the JSON files. Add the database to your package as data, and open it with importlib.resources. Users of the
package do not tune: the first process compiles the called kernels with NVRTC, and later processes read the compiled
kernels from the cache.

This example checks the built database as in CI, and then starts a second process, which calls the kernel. Without a
GPU, times are estimated, and the second process calls the kernel in the emulator.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import autosched
from autosched.dispatch.kernel import RuntimeUnavailable

PROBLEM = autosched.Softmax(rows=64, columns=512)
DEVICE = "h200"  # the GPU to tune for if this machine has no GPU


def tune(database: Path, trials: int) -> None:
    """Tune on the developer's machine."""
    result = autosched.tune(PROBLEM, trials=trials, database=database)
    if result.best is None or result.best.seconds is None:
        raise SystemExit("no schedule worked")
    print(f"tuned: {result.best.seconds * 1e6:.2f} us ({result.best.provenance}), {len(result.trials)} trials")


def use(database: Path) -> None:
    """Run as the user's program: call the tuned kernel on a GPU, or emulate it if there is no GPU."""
    try:
        kernel = autosched.Database(database).kernel(PROBLEM)
    except RuntimeUnavailable as error:
        print(f"no GPU: {error}")
        emulate(database)
        return
    import cupy

    inputs = PROBLEM.random_inputs(seed=1)
    x = cupy.asarray(inputs["x"])
    check(inputs, {"out": cupy.asnumpy(kernel(x))})
    step = kernel.bind(x)  # use ``step`` in inner loops: it checks no arguments and allocates no memory
    step()
    print(f"called: {kernel.provenance.kind}, {kernel.provenance.schedule.template}")


def emulate(database: Path) -> None:
    """Look the kernel up, and run it on the CPU."""
    from measurements.emulator import emulate

    answer = autosched.Database(database).look_up(PROBLEM, DEVICE)
    if answer.kernel is None:
        raise SystemExit("the vendor's library won: there is no kernel to emulate")
    print(f"looked up: {answer.provenance.kind}, {answer.provenance.schedule.template}")
    inputs = PROBLEM.random_inputs(seed=1)
    run = emulate(answer.kernel, inputs)
    if run.status != "ok":
        raise SystemExit(f"the emulation ended with {run.status}: {run.reason}")
    check(inputs, run.outputs)


def check(inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
    """Compare the result with the float64 reference."""
    from measurements.trials.comparison import check

    comparison = check(PROBLEM, inputs, outputs)
    if not comparison.ok:
        raise SystemExit(comparison.reason)
    print(f"accuracy: ok (max error {comparison.worst:.2g}x tolerance)")


def run(*command: str) -> None:
    print(f"$ {' '.join(Path(part).name if Path(part).is_absolute() else part for part in command)}", flush=True)
    subprocess.run(command, check=True)


def ship(tuned: Path, configs: Path, shipped: Path) -> None:
    """Export the best trial from the developer's database to the repository; build the database to ship."""
    autosched = (sys.executable, "-m", "autosched")
    run(*autosched, "export", "--db", str(tuned), "--out", str(configs))
    run(*autosched, "import", str(configs), "--db", str(shipped))


def main(folder: Path, trials: int = 16) -> None:
    tuned, shipped = folder / "best.db", folder / "shipped.db"
    tune(tuned, trials)
    sys.stdout.flush()
    ship(tuned, folder / "configs", shipped)
    # CI runs this without a GPU for every pull request: is the schedule valid, does it compile and fit, is it correct?
    run(sys.executable, "-m", "autosched", "check", "--db", str(shipped), "--static")
    run(sys.executable, __file__, "--use", str(shipped))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--use"]:
        use(Path(sys.argv[2]))
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))

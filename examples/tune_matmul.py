"""Tune one matmul from Python, and inspect the result. Without a GPU, times are estimated.

python examples/tune_matmul.py
"""

import tempfile
from pathlib import Path

import autosched


def main() -> None:
    problem = autosched.Matmul(m=1024, n=1024, k=1024, epilogue="bias+gelu", order_b="col")
    with tempfile.TemporaryDirectory() as folder:
        result = autosched.tune(problem, trials=24, database=str(Path(folder) / "best.db"), device="h200")
    best = result.best
    if best is None or best.seconds is None:
        raise SystemExit("no schedule worked")
    print(f"{best.seconds * 1e6:.1f} us ({best.provenance}), of {len(result.trials)} trials")
    for name, value in best.schedule.items:
        print(f"  {name:<20}{value}")


if __name__ == "__main__":
    main()

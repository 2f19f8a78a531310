"""Tune with a simulated GPU and a compiler that compiles nothing, until a test kills the process.

Usage: ``killed_tuner.py DATABASE CACHE``. Prints a line after each stored trial, and nothing else.
"""

import sys
from pathlib import Path

import instant_compiler
from faults import FOLDER_VARIABLE, HERE, MODULE, fault_kernel

from autosched.samplers import sampler
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.plan import SearchPlan
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.cuda.runner import CudaOptions, CudaRunner
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.store.store import Store
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.space import Space

PROBLEM = Matmul(m=16, n=16, k=16)
SPACE = Space("toy", (ordinal("x", tuple(range(1, 200))), ordinal("y", tuple(range(1, 200)))))


def generate(problem, schedule, device):
    x, y = schedule.integer("x"), schedule.integer("y")
    return fault_kernel(f"slow_4_{1000 * x + y}_{x}_{y}", problem)


class Acknowledge:
    def started(self, start):
        pass

    def trial(self, progress):
        print(progress.trial.id, flush=True)


def main(database: str, cache: str) -> None:
    h200 = device("h200")
    with CompilePool(
        CompileCache(cache), workers=2, worker_module="instant_compiler", python_path=[instant_compiler.HERE]
    ) as pool:
        options = CudaOptions(limits=TimeLimits(candidate=20.0, retry_pauses=(0.05, 0.2)))
        environment = {FOLDER_VARIABLE: str(Path(cache))}
        runner = CudaRunner(
            h200, pool, options=options, worker_module=MODULE, worker_path=[HERE], worker_env=environment
        )
        random_sampler = sampler("random", SPACE, seed=1)
        with Store.open(database) as store:
            Tuner(
                TunerParts(
                    RunIdentity(PROBLEM, h200, runner.provenance, None, 1, {}, {"toy": "s"}),
                    runner,
                    store,
                    random_sampler,
                    generate=generate,
                    observer=Acknowledge(),
                )
            ).run(SearchPlan(trials=10**6))


if __name__ == "__main__":
    main(*sys.argv[1:])

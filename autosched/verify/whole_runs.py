"""Runs of all blocks of a problem: random and edge-case inputs, orders, a second launch, perturbed functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from autosched.verify.emulated_size import EMULATED_BYTES, fewer_blocks
from autosched.verify.launch_plan import TWICE, LaunchRun
from autosched.verify.orders import all_orders, quick_orders
from autosched.verify.planned_run import PlannedRun
from autosched.verify.run import Run
from autosched.verify.runs import (
    VerifySettings,
    rerun,
    run_fewer_blocks,
    run_perturbed,
    run_whole,
    stress_inputs,
)
from measurements.emulator import ASCENDING, Order
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.input_cases import RANDOM, StressInputs
from search_spaces.operators.problem import Problem

# A quick verification of a small problem uses further inputs, up to these limits in total. The few rows of a single
# input may lack a NaN or a tie at a relevant position.
DRAWN_BYTES, DRAWN_FLOPS, MOST_DRAWS = 2**17, 2**21, 4


def whole_runs(
    problem: Problem, kernel: GeneratedKernel, settings: VerifySettings
) -> tuple[Iterator[PlannedRun], Iterator[PlannedRun]]:
    """Return the runs that emulate all blocks, as two iterators.

    The caller may execute runs at other sizes between the two iterators.
    """
    outputs: dict[str, Run] = {}
    return _first_runs(problem, kernel, settings, outputs), _more_runs(problem, kernel, settings, outputs)


def _first_runs(
    problem: Problem, kernel: GeneratedKernel, settings: VerifySettings, outputs: dict[str, Run]
) -> Iterator[PlannedRun]:
    seed, thread_order = settings.seed, quick_orders(settings.seed)[1]
    random = StressInputs((RANDOM,), problem.random_inputs(seed))
    # blocks combine their results, so sums may depend on the order of blocks
    together = kernel.cooperating[0] > 1 or kernel.chained
    compares = kernel.repeatable and (settings.depth == "full" or (together and settings.emulates))

    def first() -> Run:
        outputs["first"] = run_whole(problem, kernel, random, ASCENDING, settings, keep_outputs=compares)
        return replace(outputs["first"], outputs={})

    yield PlannedRun("random inputs", first)
    if settings.launch is not None:
        yield PlannedRun(
            "random inputs, requested run", partial(rerun, problem, kernel, random, settings.launch, settings)
        )
    if compares and together and settings.emulates:

        def reordered() -> Run:
            first = outputs["first"].outputs
            launch = LaunchRun("another order", Order("descending", seed + 4))
            return rerun(problem, kernel, random, launch, settings, same_as=first)

        yield PlannedRun("random inputs, another order", reordered)
    if settings.depth == "full":
        return
    most = max(1, EMULATED_BYTES // problem.min_bytes)
    stress = list(islice(stress_inputs(problem, seed), most))
    fewer = fewer_blocks(kernel)
    for i, inputs in enumerate(stress):
        # This run replaces the run of all blocks. It takes as long: there are fewer blocks, but each has more tiles.
        if i == 0 and fewer != kernel:
            yield PlannedRun(
                "edge inputs, fewer blocks", partial(run_fewer_blocks, problem, fewer, inputs, thread_order, settings)
            )
        else:
            yield PlannedRun("edge inputs", partial(run_whole, problem, kernel, inputs, thread_order, settings))
    repeats = int(min(DRAWN_BYTES / problem.min_bytes, DRAWN_FLOPS / max(1.0, problem.flops)))
    # A user's kernel has no edge-case inputs. Unless the problem is very large, run it on other random inputs, with
    # blocks in a random order.
    least = int(not stress and problem.min_bytes <= EMULATED_BYTES)
    drawn = ((i, inputs) for i in range(seed + 1, seed + MOST_DRAWS) for inputs in problem.drawn_inputs(i))
    for i, inputs in islice(drawn, max(repeats, least)):
        order = replace(thread_order, seed=i + 1)
        yield PlannedRun("other random inputs", partial(run_whole, problem, kernel, inputs, order, settings, seed=i))


def _more_runs(
    problem: Problem, kernel: GeneratedKernel, settings: VerifySettings, outputs: dict[str, Run]
) -> Iterator[PlannedRun]:
    if settings.depth == "quick":
        return
    seed = settings.seed
    random = StressInputs((RANDOM,), problem.random_inputs(seed))
    for i, order in enumerate(all_orders(seed)[1:]):
        name = f"edge inputs, blocks {order.blocks}"
        provoked = False
        for inputs in stress_inputs(problem, seed + i):
            provoked = True
            yield PlannedRun(name, partial(run_whole, problem, kernel, inputs, order, settings, seed=seed + i))
        if not provoked:  # a user's kernel has no edge-case inputs: use other random inputs
            inputs = StressInputs((RANDOM,), problem.random_inputs(seed + i + 1))
            yield PlannedRun(name, partial(run_whole, problem, kernel, inputs, order, settings, seed=seed + i + 1))
    thread_order = Order("random", seed + 4)
    if settings.emulates:  # launch twice, because tuners and applications launch a kernel repeatedly on the same memory
        first = outputs["first"].outputs if "first" in outputs else {}
        yield PlannedRun(
            TWICE,
            partial(rerun, problem, kernel, random, LaunchRun(TWICE, thread_order, 2), settings, same_as=first),
        )
    else:
        yield PlannedRun(
            "random inputs, random thread order", partial(run_whole, problem, kernel, random, thread_order, settings)
        )
    fewer = fewer_blocks(kernel)
    if fewer != kernel:
        yield PlannedRun(
            "fewer blocks", partial(run_fewer_blocks, problem, fewer, random, Order("random", seed + 6), settings)
        )
    if settings.emulates:
        yield PlannedRun("perturbed", partial(run_perturbed, problem, kernel, random, seed, settings))
        for inputs in stress_inputs(problem, seed + 5):
            yield PlannedRun(
                "edge inputs, perturbed", partial(run_perturbed, problem, kernel, inputs, seed + 5, settings)
            )

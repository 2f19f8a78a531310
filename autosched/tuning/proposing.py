"""Choice of a search's sampler, and of the schedules that the sampler proposes first (advice)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from autosched.samplers import Sampler
from autosched.samplers import sampler as make_sampler
from autosched.samplers.compiler_controls import ControlsSampler
from autosched.samplers.first_choices import nvidia_heuristics, portfolio
from autosched.samplers.first_choices.model_choice import default_choice
from autosched.samplers.scalarized import ScalarizedSampler
from autosched.samplers.seeded import SeededSampler
from autosched.tuning.options import TuneOptions
from autosched.tuning.plan import SearchPlan
from autosched.user_kernels.problem import KernelProblem
from cost_models.estimates import Estimates
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


@dataclass(frozen=True)
class Proposing:
    """Sampler of a search, and related data.

    Attributes:
        sampler: Sampler that proposes every trial, including advised schedules.
        default: Function that returns the schedule used for untuned problems, or None.
        line: Message about the advised schedules; "" if there are none.
    """

    sampler: Sampler
    default: Callable[[], Schedule | None]
    line: str


def sampler_of(
    task: SearchTask,
    options: TuneOptions,
    plan: SearchPlan,
    estimates: Estimates,
    *,
    recorded: bool,
    winners: Callable[[], Sequence[Schedule]] = tuple,
) -> Proposing:
    """Return the sampler of a search.

    Args:
        task: Task of the search.
        options: Options of ``tune``.
        plan: Limits of the run, and its sampler.
        estimates: Estimated times, available before the first trial.
        recorded: True if only recorded schedules can be tried. nvMatmulHeuristics and ``winners`` are then not used.
        winners: Function that returns the fastest schedules of near problems, the nearest first.

    Returns:
        The sampler. Its first proposals include schedules of other sources, such as nvMatmulHeuristics and ``winners``.

    Raises:
        ValueError: The sampler cannot be loaded.
    """
    default = partial(_default_schedule, task)
    advice = nvidia_heuristics.Advice()
    if not recorded and not plan.search_model:
        advice = nvidia_heuristics.advice(task, estimates)
    sampler = _sampler(task, options, plan, estimates)
    if not recorded and not plan.search_model and options.objectives.is_time:
        sampler = portfolio.first_tried(sampler, task.space, estimates, winners)
    if isinstance(task.problem, KernelProblem) and (default_values := _default_configuration(task.space)) is not None:
        sampler = SeededSampler(sampler, (default_values,), "default", own_first=False)
    if plan.model_first and (chosen := default()) is not None:
        sampler = SeededSampler(sampler, (chosen,), "model", own_first=False)
    if advice.schedules:
        sampler = SeededSampler(sampler, advice.schedules, nvidia_heuristics.NAME)
    if options.compiler_controls:
        sampler = ControlsSampler(sampler, task, plan.trials, options.read_control_files, min_gain=plan.min_gain)
    return Proposing(sampler, default, advice.line)


def _sampler(task: SearchTask, options: TuneOptions, plan: SearchPlan, estimates: Estimates) -> Sampler:
    """Return the plain sampler, to which ``sampler_of`` adds schedules to try first.

    For objectives other than the time, the result combines one sampler per weight vector. The combined samplers do not
    use time estimates.
    """
    if options.objectives.is_time:
        return make_sampler(plan.sampler, task.space, seed=options.seed, estimates=estimates)
    weights = options.objectives.weights
    members = [make_sampler(plan.sampler, task.space, seed=options.seed + i) for i in range(len(weights))]
    return ScalarizedSampler(members, weights, partial(options.objectives.costs, task.problem))


def _default_schedule(task: SearchTask) -> Schedule | None:
    choice = default_choice(task.problem, task.device, task.templates)
    return None if choice is None else choice.schedule


def _default_configuration(space: SearchSpace) -> Schedule | None:
    """Return the default configuration of a user's kernel, which is tried early; None if it is not legal."""
    name, member = next(iter(space.members.items()))
    schedule = Schedule(name, tuple((p.name, p.default) for p in member.parameters))
    return schedule if schedule in space else None

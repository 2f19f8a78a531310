"""Rules on the order of sums that a search may use: the order of a reference, or a batch-invariant order.

A family is a set of problems that differ only in the batch size. With batch invariance, all problems of a family use
the same order of sums. The order is taken from the family's batch-invariant trials in the database. If there are none,
the time model chooses the order for a large batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autosched.samplers.first_choices.model_choice import default_choice
from autosched.tuning.options import TuneOptions
from autosched.verify import stored
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template as template_named
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.sum_order import OrderRule, SumOrder
from search_spaces.sum_orders.orders import restricted, sum_order
from search_spaces.templates.template import TemplateSet

if TYPE_CHECKING:
    from measurements.store.store import Store

TRIAL_MARK = "#"  # separates the database from the id of a trial, as in "best.db#12"


class SearchOrder(NamedTuple):
    """Rule on the order of sums in one search.

    Attributes:
        rule: Requirement on the order of sums.
        line: One-line description of the order and its source.
    """

    rule: OrderRule
    line: str


def search_order(
    options: TuneOptions, problem: Problem, device: Device, templates: TemplateSet, store: Store
) -> SearchOrder:
    """Return the rule on the order of sums that the options of a search require (see ``TuneOptions.rules_bits``).

    Args:
        options: Options of the search.
        problem: Problem to tune.
        device: GPU to tune for.
        templates: Kernel templates to search.
        store: Database of the trials.

    Raises:
        ValueError: The reference cannot be used, or the problem has no batch size.
    """
    if options.batch_invariant and not problem.batch_sizes:
        raise ValueError(
            f"{problem.operator} has no batch size: omit batch_invariant, or name a reference with same_bits_as"
        )
    if options.same_bits_as is not None:
        order, source = _reference(options.same_bits_as, problem, device)
        if options.batch_invariant and order.batch_dependent:
            raise ValueError(
                f"the reference is not batch-invariant ({order}): name another reference, or omit batch_invariant"
            )
    else:
        order, source = _of_family(store, problem, device) or _usual(problem, device, templates)
    return SearchOrder(OrderRule(order, options.batch_invariant), f"order of sums: {order} ({source})")


def refuse_other_orders(name: str, earlier: Sequence[Trial], task: SearchTask, rule: OrderRule | None) -> None:
    """Raise ValueError if a database has trials of the problem with an order of sums that the search does not allow.

    Calls use the fastest trial, so all trials of a problem in a database must obey the same rule.

    Args:
        name: Name of the database.
        earlier: Trials of the problem in the database.
        task: The search.
        rule: Rule of the search; None without one.
    """
    for trial in earlier:
        if not trial.ok:
            continue
        if rule is None:
            if stored.is_batch_invariant(trial.verification):
                raise ValueError(
                    f"trial {trial.id} of {name} is batch-invariant, and a faster schedule that is not "
                    "batch-invariant would replace it: use batch_invariant (--batch-invariant), or another database"
                )
            continue
        order = _order_of(task.problem, trial.schedule, task.device)
        why_not = "the trial's order of sums is unknown" if order is None else rule.why_not(order)
        if why_not and not is_library(trial.schedule):
            raise ValueError(
                f"trial {trial.id} of {name} does not have the required order of sums ({why_not}). Calls would use "
                "this trial if it were the fastest: use another database"
            )


def _order_of(problem: Problem, schedule: Schedule, device: Device) -> SumOrder | None:
    """Return the order of sums of a stored schedule; None if it is unknown or the schedule is no longer valid."""
    try:
        return sum_order(template_named(schedule.template), problem, schedule, device)
    except ValueError:
        return None


def _reference(reference: object, problem: Problem, device: Device) -> tuple[SumOrder, str]:
    if isinstance(reference, SumOrder):
        return reference, "as given"
    if isinstance(reference, Trial):
        from measurements.trials.problem_key import problem_of

        return _known(problem_of(reference.problem_key), reference.schedule, device), "from the given trial"
    if isinstance(reference, Schedule):
        return _known(problem, reference, device), "from the given schedule"
    assert isinstance(reference, str | Path)
    return _of_database(str(reference), problem, device)


def _known(problem: Problem, schedule: Schedule, device: Device) -> SumOrder:
    if is_library(schedule):
        raise ValueError(
            "the reference is the vendor's library, whose order of sums is unknown: name a schedule instead"
        )
    order = sum_order(template_named(schedule.template), problem, schedule, device)
    if order is None:
        raise ValueError(f"the order of sums of {schedule.template} is unknown: name a schedule of another template")
    return order


def _of_database(text: str, problem: Problem, device: Device) -> tuple[SumOrder, str]:
    """Return the order of sums of a database's trial: trial ``number``, or the problem's best, or the family's best."""
    from measurements.store.store import Store

    name, mark, number = text.rpartition(TRIAL_MARK)
    numbered = bool(mark) and number.isdecimal()
    with Store.open(name if numbered else text, create=False) as store:
        if numbered:
            named = store.trial(int(number))
            if named is None:
                raise ValueError(f"{store.name} has no trial {number}: name one of its trials")
            from measurements.trials.problem_key import problem_of

            return _known(problem_of(named.problem_key), named.schedule, device), f"from trial {number}"
        best = store.best(problem, device.name)
        if best is not None:
            return _known(problem, best.schedule, device), f"from trial {best.id} of {store.name}"
        for member, trial in _family(store, problem, device):
            return _known(member, trial.schedule, device), f"from trial {trial.id} of {store.name}, {_batch(member)}"
        raise ValueError(
            f"{store.name} has no schedule of this problem on {device.name}, with this or another batch size"
        )


def _batch(problem: Problem) -> str:
    name = next(iter(problem.batch_sizes))
    return f"{name} = {getattr(problem, name)}"


def family_key(problem: Problem) -> str:
    """Return the key of a problem's family: the problem's key with a fixed batch size."""
    name, usual = next(iter(problem.batch_sizes.items()))
    return f"{name} {problem.of_batch(usual).key()}"


def _family(store: Store, problem: Problem, device: Device) -> Iterator[tuple[Problem, Trial]]:
    """Yield the best trial of each problem of the family in the database, with the problem."""
    from measurements.store.errors import StoreError

    if not problem.batch_sizes:
        return
    key = family_key(problem)
    for summary in store.problems(problem.operator):
        if summary.device != device.name or not summary.works:
            continue
        try:
            member = store.problem(summary)
        except StoreError:
            continue
        if member.batch_sizes and family_key(member) == key:
            trial = store.best(member, device.name)
            if trial is not None and not is_library(trial.schedule):
                yield member, trial


def _of_family(store: Store, problem: Problem, device: Device) -> tuple[SumOrder, str] | None:
    """Return the order of sums of the family's batch-invariant trials; raise ValueError if they have several."""
    orders: dict[SumOrder, str] = {}
    for member, trial in _family(store, problem, device):
        if stored.is_batch_invariant(trial.verification):
            order = _order_of(member, trial.schedule, device)
            if order is not None:
                orders.setdefault(order, f"from trial {trial.id}, {_batch(member)}")
    if len(orders) > 1:
        raise ValueError(
            f"{store.name} has batch-invariant trials of this problem with {len(orders)} different orders of sums "
            f"({'; '.join(orders.values())}): name one of these trials with same_bits_as"
        )
    return next(iter(orders.items()), None)


def _usual(problem: Problem, device: Device, templates: TemplateSet) -> tuple[SumOrder, str]:
    """Return the order that the time model chooses for a large batch, the same for all problems of a family."""
    large = problem.of_batch(next(iter(problem.batch_sizes.values())))
    known = [t for t in templates_for(large, device) if t.name in {template.name for template in templates}]
    usable = TemplateSet(known) if known else templates_for(large, device)
    schedules = restricted(usable, large, device, OrderRule(batch_invariant=True))
    choice = default_choice(large, device, schedules)
    schedule = choice.schedule if choice is not None else schedules.space(large, device).sample(1, 0)[0]
    return _known(large, schedule, device), f"the time model's choice for {_batch(large)}"

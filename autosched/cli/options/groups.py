"""Groups of options: a dataclass declares a group's options once, for every command that takes the group."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Wrap ``command`` so that each field of its dataclass parameters becomes a command-line option.

    Fields are declared like a command's parameters: ``name: Annotated[type, typer.Option(...)] = default``.

    Args:
        command: Function whose keyword-only parameters may be annotated with such dataclasses.
    """
    parameters_of_command = inspect.signature(command, eval_str=True).parameters
    keyword = inspect.Parameter.KEYWORD_ONLY
    groups: dict[str, Any] = {
        name: p.annotation
        for name, p in parameters_of_command.items()
        if p.kind is keyword and dataclasses.is_dataclass(p.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in parameters_of_command.items():
        parameters += options(groups[name]) if name in groups else [parameter]

    @functools.wraps(command)
    def run(*positional: Any, **options: Any) -> int:
        filled_groups = {
            name: group(**{f.name: options.pop(f.name) for f in _fields(group)}) for name, group in groups.items()
        }
        return command(*positional, **options, **filled_groups)

    first = next((k for k, p in enumerate(parameters) if p.kind is keyword), len(parameters))
    ordered = parameters[:first] + [p.replace(kind=keyword) for p in parameters[first:]]
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    del run.__wrapped__  # otherwise typer would use the signature of the wrapped command
    return run


def options(group: type[Any]) -> Iterator[inspect.Parameter]:
    """Yield one command-line parameter for each field of a group."""
    hints = get_type_hints(group, include_extras=True)
    for field in _fields(group):
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])


def _fields(group: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(group)

"""A command whose options are converted by their own parsers."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

_TEXTS = (bool, str, str | None, list[str], list[str] | None)  # what the command line has, as it stands


class Command(TyperCommand):
    """Options that are typed as they should be are converted here. All else is left to the library, which knows what to
    say."""

    # Newer releases of typer convert everything by pydantic, which takes 0.07 s of the CPU: a quick verification may
    # take half a second.

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fill the parameters of ``ctx``; what is not given has its default."""
        given = None if ctx.resilient_parsing else self._converted(ctx, args)
        if given is None:
            return super().parse_args(ctx, args)
        ctx.params.update(given)
        return []

    def _converted(self, ctx: Any, args: list[str]) -> dict[str, Any] | None:
        """Return the values of the options that are given; None where the library has to see them."""
        typed, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        parsers = _parsers(self.callback) if self.callback else {}
        missing = any(param.required and param.name not in typed for param in self.params)
        if rest or missing or not typed.keys() <= parsers.keys():
            return None
        try:
            return {name: _parsed(value, parsers[name]) for name, value in typed.items()}
        except typer.BadParameter:
            return None


def _parsers(function: Callable[..., Any]) -> dict[str, Callable[[Any], Any] | None]:
    """Return the parser of each option, None of one that is taken as it stands; without those that the library
    converts."""
    found: dict[str, Callable[[Any], Any] | None] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is Annotated:
            kind, *notes = get_args(parameter.annotation)
            info = next((note for note in notes if isinstance(note, OptionInfo)), None)
            if info is not None and (info.parser or kind in _TEXTS):
                found[name] = info.parser
    return found


def _parsed(value: Any, parser: Callable[[Any], Any] | None) -> Any:
    if parser is None:
        return value
    return [parser(each) for each in value] if isinstance(value, list) else parser(value)

"""Command whose options are converted without pydantic, which starts slowly."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

_TEXTS = (
    bool,
    str,
    str | None,
    list[str],
    list[str] | None,
)  # types whose values need no conversion


class Command(TyperCommand):
    """Command that parses valid options itself. It passes invalid options to typer, which reports the error."""

    # Newer releases of typer convert options with pydantic, which takes 0.07 s of CPU time. For comparison, a quick
    # verification takes half a second in total.

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Fill the parameters of ``ctx``. Omitted options get their default."""
        converted = None if ctx.resilient_parsing else self._converted(ctx, args)
        if converted is None:
            return super().parse_args(ctx, args)
        ctx.params.update(converted)
        return []

    def _converted(self, ctx: Any, args: list[str]) -> dict[str, Any] | None:
        """Return the values of the options on the command line; None if typer must parse the command line."""
        typed, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        parsers = _parsers(self.callback) if self.callback else {}
        missing = any(param.required and param.name not in typed for param in self.params)
        if rest or missing or not typed.keys() <= parsers.keys():
            return None
        try:
            return {name: _parsed(value, parsers[name]) for name, value in typed.items()}
        except typer.BadParameter:
            return None


def given_names(ctx: typer.Context) -> set[str]:
    """Return the names of the options given on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _parsers(function: Callable[..., Any]) -> dict[str, Callable[[Any], Any] | None]:
    """Map options to parsers, or to None if the text needs no parsing. Options that typer must convert are omitted."""
    parsers: dict[str, Callable[[Any], Any] | None] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is Annotated:
            kind, *notes = get_args(parameter.annotation)
            info = next((note for note in notes if isinstance(note, OptionInfo)), None)
            if info is not None and (info.parser or kind in _TEXTS):
                parsers[name] = info.parser
    return parsers


def _parsed(value: Any, parser: Callable[[Any], Any] | None) -> Any:
    if parser is None:
        return value
    return [parser(each) for each in value] if isinstance(value, list) else parser(value)

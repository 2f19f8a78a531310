"""Generate the pages of the reference that are derived from code: ``python docs/generate.py``."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import typer

from autosched.cli.app import build
from autosched.cli.options.spellings import VERIFY_FILE
from autosched.cli.options.verified_files import TAKERS
from autosched.reporting.exit_status import ANSWERS, VERDICTS, ExitStatus
from measurements.emulator.findings import MEANINGS, FindingKind
from measurements.store.schema import META, SCHEMA_VERSION
from search_spaces.catalogue import BUILT_IN_TEMPLATES
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.parameters import Parameter
from search_spaces.templates.parameter_names import SHARED

FOLDER = Path(__file__).parent / "reference"
GENERATED = "<!-- made by docs/generate.py -->\n"
_OWN = {"--out", "--dtype"}  # options that only some operators have
MOST_SHOWN = 8  # maximum number of values that the page lists for one parameter
# For each template that does not support an H200, the GPU whose space the page shows.
CHIPS = {"tcgen05_matmul": "b200", "tcgen05_matmul_transposed": "b200", "tcgen05_matmul_padded": "b200"}
# For each template, problems whose spaces together have all parameters of the template.
SPACES: dict[str, tuple[Problem, ...]] = {
    "tcgen05_matmul": (Matmul(m=4096, n=4096, k=4096),),
    "matmul": (Matmul(m=4096, n=4096, k=4096),),
    "wgmma_matmul": (Matmul(m=4096, n=4096, k=4096),),
    "wgmma_matmul_transposed": (Matmul(m=16, n=4096, k=4096),),
    "tcgen05_matmul_transposed": (Matmul(m=16, n=4096, k=4096),),
    "tma_matmul": (Matmul(m=4096, n=4096, k=4096),),
    "wgmma_matmul_padded": (Matmul(m=4096, n=4097, k=4099),),
    "tcgen05_matmul_padded": (Matmul(m=4096, n=4097, k=4099),),
    "tma_matmul_padded": (Matmul(m=4096, n=4097, k=4099),),
    "matvec": (Matvec(m=4, n=4096, k=4096),),
    "row_reduction": (Softmax(rows=4096, columns=4096), Reduce(rows=4096, columns=4096, axis="column")),
    "transpose": (Transpose(rows=4096, columns=4096),),
    "copy": (Copy(rows=4096, columns=4096),),
}


# The public names of `autosched`, by purpose. For a class that is marked with `+`, the page also shows the methods.
API = {
    "Tuning": (
        "tune",
        "TuneOptions",
        "emulate",
        "EmulatedLaunchOptions",
        "Im2col",
        "Struct",
        "Surface",
        "TensorMapOf",
        "Texture",
        "+StudySampler",
    ),
    "Running tuned kernels": (
        *("+Database", "use", "log_calls", "matmul", "matvec", "softmax", "rmsnorm", "layernorm", "reduce"),
        "transpose",
        *("attention", "attention_backward", "decode_attention", "quantized_matmul", "grouped_matmul"),
        *("rmsnorm_quantize", "qk_norm_rope", "qk_norm_rope_append", "router_topk", "cross_entropy"),
        *("cross_entropy_backward", "linear_cross_entropy", "linear_cross_entropy_dlogits"),
        *("pack_int4", "pack_weights", "int4_from_awq", "int4_from_gptq"),
    ),
    "PyTorch": ("torch.patch", "+torch.Calls", "torch.emulated"),
    "Problems and kernels": (
        *(
            "Matmul",
            "Matvec",
            "Softmax",
            "RmsNorm",
            "LayerNorm",
            "Reduce",
            "Transpose",
            "Copy",
            "Attention",
            "AttentionBackward",
            "DecodeAttention",
            "QuantizedMatmul",
            "GroupedMatmul",
            "RmsNormQuantize",
            "QkNormRope",
            "QkNormRopeAppend",
            "RouterTopK",
            "CrossEntropy",
            "CrossEntropyBackward",
            "LinearCrossEntropy",
            "LinearCrossEntropyDlogits",
            "+KernelSpec",
            "KernelOptions",
        ),
    ),
    "Reports": ("reporting.html.build", "reporting.html.render"),
    "Results and errors": (
        *("TuneResult", "Trial", "Provenance", "Schedule", "Device", "device", "EmulatedLaunch", "Finding", "Order"),
        *("NotTuned", "StaleSchedule", "NoSchedule", "RuntimeUnavailable", "StoreError", "KernelFileError"),
        *("BackendError", "HostFailure", "CommonFailure", "Interrupted"),
    ),
    "Tile programs": (
        *("tile.program", "tile.Input", "tile.Output", "tile.InOut", "tile.wg_map", "+tile.Builder", "tile.Program"),
        *("tile.ProgramTemplate", "tile.ProgramError"),
    ),
    "Layouts": ("+layouts.NestedLayout", "+layouts.SharedLayout", "+layouts.WgMap", "+layouts.LoweringConfig"),
    "Plug-ins": (
        *("plugins.KernelTemplate", "plugins.DeviceSource", "plugins.Space", "plugins.ordinal", "plugins.categorical"),
        *("plugins.Attribute", "plugins.Rule", "plugins.device_rules", "plugins.CostCounts", "plugins.Sampler"),
        *("plugins.UnvisitedPool", "plugins.TemplateSet", "plugins.register"),
    ),
    "Tests of plug-ins": ("testing.SamplerContract",),
}
_NARROW = 100  # longest signature that is written on one line


def schedule_parameters() -> str:
    """Return every parameter of every template with its meaning and its values."""
    lines = [
        "# Schedule parameters\n",
        GENERATED,
        "This page lists the parameters of each kernel template's schedules, in the notation that `autosched best` "
        "prints and `--explain` reads.\n",
        "The column *values* lists all values for an f16 problem on an H200 (tcgen05: a B200), before rules exclude\n",
        "combinations; `autosched space` counts the legal schedules. Defaults are bold.\n",
        "\n## Shared names\n",
        "All templates use these names for parameters of the same meaning "
        "(`search_spaces/templates/parameter_names.py`). `{axis}` is\n",
        "m, n or k: m and n span the output, and k is reduced. In `transpose`, m refers to the rows of x, and n to "
        "its columns.\n\n",
        "| parameter | meaning | unit |\n",
        "|---|---|---|\n",
        *(f"| `{name}` | {meaning.text} | {meaning.unit or 'name'} |\n" for name, meaning in SHARED.items()),
    ]
    for its in (built_in.load() for built_in in BUILT_IN_TEMPLATES):
        name, problems = its.name, SPACES[its.name]
        chip = device(CHIPS.get(name, "h200"))
        known: dict[str, Parameter] = {}
        for problem in problems:
            known |= {p.name: p for p in its.space(problem, chip).parameters if p.name not in known}
        lines += [f"\n## `{name}`\n", f"{its.summary}. Computes {', '.join(its.operators)}.\n\n"]
        lines += ["| parameter | meaning | values |\n", "|---|---|---|\n"]
        lines += [f"| `{p.name}` | {p.doc} | {_values(p)} |\n" for p in known.values()]
    return "".join(lines)


def _values(parameter: Parameter) -> str:
    shown = [f"**{v}**" if v == parameter.default else str(v) for v in parameter.values[:MOST_SHOWN]]
    left = len(parameter.values) - MOST_SHOWN
    if left > 0:
        default = "" if parameter.default in parameter.values[:MOST_SHOWN] else f", **{parameter.default}**"
        shown.append(f"... ({left} more{default})")
    return ", ".join(shown)


def command_line() -> str:
    """Return every command with its options."""
    root = typer.main.get_command(build())
    lines = [
        "# Command line\n",
        GENERATED,
        "`autosched COMMAND --help` shows the same texts. A problem is given as an operator with its\n",
        "sizes (`matmul -m 4096 -n 4096 -k 4096`, see `autosched tune matmul --help`), or\n",
        "`--kernel FILE --size NAME=N`. All commands share one [table of exit statuses](exit-statuses.md).\n",
    ]
    for path, summary, parameters in _commands(root, "autosched"):
        lines.append(f"\n## `{path}`\n{summary}\n")
        options = [p for p in parameters if p.param_type_name == "option" and not p.hidden and p.name != "help"]
        if options:
            kinds = path.endswith(VERIFY_FILE)  # the options of `verify FILE` apply only to some kinds of files
            lines += [
                "\n| option | meaning | for |\n|---|---|---|\n" if kinds else "\n| option | meaning |\n|---|---|\n"
            ]
            for o in options:
                takers = f" {', '.join(TAKERS.get(o.name, ['all']))} |" if kinds else ""
                lines.append(f"| `{', '.join(o.opts)}` | {_first(o.help)} |{takers}\n")
    return "".join(lines)


def _commands(command: Any, path: str) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield path, summary and parameters of each command. For commands of operators, yield their common options."""
    context = typer.Context(command, info_name=path)
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    inner = {name: command.get_command(context, name) for name in names}
    if "matmul" in inner and "softmax" in inner:
        theirs = {p.name for p in inner["softmax"].params}
        yield (
            path,
            _first(command.help),
            [p for p in inner["matmul"].params if p.name in theirs and not _OWN & set(p.opts)],
        )
    elif names:
        for name, its in inner.items():
            if not its.hidden or name == VERIFY_FILE:
                yield from _commands(its, f"{path} {name}")
    else:
        yield path, _first(command.help), command.params


def exit_statuses() -> str:
    """Return the table of exit statuses."""
    lines = [
        "# Exit statuses\n",
        GENERATED,
        "All commands of `autosched` have the same exit statuses.\n",
        "In the JSON output of `verify`, `run`, `judge` and `check`, the field `verdict` states the same result.\n",
        "\n| status | `verdict` | meaning |\n|---:|---|---|\n",
    ]
    lines += [f"| {status.value} | `{VERDICTS[status]}` | {status.meaning} |\n" for status in ExitStatus]
    lines += ["\n## Meaning by command\n", "For all commands, the exit status for bad input is 2.\n"]
    lines += ["\n| command | 0 | 1 | 2 |\n|---|---|---|---|\n"]
    lines += [f"| {command} | {' | '.join(answers)} |\n" for command, answers in ANSWERS.items()]
    return "".join(lines)


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).replace("|", "\\|")


def database_schema() -> str:
    """Return the tables of a database of this version."""
    lines = [
        "# Database schema\n",
        GENERATED,
        f"This page describes schema {SCHEMA_VERSION}, which is the same in SQLite and PostgreSQL.\n",
        "These tables are for your own SQL queries; `autosched export` writes the contents as JSON for exchange.\n",
        "autosched rejects databases with another schema.\n",
    ]
    for table in META.metadata.sorted_tables:
        lines += [f"\n## `{table.name}`\n\n", "| column | type | notes |\n", "|---|---|---|\n"]
        for column in table.columns:
            notes = [word for word, holds in (("key", column.primary_key), ("may be null", _nullable(column))) if holds]
            lines.append(f"| `{column.name}` | {column.type} | {', '.join(notes)} |\n")
    return "".join(lines)


def _nullable(column: sa.Column[object]) -> bool:
    return bool(column.nullable) and not column.primary_key


def emulator_findings() -> str:
    """Return every kind of finding with its meaning."""
    lines = [
        "# Findings of the emulator\n",
        GENERATED,
        "If several findings have the same kind and line, the emulator reports them once, with a count.\n",
        "See also the [arguments and commands of the emulator](emulator.md).\n",
        "\n| finding | meaning |\n|---|---|\n",
    ]
    lines += [f"| `{kind}` | {MEANINGS[kind]} |\n" for kind in FindingKind]
    lines.append("| `api_misuse` | invalid call by an executable: the CUDA runtime rejects a copy, free or launch |\n")
    return "".join(lines)


def api() -> str:
    """Return the public names of `autosched` with signatures and docstrings. Needs torch for `autosched.torch`."""
    lines = [
        "# API reference\n",
        GENERATED,
        "The names that `autosched` exports. For the command line, see [commands](command-line.md).\n",
    ]
    for section, names in API.items():
        lines.append(f"\n## {section}\n")
        for name in names:
            path = f"autosched.{name.removeprefix('+')}"
            exported = _exported(path)
            lines += [f"\n### `{path}`\n", _signature(path.rpartition(".")[2], exported), _prose(exported)]
            if name.startswith("+"):
                for method, function in _methods(exported):
                    lines += [f"\n#### `{path}.{method}`\n", _signature(method, function), _prose(function)]
    return "".join(lines)


def _exported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class, and of its base classes in the same package."""
    package = kind.__module__.rpartition(".")[0]
    parts = [kind, *(base for base in kind.__mro__[1:] if base.__module__.startswith(f"{package}."))]
    members = {name: value for part in reversed(parts) for name, value in vars(part).items()}
    own = dict(vars(kind))
    for name, value in {**own, **members, **own}.items():
        function = getattr(value, "__func__", getattr(value, "fget", value))
        if not name.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
            yield name, value


def _signature(name: str, exported: Any) -> str:
    """Return a code block with the signature; "" for exceptions and enumerations, which users do not call."""
    if isinstance(exported, property):
        return ""
    function = getattr(exported, "__func__", exported)
    if inspect.isclass(exported) and issubclass(exported, BaseException | enum.Enum):
        return ""
    parameters: list[str] = []
    last: Any = None
    signature = inspect.signature(function)
    for p in signature.parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and last not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parameters.append("*")
        last = p.kind
        text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        if p.annotation is not p.empty:
            text += f": {_type(p.annotation)}"
        if p.default is not p.empty:
            default = "..." if inspect.isfunction(p.default) else repr(p.default)
            text += f" = {default}" if p.annotation is not p.empty else f"={default}"
        parameters.append(text)
    result = "" if signature.return_annotation in (signature.empty, "None", None) else signature.return_annotation
    ending = f" -> {_type(result)}" if result and not inspect.isclass(exported) else ""
    line = f"{name}({', '.join(parameters)}){ending}"
    if len(line) > _NARROW:
        line = "\n".join([f"{name}(", *(f"    {p}," for p in parameters), f"){ending}"])
    return f"```python\n{line}\n```\n"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _with_inherited(exported: type, text: str) -> str:
    """Return the docstring of a dataclass, extended by the attributes of its base classes."""
    if "\nAttributes:\n" not in text:
        return text
    own = set(re.findall(r"^    (\w+): ", text, re.M))
    entries: list[str] = []
    for base in exported.__mro__[1:]:
        described = re.search(r"\nAttributes:\n((?:    .*\n?)+)", inspect.getdoc(base) or "")
        for entry, name in re.findall(r"(    (\w+): .*\n?(?:        .*\n?)*)", described[1] if described else ""):
            if name not in own:
                own.add(name)
                entries.append(entry.rstrip("\n") + "\n")
    return re.sub(r"(\nAttributes:\n(?:    .*\n?)+)", lambda m: m[1].rstrip("\n") + "\n" + "".join(entries), text)


def _prose(exported: Any) -> str:
    """Return a docstring as Markdown: each entry of `Args`, `Returns` and `Raises` is a line of a list."""
    text = inspect.getdoc(exported.fget if isinstance(exported, property) else exported) or ""
    if inspect.isclass(exported) and dataclasses.is_dataclass(exported):
        text = _with_inherited(exported, text)
    if inspect.isclass(exported) and not vars(exported).get("__doc__"):
        text = ""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line):
            lines += ["", f"**{line[:-1]}**", ""]
            inside = True
        elif inside and re.match(r" {4}\S", line):
            entry = re.match(r"    (\*{0,2}[\w., ]+?): (.*)", line)
            begins = "- " if lines[-1] == "" else "  "  # first or further line of a paragraph
            lines.append(f"- `{entry[1]}`: {entry[2]}" if entry else begins + line.strip())
        elif inside and line.startswith(" "):
            lines.append(f"  {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).replace("``", "`").strip() + "\n"


PAGES = {
    "api.md": api,
    "emulator-findings.md": emulator_findings,
    "schedule-parameters.md": schedule_parameters,
    "command-line.md": command_line,
    "database-schema.md": database_schema,
    "exit-statuses.md": exit_statuses,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), "utf-8")

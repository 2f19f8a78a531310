"""CUDA C++ of a template, and the kernel source that instantiates it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import OUR_PACKAGE, Headers, identifiers, package_headers
from search_spaces.launches.launch import Argument, BytesArgument, ScalarArgument, Size3
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.launches.texture import LinearTexture
from search_spaces.spaces.config import Config

if TYPE_CHECKING:  # only for type hints, as templates without tensor cores do not need intrinsics
    from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic

# Triples (feature, header, replacement): devices without the feature include the replacement instead of the header.
_INSTEAD = (
    ("bf16", "autosched/ptx/convert.cuh", "autosched/ptx/turing/convert.cuh"),
    ("max_nan", "autosched/ptx/arithmetic.cuh", "autosched/ptx/turing/arithmetic.cuh"),
)


def for_device(kernel: GeneratedKernel, device: Device) -> GeneratedKernel:
    """Return ``kernel`` with replacement headers for instructions that ``device`` lacks (only sm_75 needs any)."""
    instead = {name: other for feature, name, other in _INSTEAD if not device.has(feature)}
    if not instead or not dict(kernel.headers.files).items() >= dict(package_headers().files).items():
        return kernel
    return replace(kernel, headers=_replaced(kernel.headers, tuple(instead.items())), arch=device.arch)


@lru_cache(maxsize=8)
def _replaced(headers: Headers, instead: tuple[tuple[str, str], ...]) -> Headers:
    texts = dict(headers.files)
    return Headers.of(texts | {name: texts[other] for name, other in instead})


def with_header_of(kernel: GeneratedKernel, row: TensorIntrinsic) -> GeneratedKernel:
    """Return ``kernel``, with the header of the tensor intrinsic ``row`` added if ``row`` is from another package."""
    return replace(kernel, headers=kernel.headers | Headers.of({row.header: row.text})) if row.text else kernel


@dataclass(frozen=True)
class DeviceSource:
    """The device function ``entry``, a C++ template over ``Config``. It takes a kernel's arguments in order.

    The function is in ``header``, a file in the folder ``include`` of ``package``.
    """

    header: str
    entry: str
    package: str = OUR_PACKAGE

    @property
    def headers(self) -> Headers:
        """Every header that the source may include."""
        ours = package_headers()
        return ours if self.package == OUR_PACKAGE else package_headers(self.package) | ours

    @property
    def digest(self) -> str:
        """Digest of all code on which the source may depend."""
        return hashlib.sha256("\0".join((self.header, self.entry, self.headers.digest)).encode()).hexdigest()

    def kernel(
        self,
        config: Config,
        *,
        constants: Mapping[str, int | bool | float | str],
        types: Mapping[str, str],
        arguments: Sequence[Argument],
        call: Sequence[str],
        blocks: int,
        cluster: Size3 = (1, 1, 1),
        launches: int = 1,
        cooperating: tuple[int, int] = (1, 1),
        chained: bool = False,
        window: int = 1,
        grid_may_shrink: bool = False,
        includes: Sequence[str] = (),
        at_launch: Collection[str] = (),
    ) -> GeneratedKernel:
        """Return the kernel of a schedule.

        The kernel's ``Config`` has the parameters and attributes of ``config`` as constants of the same names.
        Constants that no header uses are omitted, such as constants that only tensor maps use. Schedules that differ
        only in such constants have the same code, which is compiled once.

        The launch has blocks of ``threads`` threads (an attribute) with ``shared_bytes`` of dynamic shared memory;
        ``min_blocks`` is the number of blocks per SM for which the compiler limits registers.

        Args:
            config: The schedule with all derived values.
            constants: Constants of the problem, which precede the constants of ``config``.
            types: C++ names of types, by name.
            arguments: The kernel's parameters in order, workspaces and tensor maps included.
            call: The arguments of ``entry``: names of parameters, or ``nullptr``.
            blocks: Blocks of the launch.
            cluster: Blocks of a cluster along each axis.
            launches: Number of successive launches of the kernel.
            cooperating: As in GeneratedKernel.
            chained: As in GeneratedKernel.
            window: As in GeneratedKernel.
            grid_may_shrink: As in GeneratedKernel.
            includes: Headers that this kernel needs in addition to the header of ``entry``.
            at_launch: Parameters and attributes that are arguments of the launch or determine its grid, and are
                therefore not constants.

        Raises:
            ValueError: If a constant of the problem has the name of a parameter or an attribute of ``config``.
        """
        twice = set(constants) & set(config)
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} of the problem has the name of a parameter or an attribute")
        included = "\n".join(f"#include <{header}>" for header in (*includes, self.header))
        entry = f"autosched_{config.schedule.template}"
        lines = [f"using {name} = {type_};" for name, type_ in types.items()]
        headers, named_here = self.headers, frozenset[str]().union(*map(identifiers, (*types.values(), *call)))
        lines += [
            _constant(name, value)
            for name, value in (*constants.items(), *config.items())
            if name not in at_launch and (name in named_here or headers.has_identifier(name))
        ]
        members = "".join(f"  {line}\n" for line in lines)
        threads, min_blocks, shared_bytes = config.integers("threads", "min_blocks", "shared_bytes")
        parameters = ", ".join(_parameter(argument) for argument in arguments)
        bounds = f"__launch_bounds__({threads}, {min_blocks})"
        if cluster != (1, 1, 1):
            bounds = f"__cluster_dims__{cluster} {bounds}"
        return GeneratedKernel(
            entry=entry,
            source=(
                f"{included}\n\n"
                f"struct Config {{\n{members}}};\n\n"
                f'extern "C" __global__ void {bounds}\n'
                f"{entry}({parameters}) {{\n"
                f"  {self.entry}<Config>({', '.join(call)});\n"
                f"}}\n"
            ),
            headers=headers,
            arguments=tuple(arguments),
            grid=(blocks, 1, 1),
            block=(threads, 1, 1),
            cluster=cluster,
            dynamic_shared_bytes=shared_bytes,
            launches=launches,
            cooperating=cooperating,
            chained=chained,
            window=window,
            repeatable=self.package == OUR_PACKAGE,
            grid_may_shrink=grid_may_shrink,
        )


def _constant(name: str, value: int | bool | float | str) -> str:
    """Return the declaration of a constant of ``Config``. Strings are ``autosched::Choice`` (common/choice.cuh)."""
    if isinstance(value, bool):
        return f"static constexpr bool {name} = {str(value).lower()};"
    if isinstance(value, int):
        wide = not -(2**31) < value < 2**31
        return f"static constexpr {'long long' if wide else 'int'} {name} = {value}{'ll' if wide else ''};"
    if isinstance(value, float):
        return f"static constexpr float {name} = {value!r}f;"
    return f'static constexpr autosched::Choice {name} = "{value}";'


def _parameter(argument: Argument) -> str:
    match argument:
        case LinearTexture():
            return f"unsigned long long {argument.name}"
        case TensorMap():
            return f"const __grid_constant__ autosched::ptx::TensorMap {argument.name}"
        case ScalarArgument():
            return f"{argument.dtype.c_name} {argument.name}"
        case BytesArgument():
            raise TypeError(f"{argument.name} is passed as bytes, which have no type in a generated source")
    const = "const " if argument.role == "input" else ""
    return f"{const}{argument.dtype.c_name}* __restrict__ {argument.name}"

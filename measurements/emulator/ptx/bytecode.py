"""Translate a kernel of a PTX module to bytecode for ``runtime/``: registers become slots, labels become numbers."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from measurements.emulator.ptx.families.asynchronous import async_form
from measurements.emulator.ptx.families.ldmatrix import ldmatrix_form
from measurements.emulator.ptx.families.mma import block_scaled_form, quad_mma_form, sparse_mma_form
from measurements.emulator.ptx.families.multimem import multimem_form
from measurements.emulator.ptx.families.narrow import narrow_form
from measurements.emulator.ptx.families.stack import stack_form
from measurements.emulator.ptx.families.tcgen05 import tcgen05_form
from measurements.emulator.ptx.families.texture import texture_form
from measurements.emulator.ptx.families.video import video_form
from measurements.emulator.ptx.families.wgmma import wgmma_form
from measurements.emulator.ptx.forms import Form, SourceOperand, Unsupported, call_parts, form_of
from measurements.emulator.ptx.syntax import (
    TYPE_BYTES,
    Address,
    Frame,
    Function,
    Instruction,
    Module,
    Number,
    Operand,
    Register,
    Symbol,
    Variable,
)

LANES = 32
_HEAD = 32  # bytes of the header before a register's values
_SHARED_WINDOW = 1024  # start of static shared memory, as in runtime/memory/shared/memory.cpp
_MOST_SHARED = 1 << 24  # more shared memory than any GPU has; the runner reports launches that exceed a block's limit
FUNCTION_BASE = 4 << 60  # base of the addresses of functions, as in runtime/isa/ptx.hpp
_PRINT = "vprintf"
_HEAP_FUNCTIONS = ("malloc", "free")
_STOPPING_FUNCTIONS = ("__assertfail", "__assert_fail")
_DEVICE_RUNTIME = ("__cudaCDP", "cudaLaunchDevice", "cudaGetParameterBuffer")
_CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
_WIDE_SPECIALS = ("%gridid",)
_WIDE_COUNTER = re.compile(r"%pm\d_64")  # performance counters, which are always 0


class NotExecutable(Exception):
    """The module has no such kernel, or the kernel needs a feature that the runtime does not support.

    The message is one line that names the source line and the PTX line.
    """


@dataclass(frozen=True)
class Bytecode:
    """Bytecode of a kernel.

    Attributes:
        text: Bytecode for the runner.
        sites: A line for each site of the report, by site number. Fields are separated by tabs: the displayed source
            line; the PTX line with its text; and the lines of the calls through which the source line was inlined, the
            innermost first.
    """

    text: str
    entry: str
    sites: tuple[str, ...]
    parameters: tuple[Variable, ...]


def shown_frame(frames: tuple[Frame, ...], line: int) -> Frame:
    """Return the line at which a finding is displayed: the innermost line outside of ``ptx/`` and of CUDA's headers.

    If no source line is known, this is the PTX line.
    """
    for frame in frames:
        if not frame.file.startswith(
            ("autosched/ptx/", "cuda_", "__nv", "cooperative_groups", "mma", "crt/", "/usr/", "/opt/")
        ):
            if "/include/c" in frame.file and frame.file.startswith("/"):
                continue
            return frame
    return frames[0] if frames else Frame("ptx", line)


def translate(module: Module, entry: str = "") -> Bytecode:
    """Return the bytecode of kernel ``entry``, or of the only kernel if ``entry`` is "". Raises NotExecutable."""
    kernels = module.kernels
    if not entry and len(kernels) == 1:
        entry = kernels[0]
    if entry not in kernels:
        known = ", ".join(kernels) or "none"
        raise NotExecutable(
            f"the PTX has no kernel {entry!r}; it has {known}"
            if entry
            else f"the PTX has several kernels: name one of {known}"
        )
    return _Translation(module, entry).program()


_FAMILIES = (
    block_scaled_form, sparse_mma_form, quad_mma_form, tcgen05_form, async_form, wgmma_form, texture_form, video_form,
    narrow_form, ldmatrix_form, stack_form, multimem_form,
)  # fmt: skip


def special_form(i: Instruction) -> Form | None:
    """Return the runtime instruction for an instruction of one of the families; None for others. Raises Unsupported."""
    for form_of_family in _FAMILIES:
        form = form_of_family(i)
        if form is not None:
            return form
    return None


def _align(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


@dataclass
class _Frame:
    """Positions of the registers, parameters and local variables of a function.

    ``tokens`` maps register names to their spelling in bytecode.
    """

    function: Function
    index: int
    slots: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)  # bytes of each register slot or parameter
    tokens: dict[str, str] = field(default_factory=dict)
    locals: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    entry: int = 0
    parameter_offsets: dict[str, int] = field(default_factory=dict)  # offset of each parameter of a kernel


class _Translation:
    def __init__(self, module: Module, entry: str) -> None:
        self.module, self.entry = module, entry
        self.variables = {v.name: v for v in module.variables}
        self.slots = 64  # slot 0 means no register
        self.frames: dict[str, _Frame] = {}
        self.lines: list[str] = []
        self.files: dict[str, int] = {}
        self.sites: list[str] = []
        # Cached texts, by the id of an instruction's frames. The module keeps the frames alive, so the ids stay unique.
        self.shown: dict[int, tuple[str, str, str]] = {}
        self.code: list[tuple[Form, int, int, int, _Frame, list[str], list[str]]] = []
        self.shared: dict[str, int] = {}
        self.shared_end = _SHARED_WINDOW
        self.globals: dict[str, int] = {}
        self.pending: list[str] = [entry]
        self.calls_addresses = False
        self.rounds_tf32 = False
        self.numbers = {name: number for number, name in enumerate(module.functions)}
        self.labels: dict[tuple[int, str], int] = {}

    def program(self) -> Bytecode:
        """Translate the kernel and all functions that it may call, and return the bytecode."""
        self.frame(self.entry)
        done = 0
        while done < len(self.pending):
            self.body(self.frames[self.pending[done]])
            done += 1
            if done == len(self.pending):
                self.variable_lines()  # this call adds the functions to which tables of function pointers refer
            if done == len(self.pending) and self.calls_addresses:
                for name in self.with_addresses():
                    self.frame(name)
        body = self.assembled()
        kernel = self.frames[self.entry]
        parameters = kernel.function.parameters
        head = [
            f"registers {self.slots}",
            f"static_shared {self.shared_end - _SHARED_WINDOW}",
            f"blocks_of_sm {kernel.function.blocks_of_sm}",
            f"target {_architecture(self.module.target)}",
            # In Triton, users request that f32 operands are used as tf32. So dropping their low bits is intended.
            *(["truncates_tf32"] if self.module.by_llvm else []),
            *(["rounds_tf32"] if self.rounds_tf32 else []),
            *([f"cluster {' '.join(map(str, kernel.function.cluster))}"] if kernel.function.cluster else []),
            *(f"parameter {kernel.parameter_offsets[p.name]} {p.bytes}" for p in parameters),
            *(f"shared {at} {self.variables[name].bytes} {name.split('#')[0]}" for name, at in self.shared.items()),
            *self.variable_lines(),
            *(self.function_line(self.frames[name]) for name in self.pending),
            *(f"file {name}" for name in self.files),
        ]
        return Bytecode("\n".join((*head, *self.lines, *body, "")), self.entry, tuple(self.sites), parameters)

    # Positions ------------------------------------------------------------------------------------------------------

    def slot(self, width: int) -> int:
        """Allocate a register of ``width`` bytes per lane, and return its offset."""
        at = self.slots
        self.slots += _HEAD + _align(LANES * width, 32)
        return at

    def frame(self, name: str) -> _Frame:
        """Return the frame of a function, created on first use."""
        if name in self.frames:
            return self.frames[name]
        function = self.module.functions[name]
        f = _Frame(function, len(self.frames))
        self.frames[name] = f
        if name != self.entry:
            self.pending.append(name)
        offset = 0
        for p in (*function.results, *function.parameters):
            if function.is_kernel:
                offset = _align(offset, max(p.alignment, 1))
                f.parameter_offsets[p.name] = offset
                offset += p.bytes
            elif p.space == "param":
                f.slots[p.name], f.widths[p.name] = self.slot(p.bytes), p.bytes
        for v in function.variables:
            if v.space == "local":
                f.locals[v.name] = _align(f.local_bytes, max(v.alignment, 16))
                f.local_bytes = f.locals[v.name] + v.bytes
            elif v.space == "param":
                f.slots[v.name], f.widths[v.name] = self.slot(v.bytes), v.bytes
            elif v.space == "shared" or v.space in ("global", "const"):
                self.variables[v.name] = v
        f.local_bytes = _align(f.local_bytes, 16)
        return f

    def register(self, f: _Frame, name: str) -> tuple[int, int]:
        """Return the slot and the width of a declared register, allocating the slot on first use."""
        if name not in f.slots:
            if name not in f.function.registers:
                raise NotExecutable(f"{f.function.name} uses a register that it does not declare: {name}")
            f.widths[name] = f.function.registers[name]
            f.slots[name] = self.slot(f.widths[name])
        return f.slots[name], f.widths[name]

    def shared_offset(self, v: Variable) -> int:
        """Return the offset of a static shared variable, allocating its memory on first use."""
        if v.name not in self.shared:
            self.shared[v.name] = _align(self.shared_end, max(v.alignment, 1))
            self.shared_end = self.shared[v.name] + v.bytes
            if self.shared_end > _MOST_SHARED:
                raise NotExecutable(f"{self.entry} has more than {_MOST_SHARED >> 20} MiB of static shared memory")
        return self.shared[v.name]

    def global_index(self, name: str) -> int:
        """Return the number of a global or constant variable in the bytecode."""
        return self.globals.setdefault(name, len(self.globals))

    # Operands -----------------------------------------------------------------------------------------------------

    def token(self, f: _Frame, source: SourceOperand, site: int) -> str:
        """Return an operand in the syntax of bytecode."""
        operand, width = source.operand, source.width
        if isinstance(operand, Register):
            return self.register_token(f, operand.name)
        if isinstance(operand, Number):
            bits = operand.bits
            if operand.kind == "d" and width == 4:
                bits = _f32_of_f64(bits)
            # "e": the runtime's table row of the instruction determines the width
            kind = "e" if operand.kind == "d" and width == 0 else "c"
            return f"{kind}{width}:{bits:x}"
        if isinstance(operand, Symbol):
            return self.symbol_token(f, operand, width or 8, site)
        raise Unsupported

    def register_token(self, f: _Frame, name: str) -> str:
        """Return a register in the syntax of bytecode."""
        token = f.tokens.get(name)
        if token is None:
            token = f.tokens[name] = self.new_register_token(f, name)
        return token

    def new_register_token(self, f: _Frame, name: str) -> str:
        """Return a register in the syntax of bytecode, without a look-up in the cache."""
        if name not in f.function.registers and name[0] == "%":
            width = 8 if name in _WIDE_SPECIALS or _WIDE_COUNTER.fullmatch(name) else 4
            if name == "%is_explicit_cluster":  # a special register that is a predicate
                width = 0
            return f"s{width}:{name[1:]}"
        slot, width = self.register(f, name)
        return f"r{width}:{slot}"

    def symbol_token(self, f: _Frame, symbol: Symbol, width: int, site: int) -> str:
        """Return a symbol in the syntax of bytecode."""
        addend = symbol.offset & 2**64 - 1
        if symbol.name in f.locals:
            slot = self.slot(width)
            form = Form("local.address", immediates=[f.index, f.locals[symbol.name] + symbol.offset])
            self.emit(form, site, 0, 0, f, [f"r{width}:{slot}"], [])
            return f"r{width}:{slot}"
        if symbol.name in f.parameter_offsets:
            return f"c{width}:{f.parameter_offsets[symbol.name] + symbol.offset:x}"
        v = self.variables.get(symbol.name)
        if v is not None and v.space == "shared":
            if v.bytes == 0:
                return f"d{width}:0+{addend:x}"
            offset = self.shared_offset(v) + symbol.offset
            return f"h{width}:0+{offset:x}"
        if v is not None:
            return f"v{width}:{self.global_index(symbol.name)}+{addend:x}"
        if symbol.name in self.module.functions and self.module.functions[symbol.name].is_defined:
            self.frame(symbol.name)
            return f"f{width}:{self.numbers[symbol.name]}+0"
        raise Unsupported

    # Code ---------------------------------------------------------------------------------------------------------

    def site(self, i: Instruction) -> int:
        """Add a site for an instruction to the report's sites, and return its number."""
        site = len(self.sites)
        known = self.shown.get(id(i.frames)) if i.frames else None
        if known is None:
            shown = shown_frame(i.frames, i.line)
            file = self.files.setdefault(shown.file, len(self.files))
            callers = i.frames[i.frames.index(shown) + 1 :] if shown in i.frames else ()
            known = f"site {file} {shown.line} ", f"{shown}\t", "".join(f"\t{c}" for c in callers)
            self.shown[id(i.frames)] = known
        line, shown_text, callers_text = known
        self.lines.append(f"{line}{site}")
        self.sites.append(f"{shown_text}{i.line}: {i.text}{callers_text}")
        return site

    def emit(
        self, form: Form, site: int, guard: int, negated: int, f: _Frame, to: list[str], sources: list[str]
    ) -> None:
        """Append an instruction to the code."""
        self.code.append((form, site, guard, negated, f, to, sources))

    def body(self, f: _Frame) -> None:
        """Translate the instructions of a function, and record the positions of its labels."""
        f.entry = len(self.code)
        positions: dict[int, list[str]] = {}
        for label, at in f.function.labels.items():
            positions.setdefault(at, []).append(label)
        for k, i in enumerate(f.function.body):
            for label in positions.get(k, ()):
                self.labels[f.index, label] = len(self.code)
            site = self.site(i)
            guard = self.register(f, i.guard)[0] if i.guard else 0
            try:
                self.instruction(f, i, site, guard)
            except NotExecutable:
                raise
            except Exception as error:  # a qualifier or operand that is missing in the tables is unsupported
                reason = f"{error}: " if isinstance(error, Unsupported) and error.args else ""
                raise NotExecutable(
                    f"{shown_frame(i.frames, i.line)}: not supported: {reason}PTX line {i.line}: {i.text}"
                ) from error
        for label in positions.get(len(f.function.body), ()):
            self.labels[f.index, label] = len(self.code)
        # PTX allows a body without a ret at its end.
        last = f.function.body[-1] if f.function.body else None
        if last is not None:
            self.emit(Form("ret"), len(self.sites) - 1, 0, 0, f, [], [])

    def instruction(self, f: _Frame, i: Instruction, site: int, guard: int) -> None:
        """Translate an instruction and append the result to the code."""
        negated = int(i.negated)
        self.rounds_tf32 |= i.opcode == "cvt" and "tf32" in i.qualifiers
        if i.opcode == "call":
            form = self.call(f, i)
        elif i.opcode == "brx":
            table = i.operands[1]
            assert isinstance(table, Symbol)
            form = Form("brx.idx", 0, (), [SourceOperand(i.operands[0])], list(f.function.tables[table.name]))
        elif i.opcode == "mov" and isinstance(i.operands[1], Register) and i.operands[1].name in _CLOCKS:
            form = Form("clock", 0, [i.operands[0]])
        else:
            form = self.with_parameters(f, i, special_form(i) or form_of(i))
        if form.key == "cp.async" and form.immediates[3] == 2:
            last = form.sources[2].operand
            predicate = isinstance(last, Register) and f.function.registers.get(last.name) == 0
            form.immediates = [*form.immediates[:3], int(predicate)]
        to = []
        for d in form.destinations:
            if not isinstance(d, Register):
                raise Unsupported
            if d.name == "_":
                width = TYPE_BYTES[i.qualifiers[-1]] // max(len(form.destinations), 1) if i.opcode == "mov" else (
                    0 if d is not form.destinations[0] else max(TYPE_BYTES[i.qualifiers[-1]], 2))  # fmt: skip
                to.append(f"r{width}:{self.slot(width)}")
            else:
                to.append(self.register_token(f, d.name))
        sources = [self.token(f, s, site) for s in form.sources]
        self.emit(form, site, guard, negated, f, to, sources)

    def with_parameters(self, f: _Frame, i: Instruction, form: Form) -> Form:
        """Replace the named parameter in a load or store by the parameter's constant position."""
        if form.key not in ("ld", "st") or form.immediates[3] != 4:
            return form
        address = i.operands[1 if form.key == "ld" else 0]
        assert isinstance(address, Address)
        if not isinstance(address.base, Symbol):
            return form
        name, offset = address.base.name, address.offset
        if name in f.parameter_offsets:
            immediates = [f.parameter_offsets[name] + offset, *form.immediates[1:]]
            return Form("ld.parameter", 0, form.destinations, (), immediates)
        immediates = [f.slots[name], f.widths[name], offset, *form.immediates[1:3]]
        if form.key == "ld":
            return Form("ld.frame", 0, form.destinations, (), immediates)
        is_result = int(any(r.name == name for r in f.function.results))
        return Form("st.frame", 0, (), form.sources[1:], [*immediates, is_result])

    def call(self, f: _Frame, i: Instruction) -> Form:
        """Return the ``Form`` for a call instruction."""
        results, target, arguments = call_parts(i)
        callee = -1
        sources: list[SourceOperand] = []
        if isinstance(target, Symbol):
            function = self.module.functions.get(target.name)
            if function is None or not function.is_defined:
                if target.name == _PRINT:
                    passed = [n for o in (*arguments, *results) for n in self.passed(f, o)]
                    if passed[1::2][:2] != [8, 8]:
                        raise Unsupported
                    return Form("print", immediates=passed)
                if target.name in _STOPPING_FUNCTIONS:
                    passed = [n for o in arguments for n in self.passed(f, o)]
                    return Form("trap", immediates=passed if passed[1:2] == [8] else ())
                if target.name in _HEAP_FUNCTIONS:
                    passed = [n for o in (*arguments, *results) for n in self.passed(f, o)]
                    if len(passed) != (4 if target.name == "malloc" else 2) or passed[1::2].count(8) * 2 != len(passed):
                        raise Unsupported
                    return Form(f"heap.{target.name}", immediates=passed)
                if target.name.startswith(_DEVICE_RUNTIME):
                    raise Unsupported(f"kernel launches from device code ({target.name})")
                raise Unsupported
            callee_frame = self.frame(target.name)
            callee = callee_frame.index
        else:
            self.calls_addresses = True
            sources.append(SourceOperand(target))
        immediates: list[int | str] = [callee]
        for group in (results, arguments):
            immediates.append(len(group))
            for o in group:
                immediates += self.passed(f, o)
        return Form("call", 0, (), sources, immediates)

    def passed(self, f: _Frame, operand: Operand) -> tuple[int, int]:
        """Return the slot and the size in bytes of a result or an argument of a call."""
        if isinstance(operand, Register):
            return self.register(f, operand.name)
        if isinstance(operand, Symbol) and operand.name in f.slots:
            return f.slots[operand.name], f.widths[operand.name]
        raise Unsupported

    # Text ---------------------------------------------------------------------------------------------------------

    def assembled(self) -> list[str]:
        """Return one line per instruction of the code, with labels replaced by positions."""
        lines = []
        for form, site, guard, negated, f, to, sources in self.code:
            numbers = [str(self.labels[f.index, n] if isinstance(n, str) else n) for n in form.immediates]
            lines.append(
                f"i {form.key} {form.reduced} {form.flags} {site} {guard} {negated} "
                f"{len(to)} {' '.join(to)} {len(sources)} {' '.join(sources)} {len(numbers)} {' '.join(numbers)}"
            )
        return lines

    def function_line(self, f: _Frame) -> str:
        """Return the bytecode line that describes a function: its position, frame, results and parameters."""

        def spans(names: list[str], registers: bool) -> str:
            return " ".join([str(len(names)), *(f"{f.slots[n]} {f.widths[n]} {int(registers)}" for n in names)])

        function = f.function
        if function.is_kernel:
            return f"function {self.numbers[function.name]} {f.entry} {f.local_bytes} 0 0 {_saved_slots(f)}"
        for p in (*function.results, *function.parameters):
            if p.space == "reg":
                self.register(f, p.name)
        results, parameters = [r.name for r in function.results], [p.name for p in function.parameters]
        head = f"function {self.numbers[function.name]} {f.entry} {f.local_bytes}"
        return f"{head} {spans(results, False)} {spans(parameters, False)} {_saved_slots(f)}"

    def with_addresses(self) -> list[str]:
        """Return the functions whose addresses are in initial values of variables or in code of the module.

        All of them must be callable: a pointer to such a function, or to a table of virtual functions, may come from
        another launch.
        """
        values = [value for v in self.module.variables for value in v.initial]
        for f in self.module.functions.values():
            values += [operand for i in f.body if i.opcode.startswith("mov") for operand in i.operands]
        names = dict.fromkeys(value.name for value in values if isinstance(value, Symbol))
        return [n for n in names if n in self.module.functions and self.module.functions[n].is_defined]

    def variable_lines(self) -> list[str]:
        """Return the bytecode lines that describe global and constant variables."""
        lines, relocations = [], []
        names = list(self.globals)
        k = 0
        while k < len(names):
            v = self.variables[names[k]]
            data = bytearray()
            for n, value in enumerate(v.initial):
                if isinstance(value, Symbol):
                    relocations.append(self.relocation(k, n * v.element_bytes, value))
                    data += bytes(v.element_bytes)
                elif isinstance(value, Number):
                    bits = _f32_of_f64(value.bits) if value.kind == "d" and v.element_bytes == 4 else value.bits
                    data += (bits & (1 << 8 * v.element_bytes) - 1).to_bytes(v.element_bytes, "little")
            constant = int(v.space == "const")
            shown = v.name.split("#")[0]
            lines.append(f"variable {shown} {constant} {v.bytes} {v.element_bytes} {data.hex() or '-'}")
            names = list(self.globals)  # relocations may have added variables
            k += 1
        return lines + relocations

    def relocation(self, variable: int, offset: int, symbol: Symbol) -> str:
        """Return the bytecode line that describes an address in a variable's initial value."""
        target = self.variables.get(symbol.name)
        if target is not None and target.space == "shared":
            return f"relocation {variable} {offset} s {self.shared_offset(target)} {symbol.offset}"
        if target is not None:
            return f"relocation {variable} {offset} v {self.global_index(symbol.name)} {symbol.offset}"
        self.frame(symbol.name)
        return f"relocation {variable} {offset} f {self.numbers[symbol.name]} {symbol.offset}"


def _saved_slots(f: _Frame) -> str:
    """Return all registers and parameters of a function: slot, width, and whether it is a register."""
    own = [f"{slot} {f.widths[n]} {int(n in f.function.registers)}" for n, slot in f.slots.items()]
    return " ".join([str(len(own)), *own])


def _architecture(target: str) -> int:
    """Return the compute capability of an architecture, such as 90 for sm_90a; 0 if ``target`` has none."""
    match = re.match(r"sm_(\d+)", target)
    return int(match[1]) if match else 0


def _f32_of_f64(bits: int) -> int:
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    return int.from_bytes(struct.pack("<f", value), "little")

"""Translation of expressions in kernel files to expressions that only depend on sizes, for manifests and for C++.

Parameters are replaced by values, and attributes by expressions.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from autosched.user_kernels.arithmetic import FUNCTIONS
from autosched.user_kernels.expressions import Expression, ExpressionError, Result, parse

_OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.FloorDiv: "floor_div", ast.Mod: "mod"}
_BITWISE = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_MOST_CHARACTERS = 4000  # maximum length in characters, once nested attributes are replaced by their definitions


class PythonOnlyExpression(ValueError):
    """Raised for an expression that only Python can evaluate. The message is one line."""


def over_sizes(
    expression: Expression, sizes: Collection[str], known: Mapping[str, Result], derived: Mapping[str, Expression]
) -> str:
    """Return ``expression`` as a text that depends on ``sizes`` only.

    Args:
        expression: Expression of a kernel file, such as a dimension of the grid or an array's shape.
        sizes: Names of the problem's sizes, which remain in the result.
        known: Values that replace other names, such as parameters of the schedule.
        derived: Expressions that replace names of attributes.

    Returns:
        An expression of integers with the operators of Python and C++.

    Raises:
        PythonOnlyExpression: The expression is a Python function, or the resulting text is too long.
    """
    tree = _Folded(frozenset(sizes), known, derived).visit(_tree(expression))
    text = ast.unparse(_simplified(tree, frozenset(sizes)))
    if len(text) > _MOST_CHARACTERS:
        raise PythonOnlyExpression(f'"{expression.text}" has more than {_MOST_CHARACTERS} characters')
    return text


def to_cpp(text: str, sizes: Mapping[str, str]) -> str:
    """Translate a result of ``over_sizes`` to C++.

    ``sizes`` maps names of sizes to C++ expressions. The C++ code sets a variable ``ok`` to false if the expression is
    undefined. Raises PythonOnlyExpression.
    """
    return _Cpp(sizes).of(ast.parse(text, mode="eval").body)[0]


def _tree(expression: Expression) -> ast.expr:
    if expression.is_function:
        raise PythonOnlyExpression(f"{expression.text} is a Python function")
    return ast.parse(" ".join(expression.text.splitlines()).strip(), mode="eval").body


class _Folded(ast.NodeTransformer):
    def __init__(
        self, sizes: frozenset[str], known: Mapping[str, Result], derived: Mapping[str, Expression], depth: int = 0
    ) -> None:
        self.sizes, self.known, self.derived, self.depth = sizes, known, derived, depth

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Reject functions of Python's module ``math`` that manifests do not support."""
        match node.func:
            case ast.Attribute(value=ast.Name(id="math"), attr=name):
                if name not in FUNCTIONS:
                    raise PythonOnlyExpression(f"manifests do not support math.{name}")
                node = ast.Call(ast.Name(name), node.args, [])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name in self.sizes or name in FUNCTIONS:
            return node
        if name in self.known:
            return ast.copy_location(ast.parse(repr(self.known[name]), mode="eval").body, node)
        if name not in self.derived or self.depth > len(self.derived):
            raise PythonOnlyExpression(f"{name} is not known before the launch")
        inner = _Folded(self.sizes, self.known, self.derived, self.depth + 1)
        expression: ast.expr = inner.visit(_tree(self.derived[name]))
        return expression


def _simplified(node: ast.expr, sizes: frozenset[str]) -> ast.expr:
    """Simplify ``node``: evaluate constants, and remove conditions that are always true."""
    lists = isinstance(node, (ast.Tuple, ast.List))
    if not lists and not any(isinstance(n, ast.Name) and n.id in sizes for n in ast.walk(node)):
        try:
            value = parse(ast.unparse(node), {}).value({})
        except ExpressionError as error:
            raise PythonOnlyExpression(str(error)) from error
        return ast.parse(repr(value), mode="eval").body
    for name, field in ast.iter_fields(node):
        if isinstance(field, ast.expr) and not (isinstance(node, ast.Call) and name == "func"):
            setattr(node, name, _simplified(field, sizes))
        elif isinstance(field, list) and all(isinstance(part, ast.expr) for part in field):
            setattr(node, name, [_simplified(part, sizes) for part in field])
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        open_ = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value is True)]
        return open_[0] if len(open_) == 1 else ast.BoolOp(node.op, open_)
    return node


class _Cpp:
    """Translates syntax nodes to C++ code with its type ("int", "float", "bool")."""

    def __init__(self, sizes: Mapping[str, str]) -> None:
        self.sizes = sizes

    def of(self, node: ast.expr) -> tuple[str, str]:
        match node:
            case ast.Constant(value=bool() as value):
                return ("true" if value else "false"), "bool"
            case ast.Constant(value=int() as value):
                return f"Int{{{value}}}", "int"
            case ast.Constant(value=float() as value):
                return value.hex(), "float"
            case ast.Name(id=name) if name in self.sizes:
                return self.sizes[name], "int"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!{self.truth(operand)}", "bool"
            case ast.UnaryOp(op=(ast.USub() | ast.UAdd()) as op, operand=operand):
                text, kind = self.number(operand)
                return (f"(-{text})" if isinstance(op, ast.USub) else text), kind
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return f"(~{self.number(operand)[0]})", "int"
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return f"divide({self.wide(left)}, {self.wide(right)}, ok)", "float"
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(left, op, right)
            case ast.BoolOp(op=op, values=values):
                if any(self.of(v)[1] != "bool" for v in values):
                    raise PythonOnlyExpression("'and' or 'or' with a numeric result")
                return f"({(' && ' if isinstance(op, ast.And) else ' || ').join(map(self.truth, values))})", "bool"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                (a, first), (b, second) = self.of(body), self.of(orelse)
                if first != second:
                    (a, first), (b, _) = (self.number(body), self.number(orelse))
                    if "float" in (first, second):
                        a, b, first = self.wide(body), self.wide(orelse), "float"
                return f"({self.truth(test)} ? {a} : {b})", first
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self.compared(left, ops, rights), "bool"
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self.call(name, arguments)
        raise PythonOnlyExpression(f"{ast.unparse(node)} cannot be expressed in C++")

    def arithmetic(self, left: ast.expr, op: ast.operator, right: ast.expr) -> tuple[str, str]:
        (a, first), (b, second) = self.number(left), self.number(right)
        if "float" in (first, second):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}.get(type(op))
            if sign is None:
                raise PythonOnlyExpression("of operations on floats, only +, -, * and / are supported in C++")
            return f"({self.wide(left)} {sign} {self.wide(right)})", "float"
        if isinstance(op, ast.Pow):
            return f"power({a}, {b}, ok)", "int"
        if type(op) in _BITWISE:
            return f"({a} {_BITWISE[type(op)]} {b})", "int"
        if isinstance(op, ast.LShift | ast.RShift):
            by = "multiply" if isinstance(op, ast.LShift) else "floor_div"
            return f"{by}({a}, power(Int{{2}}, {b}, ok), ok)", "int"
        return f"{_OPERATORS[type(op)]}({a}, {b}, ok)", "int"

    def compared(self, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> str:
        if isinstance(ops[0], (ast.In, ast.NotIn)):
            among = rights[0]
            assert isinstance(among, (ast.Tuple, ast.List))
            alternatives = " || ".join(self.compared(left, [ast.Eq()], [e]) for e in among.elts)
            return f"{'!' if isinstance(ops[0], ast.NotIn) else ''}({alternatives})"
        parts = [left, *rights]
        links = [
            f"{self.number(a)[0]} {_COMPARISONS[type(op)]} {self.number(b)[0]}"
            for op, a, b in zip(ops, parts, parts[1:], strict=False)
        ]
        return f"({' && '.join(links)})"

    def call(self, name: str, arguments: list[ast.expr]) -> tuple[str, str]:
        kinds = [self.number(a)[1] for a in arguments]
        wide = "float" if "float" in kinds else "int"
        texts = [self.wide(a) if wide == "float" else self.number(a)[0] for a in arguments]
        match name:
            case "min" | "max":
                text = texts[0]
                for other in texts[1:]:
                    text = f"{'least' if name == 'min' else 'most'}({text}, {other})"
                return text, wide
            case "abs":
                return f"magnitude({texts[0]})", wide
            case "ceil_div" | "round_up" if wide == "int":
                return f"{name}({texts[0]}, {texts[1]}, ok)", "int"
            case "gcd" | "is_power_of_two" if wide == "int":
                return f"{name}({', '.join(texts)})", "bool" if name != "gcd" else "int"
            case "int" | "floor" | "ceil" | "round":
                if wide == "int":
                    return texts[0], "int"
                rounded = {"int": "trunc", "floor": "floor", "ceil": "ceil", "round": "nearbyint"}[name]
                return f"static_cast<Int>(std::{rounded}({texts[0]}))", "int"
            case "float":
                return self.wide(arguments[0]), "float"
            case "sqrt" | "log2":
                return f"{'root' if name == 'sqrt' else 'logarithm'}({self.wide(arguments[0])}, ok)", "float"
        raise PythonOnlyExpression(f"{name} of floats cannot be expressed in C++")

    def number(self, node: ast.expr) -> tuple[str, str]:
        text, kind = self.of(node)
        return (f"static_cast<Int>({text})", "int") if kind == "bool" else (text, kind)

    def wide(self, node: ast.expr) -> str:
        text, kind = self.of(node)
        return text if kind == "float" else f"static_cast<double>({text})"

    def truth(self, node: ast.expr) -> str:
        text, kind = self.of(node)
        return text if kind == "bool" else f"({text} != 0)"

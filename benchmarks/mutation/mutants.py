"""The small faults that can be put into a file: a comparison, an operator, a constant, a condition, min for max.

Left out is what computes nothing: annotations, docstrings, decorators, f-strings and what is raised (messages both),
blocks under `TYPE_CHECKING`, and ``strict`` of `zip`, which only guards.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("any", "all"),
    ("floor", "ceil"),
    ("argmin", "argmax"),
    ("left", "right"),
)
NAMES = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the file below the root, its line, the expression there, what replaces it, and the faulty file.

    ``nth``: how many expressions of the line that are the same, and changed the same, come before it.
    ``at_import``: the line runs when the module is imported, not when a function is called.
    """

    file: str
    line: int
    at_import: bool
    text: str
    before: str
    after: str
    nth: int
    source: str


def faults(root: Path, file: Path) -> Iterator[Fault]:
    """Every fault this script knows how to make in ``file``, in a fixed order."""
    code = file.read_bytes()
    tree = ast.parse(code)
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    ignored = set(_ignored(tree))
    bodies = {
        inner for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda) for inner in _body(node)
    }
    seen: Counter[tuple[int, str, str]] = Counter()
    for node in ast.walk(tree):
        if node in ignored or not isinstance(node, ast.expr):
            continue
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        for changed in _changes(node):
            after = ast.unparse(changed)
            fresh = after if isinstance(node, ast.Constant | ast.Name | ast.Attribute) else f"({after})"
            source = code[:first] + fresh.encode() + code[last:]
            text = code[starts[node.lineno - 1] : starts[node.lineno]].decode().strip()
            where = str(file.relative_to(root))
            before = ast.unparse(node)
            nth = seen[node.lineno, before, after]
            seen[node.lineno, before, after] += 1
            yield Fault(where, node.lineno, node not in bodies, text, before, after, nth, source.decode())


def _body(node: ast.FunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    for part in node.body if isinstance(node.body, list) else [node.body]:
        yield from ast.walk(part)


def _ignored(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for part in _computes_nothing(node):
            yield from ast.walk(part)


def _computes_nothing(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.FunctionDef():
            annotations = [node.returns, *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg))]
            return [*node.decorator_list, *(part for part in annotations if part is not None)]
        case ast.ClassDef():
            return list(node.decorator_list)
        case ast.AnnAssign():
            return [node.annotation]
        case ast.Raise() | ast.JoinedStr() | ast.Expr(value=ast.Constant()) | ast.If(test=ast.Name("TYPE_CHECKING")):
            return [node]
        case ast.Call(func=ast.Name("zip")):
            return list(node.keywords)
    return []


def _changes(node: ast.expr) -> Iterator[ast.AST]:
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in COMPARISONS:
        changed.ops[0] = COMPARISONS[type(changed.ops[0])]()
        yield changed
    elif isinstance(changed, ast.BinOp) and type(changed.op) in OPERATORS:
        changed.op = OPERATORS[type(changed.op)]()
        yield changed
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not | ast.USub | ast.Invert):
        yield changed.operand
    elif isinstance(changed, ast.IfExp):
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
        yield changed
    elif isinstance(changed, ast.Name) and isinstance(changed.ctx, ast.Load) and changed.id in NAMES:
        changed.id = NAMES[changed.id]
        yield changed
    elif isinstance(changed, ast.Attribute) and changed.attr in NAMES:
        changed.attr = NAMES[changed.attr]
        yield changed
    elif isinstance(changed, ast.Constant):
        yield from _constants(changed)


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2 if value else 1.0)
    elif isinstance(value, str) and value in NAMES:
        yield ast.Constant(NAMES[value])

"""The small faults that can be put into a file: a comparison, an operator, a constant, a condition, min for max.

Conditions of templates are turned round too, and what an f-string computes counts as code. Left out is what computes
nothing: annotations, docstrings, decorators, what is raised (messages), blocks under `TYPE_CHECKING`, and ``strict`` of
`zip`, which only guards.
"""

from __future__ import annotations

import ast
import copy
import re
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


TEMPLATE_CONDITION = re.compile(r"{%-?\s*(?:el)?if\s+(.*?)\s*-?%}|\bif\s+(.*?)(?:\s+else\b|\s*-?[%}]})")


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
    relative_path, text = str(file.relative_to(root)), file.read_text(encoding="utf-8")
    yield from _template_faults(relative_path, text) if file.suffix == ".j2" else _python_faults(relative_path, text)


def _template_faults(file: str, text: str) -> Iterator[Fault]:
    occurrences: Counter[tuple[int, str]] = Counter()
    for match in TEMPLATE_CONDITION.finditer(text):
        group = 1 if match[1] is not None else 2
        before, line = match[group], text.count("\n", 0, match.start(group)) + 1
        source = f"{text[: match.start(group)]}not ({before}){text[match.end(group) :]}"
        line_text, nth = text.splitlines()[line - 1].strip(), occurrences[line, before]
        occurrences[line, before] += 1
        yield Fault(file, line, True, line_text, before, f"not ({before})", nth, source)


def _python_faults(file: str, text: str) -> Iterator[Fault]:
    code = text.encode()
    tree = ast.parse(code)
    starts = [0]
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    ignored = set(_ignored(tree))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    bodies = {inner for function in functions for inner in _body(function)}
    conditions = set(_conditions(tree))
    # What stands inside an f-string has no reliable place in the file: the whole string is written anew.
    inside = {
        inner: expression
        for expression in ast.walk(tree)
        if isinstance(expression, ast.JoinedStr)
        for inner in ast.walk(expression)
        if inner is not expression
    }
    occurrences: Counter[tuple[int, str, str]] = Counter()
    for node in ast.walk(tree):
        if node in ignored or not isinstance(node, ast.expr):
            continue
        place = _outermost(node, inside)
        start = starts[place.lineno - 1] + place.col_offset
        stop = starts[(place.end_lineno or place.lineno) - 1] + (place.end_col_offset or 0)
        for changed in _changes(node, node in conditions):
            try:
                expression = ast.unparse(changed if place is node else _replaced(place, node, changed))
            except ValueError:  # an f-string that cannot be written in one piece
                continue
            before, after = ast.unparse(node), ast.unparse(changed)
            bare = isinstance(place, ast.Constant | ast.Name | ast.Attribute)
            source = code[:start] + (expression if bare else f"({expression})").encode() + code[stop:]
            line_text = code[starts[place.lineno - 1] : starts[place.lineno]].decode().strip()
            nth = occurrences[place.lineno, before, after]
            occurrences[place.lineno, before, after] += 1
            yield Fault(file, place.lineno, node not in bodies, line_text, before, after, nth, source.decode())


def _outermost(node: ast.expr, inside: dict[ast.AST, ast.JoinedStr]) -> ast.expr:
    while node in inside:
        node = inside[node]
    return node


def _replaced(expression: ast.expr, node: ast.expr, changed: ast.AST) -> ast.expr:
    """A copy of ``whole`` with ``changed`` in the place of ``node``."""
    return copy.deepcopy(expression, {id(node): changed})


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    """What decides a statement or whether an item is taken, where no operator of it can be changed."""
    for node in ast.walk(tree):
        match node:
            case ast.If():
                yield node.test
            case ast.comprehension():
                yield from node.ifs


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    for part in node.body if isinstance(node.body, list) else [node.body]:
        yield from ast.walk(part)


def _ignored(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for part in _computes_nothing(node):
            yield from ast.walk(part)


def _computes_nothing(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            annotations = [node.returns, *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg))]
            return [*node.decorator_list, *(part for part in annotations if part is not None)]
        case ast.ClassDef():
            return list(node.decorator_list)
        case ast.AnnAssign():
            return [node.annotation]
        case ast.Raise() | ast.Expr(value=ast.Constant()) | ast.If(test=ast.Name("TYPE_CHECKING")):
            return [node]
        case ast.Call(func=ast.Name("zip")):
            return list(node.keywords)
    return []


def _changes(node: ast.expr, is_condition: bool) -> Iterator[ast.AST]:
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
    elif is_condition and not isinstance(changed, ast.UnaryOp | ast.Constant):
        yield ast.UnaryOp(ast.Not(), changed)
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

"""The mutants of a module: one small change each to the syntax tree of a function."""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType

Function = ast.FunctionDef
OPERATORS = ("linear", "dual", "denoiser", "iterative", "rows", "maps", "cost")
MODULES = ("terms", "noise", "moments/stats", "problem", "solve")
MODULES += tuple(f"operators/{name}" for name in OPERATORS)
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALLS = {"max": "min", "min": "max", "any": "all", "all": "any"}
CALLS |= {"maximum": "minimum", "minimum": "maximum", "zeros": "ones", "ones": "zeros"}
CALLS |= {"vstack": "hstack", "hstack": "vstack"}

#: Keywords that say how a library does its work, not what comes out.
HOW = {"check_finite", "copy", "order", "overwrite_a", "overwrite_c", "driver", "dtype", "strict"}
#: (module, function or "*", kinds of change, why they are not made).
EXCLUDED: tuple[tuple[str, str, frozenset[str] | None, str], ...] = (
    (
        "operators/cost.py",
        "_primal _dual _iterative",
        frozenset({"arithmetic", "constant", "call"}),
        "the cost model's counts and factors: they choose a route, and every route gives the "
        "same answer",
    ),
    (
        "operators/denoiser.py operators/dual.py",
        "Denoiser._factor_pays DualDenoiser._factor_pays",
        None,
        "the same, within a route: whether a preconditioner is factorised",
    ),
    (
        "operators/rows.py operators/maps.py",
        "Rows._chunks Rows._blocks DenoisingMap._batches",
        frozenset({"arithmetic", "constant", "call", "comparison", "condition"}),
        "block sizes: they bound memory; sums of blocks are the same",
    ),
)


@dataclass(frozen=True)
class Mutant:
    """One change: `field` (and `index` in it) of `parent` becomes `new`."""

    module: str
    function: str
    kind: str
    lines: tuple[int, int]  # of the statement or condition: tests that run none of them see nothing
    before: str
    after: str
    count: int  # which of the changes that read alike in this function
    code: str  # digest of the function's source
    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST

    @property
    def key(self) -> str:
        """A name that changes elsewhere in the file do not touch."""
        number = f" #{self.count + 1}" if self.count else ""
        return f"{self.module}:{self.function}: {self.before} → {self.after}{number}"

    def apply(self) -> None:
        """Change the tree. There is no way back: do it in a process that ends afterwards."""
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new


class Source:
    """A module: its tree, its functions, and its mutants."""

    def __init__(self, root: Path, module: str):
        self.module, self.path = module, root / "src" / "marda" / module
        self.text = self.path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.import_name = "marda." + module.removesuffix(".py").replace("/", ".")

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Functions of the module and methods of its classes, by name."""
        for node in self.tree.body:
            if isinstance(node, Function):
                yield node.name, node
            elif isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, Function):
                        yield f"{node.name}.{method.name}", method

    def codes(self) -> Iterator[CodeType]:
        """Code of all functions, with the functions inside them."""
        module = importlib.import_module(self.import_name)
        for name, _ in self.functions():
            owner: object = module
            *classes, last = name.split(".")
            for part in classes:
                owner = getattr(owner, part)
            waiting = [_plain(vars(owner)[last]).__code__]
            while waiting:
                code = waiting.pop()
                yield code
                waiting += [c for c in code.co_consts if isinstance(c, CodeType)]

    @cached_property
    def mutants(self) -> list[Mutant]:
        """All of them, in the order of the file."""
        found = []
        for name, function in self.functions():
            seen: Counter[tuple[str, str]] = Counter()
            text = ast.get_source_segment(self.text, function) or ""
            code = hashlib.sha256(text.encode()).hexdigest()[:12]
            for change in _Changes(function).found:
                if _excluded(self.module, name, change.kind):
                    continue
                before, after = _short(change.old), _short(change.new)
                found.append(
                    Mutant(
                        self.module,
                        name,
                        change.kind,
                        change.lines,
                        before,
                        after,
                        seen[before, after],
                        code,
                        change.parent,
                        change.field,
                        change.index,
                        change.new,
                    )
                )
                seen[before, after] += 1
        return found

    def install(self, mutant: Mutant) -> None:
        """Change the code of the live function: everybody who imported it has the mutant."""
        mutant.apply()
        ast.fix_missing_locations(self.tree)
        code: CodeType = compile(self.tree, str(self.path), "exec")
        owner = importlib.import_module(self.import_name)
        *classes, name = mutant.function.split(".")
        for part in classes:
            code, owner = _inner(code, part), getattr(owner, part)
        live = _plain(vars(owner)[name])
        live.__code__ = _inner(code, name)
        arguments = dict(self.functions())[mutant.function].args
        if mutant.parent is arguments and mutant.field == "defaults":
            assert live.__defaults__ is not None
            assert mutant.index is not None
            values = list(live.__defaults__)
            values[mutant.index] = ast.literal_eval(mutant.new)
            live.__defaults__ = tuple(values)
        elif mutant.parent is arguments:
            assert live.__kwdefaults__ is not None
            assert mutant.index is not None
            changed = arguments.kwonlyargs[mutant.index].arg
            live.__kwdefaults__[changed] = ast.literal_eval(mutant.new)


def _inner(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _plain(member: object) -> FunctionType:
    """The function behind a property, a cached property, a static or a class method."""
    for name in ("fget", "func", "__func__"):
        member = getattr(member, name, None) or member
    assert isinstance(member, FunctionType)
    return member


def _excluded(module: str, function: str, kind: str) -> bool:
    return any(
        module in modules.split()
        and function in functions.split()
        and (kinds is None or kind in kinds)
        for modules, functions, kinds, _ in EXCLUDED
    )


class _WithoutText(ast.NodeTransformer):
    """Versions of Python write f-strings differently."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("…")


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(_WithoutText().visit(copy.deepcopy(node))).split())
    if isinstance(node, ast.If) and isinstance(node.test, ast.Constant):
        return "(nothing)"
    return text if len(text) <= 90 else text[:60] + " … " + text[-25:]


@dataclass(frozen=True)
class _Change:
    kind: str
    lines: tuple[int, int]
    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST


class _Changes:
    """Walks a function and gathers what may be changed in it."""

    def __init__(self, function: Function):
        self.found: list[_Change] = []
        self.lines = (function.lineno, function.end_lineno or function.lineno)
        self.assigned = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        for field in ("defaults", "kw_defaults"):
            for index, value in enumerate(getattr(function.args, field)):
                if isinstance(value, ast.Constant):
                    self._constant(value, (function.args, field, index))
        self._body(function.body, function, "body")

    def _add(self, kind: str, place: tuple, old: ast.AST, new: ast.AST) -> None:
        new = ast.copy_location(new, old)
        self.found.append(_Change(kind, self.lines, *place, old, new))

    def _body(self, body: list[ast.stmt], parent: ast.AST, field: str) -> None:
        for index, statement in enumerate(body):
            self._statement(statement, (parent, field, index))

    def _statement(self, node: ast.stmt, place: tuple) -> None:
        last = node.end_lineno or node.lineno
        self.lines = (node.lineno, last)
        if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.Pass | ast.ClassDef):
            return None  # asserts are for the type checker
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return None  # a docstring, or "..."
        if isinstance(node, Function):
            return self._body(node.body, node, "body")
        if isinstance(node, ast.If | ast.While):
            self.lines = (node.lineno, node.test.end_lineno or node.lineno)
            self._condition(node.test, (node, "test", None), loop=isinstance(node, ast.While))
            self._body(node.body, node, "body")
            return self._body(node.orelse, node, "orelse")
        if isinstance(node, ast.For):
            self.lines = (node.lineno, node.iter.end_lineno or node.lineno)
            self._expression(node.iter, (node, "iter", None))
            return self._body(node.body, node, "body")
        if isinstance(node, ast.With):
            return self._body(node.body, node, "body")
        if isinstance(node, ast.Try):
            self._body(node.body, node, "body")
            for handler in node.handlers:
                self._body(handler.body, handler, "body")
            return None
        if self._removable(node):
            gone = ast.If(ast.Constant(False), [copy.copy(node)], [])
            self._add("removal", place, node, gone)
        if isinstance(node, ast.Raise):
            return None  # the text of messages
        if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
            new = copy.copy(node)
            new.op = ARITHMETIC[type(node.op)]()
            self._add("arithmetic", place, node, new)
        for field, index, child in _children(node):
            if not (isinstance(node, ast.AnnAssign) and field == "annotation"):
                self._expression(child, (node, field, index))
        return None

    def _removable(self, node: ast.stmt) -> bool:
        """Not the first assignment of a name: every test would stop at its absence."""
        if isinstance(node, ast.Assign):
            names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            plain = any(isinstance(t, ast.Name | ast.Tuple) for t in node.targets)
            known = all(name in self.assigned for name in names)
            self.assigned |= set(names)
            return known or not plain
        return isinstance(
            node,
            ast.Expr
            | ast.AugAssign
            | ast.Return
            | ast.Raise
            | ast.Break
            | ast.Continue
            | ast.Delete,
        )

    def _condition(self, test: ast.expr, place: tuple, loop: bool = False) -> None:
        for value in (False,) if loop else (True, False):
            new = ast.BoolOp(
                ast.Or() if value else ast.And(), [copy.copy(test), ast.Constant(value)]
            )
            self._add("condition", place, test, new)
        self._expression(test, place)

    def _constant(self, node: ast.Constant, place: tuple, compared: bool = False) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("constant", place, node, ast.Constant(not value))
        elif isinstance(value, int | float):
            self._add("constant", place, node, ast.Constant(value + 1))
        elif isinstance(value, str) and compared:
            self._add("constant", place, node, ast.Constant(value[:-1] + "?"))

    def _expression(self, node: ast.AST, place: tuple, compared: bool = False) -> None:
        if isinstance(node, ast.JoinedStr):
            return None  # the text of messages
        if isinstance(node, ast.Constant):
            return self._constant(node, place, compared)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            new = copy.copy(node)
            new.op = ARITHMETIC[type(node.op)]()
            self._add("arithmetic", place, node, new)
        elif isinstance(node, ast.UnaryOp):
            self._add("unary", place, node, copy.copy(node.operand))
            if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
                return None  # −1 → 1 is enough
        elif isinstance(node, ast.BoolOp):
            new = copy.copy(node)
            new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            self._add("boolean", place, node, new)
        elif isinstance(node, ast.Compare):
            for other in COMPARISONS[type(node.ops[0])]:
                new = copy.copy(node)
                new.ops = [other(), *node.ops[1:]]
                self._add("comparison", place, node, new)
        elif isinstance(node, ast.IfExp):
            self._condition(node.test, (node, "test", None))
            self._expression(node.body, (node, "body", None))
            return self._expression(node.orelse, (node, "orelse", None))
        elif isinstance(node, ast.Call):
            self._call(node, place)
        for field, index, child in _children(node):
            if isinstance(child, ast.keyword):
                if child.arg not in HOW:
                    self._expression(child.value, (child, "value", None))
            else:
                self._expression(child, (node, field, index), isinstance(node, ast.Compare))
        return None

    def _call(self, node: ast.Call, place: tuple) -> None:
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        empty = any(isinstance(n, ast.Constant) and n.value == 0 for n in ast.walk(node))
        if name in CALLS and not (empty and name in ("zeros", "ones")):
            new = copy.deepcopy(node)
            if isinstance(new.func, ast.Attribute):
                new.func.attr = CALLS[name]
            elif isinstance(new.func, ast.Name):
                new.func.id = CALLS[name]
            self._add("call", place, node, new)
        elif name in ("sqrt", "diag", "abs") and len(node.args) == 1:
            self._add("call", place, node, copy.copy(node.args[0]))


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and not isinstance(value, ast.operator | ast.expr_context):
            yield field, None, value
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield field, index, item

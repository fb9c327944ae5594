"""Text to expression, through a whitelist.

Grammar, loosest first::

    rule     = sum [(">=" | "<=") sum] ["in" ("each" "segment" | "segment" key)]
    sum      = product (("+" | "-") product)*
    product  = unary (("*" | "/") unary)*
    unary    = ("-" | "+") unary | power
    power    = atom ["**" unary]
    atom     = number | name ["[" column "]"] | name "(" arguments ")" | "(" sum ")"
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from imbfit.expressions import Count, Expr, Gap, Number, Rule, as_expr
from imbfit.named import NAMED, SYMBOLS, cost, fbeta, sqrt
from imbfit.scopes import capacity, each_segment, in_segment, max_gap

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[^\W\d]\w*)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<op>\*\*|>=|<=|==|!=|[-+*/()\[\],=<>])
    )""",
    re.VERBOSE | re.DOTALL,
)
# The words that are written with arguments.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sqrt": sqrt,
    "fbeta": fbeta,
    "cost": cost,
    "max_gap": max_gap,
    "each_segment": each_segment,
    "in_segment": in_segment,
    "capacity": capacity,
}
_DEEPEST = 100
_SHOWN = 70


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


def read(text: str) -> Any:
    """Read a metric or a constraint; see :func:`imbfit.metrics.parse`."""
    if not isinstance(text, str):
        raise TypeError(f"parse takes text, not {type(text).__name__}")
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = list(self._split())
        self.at = 0
        self.depth = 0

    def _split(self) -> Iterator[_Token]:
        position = 0
        while position < len(self.text.rstrip()):
            match = _TOKEN.match(self.text, position)
            if match is None or match.lastgroup is None:
                start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                self.fail(start, f"{self.text[start]!r} can't be read")
            yield _Token(
                match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)
            )
            position = match.end()
        yield _Token("end", "", len(self.text.rstrip()))

    def fail(self, start: int, why: str) -> NoReturn:
        # a long text is shown around the place, on one line, so that the caret stands under it
        first = max(0, start - _SHOWN)
        shown = re.sub(r"\s", " ", self.text[first : start + _SHOWN])
        raise ValueError(
            f"{why}, at character {start + 1}:\n  {shown}\n  {' ' * (start - first)}^"
        ) from None

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.next
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.next.text == text and self.next.kind in ("op", "name"):
            self.at += 1
            return True
        return False

    def expect(self, text: str, why: str) -> None:
        if not self.accept(text):
            came = repr(self.next.text) if self.next.text else "the end"
            self.fail(self.next.start, f"{why}: {text!r} was expected and {came} came")

    def guarded(self, start: int, build: Any) -> Any:
        """Build a node; an error of the language gets the place it comes from."""
        try:
            return build()
        except (TypeError, ValueError) as error:
            self.fail(start, str(error))

    def whole(self) -> Any:
        if self.next.kind == "end":
            self.fail(0, "there is no text to read; write a metric such as f1")
        result = self.rule()
        token = self.next
        if token.kind != "end":
            if token.text in (">=", "<=", "<", ">"):
                self.fail(
                    token.start, "a chain of comparisons is two constraints; write them apart"
                )
            if token.text in ("and", "or"):
                self.fail(
                    token.start, "constraints are not joined; give them one by one, in a list"
                )
            self.fail(token.start, f"{token.text!r} is too much here")
        if isinstance(result, Gap):
            self.fail(token.start, "a gap needs its bound; write max_gap(recall) <= 0.05")
        return result

    def rule(self) -> Any:
        result = self.sum()
        token = self.next
        if token.text in ("<", ">", "==", "!=", "=") and token.kind == "op":
            self.fail(token.start, f"{token.text!r} makes no constraint; use >= or <=")
        if token.text in (">=", "<=") and token.kind == "op":
            self.take()
            right = self.sum()
            left = result
            if isinstance(left, Rule) or isinstance(right, Rule):
                self.fail(token.start, "a constraint can't be compared once more")
            result = self.guarded(
                token.start, lambda: left >= right if token.text == ">=" else left <= right
            )
        if self.next.text == "in" and self.next.kind == "name":
            start = self.take().start
            rule = result
            if self.accept("each"):
                self.expect("segment", "in each segment")
                return self.guarded(start, lambda: each_segment(rule))
            self.expect("segment", "in each segment, or in segment NAME")
            key = self.key()
            return self.guarded(start, lambda: in_segment(key, rule))
        return result

    def sum(self) -> Any:
        left = self.product()
        while self.next.text in ("+", "-") and self.next.kind == "op":
            left = self.binary(left, self.product)
        return left

    def product(self) -> Any:
        left = self.unary()
        while self.next.text in ("*", "/") and self.next.kind == "op":
            left = self.binary(left, self.unary)
        return left

    def binary(self, left: Any, operand: Any) -> Any:
        token = self.take()
        right = operand()
        for side in (left, right):
            if not isinstance(side, Expr):
                self.fail(token.start, f"{side} can't be used with {token.text!r}")
        build = {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
            "**": lambda: left**right,
        }
        return self.guarded(token.start, build[token.text])

    def unary(self) -> Any:
        self.deeper()
        try:
            token = self.next
            if token.text in ("-", "+") and token.kind == "op":
                self.take()
                plain = self.next.kind == "number"
                operand = self.unary()
                if not isinstance(operand, Expr):
                    self.fail(token.start, f"{operand} can't have a sign")
                if token.text == "+":
                    return operand
                if plain and isinstance(operand, Number):
                    return as_expr(-operand.value)
                return self.guarded(token.start, lambda: -operand)
            left = self.atom()
            if self.next.text == "**" and self.next.kind == "op":
                left = self.binary(left, self.unary)
            return left
        finally:
            self.depth -= 1

    def atom(self) -> Any:
        token = self.take()
        if token.kind == "number":
            return as_expr(self.number(token))
        if token.text == "(" and token.kind == "op":
            inner = self.sum()
            self.expect(")", "a bracket is open")
            return inner
        if token.kind != "name":
            came = repr(token.text) if token.text else "the end"
            self.fail(token.start, f"a number, a count or a metric was expected and {came} came")
        if self.next.text == "(" and self.next.kind == "op":
            return self.call(token)
        found = SYMBOLS[token.text] if token.text in SYMBOLS else NAMED.get(token.text)
        if found is None:
            self.unknown(token)
        if self.next.text == "[" and self.next.kind == "op":
            bracket = self.take()
            if not isinstance(found, Count):
                self.fail(bracket.start, f"only counts take a column; {token.text} is none")
            column = self.take()
            if column.kind not in ("name", "string"):
                self.fail(column.start, f"{token.text}[...] takes the name of a column")
            self.expect("]", "a column's name is open")
            name = self.unquoted(column) if column.kind == "string" else column.text
            return self.guarded(column.start, lambda: found[name])
        return found

    def unknown(self, token: _Token) -> NoReturn:
        words = [*SYMBOLS, *NAMED, *_FUNCTIONS]
        close = difflib.get_close_matches(token.text.lower(), words, n=1)
        hint = f"; did you mean {close[0]}?" if close else f". Known are {', '.join(words)}"
        if token.text in _FUNCTIONS:
            hint = f"; write it with its arguments, {token.text}(...)"
        self.fail(token.start, f"{token.text!r} is not known{hint}")

    def call(self, token: _Token) -> Any:
        function = _FUNCTIONS.get(token.text)
        if function is None:
            if token.text in SYMBOLS or token.text in NAMED:
                self.fail(token.start, f"{token.text} takes no arguments here")
            self.unknown(token)
        self.take()
        positional: list[Any] = []
        named: dict[str, Any] = {}
        while not self.accept(")"):
            following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
            start = self.next.start
            if self.next.kind == "name" and following.text == "=":
                name = self.take().text
                self.take()
                if name in named:
                    self.fail(start, f"{name}= is given twice")
                word = (token.text, name) in (("capacity", "per"), ("in_segment", "segment"))
                named[name] = self.key() if word else self.argument()
            elif token.text == "in_segment" and not positional:
                positional.append(self.key())
            else:
                positional.append(self.argument())
            if self.next.text != ")":
                self.expect(",", f"the arguments of {token.text} go on")
        return self.guarded(token.start, lambda: function(*positional, **named))

    def argument(self) -> Any:
        if self.next.kind == "string":
            return self.unquoted(self.take())
        result = self.rule()
        return result.value if isinstance(result, Number) else result

    def key(self) -> Any:
        """Read a segment: a word, a string, a number, a truth value, or a tuple of them."""
        token = self.take()
        if token.text == "(" and token.kind == "op":
            return tuple(self.keys())
        if token.kind == "string":
            return self.unquoted(token)
        if token.kind == "name":
            return {"True": True, "False": False, "None": None}.get(token.text, token.text)
        sign = 1
        if token.text == "-" and token.kind == "op":
            sign, token = -1, self.take()
        if token.kind != "number":
            self.fail(token.start, 'a name was expected, such as DE, "North East" or 7')
        if token.text[0] == "0" and token.text[1:].isdigit():
            self.fail(token.start, f'write "{token.text}" in quotes, or drop the leading zero')
        return sign * self.number(token)

    def keys(self) -> Iterator[Any]:
        self.deeper()
        while not self.accept(")"):
            yield self.key()
            if self.next.text != ")":
                self.expect(",", "a segment of several columns goes on")
        self.depth -= 1

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail(self.next.start, f"more than {_DEEPEST} nested brackets or signs")

    def number(self, token: _Token) -> float:
        """Read digits, up to the largest float."""
        value = float(token.text)
        if not math.isfinite(value):
            self.fail(token.start, "this number is too large, above 1e308")
        return int(token.text) if token.text.isdigit() else value

    def unquoted(self, token: _Token) -> str:
        """Read a text in double or single quotes, with the escapes of JSON."""
        swaps = {"\\'": "'", '"': '\\"'}
        inner = re.sub(r'\\.|"', lambda m: swaps.get(m[0], m[0]), token.text[1:-1], flags=re.DOTALL)
        try:
            return str(json.loads(f'"{inner}"', strict=False))
        except ValueError:
            self.fail(
                token.start, 'this text has an escape other than \\\\ \\" \\n \\t \\r \\uXXXX'
            )

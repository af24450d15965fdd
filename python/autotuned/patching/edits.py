# SPDX-License-Identifier: Apache-2.0
"""Places in a Python file, and the least change of its text there.

The syntax tree says where something is; what changes is text, so that the rest of the file stays
as its author wrote it. Offsets are those of bytes, as in the tree.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Callable, Iterator


class NotFound(Exception):
    """The place was not found, or is not unique. The text is a clause for people."""


@dataclasses.dataclass(frozen=True)
class Edit:
    """The bytes from `start` to `end` become `text`."""

    start: int
    end: int
    text: bytes


def last_name(node: ast.expr) -> str:
    """`DataLoader` of both DataLoader and torch.utils.data.DataLoader."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class Source:
    """A file and its tree."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self.content = content
        try:
            content.decode("utf-8")
            self.tree = ast.parse(content)
        except (UnicodeDecodeError, SyntaxError, ValueError) as error:
            raise NotFound(f"{path} cannot be read as Python in UTF-8: {error}") from error
        if content.startswith(b"\xef\xbb\xbf") or b"\r" in content.replace(b"\r\n", b""):
            raise NotFound(f"{path} has marks or ends of lines that are not usual")
        self.newline = b"\r\n" if b"\r\n" in content else b"\n"
        self._starts = [0]
        for line in content.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node

    def start(self, node: ast.stmt | ast.expr | ast.keyword) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.stmt | ast.expr | ast.keyword) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        return self.content[self.start(node) : self.end(node)].decode("utf-8")

    def line_of(self, offset: int) -> int:
        """The line of a node, from 1."""
        return self.content.count(b"\n", 0, offset) + 1

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._parents:
            node = self._parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which this one stands."""
        for name in ("body", "orelse", "finalbody"):
            block = getattr(self._parents[statement], name, [])
            if isinstance(block, list) and statement in block:
                return block
        raise NotFound(f"line {statement.lineno} stands in a construct that is not known")

    def function(self, node: ast.AST) -> ast.AST:
        """The function around it, or the module."""
        for parent in self.parents(node):
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return parent
        return self.tree

    def calls(self, within: ast.AST | None = None) -> list[ast.Call]:
        return [
            node for node in ast.walk(within or self.tree) if isinstance(node, ast.Call)
        ]

    def call_at(self, line: int, what: str, accepts: Callable[[ast.Call], bool]) -> ast.Call:
        """The only call there that is accepted. Python tells the line in which a call begins."""
        found = [call for call in self.calls() if call.lineno == line and accepts(call)]
        if len(found) != 1:
            number = "no call" if not found else "several calls"
            raise NotFound(f"there is {number} of {what} in line {line}")
        return found[0]

    def indent(self, statement: ast.stmt) -> bytes:
        """The indentation of a statement, if nothing else is before it in its line."""
        begin = self._starts[statement.lineno - 1]
        before = self.content[begin : self.start(statement)]
        if before.strip():
            raise NotFound(f"something stands before the statement in line {statement.lineno}")
        return before

    def torch(self) -> str:
        """The name of PyTorch at the top of this file."""
        return self._torch()[1]

    def imports(self, name: str) -> bool:
        """Whether the top of this file has it under its own name."""
        return any(
            alias.name == name and alias.asname is None
            for statement in self.tree.body
            if isinstance(statement, ast.Import)
            for alias in statement.names
        )

    def _torch(self) -> tuple[int, str]:
        for place, statement in enumerate(self.tree.body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    if alias.name == "torch" or (
                        alias.name.startswith("torch.") and alias.asname is None
                    ):
                        return place, alias.asname or "torch"
        raise NotFound(f"{self.path} does not import torch at its top")

    # --- edits

    def before(self, statement: ast.stmt, code: str) -> Edit:
        """A line before the statement."""
        indent = self.indent(statement)
        begin = self.start(statement) - len(indent)
        return Edit(begin, begin, indent + code.encode() + self.newline)

    def behind_imports(self, code: str) -> Edit:
        """A line behind the imports that follow `import torch`."""
        place = self._torch()[0]
        body = self.tree.body
        while place + 1 < len(body) and isinstance(body[place + 1], (ast.Import, ast.ImportFrom)):
            place += 1
        end_line = body[place].end_lineno or body[place].lineno
        if place + 1 < len(body) and body[place + 1].lineno == end_line:
            raise NotFound(f"line {end_line} has several statements")
        begin = self._starts[end_line]
        line = code.encode() + self.newline
        if begin > len(self.content):  # the last line has no end
            return Edit(len(self.content), len(self.content), self.newline + line)
        return Edit(begin, begin, line)

    def with_keywords(self, call: ast.Call, wanted: dict[str, str]) -> list[Edit]:
        """The call with these arguments by name, each as code."""
        given = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
        edits = []
        missing = []
        for name, code in wanted.items():
            if name in given:
                value = given[name].value
                edits.append(Edit(self.start(value), self.end(value), code.encode()))
            else:
                missing.append((name, code))
        if not missing:
            return edits
        spread = [keyword for keyword in call.keywords if keyword.arg is None]
        if len(spread) > 1:
            raise NotFound(f"line {call.lineno} passes several dictionaries")
        if spread:
            # The dictionary may have the argument already.
            value = spread[0].value
            if not isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Dict)):
                raise NotFound(f"line {call.lineno} passes a dictionary that is not plain")
            items = ", ".join(f'"{name}": {code}' for name, code in missing)
            edits.append(Edit(self.start(value), self.start(value), b"{**"))
            edits.append(Edit(self.end(value), self.end(value), f", {items}}}".encode()))
            return edits
        code = ", ".join(f"{name}={code}" for name, code in missing)
        given_ends = [self.end(one) for one in [*call.args, *call.keywords]]
        if given_ends:
            place = max(given_ends)
            edits.append(Edit(place, place, f", {code}".encode()))
        else:
            place = self.end(call) - 1
            edits.append(Edit(place, place, code.encode()))
        return edits

    def around(self, first: ast.stmt, last: ast.stmt, header: str) -> list[Edit]:
        """The statements from `first` to `last` of one block under `header`."""
        indent = self.indent(first)
        unit = b"\t" if indent.endswith(b"\t") else b"    "
        for node in ast.walk(self.tree):
            is_text = isinstance(node, ast.JoinedStr) or (
                isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
            )
            if (
                is_text
                and node.end_lineno != node.lineno
                and first.lineno <= node.lineno <= (last.end_lineno or 0)
            ):
                raise NotFound(f"line {node.lineno} begins a text of several lines")
        end_line = last.end_lineno or last.lineno
        for statement in self.block(last):
            if statement.lineno == end_line and statement is not last:
                raise NotFound(f"line {end_line} has several statements")
        edits = [self.before(first, header)]
        for line in range(first.lineno, end_line + 1):
            begin = self._starts[line - 1]
            if self.content[begin : self._starts[line]].strip():
                edits.append(Edit(begin, begin, unit))
        return edits


def applied(content: bytes, edits: list[Edit]) -> bytes:
    """What the edits make of it; those at one place in their order. NotFound where two overlap."""
    parts = []
    place = 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if edit.start < place:
            raise NotFound("another change is in the same place")
        parts += [content[place : edit.start], edit.text]
        place = edit.end
    return b"".join([*parts, content[place:]])

# SPDX-License-Identifier: Apache-2.0
"""What was kept for a script, as a change of its text: `autotuned patch`.

The program tells in JSON what was kept and where the script makes its parts; this prints a
unified diff, and in words what cannot be said by one. It writes no file and needs no PyTorch.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import sys
from typing import Any, Callable

from .advice import advice
from .code import CODE
from .edits import Edit, NotFound, Source, applied, last_name

Json = dict[str, Any]
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def as_code(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


class Patch:
    """The edits of one configuration, by file and knob."""

    def __init__(self, question: Json) -> None:
        self._changes: dict[str, Json] = question["changes"]
        self._best: Json = question.get("best") or {}
        self._places: Json = question.get("places") or {}
        self._script = os.path.realpath(question["script"])
        self._shown: str = question["script"]
        self._device = str(self._places.get("device", "cpu")).partition(":")[0]
        self._sources: dict[str, Source] = {}
        self.edits: dict[str, list[tuple[str, Edit]]] = {}  # by file
        self.words: list[str] = []

    # --- files and places

    def source(self, path: str) -> Source:
        path = os.path.realpath(path)
        if path not in self._sources:
            if re.search(r"/(site|dist)-packages/", path):
                raise NotFound(f"{path} belongs to an installed package")
            try:
                with open(path, "rb") as file:
                    content = file.read()
            except OSError as error:
                raise NotFound(f"{path} cannot be read: {error.strerror}") from error
            self._sources[path] = Source(self.name_of(path), content)
        return self._sources[path]

    def name_of(self, path: str) -> str:
        """The path as the user would type it."""
        if path == self._script:
            return self._shown
        below = os.path.relpath(path)
        return path if below.startswith("..") else below

    def _parts(self, kind: str) -> list[Json]:
        return self._places.get(kind) or []

    def _at(self, place: str, what: str, name: str) -> tuple[Source, ast.Call]:
        path, _, line = place.rpartition(":")
        if not path or not line.isdigit():
            raise NotFound(f"it is not known where the script makes its {what}")
        source = self.source(path)
        return source, source.call_at(int(line), what, lambda call: last_name(call.func) == name)

    def _roots(self) -> list[tuple[Source, ast.Call, Json]]:
        """The calls of outermost modules; each is the only one of its kind around."""
        found = []
        for root in self._parts("roots"):
            path, _, line = str(root.get("called_at", "")).rpartition(":")
            if not path or not line.isdigit():
                raise NotFound("it is not known where the script calls its module")
            source = self.source(path)
            inner = self._calls_of_module(source, int(line))
            if len(inner) != 1:
                raise NotFound(f"the call of the module in {source.path}:{line} is not plain")
            function = source.function(inner[0])
            same = [
                call
                for call in source.calls(function)
                if source.function(call) is function
                and ast.dump(call.func) == ast.dump(inner[0].func)
            ]
            if len(same) != 1:
                lines = ", ".join(str(call.lineno) for call in same)
                raise NotFound(f"the module is called several times ({source.path}:{lines})")
            found.append((source, inner[0], root))
        if not found:
            raise NotFound("the script calls no module")
        return found

    @staticmethod
    def _calls_of_module(source: Source, line: int) -> list[ast.Call]:
        """Of the calls of that line those whose function may be a module."""
        calls = [call for call in source.calls() if call.lineno == line]
        torch = {"torch", "F", "nn", "functional", "optim", "np"}
        plain = []
        for call in calls:
            root = call.func
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if not isinstance(root, ast.Name) or root.id in torch:
                continue
            if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
                continue
            plain.append(call)
        # loss = criterion(model(x), y): what is called inside has been called first.
        innermost = [
            call
            for call in plain
            if not any(other is not call and other in ast.walk(call) for other in plain)
        ]
        return innermost

    def _modules(self) -> list[tuple[Source, ast.stmt, str]]:
        """Before which statement the module whose parameters an optimizer gets is complete."""
        found = []
        for optimizer in self._parts("optimizers"):
            source, call = self._at(
                str(optimizer.get("made_at", "")), "optimizer", str(optimizer.get("type"))
            )
            names = {
                source.text(one.func.value)
                for one in source.calls(call)
                if isinstance(one.func, ast.Attribute) and one.func.attr == "parameters"
            }
            if not names:
                raise NotFound(f"{source.path}:{call.lineno} does not say whose parameters it has")
            found += [(source, source.statement(call), name) for name in sorted(names)]
        if not found:
            raise NotFound("the script has no optimizer")
        return list({(one[0].path, one[2]): one for one in found}.values())

    # --- knobs

    def _call_of_loader(self) -> tuple[Source, ast.Call]:
        training = [one for one in self._parts("loaders") if one.get("is_trained_from")]
        if len(training) != 1:
            raise NotFound("it is not known which loader trains")
        source, call = self._at(
            str(training[0].get("made_at", "")), "DataLoader", str(training[0].get("type"))
        )
        if len(call.args) > 5 or any(isinstance(one, ast.Starred) for one in call.args):
            raise NotFound(f"{source.path}:{call.lineno} passes its arguments by position")
        return source, call

    def _loader(self, wanted: dict[str, str]) -> list[tuple[Source, Edit]]:
        source, call = self._call_of_loader()
        return [(source, edit) for edit in source.with_keywords(call, wanted)]

    def _native(self, change: Json) -> list[tuple[Source, Edit]]:
        """Around the call: what the script asks of its loader goes on to be answered."""
        source, call = self._call_of_loader()
        edits = []
        if "loader.pin_memory" in change:
            pins = {"pin_memory": as_code(change["loader.pin_memory"])}
            edits = source.with_keywords(call, pins)
        given = f", workers={as_code(change[_NATIVE])}"
        if "loader.prefetch_batches" in change:
            given += f", prefetch_factor={as_code(change['loader.prefetch_batches'])}"
        start, end = source.start(call), source.end(call)
        edits.append(Edit(start, start, b"autotuned.Loader.of("))
        edits.append(Edit(end, end, f"{given})".encode()))
        if not source.imports("autotuned"):
            edits.append(source.behind_imports("import autotuned"))
        return [(source, edit) for edit in edits]

    def loader(self) -> list[tuple[Source, Edit]]:
        """Edits a loader for all of its knobs at once: one argument needs another."""
        change = {name: one["to"] for name, one in self._changes.items()}
        if change.get(_NATIVE):
            return self._native(change)
        wanted = {
            argument: as_code(change[knob])
            for knob, argument in _ARGUMENTS.items()
            if knob in change
        }
        # Arguments that only loaders with workers accept.
        if change.get("loader.workers") == 0:
            wanted |= {"persistent_workers": "False", "prefetch_factor": "None"}
        elif self._best.get("loader.workers") == 0:
            wanted = {name: code for name, code in wanted.items() if name == "pin_memory"}
        if not wanted:
            raise NotFound("without workers it means nothing")
        return self._loader(wanted)

    def optimizer(self) -> list[tuple[Source, Edit]]:
        change = {name: one["to"] for name, one in self._changes.items()}
        wanted = {}
        if "optimizer.foreach" in change:
            wanted["foreach"] = as_code(change["optimizer.foreach"])
        if change.get("optimizer.fused"):
            wanted = {"fused": "True"}  # the other is no form of it
        edits = []
        for optimizer in self._parts("optimizers"):
            source, call = self._at(
                str(optimizer.get("made_at", "")), "optimizer", str(optimizer.get("type"))
            )
            named = {keyword.arg for keyword in call.keywords}
            extra = {"foreach": "False"} if "fused" in wanted and "foreach" in named else {}
            edits += [(source, edit) for edit in source.with_keywords(call, {**wanted, **extra})]
        if not edits:
            raise NotFound("the script has no optimizer")
        return edits

    def set_to_none(self) -> list[tuple[Source, Edit]]:
        files = {self._script} | {
            str(one.get("called_at", "")).rpartition(":")[0] for one in self._parts("roots")
        }
        edits = []
        for path in sorted(one for one in files if one):
            source = self.source(path)
            for call in source.calls():
                if last_name(call.func) != "zero_grad":
                    continue
                values = call.args[:1] + [
                    one.value for one in call.keywords if one.arg == "set_to_none"
                ]
                for value in values:
                    if isinstance(value, ast.Constant) and value.value is False:
                        edits.append(
                            (source, Edit(source.start(value), source.end(value), b"True"))
                        )
        if not edits:
            raise NotFound("no zero_grad() says set_to_none=False")
        return edits

    def autocast(self) -> list[tuple[Source, Edit]]:
        """Around the call alone: the loss stays in 32 bits, as it was measured."""
        edits = []
        for source, call, root in self._roots():
            self._output_of(source, call, root)
            torch = source.torch()
            cast = f'{torch}.autocast("{self._device}", dtype={torch}.bfloat16)'
            edits.append((source, Edit(source.end(call), source.end(call), b".float()")))
            statement = source.statement(call)
            try:
                if getattr(statement, "value", None) is not call:
                    raise NotFound("the statement does more")
                around = source.around(statement, statement, f"with {cast}:")
            except NotFound:
                start, end = source.start(call.func), source.end(call.func)
                around = [Edit(start, start, f"{cast}(".encode()), Edit(end, end, b")")]
            edits += [(source, edit) for edit in around]
        return edits

    @staticmethod
    def _output_of(source: Source, call: ast.Call, root: Json) -> int:
        """How many dimensions the tensor has that the module returns."""
        dims = root.get("output_dims") or []
        if len(dims) != 1:
            raise NotFound(
                f"the module is not known to return one tensor ({source.path}:{call.lineno})"
            )
        return int(dims[0])

    def layout(self) -> list[tuple[Source, Edit]]:
        """Convolutions follow their input: the parameters stay as they are."""
        edits = []
        plain = (ast.Name, ast.Attribute, ast.Subscript)
        for source, call, root in self._roots():
            dims = root.get("input_dims") or []
            is_plain = all(isinstance(one, plain) for one in call.args) and not call.keywords
            if not is_plain or len(dims) != len(call.args) or 4 not in dims:
                raise NotFound(
                    f"the module is not called with plain images ({source.path}:{call.lineno})"
                )
            code = f".to(memory_format={source.torch()}.channels_last)"
            for argument, count in zip(call.args, dims):
                if count == 4:
                    end = source.end(argument)
                    edits.append((source, Edit(end, end, code.encode())))
            if self._output_of(source, call, root) == 4:
                edits.append((source, Edit(source.end(call), source.end(call), b".contiguous()")))
        return edits

    def compile(self) -> list[tuple[Source, Edit]]:
        modules = self._modules()
        if len(modules) != len(self._parts("roots")) or any(
            name == "self" for _, _, name in modules
        ):
            raise NotFound("it is not plain which modules the script calls")
        mode = self._changes["model.compile"]["to"]
        argument = "" if mode == "default" else f'mode="{mode}"'
        return [
            (source, source.before(statement, f"{name}.compile({argument})"))
            for source, statement, name in modules
        ]

    def setting(self, function: str, code: str) -> list[tuple[Source, Edit]]:
        """A function of PyTorch that sets something for the process."""
        source = self.source(self._script)
        calls = [call for call in source.calls() if last_name(call.func) == function]
        if not calls:
            return [(source, source.behind_imports(f"{source.torch()}.{function}({code})"))]
        given = calls[0].args
        if len(calls) > 1 or len(given) != 1 or _is_conditional(source, calls[0]):
            raise NotFound(f"the script calls {function}() by itself")
        return [(source, Edit(source.start(given[0]), source.end(given[0]), code.encode()))]

    def benchmark(self) -> list[tuple[Source, Edit]]:
        source = self.source(self._script)
        if any(
            isinstance(node, ast.Attribute)
            and node.attr == "benchmark"
            and isinstance(node.ctx, ast.Store)
            for node in ast.walk(source.tree)
        ):
            raise NotFound("the script sets cudnn.benchmark by itself")
        code = f"{source.torch()}.backends.cudnn.benchmark = True"
        return [(source, source.behind_imports(code))]

    # --- all of it

    def _plans(self) -> list[tuple[list[str], Callable[[], list[tuple[Source, Edit]]]]]:
        """Knobs that are set by one change of the text, and that change."""
        groups: list[tuple[list[str], Callable[[], list[tuple[Source, Edit]]]]] = [
            ([*_ARGUMENTS, _NATIVE], self.loader),
            (["optimizer.fused", "optimizer.foreach"], self.optimizer),
            (["optimizer.set_to_none"], self.set_to_none),
            (["layout.memory_format"], self.layout),
            (["model.compile"], self.compile),
            (["precision.autocast"], self.autocast),
            (
                ["precision.tf32"],
                lambda: self.setting("set_float32_matmul_precision", '"high"'),
            ),
            (
                ["threads.intra_op"],
                lambda: self.setting(
                    "set_num_threads", as_code(self._changes["threads.intra_op"]["to"])
                ),
            ),
            (["cudnn.benchmark"], self.benchmark),
        ]
        plans = []
        known: set[str] = set()
        for names, plan in groups:
            changed = [name for name in names if name in self._changes]
            known |= set(changed)
            if changed:
                plans.append((changed, plan))
        for name in sorted(set(self._changes) - known):
            plans.append(([name], _nothing))
        return plans

    def make(self) -> None:
        for names, plan in self._plans():
            try:
                edits = plan()
                self._try(names, edits)
            except NotFound as error:
                self.words += [*self._in_words(names, str(error))]
        self.words += self._advice()

    def _try(self, names: list[str], edits: list[tuple[Source, Edit]]) -> None:
        """Takes the edits, if the files are still Python with them."""
        label = ", ".join(names)
        wanted = {path: list(known) for path, known in self.edits.items()}
        for source, edit in edits:
            path = next(one for one, known in self._sources.items() if known is source)
            wanted.setdefault(path, []).append((label, edit))
        for path, listed in wanted.items():
            content = applied(self._sources[path].content, [edit for _, edit in listed])
            try:
                ast.parse(content)
            except SyntaxError as error:
                raise NotFound("the statement there is not plain") from error
        self.edits = wanted

    def _in_words(self, names: list[str], why: str) -> list[str]:
        lines = [f"{self.told(name)}" for name in names]
        lines[-1] += f": not in the diff, because {why}."
        for name in names:
            code = CODE.get(name, "").format(
                value=self._changes[name]["to"],
                code=as_code(self._changes[name]["to"]),
                device=self._device,
                script=self._shown,
            )
            lines += [f"    {line}" for line in code.splitlines()]
        return lines

    def told(self, name: str) -> str:
        """A knob with its values and what it gives."""
        change = self._changes[name]
        gain = change.get("gain") or "gain not known alone"
        return f"{name} {_shown(change['from'])} -> {_shown(change['to'])}, {gain}"

    def _advice(self) -> list[str]:
        if self._device != "cuda":
            return []
        try:
            source, call, _ = self._roots()[0]
        except NotFound:
            return []
        return advice(source, call, bool(self._best.get("loader.pin_memory")))

    def diff(self) -> bytes:
        """One file after the other; each hunk says what it sets and what that gives."""
        parts = []
        for path, listed in sorted(self.edits.items()):
            source = self._sources[path]
            name = source.path.encode()
            if b" " in name:
                name += b"\t"  # where a name ends
            new = applied(source.content, [edit for _, edit in listed])
            lines = difflib.diff_bytes(
                difflib.unified_diff,
                _lines(source.content),
                _lines(new),
                name,
                name,
                lineterm=b"",
            )
            places = [(source.line_of(edit.start), label) for label, edit in listed]
            for line in lines:
                hunk = _HUNK.match(line)
                if hunk:
                    begin, count = int(hunk[1]), int(hunk[2] or 1)
                    labels = dict.fromkeys(
                        label for place, label in places if begin <= place <= begin + count
                    )
                    names = [one for label in labels for one in label.split(", ")]
                    line += b" " + "; ".join(self.told(one) for one in names).encode()
                parts.append(line if line.endswith(b"\n") else line + b"\n")
                if line[:1] in b" +-" and not line.endswith(b"\n") and not _is_header(line, name):
                    parts.append(b"\\ No newline at end of file\n")
        return b"".join(parts)


_NATIVE = "loader.native_threads"
_ARGUMENTS = {
    "loader.workers": "num_workers",
    "loader.prefetch_batches": "prefetch_factor",
    "loader.pin_memory": "pin_memory",
    "loader.persistent_workers": "persistent_workers",
}
# Methods of tensors, loaders and optimizers that may be in the line of a module's call.
_METHODS = {
    "to", "cuda", "view", "reshape", "size", "item", "detach", "float", "long", "unsqueeze",
    "squeeze", "permute", "transpose", "flatten", "contiguous", "next", "parameters", "append",
}  # fmt: skip


def _nothing() -> list[tuple[Source, Edit]]:
    raise NotFound("a change of the script cannot say it")


def _is_conditional(source: Source, node: ast.AST) -> bool:
    return any(
        isinstance(one, (ast.If, ast.IfExp, ast.Try, ast.For, ast.While, ast.BoolOp))
        for one in source.parents(node)
    )


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _lines(content: bytes) -> list[bytes]:
    """The lines with their ends; only LF ends a line of a diff."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def _is_header(line: bytes, name: bytes) -> bool:
    return line in (b"--- " + name, b"+++ " + name)


def main() -> int:
    question = json.loads(sys.argv[1])
    patch = Patch(question)
    patch.make()
    diff = patch.diff()
    if question.get("as_json"):
        answer = {name: question.get(name, "") for name in ("run", "newer_unconfirmed_run")}
        answer |= {"diff": diff.decode("utf-8"), "words": patch.words}
        print(json.dumps(answer))
        return 0
    out = sys.stdout.buffer
    for line in patch.words:
        out.write(f"# {line}\n".encode())
    out.write(diff)
    return 0

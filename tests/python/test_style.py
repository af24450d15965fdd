# SPDX-License-Identifier: Apache-2.0
"""The form of the package: short modules, known to docs/architecture.md, that import one way."""

import ast
import itertools
import os
import re
import sys
import unittest

from stand_in import ROOT

PACKAGE = ROOT / "python" / "autotuned"


def listed_modules():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text[text.index("<!-- python:begin -->"):text.index("<!-- python:end -->")]
    return re.findall(r"^([\w/]+): \S", part, re.MULTILINE)


def name_of(path):
    """As docs/architecture.md writes it: "loop/steps"."""
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def imported(path):
    """Names of modules of the package that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        folder = path.parents[node.level - 1]
        source = folder.joinpath(*(node.module or "").split("."))
        if source.with_suffix(".py").exists():
            names.add(name_of(source))
        else:
            names |= {name_of(source / alias.name) for alias in node.names}
    return names


def tests_outside_classes(path):
    """Names of functions test_* that are not in the body of a class of the module."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    methods = {id(node) for one in classes for node in one.body}
    return [
        node.name
        for node in ast.walk(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and id(node) not in methods
    ]


class StyleTest(unittest.TestCase):
    def test_every_module_is_listed(self):
        modules = {name_of(path) for path in PACKAGE.rglob("*.py") if path.stem != "__init__"}
        modules.remove("startup/sitecustomize")  # Python looks for it; nothing imports it
        self.assertEqual(sorted(listed_modules()), sorted(modules))

    def test_imports_point_one_way(self):
        modules = listed_modules()
        for position, name in enumerate(modules):
            below = imported(PACKAGE / f"{name}.py") & set(modules[position:])
            self.assertEqual(below, set(), f"{name} imports what stands below it")

    def test_folders_import_one_way(self):
        # Modules import upwards in the list. So folders do, if each is one block of it.
        folders = [name.rpartition("/")[0] for name in listed_modules()]
        blocks = [folder for folder, _ in itertools.groupby(folders)]
        self.assertEqual(len(blocks), len(set(blocks)), blocks)

    def test_no_folder_has_the_name_of_a_function(self):
        # Importing `autotuned.session` would put the folder where the public function is.
        folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
        self.assertEqual(folders & {"compare", "Comparison", "session", "tune", "Tuned"}, set())

    def test_modules_stay_short(self):
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "tests" / "python").rglob("*.py")]:
            lines = path.read_text(encoding="utf-8").splitlines()
            self.assertLessEqual(len(lines), 500, path.name)
            longest = max(lines, key=len, default="")
            self.assertLessEqual(len(longest), 99, f"{path.name}: {longest}")

    def test_every_test_is_a_method_of_a_class(self):
        # Nobody runs another one, such as a test that stands behind `if __name__`.
        others = []
        for path in sorted((ROOT / "tests").rglob("*.py")):
            others += [f"{path.relative_to(ROOT)}: {name}" for name in tests_outside_classes(path)]
        self.assertEqual(others, [])

    @unittest.skipUnless("PYTHONPYCACHEPREFIX" in os.environ, "run by hand, not by CTest")
    def test_modules_of_pytorch_are_compiled_once(self):
        # Not in each process that a test starts, whatever the environment of CTest says.
        self.assertFalse(sys.dont_write_bytecode)


if __name__ == "__main__":
    unittest.main()

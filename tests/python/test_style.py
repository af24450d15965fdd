# SPDX-License-Identifier: Apache-2.0
"""The form of the package: short modules, known to docs/architecture.md, that import one way."""

import ast
import re
import unittest

from stand_in import ROOT

PACKAGE = ROOT / "python" / "autotuned"


def listed_modules():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text[text.index("<!-- python:begin -->"):text.index("<!-- python:end -->")]
    return re.findall(r"^(\w+): \S", part, re.MULTILINE)


def imported(path):
    """Modules of the package that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            names |= {node.module} if node.module else {alias.name for alias in node.names}
    return names


class StyleTest(unittest.TestCase):
    def test_every_module_is_listed(self):
        modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
        self.assertEqual(sorted(listed_modules()), sorted(modules))

    def test_imports_point_one_way(self):
        modules = listed_modules()
        for position, name in enumerate(modules):
            below = imported(PACKAGE / f"{name}.py") & set(modules[position:])
            self.assertEqual(below, set(), f"{name} imports what stands below it")

    def test_modules_stay_short(self):
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "tests" / "python").rglob("*.py")]:
            lines = path.read_text(encoding="utf-8").splitlines()
            self.assertLessEqual(len(lines), 500, path.name)
            longest = max(lines, key=len, default="")
            self.assertLessEqual(len(longest), 99, f"{path.name}: {longest}")


if __name__ == "__main__":
    unittest.main()

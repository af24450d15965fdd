# SPDX-License-Identifier: Apache-2.0
"""docs/plugin-guide.md: what it says to write is written, what it says to run is run, in its order.

A line **FILE** before a block names the file that the block is. Blocks of `sh` are run, line by line.
Every line of a block of `text` must be in what the commands before it printed, whatever the figures.
"""

import os
import pathlib
import re
import tempfile
import unittest

import installation

# With what plugins/sdk/extension.hpp and workload.hpp begin. Empty for who is not told where LibTorch is.
LIBTORCH = """\
#if __has_include(<torch/nn/module.h>)
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/version.h>
#endif
"""
BLOCK = re.compile(r"(?:^\*\*(?P<file>\S+)\*\*\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


def without_figures(text):
    return re.sub(r"[\d,.]+", "#", " ".join(text.split()))


class Guide(installation.Case):
    def setUp(self):
        super().setUp()
        self.printed = ""

    def follow(self, text):
        blocks = list(BLOCK.finditer(text))
        self.assertEqual(len(blocks), text.count("\n```") // 2, "a block that nobody reads")
        for block in blocks:
            if block["kind"] == "sh":
                self.run_commands(block["text"])
            elif block["kind"] == "text":
                self.check_printed(block["text"])
            else:
                self.assertTrue(block["file"], f"a block without a file:\n{block['text']}")
                (self.home / block["file"]).write_text(block["text"])
                if block["file"].endswith("_trainer.cpp") and "CXXFLAGS" not in self.environment:
                    self.compile_libtorch_once()

    def run_commands(self, text):
        self.printed = ""
        for line in text.splitlines():
            done = self.call("sh", "-c", line)
            self.printed += done.stdout + done.stderr

    def check_printed(self, text):
        printed = without_figures(self.printed)
        for line in text.splitlines():
            self.assertIn(without_figures(line), printed, self.printed)

    def compile_libtorch_once(self):
        """Nearly all of compiling what the trainer loads is LibTorch's headers: from here on they are precompiled.

        Each such file includes them by way of the SDK, so none sees more than it does by itself. new_plugin_test.py
        compiles such files without.
        """
        package = self.prefix / "lib/cmake/autotuned/autotunedLibTorch.cmake"
        torch = re.search(r'BUILT_WITH "(.+)"', package.read_text())
        if torch is None or "Free Software Foundation" not in self.call("c++", "--version").stdout:
            return
        # Half a gigabyte, which may be too much for /tmp.
        folder = tempfile.TemporaryDirectory(prefix="autotuned-test-", dir=installation.BUILD)
        self.addCleanup(folder.cleanup)
        header = pathlib.Path(folder.name).resolve() / "libtorch.hpp"
        header.write_text(LIBTORCH)
        headers = f"{torch[1]}/include"
        # As a library is compiled. Programs are compiled so, too: GCC takes no other precompiled header.
        self.call("c++", "-std=gnu++20", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
                  "-DAT_PER_OPERATOR_HEADERS", "-isystem", headers, "-isystem", f"{headers}/torch/csrc/api/include",
                  "-x", "c++-header", header, "-o", f"{header}.gch")
        self.environment["CXXFLAGS"] = f"-fPIC -include {header}"

    def test_wins_a_trial(self):
        # AUTOTUNED_GUIDE_TRAINER=real takes the installed trainer, and the time of a real run.
        if os.environ.get("AUTOTUNED_GUIDE_TRAINER") != "real":
            self.use_fake_trainer({"batch_size=16": 1.9, "batch_size=32": 3.6})
        self.follow((installation.SOURCE / "docs/plugin-guide.md").read_text())
        record = self.plugins()["fuller_batch"]["record"]
        self.assertEqual((record["accepted"], record["failed"]), (2, 0), record)

    def test_a_page_that_is_wrong_is_noticed(self):
        with self.assertRaises(AssertionError):
            self.follow("```sh\nfalse\n```\n")
        with self.assertRaises(AssertionError):
            self.follow("```sh\necho 1 fish\n```\n\n```text\n2 birds\n```\n")
        with self.assertRaises(AssertionError):
            self.follow("```cpp\nint nowhere;\n```\n")
        self.follow("**a.txt**\n\n```cpp\n1 fish\n```\n\n```sh\ncat a.txt\n```\n\n```text\n22 fish\n```\n")


if __name__ == "__main__":
    unittest.main()

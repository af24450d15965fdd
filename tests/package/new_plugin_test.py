# SPDX-License-Identifier: Apache-2.0
"""`autotuned plugins new`: what it writes builds outside this tree, is loaded and passes its own test."""

import json
import os
import unittest

import installation

POLICY_FILES = ["CMakeLists.txt", "README.md", "sample.cpp", "sample_test.cpp"]


class NewPlugin(installation.Case):
    def files(self, name):
        return sorted(path.name for path in (self.home / name).iterdir())

    def test_a_policy_is_the_default(self):
        self.autotuned("plugins", "new", "sample")
        self.autotuned("plugins", "new", "sample", "--policy", "--into", self.prefix.parent)
        self.assertEqual(self.files("sample"), POLICY_FILES)
        for file in (self.home / "sample").iterdir():
            self.assertNotIn("@", file.read_text(), file)

    def test_as_json(self):
        written = json.loads(self.autotuned("plugins", "new", "sample", "--json").stdout)
        self.assertEqual(written["name"], "sample")
        self.assertEqual(written["files"], [f"{self.home}/sample/{file}" for file in POLICY_FILES])

    def test_a_yaml_plugin_is_ready_as_it_is_and_wins(self):
        self.autotuned("plugins", "new", "sample", "--yaml")
        self.assertEqual(self.files("sample"), ["CMakeLists.txt", "README.md", "sample.yaml"])
        found = self.plugins("--plugin-dir", self.home / "sample")["sample"]
        self.assertEqual((found["kind"], found["state"]), ("yaml", "ready"), found)

        self.use_fake_trainer({"loader.prefetch_batches=4": 1.3})
        run = self.tune("sample", "--plugin-dir", self.home / "sample")
        self.assertEqual(run["best"]["configuration"]["loader.prefetch_batches"], 4)

    def test_the_test_of_a_yaml_plugin_notices_a_mistake(self):
        self.autotuned("plugins", "new", "sample", "--yaml")
        folder = self.home / "sample"
        self.call("cmake", "-S", folder, "-B", folder / "build")
        self.call(os.environ["CTEST"], "--test-dir", folder / "build")
        with open(folder / "sample.yaml", "a", encoding="utf-8") as file:
            file.write("unknown: 1\n")
        self.call(os.environ["CTEST"], "--test-dir", folder / "build", code=8)

    def test_refuses_a_folder_that_is_there(self):
        (self.home / "sample").mkdir()
        (self.home / "sample" / "mine").touch()
        done = self.autotuned("plugins", "new", "sample", code=2)
        self.assertIn(f"{self.home}/sample: is there already", done.stderr)
        self.assertEqual(self.files("sample"), ["mine"])

    def test_refuses_what_is_no_name(self):
        for name in ("", "Sample", "9lives", "a-b", "../up", "a" * 65, "test"):
            done = self.autotuned("plugins", "new", name, code=2)
            self.assertIn(f"'{name}' is ", done.stderr)
        self.assertEqual(list(self.home.iterdir()), [])

    def test_refuses_two_kinds_at_once(self):
        self.autotuned("plugins", "new", "sample", "--yaml", "--policy", code=2)
        self.autotuned("plugins", "new", "sample", "--extension", "--workload", code=2)
        self.autotuned("plugins", "new", code=2)
        self.assertEqual(list(self.home.iterdir()), [])

    def test_refuses_a_place_that_is_not_there(self):
        done = self.autotuned("plugins", "new", "sample", "--into", "missing", code=2)
        self.assertIn(f"{self.home}/missing/sample", done.stderr)

    def test_leaves_nothing_behind_when_a_template_cannot_be_read(self):
        templates = self.prefix / "share/autotuned/templates/policy"
        damaged = templates / "zzz.in"
        damaged.symlink_to("nowhere")
        self.addCleanup(damaged.unlink)
        done = self.autotuned("plugins", "new", "sample", code=1)
        self.assertIn("zzz.in", done.stderr)
        self.assertEqual(list(self.home.iterdir()), [])


class BuiltPlugin(installation.Case):
    def build(self, compiler, *options):
        self.autotuned("plugins", "new", "sample")
        folder = self.home / "sample"
        # autotuned is in PATH, so CMake finds its package.
        self.call("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_CXX_COMPILER={compiler}",
                  *options)
        self.call("cmake", "--build", folder / "build")
        return folder / "build"

    def check(self, compiler):
        build = self.build(compiler, "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        self.call(os.environ["CTEST"], "--test-dir", build)

        self.use_fake_trainer({"loader.prefetch_batches=4": 1.3})
        run = self.tune("sample", "--plugin-dir", build)
        self.assertEqual(run["trials"][0]["plugin"], "sample")
        self.assertEqual(run["trials"][0]["verdict"], "accepted")
        self.assertEqual(run["best"]["configuration"]["loader.prefetch_batches"], 4)

        self.call("cmake", "--install", build, "--prefix", self.home / ".local")
        found = self.plugins()["sample"]
        self.assertEqual(found["path"], f"{self.home}/.local/share/autotuned/plugins/libsample.so")
        self.assertEqual(found["state"], "ready", found)
        return build

    def test_with_gcc(self):
        build = self.check("g++")
        # In the same build, where only the plugin is compiled anew.
        source = self.home / "sample" / "sample.cpp"
        right = source.read_text()
        with self.subTest("its own test notices a mistake"):
            self.assertIn("2 * now", right)
            source.write_text(right.replace("2 * now", "3 * now"))
            self.call("cmake", "--build", build)
            done = self.call(os.environ["CTEST"], "--test-dir", build, code=8)
            self.assertRegex(done.stdout + done.stderr, r"- sample \(")  # not only whether it loads

    def test_with_clang(self):
        if not self.have("clang++"):
            self.skipTest("no clang++ here")
        self.check("clang++")

    def test_in_c(self):
        folder = self.home / "plain"
        folder.mkdir()
        source = installation.SOURCE / "tests/plugins/fixtures/descriptor.c"
        (folder / "more.c").write_text("")
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(plain LANGUAGES C)\n"
            "find_package(autotuned 0.1 REQUIRED)\n"
            f"autotuned_plugin(plain SOURCES {source} more.c)\n"
            f"target_include_directories(plain PRIVATE {installation.SOURCE})\n"
            'target_compile_definitions(plain PRIVATE AUTOTUNED_TEST_NAME="plain")\n')
        self.call("cmake", "-S", folder, "-B", folder / "build")
        self.call("cmake", "--build", folder / "build")
        self.autotuned("plugins", "--plugin-dir", folder / "build", "--require", "plain")
        with self.subTest("an undefined symbol is an error of the build"):
            # In any language: autotuned_plugin() asks the linker for it. C++ takes longer to compile.
            (folder / "more.c").write_text("void nobody_has_this(void);\nvoid use(void) { nobody_has_this(); }\n")
            done = self.call("cmake", "--build", folder / "build", code=1)
            self.assertIn("nobody_has_this", done.stdout + done.stderr)


class TrainerPlugin(installation.Case):
    """Extensions and workloads: built with LibTorch, run by the installed trainer."""

    def setUp(self):
        super().setUp()
        if not (self.prefix / "bin" / "autotuned-trainer").exists():
            self.skipTest("built without LibTorch")

    def build(self, kind, *options):
        self.autotuned("plugins", "new", "sample", kind)
        folder = self.home / "sample"
        self.call("cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_CXX_COMPILER=g++",
                  "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *options)
        self.call("cmake", "--build", folder / "build")
        return folder / "build"

    def check(self, kind):
        build = self.build(kind)
        for file in (self.home / "sample").glob("*.*"):
            self.assertNotIn("@", file.read_text(), file)
        self.call(os.environ["CTEST"], "--test-dir", build, "--output-on-failure")
        found = json.loads(
            self.autotuned("plugins", "--json", "--plugin-dir", build, "--require", "sample").stdout)
        return {plugin["kind"] for plugin in found if plugin["name"] == "sample"}

    def test_a_workload_trains(self):
        self.assertEqual(self.check("--workload"), {"workload"})
        out = self.home / "sample/build/sample.out"
        result = json.loads((out / "summary.json").read_text())
        self.assertGreater(result["training"]["test_accuracy"], 0.9, result)

    def test_an_extension_is_obeyed(self):
        self.assertEqual(self.check("--extension"), {"extension", "yaml"})
        build = self.home / "sample/build"
        self.assertIn("sample.flush_denormals", self.autotuned("knobs", "--plugin-dir", build).stdout)
        result = json.loads((build / "sample.out/summary.json").read_text())
        self.assertIs(result["best"]["configuration"]["sample.flush_denormals"], True)

    def test_another_libtorch_is_refused_when_it_is_configured(self):
        self.autotuned("plugins", "new", "sample", "--workload")
        other = self.home / "torch"
        other.mkdir()
        (other / "version.py").write_text("__version__ = '2.10.0+cpu'\n")
        folder = self.home / "sample"
        done = self.call("cmake", "-S", folder, "-B", folder / "build",
                         f"-DAUTOTUNED_LIBTORCH={other}", code=1)
        words = " ".join(done.stderr.split())
        self.assertIn("holds LibTorch 2.10.0, the trainer has 2.11.0", words)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""A script behaves as it does alone: each test runs one with a session, most also without."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from stand_in import STARTUP, Ended, Running, alone

# What `import torch` says without NumPy is no part of these scripts.
QUIET = {"PYTHONWARNINGS": "ignore"}

LOOP = """
    import torch
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    def step():
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
"""


class AttachTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    def run_with_session(self, *command, environment=None, **options):
        """Goes on at once where a step was found."""
        running = Running(
            *command, environment={**QUIET, **(environment or {})}, cwd=self.folder, **options
        )
        try:
            running.hello()
            running.ask("finish", configuration={})
        except Ended:
            pass
        return running, running.rest()

    def assert_same(self, *command, environment=None):
        want = alone(*command, environment={**QUIET, **(environment or {})}, cwd=self.folder)
        running, got = self.run_with_session(*command, environment=environment)
        self.assertEqual(got, want)
        return running, got

    def assert_outcome(self, want, *command, environment=None):
        """The same where the script says what it does alone: exit code, output and error."""
        running, got = self.run_with_session(*command, environment=environment)
        self.assertEqual(got, want)
        return running

    def test_a_script_without_pytorch_never_says_hello(self):
        script = self.write("plain.py", "import sys\nprint(sys.argv)\n")
        running, (code, out, error) = self.assert_same(script, "--lr", "1")
        self.assertEqual((code, running.last), (0, {}))

    def test_a_script_whose_python_has_no_pytorch_says_so_at_its_end(self):
        script = self.write(
            "without.py",
            """
            import sys
            paths, sys.path[:] = list(sys.path), []
            try:
                import torch
            except ImportError as error:
                print(error)
            sys.path[:] = paths
            """,
        )
        running, (code, out, _) = self.assert_same(script)
        self.assertEqual((code, out), (0, "No module named 'torch'\n"))
        why = running.last["end"]["why"]
        self.assertIn(f"its Python, {sys.executable}, has no module torch; ", why)
        self.assertIn("`autotuned run -- PYTHON SCRIPT`", why)
        self.assertIs(running.last["end"]["steps_known"], False)

    def test_a_script_whose_pytorch_is_broken_says_so_at_its_end(self):
        self.write("broken/torch/__init__.py", "raise ImportError('no libtorch.so')\n")
        script = self.write("broken.py", "import torch\n")
        path = os.pathsep.join([str(self.folder / "broken"), os.environ.get("PYTHONPATH", "")])
        running, (code, _, _) = self.run_with_session(script, environment={"PYTHONPATH": path})
        self.assertEqual(code, 1)
        self.assertIn(
            " cannot import torch: ImportError: no libtorch.so; ", running.last["end"]["why"]
        )

    def test_pytorch_that_is_found_at_the_second_try_is_no_excuse(self):
        script = self.write(
            "later.py",
            """
    import sys
    paths, sys.path[:] = list(sys.path), []
    try:
        import torch
    except ImportError:
        sys.path[:] = paths
            """
            + LOOP
            + """
    for _ in range(12):
        step()
        """,
        )
        running = self.assert_outcome((0, "", ""), script)
        self.assertEqual(running.last["end"]["steps"], 12)

    def test_pytorch_that_loads_at_the_second_try_is_tuned(self):
        self.write("broken/torch/__init__.py", "raise ImportError('no libtorch.so')\n")
        script = self.write(
            "again.py",
            """
    import os, sys
    sys.path.insert(0, os.path.abspath("broken"))
    try:
        import torch
    except ImportError as error:
        print(error)
    sys.path.pop(0)
            """
            + LOOP
            + """
    for _ in range(12):
        step()
        """,
        )
        running = self.assert_outcome((0, "no libtorch.so\n", ""), script)
        self.assertEqual(running.last["end"]["steps"], 12)

    def test_a_file_that_has_the_number_of_the_socket_stays_as_it_is(self):
        script = self.write(
            "closing.py",
            """
            import os, sys
            paths, sys.path[:] = list(sys.path), []
            try:
                import torch
            except ImportError:
                sys.path[:] = paths
            os.closerange(3, 256)
            for number in range(64):
                os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY)
            """,
        )
        running, (code, _, _) = self.run_with_session(script)
        self.assertEqual((code, running.last), (0, {}))
        sizes = [path.stat().st_size for path in self.folder.glob("file-*")]
        self.assertEqual(sizes, [0] * 64)

    def test_a_script_that_asks_whether_pytorch_is_there_is_tuned(self):
        # As transformers, accelerate and others do when they are imported.
        script = self.write(
            "probing.py",
            """
    import importlib.util, sys
    finders = len(sys.meta_path)
    for _ in range(3):
        assert importlib.util.find_spec("torch") is not None
        assert importlib.util.find_spec("no_such_module") is None
    assert "torch" not in sys.modules
    assert len(sys.meta_path) == finders, sys.meta_path
            """
            + LOOP
            + """
    for _ in range(12):
        step()
    print([type(one).__name__ for one in sys.meta_path if type(one).__name__ == "_Finder"])
    print(type(torch.__spec__.loader).__name__, "exec_module" in vars(torch.__spec__.loader))
    print(model.weight.sum().item())
        """,
        )
        running, _ = self.assert_same(script)
        self.assertEqual(running.last["end"]["steps"], 12)

    def test_nothing_of_it_is_in_the_environment(self):
        script = self.write(
            "environment.py",
            f"""
            import os, subprocess, sys
            assert not any("AUTOTUNED" in name for name in os.environ), os.environ
            assert {str(STARTUP)!r} not in os.environ.get("PYTHONPATH", "")
            assert {str(STARTUP)!r} not in sys.path, sys.path
            import torch
            print(sorted(name for name in sys.modules if name.startswith("autotuned")))
            look = "import sys, os; print('_autotuned_script' in sys.modules)"
            look += "; print(sorted(os.listdir('/proc/self/fd')))"
            command = [sys.executable, "-c", look]
            print(subprocess.run(command, capture_output=True, text=True).stdout)
            """,
        )
        self.assert_same(script)

    def test_another_sitecustomize_and_a_module_named_like_the_package_are_the_scripts(self):
        self.write("own/sitecustomize.py", "import builtins\nbuiltins.turn = 'its turn'\n")
        self.write("autotuned.py", "NAME = 'my name'\n")
        script = self.write(
            "own.py",
            """
            import sitecustomize, torch
            print(turn, sitecustomize.__file__)
            import autotuned
            print(autotuned.NAME)
            """,
        )
        path = os.pathsep.join([str(self.folder / "own"), os.environ.get("PYTHONPATH", "")])
        out = f"its turn {self.folder}/own/sitecustomize.py\nmy name\n"
        self.assert_outcome((0, out, ""), script, environment={"PYTHONPATH": path})

    def test_the_exit_code_and_the_output_are_the_scripts(self):
        with self.subTest("an exit"):
            text = "import torch, sys\nprint('out')\nsys.stderr.write('err')\nsys.exit(3)\n"
            running = self.assert_outcome((3, "out\n", "err"), self.write("exit.py", text))
            self.assertIn("end", running.last)
        with self.subTest("an exception"):
            text = "import torch\nraise ValueError('no')\n"
            running, got = self.assert_same(self.write("raise.py", text))
            self.assertEqual(got[0], 1)
            self.assertIn("end", running.last)

    def test_a_failing_step_fails_as_it_does_alone(self):
        script = self.write(
            "failing.py",
            LOOP + """
    for number in range(20):
        step()
    model(torch.randn(8, 5))
        """,
        )
        _, (code, _, error) = self.run_with_session(script)
        self.assertEqual(code, 1)
        self.assertIn("mat1 and mat2 shapes cannot be multiplied", error)
        self.assertNotIn("autotuned: ", error)

    def test_an_interrupt_reaches_the_script_that_waits(self):
        script = self.write(
            "interrupted.py",
            LOOP + """
    try:
        for _ in range(10 ** 9):
            step()
    except KeyboardInterrupt:
        print("interrupted")
        raise SystemExit(7)
        """,
        )
        running = Running(script, environment=QUIET, cwd=self.folder)
        running.load()  # the script waits at a boundary now, or is about to
        running.process.send_signal(signal.SIGINT)
        code, out, _ = running.rest()
        self.assertEqual((code, out), (7, "interrupted\n"))
        self.assertIn("end", running.last)

    def test_a_fork_is_not_watched(self):
        script = self.write(
            "forking.py",
            LOOP + """
    import os
    for number in range(10):
        step()
        if number == 8:
            child = os.fork()
            if child == 0:
                for _ in range(20):
                    step()
                print("child", flush=True)
                os._exit(0)
            os.waitpid(child, 0)
    print("parent")
        """,
        )
        self.assert_outcome((0, "child\nparent\n", ""), script)

    def test_a_fork_while_it_is_tuned_leaves_the_session_to_the_parent(self):
        script = self.write(
            "forking.py",
            LOOP + """
    import os
    for number in range(40):
        step()
        if number == 20:
            child = os.fork()
            if child == 0:
                for _ in range(20):
                    step()
                raise SystemExit(0)
            os.waitpid(child, 0)
    print("parent")
        """,
        )
        running = Running(script, environment=QUIET, cwd=self.folder)
        running.load()
        running.must("steps", count=25)
        before = running.must("place")["steps"]
        running.must("steps", count=2)
        self.assertEqual(running.must("place")["steps"], before + 2)
        running.must("finish", configuration={})
        self.assertEqual(running.rest()[:2], (0, "parent\n"))

    def test_spawn_and_the_main_guard(self):
        script = self.write(
            "spawning.py",
            """
            import multiprocessing, sys
            import torch
            def work(queue):
                queue.put(("_autotuned_script" in sys.modules, torch.ones(1).item()))
            if __name__ == "__main__":
                context = multiprocessing.get_context("spawn")
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get(), "_autotuned_script" in sys.modules)
                process.join()
            """,
        )
        _, (code, out, error) = self.run_with_session(script)
        self.assertEqual((code, out, error), (0, "(False, 1.0) True\n", ""))

    def test_arguments_and_relative_imports(self):
        self.write("package/__init__.py", "")
        self.write("package/part.py", "import torch\nVALUE = torch.ones(2).sum().item()\n")
        self.write(
            "package/__main__.py",
            """
            import argparse
            parser = argparse.ArgumentParser()
            parser.add_argument("--lr", type=float)
            rate = parser.parse_args().lr
            from .part import VALUE
            print(rate, VALUE, __name__, __package__)
            """,
        )
        self.assert_outcome((0, "0.5 2.0 __main__ package\n", ""), "-m", "package", "--lr", "0.5")
        self.assert_same("-m", "package", "--help")

    def test_the_debugger(self):
        script = self.write(
            "debugged.py",
            LOOP + """
    for number in range(12):
        step()
    print("steps", number + 1)
        """,
        )
        running = Running(
            "-m", "pdb", script, environment=QUIET, cwd=self.folder, stdin=subprocess.PIPE
        )
        running.process.stdin.write(b"continue\nquit\n")
        running.process.stdin.flush()
        try:
            running.load()
            running.must("finish", configuration={})
        except Ended:
            pass
        code, out, _ = running.rest()
        self.assertEqual(code, 0)
        self.assertIn("steps 12", out)

    def test_training_in_a_thread_is_left_alone(self):
        script = self.write(
            "threaded.py",
            LOOP + """
    import threading
    def train():
        for _ in range(20):
            step()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    print(model.weight.sum().item())
        """,
        )
        running, _ = self.assert_same(script)
        self.assertFalse(running.last["end"]["steps_known"])
        self.assertIn("another thread", running.last["end"]["why"])

    def test_a_socket_that_is_none_is_one_line(self):
        script = self.write("hello.py", "import torch\nprint('hello')\n")
        path = os.pathsep.join([str(STARTUP), os.environ.get("PYTHONPATH", "")])
        for number in ("77", "seven"):
            with self.subTest(number):
                code, out, error = alone(
                    script,
                    environment={**QUIET, "AUTOTUNED_SCRIPT_SOCKET": number, "PYTHONPATH": path},
                    cwd=self.folder,
                )
                self.assertEqual((code, out), (0, "hello\n"))
                self.assertEqual(error.count("\n"), 1)
                self.assertIn("autotuned: cannot tune this script", error)


if __name__ == "__main__":
    unittest.main()

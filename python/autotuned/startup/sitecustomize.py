# SPDX-License-Identifier: Apache-2.0
"""Loaded by the Python that runs the script, because this folder is in front of its PYTHONPATH.

Does nothing until the script imports PyTorch. Takes itself out of the environment at once, so
that no child finds it, and gives the turn to a sitecustomize of the user's.
"""

import atexit
import importlib.machinery
import importlib.util
import os
import sys

_SOCKET = "AUTOTUNED_SCRIPT_SOCKET"
_PACKAGE = "_autotuned_script"  # a name that nothing of the script's has
_HERE = os.path.dirname(os.path.abspath(__file__))


def _leave_the_environment():
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = [entry for entry in entries if os.path.abspath(entry or ".") != _HERE or not entry]
    if rest and rest != [""]:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _HERE]
    return os.environ.pop(_SOCKET, "")


def _warn(error):
    sys.stderr.write(
        "autotuned: cannot tune this script: %s: %s\n" % (type(error).__name__, error)
    )


def _attach(descriptor):
    """Attaches to the session. A failure is one line; the script never sees it."""
    try:
        folder = os.path.dirname(_HERE)
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = package
        spec.loader.exec_module(package)
        importlib.import_module(_PACKAGE + ".agent.attach").attach(descriptor)
    except Exception as error:
        _warn(error)
        try:
            os.close(descriptor)
        except OSError:
            pass


class _Finder:
    """Attaches behind the first `import torch` that succeeds, and is gone then.

    Who only asks whether torch is there gets the same answer as without it. If torch cannot be
    imported, the session learns why when the script ends: it may find torch later.
    """

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._process = os.getpid()
        self._why = ""  # torch was not imported

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        place = sys.meta_path.index(self) if self in sys.meta_path else 0
        self._leave()  # while it looks: the others are asked then
        try:
            spec = importlib.util.find_spec(name)
        finally:
            if os.getpid() == self._process:
                sys.meta_path.insert(place, self)
        if spec is None:
            self._note("has no module torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            del spec.loader.exec_module  # of the instance: the loader is as it was
            is_first = self._leave()
            try:
                execute(module)
            except Exception as error:
                if is_first and os.getpid() == self._process:
                    self._note("cannot import torch: %s: %s" % (type(error).__name__, error))
                    sys.meta_path.insert(0, self)  # the script may try again
                raise
            if is_first and os.getpid() == self._process:
                self._why = ""
                _attach(self._descriptor)

        spec.loader.exec_module = exec_module
        return spec

    def _note(self, why):
        if os.getpid() != self._process:
            return
        if not self._why:
            atexit.register(self._tell)
        self._why = why

    def _tell(self):
        """Tells the session why the script ends untuned, unless torch was imported after all."""
        if not self._why or os.getpid() != self._process:
            return
        try:
            import json
            import socket

            why = (
                "its Python, %s, %s; activate the environment that has PyTorch, or name its "
                "Python: `autotuned run -- PYTHON SCRIPT`" % (sys.executable, self._why)
            )
            body = json.dumps({"end": {"steps_known": False, "why": why}}).encode()
            # The script may have closed the socket and opened a file, which has its number now. If
            # the session is gone, no signal may end the script.
            link = socket.socket(fileno=self._descriptor)
            try:
                link.sendall(len(body).to_bytes(4, "little") + body, socket.MSG_NOSIGNAL)
            finally:
                link.detach()
        except Exception:
            pass  # the session says what it knows without it

    def _leave(self):
        """Removes the finder. Returns whether it was installed."""
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return False
        return True


def _begin():
    text = _leave_the_environment()
    if not text:
        return
    try:
        descriptor = int(text)
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError) as error:
        _warn(error)
        return
    if "torch" in sys.modules:
        _attach(descriptor)
    else:
        sys.meta_path.insert(0, _Finder(descriptor))


def _give_the_turn():
    """Runs the sitecustomize that Python would have found without this one."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_begin()
_give_the_turn()

# SPDX-License-Identifier: Apache-2.0
"""Makes empty libraries in place of CUDA's, so that Python can load the torch wheel on a machine
without them.

usage: cuda_stand_ins.py DEPS FOLDER

PyTorch's Python part is linked with libtorch_cuda.so, which wants cuDNN and others: 2 GB that
`scripts/setup` fetches with --cuda only. Without a GPU none of their functions is called, but the
dynamic linker wants every library and every symbol version. A function that is called
nevertheless ends the process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

USERS = ("libtorch_python.so", "libtorch_cuda.so", "libtorch_nvshmem.so")
OURS = re.compile(r"lib(cu|nccl|nvshmem)")
# Those of the CUDA runtime and CUPTI are there.
SYMBOL = re.compile(r"(?!cuda|cupti|__cuda)(cu|nccl|nvshmem)")


def lines_of(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def wanted(deps: Path) -> dict[str, set[tuple[str, str]]]:
    """Missing libraries, each with its symbols and their versions.

    A symbol without a version may be in any of them.
    """
    there = {path.name for path in (deps / "nvidia" / "cu13" / "lib").glob("*.so*")}
    there |= {path.name for path in (deps / "nvidia").glob("*/lib/*.so*")}
    there |= {path.name for path in (deps / "torch" / "lib").glob("*.so*")}
    missing: dict[str, set[tuple[str, str]]] = {}
    symbols: set[tuple[str, str]] = set()
    for user in USERS:
        library = str(deps / "torch" / "lib" / user)
        for line in lines_of("readelf", "--dynamic", "--wide", library):
            found = re.search(r"\(NEEDED\).*\[(.*)\]", line)
            if found and OURS.match(found[1]) and found[1] not in there:
                missing.setdefault(found[1], set())
        for line in lines_of("nm", "--dynamic", "--undefined-only", library):
            name, _, version = line.split()[-1].partition("@")
            if SYMBOL.match(name):
                symbols.add((name, version))
    if not missing:
        return {}
    first = next(iter(missing))
    for name, version in symbols:
        owner = version if version in missing else first
        if version and version not in missing:  # a version that is not named like its library
            owner = next((one for one in missing if one.startswith("lib" + version.lower())), "")
        if owner:
            missing[owner].add((name, version))
    return missing


def make(folder: Path, library: str, symbols: set[tuple[str, str]]) -> None:
    version = next((version for _, version in symbols if version), library)
    assembly = "".join(
        f".globl {name}\n.type {name}, @function\n{name}:\n" for name, _ in sorted(symbols)
    )
    source, script, built = folder / "stand_in.s", folder / "stand_in.map", folder / "stand_in.o"
    source.write_text(
        f'.text\n{assembly}ud2\n.section .note.GNU-stack,"",@progbits\n', encoding="ascii"
    )
    script.write_text(f"{version} {{ global: *; }};\n", encoding="ascii")
    subprocess.run(["as", source, "-o", built], check=True)
    subprocess.run(
        [
            "ld",
            "-shared",
            "-soname",
            library,
            f"--version-script={script}",
            built,
            "-o",
            folder / library,
        ],
        check=True,
    )


def main() -> None:
    deps, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for library, symbols in wanted(deps).items():
        make(folder, library, symbols)
    (folder / "made").touch()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""libautotuned_cuda.so and libautotuned_nccl.so are linked with nothing: whatever they lack must be in the libraries that
a trainer on a GPU has open. Read from the files, so that no GPU is needed.

usage: cuda_symbols_test.py LIBRARY FOLDER_OF_LIBTORCH PART_OF_A_SYMBOL_THAT_IT_USES FUNCTION_THAT_IT_EXPORTS
"""

import pathlib
import re
import subprocess
import sys

LIBRARIES = ["libtorch_cuda.so", "libc10_cuda.so", "libtorch_cpu.so", "libc10.so"]
# Symbols of the C and C++ libraries, which every trainer has.
SYSTEM = re.compile(r"@|^_ITM_|^__gmon_start__|^__cxa_|^__gxx_|^_Unwind_|^_ZT[IVS]N10__cxxabi|^_ZSt|^_ZNSt|^_ZNKSt|^_ZTVSt|^_ZTISt|^_Zn|^_Zd"
                    r"|^_ZTIN10|^__stack_chk|^mem|^str")


def symbols(file, which):
    out = subprocess.run(["nm", "-D", which, str(file)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.strip()}


def main():
    library, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not (folder / LIBRARIES[0]).exists():
        print(f"skipped: {folder} has no {LIBRARIES[0]}")
        return 77
    wanted = {name for name in symbols(library, "--undefined-only") if not SYSTEM.search(name)}
    found = set().union(*({name.split("@")[0] for name in symbols(folder / name, "--defined-only")}
                          for name in LIBRARIES))
    used, exported = sys.argv[3:5]
    if not any(used in name for name in wanted):
        sys.exit(f"it does not use {used}: is that the right file?")
    missing = sorted(wanted - found)
    if missing:
        sys.exit("nobody has: " + " ".join(missing))
    if exported not in symbols(library, "--defined-only"):
        sys.exit(f"it lacks {exported}")
    print(f"all {len(wanted)} symbols are there")
    return 0


if __name__ == "__main__":
    sys.exit(main())

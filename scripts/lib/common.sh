# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Sourced by the scripts next to this folder; sets no state but these functions and `root`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

step() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }

# stop WHAT WHERE REMEDY: says what is wrong, where, and what to do about it, then ends the script.
stop() {
  printf '\nstopped: %s\n  where: %s\n  to do: %s\n' "$1" "$2" "$3" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Processes that may compile at once: files that include LibTorch take 1.5 GB each.
compile_jobs() {
  local cpus memory_kib by_memory
  cpus=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((memory_kib / 2000000))
  ((by_memory >= 1)) || by_memory=1
  echo $((cpus < by_memory ? cpus : by_memory))
}

# Slots of ctest --parallel, of which most tests take two (cmake/AutotunedTargets.cmake).
test_slots() { echo $((2 * $(nproc) + 1)); }

configure() { (cd "$root" && cmake --preset "$1" "${@:2}"); }

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  local targets=()
  (($# == 0)) || targets=(--target "$@")
  (cd "$root" && cmake --build --preset "$preset" "${targets[@]}" -- -j "$(compile_jobs)" -k 0)
}

# The C++ sources that git knows or would add, one a line; in a tree without git, those on disk.
cpp_sources() {
  (
    cd "$root" || exit
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
      git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' '*.h'
    else
      find . \( -path ./build -o -path ./.deps -o -path ./.cache -o -path ./out \) -prune -o \
        -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' \) -printf '%P\n'
    fi
  ) | sort | while read -r file; do
    if [[ -f $root/$file ]]; then echo "$file"; fi
  done
}

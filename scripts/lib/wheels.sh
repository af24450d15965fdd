# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# LibTorch and CUDA files from Python wheels. Sourced by scripts/setup.
#
# Wheels are unpacked, not installed: no Python is run to build or to use autotuned. Everything comes
# into a folder beside the final one, which is renamed when it is whole; the stamp inside is the hash
# of the list that it was made from. So nothing half done is ever taken for complete.

deps=$root/.deps
target=$deps/python

list_hash() { sha256sum <"$1" | cut -d' ' -f1; }

# stamped STAMP LIST: is what STAMP describes there, and made from LIST as it is now?
stamped() { [[ -f $1 && $(<"$1") == $(list_hash "$2") ]]; }

# The platform is named in full, so that the same files, with the same hashes, come everywhere.
unpack_wheels() {
  local list=$1 folder=$2 platform
  local options=(--no-deps --no-compile --no-cache-dir --disable-pip-version-check --quiet
    --root-user-action ignore --require-hashes --only-binary=:all: --python-version 3.11
    --implementation cp --retries 5 --timeout 60)
  for platform in manylinux_2_28 manylinux_2_27 manylinux_2_25 manylinux_2_24 manylinux_2_18 manylinux_2_17 \
    manylinux2014; do
    options+=(--platform "${platform}_x86_64")
  done
  mkdir -p "$folder.tmp"
  TMPDIR=$folder.tmp python3 -m pip install "${options[@]}" --target "$folder" \
    --requirement "$list" >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    rm -rf "$folder" "$folder.tmp"
    stop "the wheels cannot be fetched or are not what $(basename "$list") names" \
      "pip install (its last lines are above)" \
      "check the network and the disk, then run this again; a hash that differs must not be worked around"
  }
}

install_wheels() {
  local list=$root/scripts/requirements.txt
  if stamped "$target/.stamp" "$list"; then
    step "LibTorch and CUDA headers: already in .deps/python"
    return
  fi
  step "LibTorch and CUDA headers: fetching into .deps/python (about 0.6 GB)"
  rm -rf "$deps"/python.new*
  unpack_wheels "$list" "$deps/python.new"
  [[ -f $deps/python.new/torch/lib/libtorch_cpu.so && -f $deps/python.new/nvidia/cu13/include/cupti.h ]] ||
    stop "the wheels do not hold what is expected of them" "$deps/python.new" \
      "report this, with the output of: ls $deps/python.new"
  list_hash "$list" >"$deps/python.new/.stamp"
  rm -rf "$deps/python.old"
  [[ ! -e $target ]] || mv "$target" "$deps/python.old"
  mv "$deps/python.new" "$target"
  rm -rf "$deps/python.old" "$deps"/python.new*
}

# install_beside FOLDER LIST WHAT: beside LibTorch and not in its folder, so that a change of this list fetches nothing else
install_beside() {
  local folder=$1 list=$2 what=$3
  if stamped "$folder/.stamp" "$list"; then
    step "$what: already in ${folder#"$root"/}"
    return
  fi
  step "$what: fetching into ${folder#"$root"/} (about 10 MB)"
  mkdir -p "$deps"
  rm -rf "$folder" "$folder".new*
  unpack_wheels "$list" "$folder.new"
  list_hash "$list" >"$folder.new/.stamp"
  mv "$folder.new" "$folder"
  rm -rf "$folder".new*
}

install_python_modules() {
  install_beside "$deps/python-modules" "$root/scripts/requirements-python.txt" "Python modules for tests"
}

# For scripts/wheel: what builds a wheel, and what says on which systems it runs.
wheel_tools=$deps/wheel-tools
install_wheel_tools() {
  install_beside "$wheel_tools" "$root/scripts/requirements-wheel.txt" "Python modules that make wheels"
}

# The GPU libraries join LibTorch's folder, where libtorch_cuda.so looks for them. The stamp comes
# last: a merge that was cut off is done again.
install_cuda_wheels() {
  local list=$root/scripts/requirements-cuda.txt
  if stamped "$target/.stamp-cuda" "$list"; then
    step "GPU libraries: already in .deps/python"
    return
  fi
  step "GPU libraries: fetching into .deps/python (about 2 GB)"
  rm -rf "$deps"/cuda.new*
  unpack_wheels "$list" "$deps/cuda.new"
  cp -a --link --force "$deps/cuda.new/." "$target/"
  list_hash "$list" >"$target/.stamp-cuda"
  rm -rf "$deps"/cuda.new*
}

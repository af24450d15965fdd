# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Which libraries come along with the programs. Sourced by scripts/package and scripts/wheel.
#
# Other systems have other versions of the libraries of this one, or none. $ORIGIN/../lib/system is in the run path of every
# program of a build (cmake/AutotunedOptions.cmake), so they are copied there. LibTorch and CUDA's libraries stay behind: they
# are larger than all else, and belong to the PyTorch that is there.

# Wherever there are glibc and libstdc++.
everywhere='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libmvec|libstdc\+\+|libgcc_s)\.so'

# programs_below FOLDER...: programs and libraries, one a line
programs_below() { find "$@" -type f \( -perm -u+x -o -name '*.so' -o -name '*.so.*' \); }

# system_libraries PROGRAM...: name and path of each library to bundle, one a line. The programs are those of a build: their
# run path leads to LibTorch.
system_libraries() {
  local name path
  { ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
    while read -r name path; do
      [[ $name =~ $everywhere || $path == */torch/lib/* || $path == */nvidia/* || $path == "$root"/* ]] ||
        echo "$name $path"
    done
}

# foreign_libraries PROGRAM...: what they are linked with that neither comes along nor is everywhere, one name a line
foreign_libraries() {
  local name bundled
  bundled=$(system_libraries "$@" | cut -d' ' -f1)
  { readelf -d "$@" 2>/dev/null || true; } | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u |
    while read -r name; do
      [[ $name =~ $everywhere ]] || grep -qxF -- "$name" <<<"$bundled" || echo "$name"
    done
}

# bundle_libraries FOLDER PROGRAM...: copies what comes along into the folder, and names it
bundle_libraries() {
  local folder=$1 name path
  shift
  mkdir -p "$folder"
  while read -r name path; do
    note "$name"
    cp -L "$path" "$folder/$name"
  done < <(system_libraries "$@")
}

# bundle_licences FOLDER PROGRAM...: the licence of each package of this system from which something comes along
bundle_licences() {
  local folder=$1 path package
  shift
  mkdir -p "$folder"
  while read -r _ path; do
    package=$(dpkg-query --search "*/$(basename "$(realpath "$path")")" 2>/dev/null | head -n 1 | cut -d: -f1)
    [[ -n $package && -f /usr/share/doc/$package/copyright ]] ||
      stop "nobody knows the licence of $path" "/usr/share/doc" "install the library from a package of this system"
    cp -L "/usr/share/doc/$package/copyright" "$folder/$package"
  done < <(system_libraries "$@")
}

# tell_needed_versions PROGRAM...: the oldest glibc and libstdc++ with which all of them run
tell_needed_versions() {
  local version newest
  for version in GLIBC GLIBCXX; do
    newest=$({ objdump -T "$@" 2>/dev/null || true; } | grep -o "${version}_[0-9.]*" | sort -Vu | tail -n 1)
    note "needs $newest or newer"
  done
}

# strip_below FOLDER: symbols are not needed to run, and are nine tenths of the size
strip_below() { programs_below "$1" | xargs -r -d '\n' strip --strip-unneeded 2>/dev/null || true; }

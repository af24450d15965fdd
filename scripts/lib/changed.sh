# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What a change touches. Sourced by scripts/sanitizers; runs in the repository of the current folder.

# The commit with which HEAD is compared: where the branch left main; on main, the newest that is half a day older than the
# last. Nothing where there is none.
find_base() {
  local head main left
  head=$(git rev-parse --quiet --verify HEAD 2>/dev/null) || return 0
  for main in origin/HEAD origin/main main; do
    left=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    if [[ $left != "$head" ]]; then
      echo "$left"
      return
    fi
  done
  git rev-list -1 --before="$(($(git log -1 --format=%ct) - 12 * 3600))" HEAD
}

# C++ sources that differ from the commit $1 or that git does not know yet.
changed_sources() {
  {
    git diff --name-only --diff-filter=d "$1" -- '*.cpp' '*.hpp' '*.h' '*.c'
    git ls-files --others --exclude-standard -- '*.cpp' '*.hpp' '*.h' '*.c'
  } | sort -u
}

# tested_folders LIST: which folders of the list "FOLDER PROGRAM PREFIX" have tests of the sources on standard input, those
# with most changed sources first. A folder without tests of its own is tested by those of the folder above it.
tested_folders() {
  awk -v list="$1" '
    BEGIN { while ((getline line < list) > 0) { split(line, field, " "); tested[field[1]] = 1 } }
    {
      folder = $0
      sub(/^tests\//, "", folder)
      while (sub(/\/?[^\/]*$/, "", folder) && folder != "" && !(folder in tested)) {}
      if (folder in tested) count[folder]++
    }
    END { for (folder in count) print count[folder], folder }' | sort -k1,1nr -k2 | cut -d' ' -f2-
}

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
# System packages. Sourced by scripts/setup.

packages=(
  # tools
  g++ cmake ninja-build ccache mold git ca-certificates python3 python3-pip clang-format
  # libraries
  libboost1.81-dev libyaml-cpp-dev libsqlite3-dev libsqlitecpp-dev libfmt-dev libspdlog-dev
  nlohmann-json3-dev libexpected-dev libcli11-dev libjpeg62-turbo-dev libpng-dev
  zlib1g-dev nettle-dev libutf8proc-dev
  libsimdjson-dev
  # headers alone: the library is in LibTorch
  libgloo-dev
  # charts of the web page
  libjs-chart.js
  # tests and benchmarks
  libgtest-dev libgmock-dev libbenchmark-dev
  # the data of the main job
  dataset-fashion-mnist
)
packages_for_lint=(clang-tidy)
packages_for_page=(nodejs)
packages_for_browser=(chromium tmux)

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif have sudo; then
    sudo -- "$@"
  else
    stop "installing packages needs root" "$(id -un)@$(uname -n)" \
      "run this as root, or install sudo"
  fi
}

missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      echo "$package"
  done
}

# A certificate bundle that is there without the package was put there by an administrator, say for a
# proxy. The package would overwrite it: hand it over as a local certificate instead.
keep_certificates() {
  local bundle=/etc/ssl/certs/ca-certificates.crt kept=/usr/local/share/ca-certificates/kept.crt
  [[ -s $bundle && -n $(missing_packages ca-certificates) ]] || return 0
  note "keeping the certificates of $bundle in $kept"
  as_root install -D -m 644 "$bundle" "$kept"
}

install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    step "system packages: all $# are installed"
    return
  fi
  step "system packages: installing ${#missing[@]} of $#"
  note "${missing[*]}"
  local options=(-q -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o DPkg::Lock::Timeout=300)
  # An interrupted installation leaves packages half configured; nothing to do if there are none.
  as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a
  keep_certificates
  as_root apt-get "${options[@]}" update >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    stop "the package lists cannot be fetched" "apt-get update (sources in /etc/apt)" \
      "check the network and the sources, then run this again"
  }
  as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y \
    --no-install-recommends "${missing[@]}" >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    stop "packages cannot be installed" "apt-get install (its last lines are above)" \
      "mend what it says, then run this again; what is installed already is kept"
  }
}

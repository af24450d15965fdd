# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# A wheel or a package on an empty system, as somebody meets it who has never seen the tree. Sourced by scripts/wheel and
# scripts/package.

# The mirror of this machine, which its network is known to reach; nothing where none is set: debootstrap knows its own.
# shellcheck disable=SC2016
debian_mirror() {
  apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -m1 '/debian/\{0,1\}$' || true
}

# inside ROOT COMMAND...: in a mount namespace of its own, so that nothing stays mounted
# shellcheck disable=SC2016
inside() {
  local folder=$1
  shift
  as_root unshare --mount --fork sh -c \
    'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" env HOME=/opt/somebody LANG=C.UTF-8 "$@"' \
    "$folder" "$@"
}

# Milliseconds, of which only differences mean something.
clock() { date +%s%3N; }
in_seconds() { printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100)); }

# must ROOT TEXT COMMAND...: the command succeeds inside and says so. Leaves what it took in took_ms
must() {
  local folder=$1 text=$2 said began
  shift 2
  began=$(clock)
  said=$(inside "$folder" "$@" 2>&1) ||
    stop "on an empty system this failed: $*" "$folder" "it said: $(tail -n 12 <<<"$said")"
  took_ms=$(($(clock) - began))
  grep -qF -- "$text" <<<"$said" ||
    stop "on an empty system '$*' did not say '$text'" "$folder" "it said: $(tail -n 12 <<<"$said")"
  note "$* ($(in_seconds "$took_ms"))"
}

# must_refuse ROOT TEXT COMMAND...: the command fails inside and says why
must_refuse() {
  local folder=$1 text=$2 said
  shift 2
  if said=$(inside "$folder" "$@" 2>&1); then
    stop "on an empty system this should have been refused: $*" "$folder" "it said: $(tail -n 12 <<<"$said")"
  fi
  grep -qF -- "$text" <<<"$said" ||
    stop "on an empty system '$*' did not say '$text'" "$folder" "it said: $(tail -n 12 <<<"$said")"
  note "$*: refused, as it must be"
}

# make_empty_system SUITE FOLDER PACKAGE...: with these packages and a virtual environment, /opt/somebody/venv, of which it
# leaves what it took in environment_ms
make_empty_system() {
  local suite=$1 folder=$2 mirror said began
  shift 2
  have debootstrap || stop "debootstrap is missing" "PATH" "install the package debootstrap"
  mirror=$(debian_mirror)
  step "empty system: $suite"
  said=$(as_root debootstrap --variant=minbase --include="$(IFS=, && echo "$*")" "$suite" "$folder" \
    ${mirror:+"$mirror"} 2>&1) || {
    tail -n 12 <<<"$said" >&2
    stop "no empty system can be made" "debootstrap $suite (its last lines are above)" "install debootstrap, check the network"
  }
  # How this machine reaches its network.
  cp -L /etc/resolv.conf "$folder/etc/resolv.conf"
  [[ ! -f /etc/pip.conf ]] || cp -L /etc/pip.conf "$folder/etc/pip.conf"
  cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
  mkdir -p "$folder/opt/somebody"
  began=$(clock)
  inside "$folder" python3 -m venv /opt/somebody/venv
  environment_ms=$(($(clock) - began))
}

# rehearse_package ARCHIVE: on a Debian whose libraries are others than those of the build
rehearse_package() {
  local archive=$1 folder at=/opt/somebody/autotuned pip=/opt/somebody/venv/bin/pip
  local run="cd $at && build/release/bin/autotuned"
  folder=$(mktemp -d)/root
  make_empty_system trixie "$folder" ca-certificates python3 python3-venv dataset-fashion-mnist
  tar -C "$folder/opt/somebody" -xzf "$archive"
  must "$folder" "broken   trainer" sh -c "$run doctor 2>&1; true"
  # Of its CUDA libraries the two that the CPU part is linked with.
  must "$folder" "Successfully installed" "$pip" install --no-cache-dir --no-deps "torch==2.11.*" \
    "nvidia-cuda-runtime==13.0.*" "nvidia-cuda-cupti==13.0.*"
  # Somebody makes this link by hand, or bench/gpu/run --libtorch does.
  # shellcheck disable=SC2016
  inside "$folder" sh -c 'mkdir -p "$0/.deps" && ln -s /opt/somebody/venv/lib/python3*/site-packages "$0/.deps/python"' "$at"
  must "$folder" "LibTorch 2.11" sh -c "$run doctor"
  must "$folder" '"ready"' sh -c "$run plugins --json"
  must "$folder" "test accuracy" sh -c "$run run recipes/fashion_cnn.yaml --budget 30s 2>&1"
  must "$folder" "no NVIDIA driver" "$at/RUN-GPU-TESTS"
  # 4: all of it ran, and there is no GPU.
  must "$folder" "ended with 4" sh -c "cd $at && bench/gpu/run --minutes 5 2>&1; echo ended with \$?"
  as_root rm -rf "$(dirname "$folder")"
  step "the package works on an empty system"
}

# The aim for the commands from nothing to a tuned run, without the download of PyTorch.
aim_ms=180000

# What a script says is kept in a file; behind the line that ends its tuning, the script is ended.
write_until_tuned() {
  cat >"$1" <<'EOF'
cd "$1" || exit 1
shift
"$@" >log 2>&1 &
until grep -q "autotuned: tuning " log; do
  kill -0 $! 2>/dev/null || break
  sleep 0.1
done
kill $! 2>/dev/null
wait
cat log
EOF
}

# rehearse_script FOLDER CHECKOUT: a virtual environment and the wheel are there, and took environment_ms and wheel_ms. The
# script is word_language_model of pytorch/examples, which needs nothing but PyTorch; without a checkout it is one of ours
rehearse_script() {
  local folder=$1 checkout=$2 place=/opt/somebody words counted name
  local bin=/opt/somebody/venv/bin wheels=/opt/somebody/torch
  if [[ -n $checkout ]]; then
    mapfile -t words < <(python3 "$root/bench/scripts/prepare.py" "$checkout" word_language_model \
      "$folder/opt/somebody/public")
    ((${#words[@]} > 1)) || stop "the public script cannot be written" "$checkout" "give a checkout of pytorch/examples"
    place=$place/public/${words[0]}
    words=("${words[@]:1}")
    name="word_language_model of pytorch/examples"
  else
    words=(classifier.py --zeros --epochs 1000000)
    name="a script of our tests"
  fi
  write_until_tuned "$folder/opt/somebody/until-tuned"
  must "$folder" "Successfully downloaded" "$bin/pip" download --no-cache-dir --dest "$wheels" "torch==2.11.*"
  must "$folder" "Successfully installed" "$bin/pip" install --no-cache-dir --no-index --find-links "$wheels" \
    "torch==2.11.*"
  counted=$((environment_ms + wheel_ms + took_ms))
  inside "$folder" rm -r "$wheels"
  must "$folder" "LibTorch 2.11" "$bin/autotuned" doctor
  must "$folder" "autotuned: tuning " sh /opt/somebody/until-tuned "$place" "$bin/autotuned" run --budget 30s "${words[@]}"
  counted=$((counted + took_ms))
  note "from nothing to a tuned run of $name: $(in_seconds "$counted") without the download of PyTorch," \
    "$( ((counted <= aim_ms)) && echo within || echo MORE THAN) the aim of $(in_seconds "$aim_ms")"
}

# rehearse_on SUITE WITH_TORCH CHECKOUT WHEEL
rehearse_on() {
  local suite=$1 torch=$2 checkout=$3 wheel=$4 folder wheel_ms
  local home=opt/somebody bin=/opt/somebody/venv/bin
  folder=$(mktemp -d)/root
  make_empty_system "$suite" "$folder" ca-certificates python3 python3-venv
  cp "$wheel" "$root"/tests/python/scripts/{classifier,common}.py "$root/tests/profiler/data/workers.pt.trace.json.gz" \
    "$root/recipes/fashion_cnn.yaml" "$folder/$home/"
  must "$folder" "Successfully installed autotuned" "$bin/pip" install "/opt/somebody/$(basename "$wheel")"
  wheel_ms=$took_ms
  must "$folder" "autotuned" "$bin/autotuned" --version
  must "$folder" "data_loading" "$bin/autotuned" analyze /opt/somebody/workers.pt.trace.json.gz
  must "$folder" '"ready"' "$bin/autotuned" plugins --json
  must_refuse "$folder" "there is no PyTorch in this environment" "$bin/autotuned" run /opt/somebody/fashion_cnn.yaml
  must "$folder" "A" "$bin/python" -c \
    'import autotuned; print(autotuned.compare(lambda: sum(range(300)), lambda: sum(range(200)), seconds=5))'
  must "$folder" "2 batches" "$bin/python" -c 'import autotuned
data = {"type": "synthetic", "samples": 6, "shape": [3, 4, 4], "classes": 2}
print(len(autotuned.Loader(data, batch_size=4)), "batches")'
  ((torch == 0)) || rehearse_script "$folder" "$checkout"
  as_root rm -rf "$(dirname "$folder")"
}

# rehearse WITH_TORCH CHECKOUT WHEEL; CHECKOUT may be empty
rehearse() {
  rehearse_on bookworm "$@"
  rehearse_on trixie "$@"
  step "the wheel works on empty systems"
}

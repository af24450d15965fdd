#!/bin/sh
# Written by `autotuned submit`. `sbatch FILE` submits it again.
#SBATCH --job-name=fashion_cnn
#SBATCH --comment=autotuned
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --signal=B:TERM@60

program='/opt/autotuned/bin/autotuned'
recipe='/home/me/recipe.yaml'
kept='/home/me/autotuned-slurm'/"$SLURM_JOB_ID.db"

# The history lies on a disk of the node, and a copy of it is brought back at the end.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/autotuned-XXXXXX" 2>/dev/null) ||
  scratch=$(mktemp -d /tmp/autotuned-XXXXXX) || exit 4
export AUTOTUNED_HISTORY="$scratch/history.db"
# A job that Slurm starts again goes on with its own.
if test -f "$kept"; then
  cp "$kept" "$AUTOTUNED_HISTORY"
elif test -f '/home/me/autotuned-slurm/r-20261126-7f3a9c.known'; then
  cp '/home/me/autotuned-slurm/r-20261126-7f3a9c.known' "$AUTOTUNED_HISTORY"
fi

# The first signal asks the run to stop, which writes a checkpoint. The second one ends it at once.
run=
signalled=
trap 'signalled=yes; test -z "$run" || kill -TERM "$run"' TERM
"$program" run "$recipe" --no-daemon '--ranks' '4' '--set' 'loader.workers=2' &
run=$!
test -z "$signalled" || kill -TERM "$run"
code=
while :; do
  signalled=
  wait "$run"
  status=$?
  test -n "$code" && test "$status" -eq 127 && break
  code=$status
  test -n "$signalled" || break
done
run=

if test -f "$AUTOTUNED_HISTORY"; then
  if "$program" history backup "$scratch/copy.db" >/dev/null &&
    cp "$scratch/copy.db" "$kept.partial" && mv "$kept.partial" "$kept"; then
    echo "history  $kept"
  else
    echo "error: the history could not be copied to $kept; it stays in $scratch on $(hostname)" >&2
    test "$code" -ne 0 || code=1
    exit "$code"
  fi
fi
rm -rf "$scratch"
exit "$code"

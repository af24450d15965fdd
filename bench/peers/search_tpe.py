# SPDX-License-Identifier: Apache-2.0
"""Optuna's TPE on recorded grids (scan --output): evaluations until a point is within 2 % of the best.

    bench/peers/setup-search && .deps/search/bin/python bench/peers/search_tpe.py [--runs N] GRID...

TPE is told the true rate of a point. A point that it asks for again costs nothing: whoever uses it would
remember, too. Like our search it begins with the starting configuration, which is not counted.
"""
import argparse
import json
import statistics
from pathlib import Path

import optuna

GOOD = 0.02


def read(path):
    grid = json.loads(Path(path).read_text())
    start = grid["start"]
    rates, values = {}, {}
    names = sorted({name for point in grid["points"] for name in point["change"]})
    for point in grid["points"]:
        configuration = tuple(point["change"].get(name, start[name]) for name in names)
        measured = sorted(point["samples_per_second"])
        rates[configuration] = measured[len(measured) // 2]
        for name, value in zip(names, configuration):
            values.setdefault(name, set()).add(value)
    values = {name: sorted(values[name]) for name in names}
    return names, values, rates, {name: start[name] for name in names}


def suggest(trial, name, values):
    # Numbers in a row are told as such, so that TPE can use their order.
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return values[trial.suggest_int(name, 0, len(values) - 1)]
    return trial.suggest_categorical(name, values)


def search(names, values, rates, start, seed):
    best = max(rates.values())
    seen = {}

    def objective(trial):
        configuration = tuple(suggest(trial, name, values[name]) for name in names)
        seen[configuration] = rates[configuration]
        if max(seen.values()) >= (1 - GOOD) * best:
            trial.study.stop()
        return rates[configuration]

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True),
    )
    encoded = {
        name: values[name].index(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else value
        for name, value in start.items()
    }
    study.enqueue_trial(encoded)
    study.optimize(objective, n_trials=20 * len(rates))
    return len(seen) - 1, 1 - max(seen.values()) / best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("grids", nargs="+")
    parser.add_argument("--runs", type=int, default=50)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    import warnings

    warnings.simplefilter("ignore")
    print("| grid | search | evaluations (median) | 90th | regret (median) |")
    print("|---|---|---|---|---|")
    for path in options.grids:
        grid = read(path)
        outcomes = [search(*grid, seed) for seed in range(options.runs)]
        evaluations = sorted(count for count, _ in outcomes)
        regret = statistics.median(regret for _, regret in outcomes)
        last = len(evaluations) - 1
        print(
            f"| {Path(path).stem} | TPE (Optuna {optuna.__version__}), to a regret of 2 % | "
            f"{evaluations[last // 2]} | {evaluations[last * 9 // 10]} | {100 * regret:.1f} % |"
        )


if __name__ == "__main__":
    main()

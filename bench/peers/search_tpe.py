# SPDX-License-Identifier: Apache-2.0
"""Optuna's TPE on recorded grids (scan --output): evaluations until a point is near enough to the best.

    bench/peers/setup-search
    .deps/search/bin/python bench/peers/search_tpe.py [--runs N] [--until REGRET] bench/data/grids/*.json

TPE is told the true rate of a point. A point that it asks for again costs nothing: whoever uses it would
remember, too. Like our search it begins with the starting configuration, which is not counted.
"""
import argparse
import json
import statistics
import warnings
from pathlib import Path


def best_rate(rates):
    """What the best of some points is worth, of their rates in the same rounds; as in bench/search/grid.hpp."""
    rounds = len(rates[0])
    if rounds == 1:
        return max(rates)[0]
    told = []
    for number in range(rounds):
        others = [statistics.median(one[:number] + one[number + 1:]) for one in rates]
        told.append(rates[others.index(max(others))][number])
    return statistics.median(told)


def read(path):
    grid = json.loads(Path(path).read_text())
    start = grid["start"]
    rates, values = {}, {}
    names = sorted({name for point in grid["points"] for name in point["change"]})
    for point in grid["points"]:
        configuration = tuple(point["change"].get(name, start[name]) for name in names)
        rates[configuration] = statistics.median(point["samples_per_second"])
        for name, value in zip(names, configuration):
            values.setdefault(name, set()).add(value)
    values = {name: sorted(values[name]) for name in names}
    best = best_rate([point["samples_per_second"] for point in grid["points"]])
    return names, values, rates, {name: start[name] for name in names}, best


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def suggest(trial, name, values):
    # Numbers in a row are told as such, so that TPE can use their order.
    if all(is_number(value) for value in values):
        return values[trial.suggest_int(name, 0, len(values) - 1)]
    return trial.suggest_categorical(name, values)


def search(optuna, grid, seed, until):
    """Evaluations and regret."""
    names, values, rates, start, best = grid
    seen = {}

    def objective(trial):
        configuration = tuple(suggest(trial, name, values[name]) for name in names)
        seen[configuration] = rates[configuration]
        if 1 - max(seen.values()) / best <= until or len(seen) == len(rates):
            trial.study.stop()
        return rates[configuration]

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True),
    )
    encoded = {name: values[name].index(value) if is_number(value) else value for name, value in start.items()}
    study.enqueue_trial(encoded)
    study.optimize(objective, n_trials=20 * len(rates))
    return len(seen) - 1, 1 - max(seen.values()) / best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("grids", nargs="+")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--until", type=float, action="append", metavar="REGRET",
                        help="stop within this share of the best (default: 0.02); may be repeated")
    options = parser.parse_args()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    print("| grid | search | evaluations (median) | 90th | regret (median) |")
    print("|---|---|---|---|---|")
    for path in options.grids:
        grid = read(path)
        for until in options.until or [0.02]:
            outcomes = [search(optuna, grid, seed, until) for seed in range(options.runs)]
            evaluations = sorted(count for count, _ in outcomes)
            regret = statistics.median(regret for _, regret in outcomes)
            last = len(evaluations) - 1
            print(
                f"| {Path(path).stem} | TPE (Optuna {optuna.__version__}), to a regret of {100 * until:.1f} % | "
                f"{evaluations[last // 2]} | {evaluations[last * 9 // 10]} | {100 * regret:.1f} % |"
            )


if __name__ == "__main__":
    main()

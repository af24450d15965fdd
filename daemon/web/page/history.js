// SPDX-License-Identifier: Apache-2.0
// What runs now, the runs of the history over machines, and two of them beside each other.
import { bytesText, countText, intervalText, machineText, percentText, rateText, ratioText, secondsText, stateText, stepText, valueText, verdictOf, whenText } from "./texts.js";
import { carefulButton, code, element, figureList, moodClass, quiet, section, small, tableOf } from "./parts.js";
import { historyChart } from "./charts.js";

// `actions` is {mayControl, cancel(job)}.
export function queueNodes(status, actions) {
  const jobs = (status.jobs || []).filter((job) => job.state === "running" || job.state === "queued");
  if (jobs.length === 0) return [quiet("Nothing runs and nothing waits.")];
  const rows = jobs.map((job) => {
    const link = job.state === "running" ? element("a", { href: `#/job/${job.id}` }, job.recipe) : job.recipe;
    const trials = Object.entries(job.trials || {}).map(([verdict, count]) => `${count} ${verdict}`).join(", ");
    const label = job.cancel_requested ? "end at once" : "cancel";
    return [[link, small(`number ${job.id}` + (job.run ? `, ${job.run}` : ""))], [element("span", { className: "state" }, stateText(job)), small(trials)], job.device,
      actions.mayControl ? carefulButton(label, () => actions.cancel(job.id)) : ""];
  });
  return [tableOf("", [{ title: "run" }, { title: "state" }, { title: "device", wide: true }, { title: "" }], rows),
    status.jobs_left_out > 0 ? quiet(`${countText(status.jobs_left_out)} more do not fit here`) : null];
}

function chosenRuns(runs, filter) {
  return runs.filter((run) => (!filter.recipe || run.recipe === filter.recipe) && (!filter.machine || run.machine === filter.machine));
}

function chooser(label, options, value, onChange) {
  const select = element("select", {}, element("option", { value: "" }, "all"), options.map(([key, text]) => element("option", { value: key }, text)));
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  return element("label", {}, label + " ", select);
}

function runRows(runs, machines, isChosen, choose) {
  return runs.map((run) => {
    const verdict = verdictOf(run);
    const box = element("input", { type: "checkbox", checked: isChosen(run.run), ariaLabel: `compare ${run.run}` });
    box.addEventListener("change", () => choose(run.run, box.checked));
    return [[element("label", {}, box), " ", element("a", { href: `#/run/${run.run}` }, run.recipe), small(run.run)],
      [element("span", { className: "state " + moodClass(verdict.mood) }, run.pairs ? (verdict.mood > 0 ? "✓ " : "? ") + verdict.ratio : "= " + verdict.ratio), small([verdict.interval, verdict.leftOut].filter(Boolean).join(", "))],
      [rateText(run.best.samples_per_second), small(run.pairs ? "from " + rateText(run.baseline.samples_per_second) : "")],
      [element("span", { className: "state" }, stateText(run)), small(whenText(run.started_unix_ns))],
      [machineText(machines[run.machine], run.machine)], [run.best.change || "–"]];
  });
}

// `choice` lives as long as the page: {recipe, machine, compare: [names]}. `redraw` shows it anew.
export function runsNodes(history, choice, redraw) {
  if (history.runs.length === 0) return [quiet("No runs yet: `autotuned run FILE` makes one.")];
  const machines = [...new Set(history.runs.map((run) => run.machine))].map((key) => ({ key, name: machineText(history.machines[key], key) }));
  const recipes = [...new Set(history.runs.map((run) => run.recipe))].sort();
  const runs = chosenRuns(history.runs, choice);
  const compare = element("a", { href: "#" }, "compare the two chosen");
  const showCompare = () => {
    const isReady = choice.compare.length === 2;
    compare.hidden = !isReady;
    if (isReady) compare.setAttribute("href", `#/compare/${choice.compare[0]}/${choice.compare[1]}`);
    hint.hidden = isReady;
  };
  const hint = element("span", {}, "choose two to compare them");
  const choose = (run, isOn) => {
    choice.compare = choice.compare.filter((one) => one !== run);
    if (isOn) choice.compare = [...choice.compare, run].slice(-2);
    for (const box of table.querySelectorAll("input")) box.checked = choice.compare.includes(box.getAttribute("aria-label").slice("compare ".length));
    showCompare();
  };
  const tools = element("div", { className: "tools" }, chooser("recipe", recipes.map((name) => [name, name]), choice.recipe, (value) => { choice.recipe = value; redraw(); }),
    machines.length > 1 ? chooser("machine", machines.map((machine) => [machine.key, machine.name]), choice.machine, (value) => { choice.machine = value; redraw(); }) : null, compare, hint);
  const columns = [{ title: "run" }, { title: "faster" }, { title: "rate now", right: true, wide: true }, { title: "state" }, { title: "machine", wide: true }, { title: "what changed", wide: true }];
  const table = tableOf("", columns, runRows(runs, history.machines, (run) => choice.compare.includes(run), choose));
  const measured = runs.filter((run) => run.pairs > 0).map((run) => ({ time: run.started_unix_ns, ratio: run.best.speedup, low: run.best.speedup_low, high: run.best.speedup_high, machine: run.machine, name: run.recipe })).reverse();
  showCompare();
  return [tools, measured.length > 1 ? historyChart(measured, machines.filter((machine) => measured.some((run) => run.machine === machine.key))) : null, table,
    history.has_more ? quiet("Older runs are not shown: `autotuned history --limit` lists them.") : null];
}

// Times as people read them, and the field without the unit in its name.
function differenceRow(one) {
  const isTime = one.field.endsWith("_ns") && [one.a, one.b].every((value) => value === null || Number.isInteger(value));
  const text = (value) => isTime && value !== null ? secondsText(value / 1e9) : valueText(value);
  return [code(isTime ? one.field.slice(0, -"_ns".length) : one.field), text(one.a), text(one.b)];
}

function differenceTable(caption, differences, a, b) {
  if (differences.length === 0) return [element("h3", {}, caption), quiet("No difference.")];
  return [element("h3", {}, caption), tableOf("", [{ title: "field" }, { title: a }, { title: b }], differences.map(differenceRow))];
}

function sideFigures(side) {
  return element("div", {}, element("p", {}, element("strong", {}, side.name), " ", small(side.what)), figureList([
    ["rate", side.samples_per_second > 0 ? rateText(side.samples_per_second) : "not measured"],
    ["faster than its start", side.ratio ? ratioText(side.ratio, side.ratio_low, side.ratio_high) : null, side.ratio ? [intervalText(side.ratio_low, side.ratio_high), side.left_out].filter(Boolean).join(", ") : ""]]));
}

export function comparisonNodes(comparison) {
  const { a, b } = comparison;
  const spans = Object.entries(comparison.spans_ns_per_step || {}).sort(([, x], [, y]) => (y.a || 0) - (x.a || 0));
  const metrics = Object.entries(comparison.metrics || {});
  const metricText = (name, value) => value === null ? "–" : name.endsWith("_ratio") ? percentText(value) : name.endsWith("_ns") || name.includes("_ns_") ? stepText(value) : name.endsWith("_bytes") ? bytesText(value) : String(Number(value.toPrecision(4)));
  return [
    element("h1", {}, "Two beside each other"),
    section("How much faster", element("div", { className: "answer" }, element("b", {}, comparison.ratio ? ratioText(comparison.ratio) : "not comparable"), comparison.ratio ? element("span", {}, "the rate of the second over that of the first") : null),
      quiet("They were not measured side by side, so this ratio says less than that of a trial."), element("div", { className: "pair" }, sideFigures(a), sideFigures(b))),
    section("What differs", ...differenceTable("Knobs", comparison.knobs, "first", "second"), ...differenceTable("Recipe", comparison.recipe, "first", "second"), ...differenceTable("Environment", comparison.environment, "first", "second")),
    spans.length > 0 ? section("Time in a step", tableOf("", [{ title: "span" }, { title: "first", right: true }, { title: "second", right: true }], spans.map(([name, one]) => [name, stepText(one.a), stepText(one.b)]))) : null,
    metrics.length > 0 ? section("Metrics", tableOf("", [{ title: "metric" }, { title: "first", right: true }, { title: "second", right: true }], metrics.map(([name, one]) => [code(name), metricText(name, one.a), metricText(name, one.b)]))) : null,
  ].filter(Boolean);
}

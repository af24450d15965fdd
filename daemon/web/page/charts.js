// SPDX-License-Identifier: Apache-2.0
// The charts, drawn by Chart.js. Each has a text beside it that says the same; shapes tell apart what colours do.
import { intervalText, isUpperEnd, outcomeOf, ratioText, whenText } from "./texts.js";
import { element } from "./parts.js";

let drawn = [];  // {chart, configure}: what is on the page

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
export const PART_COLOURS = ["part-1", "part-2", "part-3", "part-4", "part-5", "part-6", "part-7", "part-8"];

export function forgetCharts() {
  for (const { chart } of drawn) chart.destroy();
  drawn = [];
}

// Colours are read anew when the scheme changes.
export function redrawCharts() {
  for (const one of drawn) {
    const { data, options } = one.configure();
    one.chart.data = data;
    one.chart.options = options;
    one.chart.update("none");
  }
}

// `configure` makes {type, data, options}; `label` says in words what is drawn. The figure has `refresh`, for data that changed.
function chartFigure(label, height, caption, configure) {
  const canvas = element("canvas", { role: "img", ariaLabel: label });
  const box = element("div", {}, canvas);
  box.style.height = height + "px";
  const figure = element("figure", {}, box, caption ? element("figcaption", {}, caption) : null);
  const one = { chart: null, configure };
  figure.refresh = (words) => {
    if (words) canvas.setAttribute("aria-label", words);
    if (!canvas.isConnected) return;
    if (!one.chart) {
      one.chart = new Chart(canvas, configure());
      drawn.push(one);
      return;
    }
    one.chart.data = configure().data;
    one.chart.update("none");
  };
  requestAnimationFrame(() => figure.refresh());  // once it stands on the page, and has a width
  return figure;
}

function axis(title, more = {}) {
  return {
    title: { display: Boolean(title), text: title, color: colourOf("soft"), font: { size: 12 } },
    grid: { color: colourOf("line") },
    ...more,
    ticks: { color: colourOf("soft"), font: { size: 12 }, maxRotation: 0, ...more.ticks },
  };
}

function commonOptions(x, y, labelOf, more = {}) {
  return {
    responsive: true, maintainAspectRatio: false, animation: false, scales: { x, y },
    interaction: { mode: "nearest", intersect: false, axis: "x" },
    plugins: {
      legend: { display: false, labels: { color: colourOf("ink"), usePointStyle: true, boxWidth: 8, boxHeight: 7, font: { size: 12 } }, ...more.legend },
      tooltip: { displayColors: false, callbacks: { title: () => "", label: labelOf }, filter: (item) => !item.dataset.isSilent },
    },
  };
}

// Vertical lines from low to high, one for each row that has both; and a line at 1.
function intervalSets(rows, from, to) {
  const lines = rows.flatMap(({ x, low, high }) => low > 0 && isUpperEnd(high) ? [{ x, y: low }, { x, y: high }, { x, y: NaN }] : []);
  return [
    { data: lines, showLine: true, spanGaps: false, isSilent: true, label: "interval", borderColor: colourOf("soft"), borderWidth: 1.5, pointRadius: 0, pointHitRadius: 0 },
    { data: [{ x: from, y: 1 }, { x: to, y: 1 }], showLine: true, isSilent: true, label: "equal", borderColor: colourOf("soft"), borderWidth: 1, borderDash: [4, 4], pointRadius: 0, pointHitRadius: 0 },
  ];
}

const SHAPES = [["good", "circle", 1], ["soft", "rectRot", 0], ["bad", "triangle", -1]];
const MOODS = { 1: "kept, or held", 0: "not kept", "-1": "slower, or failed" };

// The ratio of every trial with its interval, in the order of the trials.
export function trialsChart(trials) {
  const rows = trials.filter((trial) => trial.pairs > 0).map((trial) => ({ x: trial.number, y: trial.ratio, low: trial.ratio_low, high: trial.ratio_high, trial, mood: outcomeOf(trial).mood }));
  if (rows.length === 0) return null;
  const first = rows[0].x - 0.5;
  const last = rows[rows.length - 1].x + 0.5;
  const label = `Ratio of ${rows.length} trials with their intervals; the table of trials has the figures.`;
  return chartFigure(label, 260, "A trial's ratio of rates with its interval. Above the dashed line it is faster.", () => ({
    type: "scatter",
    data: { datasets: [...intervalSets(rows, first, last), ...SHAPES.map(([colour, pointStyle, mood]) => ({
      label: MOODS[mood], data: rows.filter((row) => row.mood === mood), backgroundColor: colourOf(colour), borderColor: colourOf(colour), pointStyle, pointRadius: rows.length > 80 ? 3 : 5 }))] },
    options: commonOptions(axis("trial", { type: "linear", min: first, max: last, ticks: { precision: 0, callback: (value) => Number.isInteger(value) ? value : "" } }), axis("times the rate"),
      ({ raw }) => `${raw.trial.number}. ${raw.trial.plugin}: ${ratioText(raw.y, raw.low, raw.high)} (${intervalText(raw.low, raw.high)}), ${outcomeOf(raw.trial).text}`,
      { legend: { display: true, labels: { color: colourOf("ink"), usePointStyle: true, boxWidth: 8, boxHeight: 7, filter: (item, data) => !data.datasets[item.datasetIndex].isSilent && data.datasets[item.datasetIndex].data.length > 0 } } }),
  }));
}

// Speed-ups over time, a shape for each machine. `runs` are {time, ratio, low, high, machine, name}, oldest first.
export function historyChart(runs, machines) {
  const shapes = ["circle", "triangle", "rect", "rectRot", "star", "cross", "crossRot"];
  const rows = runs.map((run) => ({ ...run, x: run.time, y: run.ratio }));
  const [first, last] = [rows[0].x, rows[rows.length - 1].x];
  const slack = Math.max((last - first) * 0.03, 3.6e12);
  const timeText = (time) => last - first < 1.7e14 ? whenText(time).slice(5) : whenText(time).slice(0, 10);  // within two days: the hour
  return chartFigure(`Speed-ups of ${rows.length} runs over time; the table of runs has the figures.`, 240, "Confirmed speed-ups with their intervals, by the time at which a run began.", () => ({
    type: "scatter",
    data: { datasets: [...intervalSets(rows, first - slack, last + slack), ...machines.map((machine, i) => ({
      label: machine.name, data: rows.filter((row) => row.machine === machine.key), backgroundColor: colourOf(PART_COLOURS[i % 7]), borderColor: colourOf(PART_COLOURS[i % 7]), pointStyle: shapes[i % shapes.length], pointRadius: 5 }))] },
    options: commonOptions(axis("", { type: "linear", min: first - slack, max: last + slack, ticks: { maxTicksLimit: 5, callback: timeText } }), axis("times the rate"),
      ({ raw }) => `${raw.name}, ${whenText(raw.x)}: ${ratioText(raw.y, raw.low, raw.high)} (${intervalText(raw.low, raw.high)})`,
      { legend: { display: machines.length > 1, position: "bottom", labels: { color: colourOf("ink"), usePointStyle: true, boxWidth: 8, boxHeight: 7, filter: (item, data) => !data.datasets[item.datasetIndex].isSilent } } }),
  }));
}

// The shares of a step, one bar for each of {name, shares: [{what, ratio}]}.
export function stepChart(bars, parts) {
  return chartFigure("Parts of a step; the table beside it has the figures.", 40 + 46 * bars.length, "", () => ({
    type: "bar",
    data: { labels: bars.map((bar) => bar.name), datasets: parts.map((part, i) => ({
      label: part, data: bars.map((bar) => 100 * (bar.shares.find((share) => share.what === part)?.ratio || 0)), backgroundColor: colourOf(PART_COLOURS[i % 8]), borderColor: colourOf("panel"), borderWidth: 1, maxBarThickness: 30 })) },
    options: { ...commonOptions(axis("", { stacked: true, max: 100, ticks: { callback: (value) => value + " %" } }), axis("", { stacked: true, grid: { display: false } }),
      ({ dataset, raw }) => `${dataset.label}: ${raw.toFixed(1)} %`), indexAxis: "y", interaction: { mode: "nearest", intersect: true } },
  }));
}

// The ratio of each pair of a finished trial beside its final interval.
export function pairsChart(trial) {
  const points = trial.pair_ratios.map((ratio, i) => ({ x: i + 1, y: ratio / 1000 }));
  const end = points.length;
  const level = (y) => [{ x: 1, y }, { x: Math.max(end, 2), y }];
  const hasBand = trial.ratio_low > 0 && isUpperEnd(trial.ratio_high);
  return chartFigure(`Ratios of ${end} pairs of trial ${trial.number}.`, 170, "Points: the ratio of each pair of blocks. Band: the interval at the end.", () => ({
    type: "scatter",
    data: { datasets: [
      ...(hasBand ? [{ data: level(trial.ratio_low), showLine: true, isSilent: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1, borderColor: colourOf("accent") },
        { data: level(trial.ratio_high), showLine: true, isSilent: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1, borderColor: colourOf("accent"), backgroundColor: colourOf("band"), fill: "-1" }] : []),
      ...intervalSets([], 1, Math.max(end, 2)),
      { data: points, backgroundColor: colourOf("ink"), pointRadius: 3 }] },
    options: commonOptions(axis("pair", { type: "linear", min: 1, max: Math.max(end, 2), ticks: { precision: 0 } }), axis("times the rate"), ({ raw }) => `pair ${raw.x}: ${ratioText(raw.y)}`),
  }));
}

// The ratio of a trial that is going on, with the interval that closes in. `points` are {x, y, low, high} and may grow.
export function growingChart(points) {
  return chartFigure("The ratio so far with its interval, pair by pair.", 230, "Line: the ratio so far. Band: its interval, which closes in pair by pair.", () => {
    const known = points();
    const limits = known.filter((point) => point.low > 0 && isUpperEnd(point.high));
    const end = Math.max(known.length === 0 ? 10 : known[known.length - 1].x, 10);
    const edge = (field) => limits.map((point) => ({ x: point.x, y: point[field] }));
    const line = { showLine: true, isSilent: true, pointRadius: 0, pointHitRadius: 0, borderWidth: 1, borderColor: colourOf("accent") };
    return {
      type: "scatter",
      data: { datasets: [{ ...line, data: edge("low") }, { ...line, data: edge("high"), fill: "-1", backgroundColor: colourOf("band") }, ...intervalSets([], 0, end),
        { data: known, showLine: true, borderColor: colourOf("ink"), backgroundColor: colourOf("ink"), borderWidth: 2, pointRadius: 2 }] },
      options: commonOptions(axis("pair", { type: "linear", min: 0, suggestedMax: 10, ticks: { precision: 0 } }), axis("times the rate"), ({ raw }) => `after ${raw.x} pairs: ${ratioText(raw.y)} (${intervalText(raw.low, raw.high)})`),
    };
  });
}

// One or more curves over `xTitle`; `series` are {name, points, dash}.
export function curveChart(label, xTitle, yTitle, series, textOf) {
  return chartFigure(label, 200, "", () => {
    const known = series();
    return {
      type: "scatter",
      data: { datasets: known.map((one, i) => ({ label: one.name, data: one.points, showLine: true, borderColor: colourOf(PART_COLOURS[i]), backgroundColor: colourOf(PART_COLOURS[i]), borderDash: one.dash || [], borderWidth: 2, pointRadius: one.points.length > 60 ? 0 : 2 })) },
      options: commonOptions(axis(xTitle, { type: "linear", ticks: { precision: 0 } }), axis(yTitle, { ticks: { callback: (value) => textOf(value) } }),
        ({ dataset, raw }) => `${dataset.label}: ${textOf(raw.y)} at ${raw.x}`, { legend: { display: known.length > 1 } }),
    };
  });
}

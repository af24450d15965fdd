// SPDX-License-Identifier: Apache-2.0
// Numbers and names as people read them. Pure.

const NO_UPPER_END = 1e6;  // an interval that has no upper end yet

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export const countText = (count) => Math.round(count).toLocaleString("en-US");
export const countedText = (count, what) => countText(count) + " " + what + (Math.round(count) === 1 ? "" : "s");
export const rateText = (rate) => isNumber(rate) && rate > 0 ? countText(rate) + " samples/s" : "not measured";
// As the commands print it (ratio_decimals() of base/text.hpp): an interval on one side of 1 does not seem to reach it.
function ratioDecimals(low, high) {
  if (!isNumber(low) || !isNumber(high)) return 2;
  for (let decimals = 2; decimals < 4; ++decimals) {
    const differ = (a, b) => a.toFixed(decimals) !== b.toFixed(decimals);
    const isSideSeen = !(low > 1 || high < 1) || differ(low > 1 ? low : high, 1);
    if (isSideSeen && (!(low < high) || differ(low, high))) return decimals;
  }
  return 4;
}
export const ratioText = (ratio, low = ratio, high = ratio) => isNumber(ratio) ? ratio.toFixed(ratioDecimals(low, high)) + " ×" : "–";
export const percentText = (ratio) => isNumber(ratio) ? (100 * ratio).toFixed(1) + " %" : "–";
export const gainText = (ratio) => isNumber(ratio) ? (ratio >= 1 ? "+" : "−") + Math.abs(100 * (ratio - 1)).toFixed(1) + " %" : "–";

export function intervalText(low, high) {
  const hasLower = isNumber(low) && low > 0;
  const decimals = ratioDecimals(low, high);
  if (!isUpperEnd(high)) return hasLower ? `at least ${low.toFixed(decimals)}` : "no interval yet";
  return hasLower ? `${low.toFixed(decimals)} to ${high.toFixed(decimals)}` : `at most ${high.toFixed(decimals)}`;
}
export const isUpperEnd = (high) => isNumber(high) && high > 0 && high < NO_UPPER_END;

export function secondsText(seconds) {
  if (!isNumber(seconds)) return "–";
  if (seconds < 1) return (1000 * seconds).toFixed(0) + " ms";
  if (seconds < 60) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole % 3600 / 60))} min`;
  return `${(whole / 86400).toFixed(1)} days`;
}
export function stepText(ns) {
  if (!isNumber(ns)) return "–";
  if (ns < 1e3) return ns.toFixed(0) + " ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(1) + " µs";
  if (ns < 1e9) return (ns / 1e6).toFixed(2) + " ms";
  return (ns / 1e9).toFixed(2) + " s";
}

export function bytesText(bytes) {
  if (!isNumber(bytes) || bytes <= 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit + 1 < units.length) { size /= 1024; ++unit; }
  return (unit === 0 ? size.toFixed(0) : size.toFixed(1)) + " " + units[unit];
}

// In the reader's own time: "2026-11-23 10:15".
export function whenText(unixNs) {
  if (!isNumber(unixNs) || unixNs <= 0) return "–";
  const time = new Date(unixNs / 1e6);
  const two = (number) => String(number).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

// A value of a knob, as the commands print it.
export function knobText(value) {
  if (value === true) return "on";
  if (value === false) return "off";
  if (value === null || value === undefined || value === "") return "unset";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// A value of any field that differs.
export function valueText(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// [{knob, from, to}] of a change: an object of new values beside the whole reference, or such a list already.
export function changesOf(change, reference = {}) {
  if (Array.isArray(change)) return change;
  return Object.entries(change || {}).map(([knob, to]) => ({ knob, from: knobText((reference || {})[knob]), to: knobText(to) }));
}
export const changeText = (changes) => changes.map(({ knob, from, to }) => `${knob} ${knobText(from)} → ${knobText(to)}`).join(", ") || "nothing";

// What became of a trial: a sign that does not rest on its colour, words, and whether it is good news (1), bad (-1) or neither.
const OUTCOMES = {
  kept: ["✓", "kept", 1],
  held: ["✓", "held", 1],
  accepted: ["✓", "accepted", 1],
  dropped: ["↶", "dropped", 0],
  did_not_hold: ["↶", "did not hold", -1],
  slower: ["▼", "slower", -1],
  no_gain: ["=", "no gain", 0],
  gain_unlikely: ["≈", "gain unlikely", 0],
  undecided: ["≈", "undecided", 0],
  wrong_result: ["≠", "trains another model", -1],
  rejected: ["✕", "rejected", 0],
  failed: ["!", "failed", -1],
  not_applicable: ["–", "not applicable", 0],
  interrupted: ["…", "interrupted", 0],
  running: ["▶", "running", 0],
};
export function outcomeOf(trial) {
  const isUndecided = trial.rejection === "undecided_in_time";
  // Given up before its interval decided (base/trial.hpp).
  const isGivenUp = trial.outcome === "no_gain" && trial.is_given_up;
  const name = isUndecided ? "undecided" : isGivenUp ? "gain_unlikely" : trial.outcome || trial.verdict;
  const [sign, text, mood] = OUTCOMES[name] || ["?", String(name), 0];
  return { name, sign, text, mood };
}

const STATES = {
  queued: ["○", "waiting"],
  running: ["▶", "running"],
  tuning: ["▶", "tuning"],
  training: ["▶", "training"],
  finished: ["✓", "finished"],
  failed: ["!", "failed"],
  cancelled: ["✕", "cancelled"],
};
export function stateText(run) {
  const [sign, text] = STATES[run.state] || ["?", String(run.state)];
  return run.is_interrupted ? `… ${text}, interrupted` : `${sign} ${text}`;
}

// The answer to "is it faster, by how much, is it sure?" of a run: {ratio, interval, leftOut, sure, mood}. `leftOut` says what the ratio
// was measured with and the training left out.
export function verdictOf(run) {
  const best = run.best || {};
  if (!run.pairs) {
    const isOpen = run.state === "tuning" && !run.is_interrupted;
    const isDone = run.state === "finished" || run.state === "training";
    return { ratio: isOpen ? "tuning" : isDone ? "no gain" : "no answer", interval: "", leftOut: "", mood: 0,
      sure: isOpen ? "Nothing is confirmed yet." : isDone ? "Nothing faster was confirmed: the starting configuration stays." : "It ended before anything was confirmed." };
  }
  const interval = intervalText(best.speedup_low, best.speedup_high);
  const isSure = best.speedup_low > 1;
  return { ratio: ratioText(best.speedup, best.speedup_low, best.speedup_high), interval, leftOut: run.left_out || "", mood: isSure ? 1 : 0,
    sure: isSure ? `Sure: the whole interval is above 1, over ${countedText(run.pairs, "pair")} measured side by side.`
      : `Undecided: the interval reaches down to 1 or below, over ${countedText(run.pairs, "pair")}.` };
}

// "AMD EPYC 7B13, 2 CPUs" and its GPUs.
export function machineText(facts, key = "") {
  if (!facts || !facts.cpu_model) return key || "unknown machine";
  const gpus = (facts.gpus || []).map((gpu) => gpu.name);
  return [facts.cpu_model, countedText(facts.cpus_allowed, "CPU"), ...gpus].join(", ");
}

// The parts of a profiled step, in the order of a step; `metrics` holds their shares.
export const PARTS = [
  ["step.data_wait_ratio", "waiting for data"],
  ["step.transfer_ratio", "handing the batch to the device"],
  ["step.zero_grad_ratio", "resetting gradients"],
  ["step.forward_ratio", "forward pass"],
  ["step.loss_ratio", "loss"],
  ["step.backward_ratio", "backward pass"],
  ["step.optimizer_ratio", "optimizer"],
  ["step.other_ratio", "other things"],
];

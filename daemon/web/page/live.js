// SPDX-License-Identifier: Apache-2.0
// A run that goes on: its events become a state, and the state is drawn.
import { bytesText, changesOf, changeText, countedText, countText, gainText, intervalText, outcomeOf, PARTS, percentText, rateText, ratioText, secondsText } from "./texts.js";
import { element, figureList, moodClass, quiet, section, small, tableOf } from "./parts.js";
import { curveChart, growingChart } from "./charts.js";
import { answerNode, findingNodes, stepNodes } from "./story.js";

const MOST_POINTS = 800;
const MOST_MESSAGES = 200;

export function newLiveState() {
  return { run: "", recipe: "", device: "", phase: "waiting for the first event", start: 0, ceiling: null, current: null, trials: [], tuned: null,
    losses: [], memory: [], blocks: 0, training: null, training_losses: [], evaluations: [], profile_start: null, profile_now: null, messages: [], result: null, ended: null };
}

// A curve of days stays drawable: every second point goes when there are too many.
function addPoint(points, point) {
  points.push(point);
  if (points.length > MOST_POINTS) points.splice(0, points.length, ...points.filter((_, i) => i % 2 === 0 || i === points.length - 1));
}

function addMessage(state, sign, text) {
  if (!text) return;
  state.messages.push(`${sign} ${text}`);
  if (state.messages.length > MOST_MESSAGES) state.messages.shift();
}

function takeBlock(state, event) {
  ++state.blocks;
  const pair = { x: event.pairs, y: event.ratio, low: event.ratio_low, high: event.ratio_high };
  if (state.current && event.pairs > 0) {
    const points = state.current.points;
    if (points.length > 0 && points[points.length - 1].x === pair.x) points[points.length - 1] = pair;
    else points.push(pair);
  }
  if (state.current) state.phase = `measuring, ${countedText(event.pairs, "pair")} so far`;
  if (typeof event.loss === "number") addPoint(state.losses, { x: state.blocks, y: event.loss });
  addPoint(state.memory, { x: state.blocks, y: event.peak_host_memory_bytes || 0, device: event.peak_device_memory_bytes || 0 });
}

function figureText(evaluation) {
  if (typeof evaluation.miou === "number") return `mean IoU ${evaluation.miou.toFixed(4)}`;
  if (typeof evaluation.accuracy === "number") return `accuracy ${percentText(evaluation.accuracy)}`;
  if (typeof evaluation.mae === "number") return `mean absolute error ${evaluation.mae.toPrecision(4)}`;
  if (typeof evaluation.f1 === "number") return `micro-F1 ${evaluation.f1.toFixed(4)}`;
  return typeof evaluation.loss === "number" ? `loss ${evaluation.loss}` : null;
}

// JSON has null for what is not finite.
function evaluationText(evaluation) {
  const loss = evaluation.loss === null ? "test loss not finite" : null;
  return [figureText(evaluation), loss].filter(Boolean).join(", ");
}

function takeTraining(state, progress) {
  if (progress.evaluation) {
    state.evaluations.push(progress.evaluation);
    addMessage(state, "•", `epoch ${progress.evaluation.epoch}: ${evaluationText(progress.evaluation)}`);
    return;
  }
  if (typeof progress.samples !== "number") return;
  state.phase = "training";
  state.current = null;
  state.training = progress;
  if (typeof progress.loss === "number") addPoint(state.training_losses, { x: progress.step, y: progress.loss });
}

function profileOf(event) {
  const shares = PARTS.filter(([metric]) => typeof event.metrics?.[metric] === "number").map(([metric, what]) => ({ metric, what, ratio: event.metrics[metric] }));
  return { metrics: event.metrics || {}, shares, findings: event.findings || [] };
}

const HANDLERS = {
  run: (state, event) => Object.assign(state, { run: event.run, recipe: event.recipe, device: event.device, phase: "measuring the start", ended: null }),
  waiting: (state, event) => { state.phase = "waiting: " + event.for; },
  waited: (state) => { state.phase = "starting"; },
  phase: (state, event) => { state.phase = event.phase; },
  baseline: (state, event) => { state.start = event.samples_per_second; },
  ceiling: (state, event) => { state.ceiling = event; },
  profiled: (state, event) => { state[event.is_start ? "profile_start" : "profile_now"] = profileOf(event); },
  asking: (state, event) => { state.phase = "asking " + event.plugin; },
  answered: (state, event) => addMessage(state, event.is_failure ? "!" : "–", event.outcome && `${event.plugin}: ${event.outcome}`),
  trial_started: (state, event) => { state.current = { ...event.trial, points: [] }; state.phase = "trying"; },
  block: takeBlock,
  checked: (state, event) => { state.phase = (event.passed ? "check passed: " : "check failed: ") + event.detail; },
  trial_finished: (state, event) => {
    state.trials = state.trials.filter((trial) => trial.number !== event.trial.number);
    state.trials.push({ ...event.trial, points: state.current?.number === event.trial.number ? state.current.points : [] });
    state.current = null;
    state.phase = "between two trials";
  },
  tuned: (state, event) => { state.tuned = event; state.current = null; },
  training: (state, event) => takeTraining(state, event.progress || {}),
  machine: (state, event) => addMessage(state, "!", `${event.subject}: ${event.text}`),
  note: (state, event) => addMessage(state, "•", event.text),
  warning: (state, event) => addMessage(state, "!", event.text),
  error: (state, event) => addMessage(state, "!", event.text),
  damaged: (state, event) => addMessage(state, "!", `skipped ${event.file}: ${event.what}`),
  cancelling: (state) => { state.phase = "stopping"; },
  result: (state, event) => { state.result = event; state.phase = "ended"; },
};

// Events that are not known are passed over.
export function takeEvent(state, event) {
  const handler = Object.hasOwn(HANDLERS, event.event) ? HANDLERS[event.event] : null;
  if (handler) handler(state, event);
  return state;
}

// The product of what is kept so far: a promise, until the confirmation.
export function keptSoFar(state) {
  return state.trials.filter((trial) => trial.kind === "proposal" && trial.verdict === "accepted").reduce((product, trial) => product * trial.ratio, 1);
}

function liveAnswer(state) {
  if (state.tuned) {
    const best = { speedup: state.tuned.speedup, speedup_low: state.tuned.speedup_low, speedup_high: state.tuned.speedup_high };
    const pairs = state.trials.filter((trial) => trial.kind !== "proposal").at(-1)?.pairs || 0;
    return [answerNode({ best, pairs, state: "training" }), quiet("Changed: " + state.tuned.change)];
  }
  const kept = state.trials.filter((trial) => trial.kind === "proposal" && trial.verdict === "accepted");
  if (kept.length === 0) return [element("div", { className: "answer" }, element("b", {}, "no gain yet"))];
  return [element("div", { className: "answer" }, element("b", {}, "about " + ratioText(keptSoFar(state))), element("span", {}, "as fast as at the start, to be confirmed")),
    quiet("Kept so far: " + kept.map((trial) => changeText(changesOf(trial.change, trial.reference))).join(", "))];
}

function currentNodes(state) {
  if (state.training && !state.current) {
    const { samples, samples_total: total, samples_per_second: rate, step, loss, learning_rate: learningRate } = state.training;
    const left = rate > 0 && total > samples ? secondsText((total - samples) / rate) : null;
    return [element("progress", { max: Math.max(total || 1, 1), value: samples, ariaLabel: "progress of the training" }),
      figureList([["done", total > 0 ? percentText(samples / total) : null], ["step", countText(step || 0)], ["loss", typeof loss === "number" ? loss.toFixed(4) : loss === null ? "not finite" : null], ["learning rate", learningRate > 0 ? learningRate.toPrecision(3) : null], ["rate", rateText(rate)], ["left", left]])];
  }
  if (!state.current) return [quiet("No trial is measured at the moment.")];
  const last = state.current.points.at(-1);
  return [element("p", {}, element("strong", {}, state.current.kind === "proposal" ? state.current.plugin : state.current.kind), ": " + changeText(changesOf(state.current.change, state.current.reference))),
    element("p", { className: "number" }, last ? `${gainText(last.y)} so far (${intervalText(last.low, last.high)}) after ${countedText(last.x, "pair")}` : "no pair yet")];
}

function trialRows(state) {
  return [...state.trials].reverse().map((trial) => {
    const outcome = outcomeOf(trial);
    return [[`${trial.number}. ${trial.kind === "proposal" ? trial.plugin : trial.kind}`, small(changeText(changesOf(trial.change, trial.reference)))],
      [element("span", { className: "state " + moodClass(outcome.mood) }, `${outcome.sign} ${outcome.text}`), small(trial.verdict === "accepted" ? "" : trial.reason || "")],
      trial.pairs ? [gainText(trial.ratio), small(intervalText(trial.ratio_low, trial.ratio_high))] : "–"];
  });
}

// What draws a state, again and again. {nodes, draw(state)}.
export function liveView(state) {
  const title = element("h1", {}, "…");
  const subtitle = quiet("");
  const answer = element("div", {});
  const current = element("div", {});
  const steps = element("div", {});
  const trials = element("div", {});
  const messages = element("ul", { className: "log" });
  const growing = growingChart(() => state.current?.points || []);
  const losses = curveChart("Loss of the last step of each block, or of the training.", "", "loss",
    () => state.training_losses.length > 0 ? [{ name: "training, by step", points: state.training_losses }] : [{ name: "trials, by block", points: state.losses }], (value) => Number(value).toPrecision(3));
  const memory = curveChart("Most memory in each block.", "block", "", () => {
    const series = [{ name: "host", points: state.memory }];
    if (state.memory.some((point) => point.device > 0)) series.push({ name: "device", points: state.memory.map((point) => ({ x: point.x, y: point.device })), dash: [5, 3] });
    return series;
  }, bytesText);
  let drawnSteps = null;
  let drawnTrials = -1;
  const draw = () => {
    title.textContent = state.recipe || "a run of the queue";
    subtitle.textContent = [state.run, state.device, state.phase].filter(Boolean).join(", ");
    answer.replaceChildren(...liveAnswer(state), figureList([["start", state.start > 0 ? rateText(state.start) : null], ["upper bound", state.ceiling ? rateText(state.ceiling.samples_per_second) : null, state.ceiling ? `at least, bound by ${state.ceiling.bound_by}` : ""], ["trials", String(state.trials.length)]]));
    current.replaceChildren(...currentNodes(state));
    growing.hidden = !state.current;  // it stays in its place: a canvas that comes and goes is drawn anew each time
    growing.refresh();
    losses.refresh();
    memory.refresh();
    const profiles = [state.profile_start, state.profile_now];
    if (drawnSteps === null || profiles.some((profile, i) => profile !== drawnSteps[i])) {
      drawnSteps = profiles;
      steps.replaceChildren(...stepNodes(state.profile_start, state.profile_now), ...findingNodes((state.profile_now || state.profile_start)?.findings || []));
    }
    if (drawnTrials !== state.trials.length) {
      drawnTrials = state.trials.length;
      trials.replaceChildren(drawnTrials > 0 ? tableOf("Newest first", [{ title: "trial" }, { title: "result" }, { title: "ratio", right: true }], trialRows(state)) : quiet("None yet."));
    }
    messages.replaceChildren(...[...state.messages].reverse().map((text) => element("li", {}, text)));
  };
  const nodes = [title, subtitle,
    element("div", { className: "pair" }, section("Is it faster?", answer), section("Now", current, growing)),
    section("Where a step spends its time", steps),
    element("div", { className: "pair" }, section("Loss", losses), section("Memory", quiet("Most of a block, by block"), memory)),
    section("What was tried", trials), section("Messages", messages)];
  return { nodes, draw };
}

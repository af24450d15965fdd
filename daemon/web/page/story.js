// SPDX-License-Identifier: Apache-2.0
// A finished run: is it faster, by how much, is it sure, what changed; then how that came about.
import { bytesText, changesOf, changeText, countedText, countText, gainText, intervalText, knobText, machineText, outcomeOf, percentText, rateText, ratioText, secondsText, stateText, stepText, verdictOf, whenText } from "./texts.js";
import { changeTable, code, element, figureList, moodClass, note, quiet, section, small, tableOf } from "./parts.js";
import { pairsChart, stepChart, trialsChart } from "./charts.js";

export function answerNode(run) {
  const verdict = verdictOf(run);
  return element("div", {},
    element("div", { className: "answer" }, element("b", { className: moodClass(verdict.mood) }, verdict.ratio),
      verdict.interval ? element("span", { className: "number" }, `as fast as at the start (${verdict.interval})` + (verdict.leftOut ? ", " + verdict.leftOut : "")) : null),
    element("p", {}, verdict.sure));
}

function costText(run) {
  const pays = run.break_even;
  if (!pays) return null;
  const range = pays.samples_high === null ? `at least ${countText(pays.samples_low)}` : `${countText(pays.samples_low)} to ${countText(pays.samples_high)}`;
  return [`${secondsText(pays.seconds)} of training`, `${countText(pays.samples)} samples (${range})`];
}

function trainedFigure(training) {
  if (!training || !training.steps) return [null];
  const loss = typeof training.final_loss === "number" ? `loss ${training.final_loss.toFixed(4)}` : training.final_loss === null ? "loss not finite" : null;
  const testLoss = training.test_loss === null && training.evaluation_ns > 0 ? "test loss not finite" : null;
  const miou = typeof training.test_miou === "number" ? `mean IoU ${training.test_miou.toFixed(4)}` : null;
  const accuracy = typeof training.test_accuracy === "number" ? `${miou ? "pixel" : "test"} accuracy ${(100 * training.test_accuracy).toFixed(2)} %` : null;
  const error = typeof training.test_mae === "number" ? `mean absolute error ${training.test_mae.toPrecision(4)}` : null;
  const found = typeof training.test_f1 === "number" ? `micro-F1 ${training.test_f1.toFixed(4)}` : null;
  const tested = training.test_weights && (miou || accuracy || error || found) ? `tested: ${training.test_weights}` : null;
  return [countedText(training.steps, "step"), [miou, accuracy, error, found, testLoss, tested, loss, training.samples_per_second ? "at " + rateText(training.samples_per_second) : null].filter(Boolean).join(", ")];
}

function answerSection(run) {
  const [pays, paysRange] = costText(run) || [];
  const ceiling = run.ceiling || {};
  const [trained, trainedRemark] = trainedFigure(run.training);
  return section("Is it faster?",
    answerNode(run),
    run.note ? note(run.note) : null,
    run.error ? note("It failed: " + run.error) : null,
    figureList([
      ["start", rateText(run.baseline.samples_per_second), run.pairs ? "beside the best one" : ""],
      ["now", run.best.samples_per_second > 0 ? rateText(run.best.samples_per_second) : null, run.left_out || ""],
      ["upper bound", ceiling.samples_per_second > 0 ? (ceiling.is_passed ? "not known" : rateText(ceiling.samples_per_second)) : null,
        ceiling.is_passed ? `the training passed the ${rateText(ceiling.samples_per_second)} that were measured`
          : ceiling.reached_ratio >= 0.995 ? `reached, bound by ${ceiling.bound_by}`
          : `at least, bound by ${ceiling.bound_by}` + (ceiling.reached_ratio ? `; ${percentText(ceiling.reached_ratio)} of it is reached` : "")],
      ["tuning took", secondsText(run.tuning_seconds), countedText(run.trials.length, "trial")],
      ["repaid after", pays, paysRange],
      ["trained", trained, trainedRemark],
    ]));
}

function changedSection(run) {
  const changes = changesOf(run.best.change, run.start.configuration);
  const caveat = run.best.one_time_ns > 0 ? quiet(`It costs ${stepText(run.best.one_time_ns)} once in a training.`) : null;
  return section("What changed", changes.length > 0 ? changeTable(changes) : quiet("Nothing: the starting configuration is kept."), caveat);
}

// Shares of a step before and after, as bars and figures.
export function stepNodes(before, after) {
  const profiles = [["start", before], ["now", after]].filter(([, profile]) => profile && profile.shares.length > 0);
  if (profiles.length === 0) return [quiet("No step was profiled.")];
  const parts = [...new Set(profiles.flatMap(([, profile]) => profile.shares.map((share) => share.what)))];
  const stepOf = (profile) => (profile.metrics || {})["step.duration_ns"];
  const ratioOf = (profile, part) => profile.shares.find((share) => share.what === part)?.ratio || 0;
  const rows = parts.map((part, i) => [[element("span", { className: `swatch part-${i % 8 + 1}`, ariaHidden: "true" }), part],
    ...profiles.map(([, profile]) => [percentText(ratioOf(profile, part)), small(stepOf(profile) ? stepText(ratioOf(profile, part) * stepOf(profile)) : "")])]);
  rows.push(["the whole step", ...profiles.map(([, profile]) => stepText(stepOf(profile)))]);
  return [stepChart(profiles.map(([name, profile]) => ({ name, shares: profile.shares })), parts),
    tableOf("", [{ title: "part of the step" }, ...profiles.map(([name]) => ({ title: name, right: true }))], rows)];
}

// What was found, what to do about it, what that can save, and code that does it.
export function findingNodes(findings) {
  return findings.map((finding) => element("div", { className: "finding" },
    element("p", {}, element("strong", {}, finding.id), finding.severity ? ` (${finding.severity}) ` : " ", finding.evidence),
    quiet(finding.tried ? `→ trial ${finding.tried.trial} tried it: ${outcomeOf(finding.tried).text}`
      : finding.declined ? `→ the plugin ${finding.plugin} ${finding.declined.is_failure ? "was left out" : "proposed nothing"}: ${finding.declined.because}`
      : "→ " + finding.advice + (finding.plugin ? ` (plugin ${finding.plugin})` : "")),
    finding.gain ? element("p", {}, "Gain: ", finding.gain) : null,
    finding.code ? element("details", {}, element("summary", {}, "PyTorch code to paste"), element("pre", {}, element("code", {}, finding.code))) : null));
}

function timeSection(run, profileLink) {
  const before = run.start.profile;
  const after = run.best.profile;
  const links = [before && profileLink("start"), after && profileLink("best")].filter(Boolean);
  return section("Where a step spends its time", stepNodes(before, after), links.length > 0 ? element("p", {}, "Timeline, flame graph and memory: ", links.flatMap((link, i) => i ? [", ", link] : [link])) : null);
}

function findingsSection(run) {
  const before = run.start.profile?.findings || [];
  const after = run.best.profile?.findings || [];
  if (before.length + after.length === 0) return null;
  return section("Findings", element("h3", {}, "At the start"), before.length > 0 ? findingNodes(before) : quiet("Nothing stood out."),
    element("h3", {}, "Now"), after.length > 0 ? findingNodes(after) : quiet("Nothing stands out any more."));
}

function trialDetails(trial) {
  const facts = [
    ["proposed because", trial.proposal_reason], ["verdict", trial.reason],
    ["risk", trial.risk], ["rates", trial.pairs ? `${rateText(trial.reference_samples_per_second)} → ${rateText(trial.candidate_samples_per_second)}` : null],
    ["noise between pairs", trial.noise_ratio ? percentText(trial.noise_ratio) : null],
    ["all samples over all time", trial.total_ratio ? ratioText(trial.total_ratio) : null],
    ["most memory", trial.peak_memory_bytes ? bytesText(trial.peak_memory_bytes) : null],
    ["took", secondsText(trial.duration_ns / 1e9)],
    ...(trial.checks || []).map((check) => [`${check.risk} check`, `${check.passed ? "passed" : "failed"}: ${check.detail}`]),
  ].filter(([, text]) => text);
  return [tableOf("", [{ title: "about this trial" }, { title: "" }], facts), trial.pair_ratios?.length > 1 ? pairsChart(trial) : null];
}

// The runs of one training, each of which goes on from the end of the one before it.
function lineageSection(run, runLink) {
  const parts = run.lineage || [];
  if (parts.length < 2) return null;
  const columns = [{ title: "part" }, { title: "run" }, { title: "trains to" }, { title: "steps", right: true }, { title: "state" }];
  return section("One training in several runs",
    tableOf("Each goes on from the end of the one before it. The first was tuned, and the others train with its configuration.", columns,
      parts.map((part, i) => [`${i + 1}`, part.run === run.run ? element("strong", {}, "this run") : runLink(part.run), part.length,
        typeof part.steps === "number" ? countText(part.steps) : "–", element("span", { className: "state" }, stateText(part))])));
}

const nameOf = (trial) => trial.kind === "proposal" ? trial.plugin : trial.kind;

// A press on a trial's name opens its details below.
function trialTable(trials, caption) {
  const columns = [{ title: "trial" }, { title: "result" }, { title: "ratio", right: true }, { title: "pairs", right: true, wide: true }];
  const rows = trials.map((trial) => {
    const outcome = outcomeOf(trial);
    const button = element("button", { type: "button", className: "plain", ariaExpanded: "false" }, `${trial.number}. ${nameOf(trial)}`);
    return [[button, small(changeText(changesOf(trial.change, trial.reference)))], element("span", { className: "state " + moodClass(outcome.mood) }, `${outcome.sign} ${outcome.text}`),
      trial.pairs ? [gainText(trial.ratio), small(intervalText(trial.ratio_low, trial.ratio_high))] : "–", trial.pairs ? countText(trial.pairs) : "–"];
  });
  const table = tableOf(caption, columns, rows);
  table.querySelectorAll("tbody > tr").forEach((row, i) => {
    const button = row.querySelector("button");
    let opened = null;
    button.addEventListener("click", () => {
      if (!opened) {
        opened = element("tr", { className: "opened" }, element("td", { colSpan: columns.length }, trialDetails(trials[i])));
        row.after(opened);
      } else {
        opened.hidden = !opened.hidden;
      }
      button.setAttribute("aria-expanded", String(!opened.hidden));
    });
  });
  return table;
}

function trialsSection(run) {
  if (run.trials.length === 0) return section("What was tried", quiet("Nothing yet."));
  return section("What was tried", trialsChart(run.trials), trialTable(run.trials, "A press on a trial opens its reasons, checks and pairs."),
    run.ablation.length > 0 ? [element("h3", {}, "The final configuration against the same without one change"), trialTable(run.ablation, "")] : null);
}

function restSections(run) {
  const operators = (run.best.profile || run.start.profile || {}).operators || [];
  const facts = run.environment || {};
  const silent = run.silent_plugins || [];
  return [
    operators.length > 0 ? section("Operators", tableOf("The largest, by their share of a step" + (run.best.profile ? " now" : " at the start"), [{ title: "operator" }, { title: "share", right: true }], operators.map((one) => [code(one.name), percentText(one.ratio)]))) : null,
    silent.length > 0 ? section("Plugins that tried nothing", tableOf("", [{ title: "plugin" }, { title: "because" }], silent.map((one) => [code(one.plugin), (one.is_failure ? "! " : "") + one.because]))) : null,
    section("The job and the machine", figureList([
      ["machine", machineText(facts, run.machine)], [run.job?.script ? "PyTorch" : "LibTorch", run.libtorch], ["began", whenText(run.started_unix_ns)], ["state", stateText(run)],
      ["model", knobText(run.job?.model?.type)], ["data", knobText(run.job?.data?.type)], ["optimizer", knobText(run.job?.optimizer?.type)],
    ]), ...(run.machine_findings || []).map(note)),
  ];
}

// `profileLink(which)` makes the link to the page of a trace, or nothing; `runLink(id)` that to the story of another run, or its name.
export function storyNodes(run, profileLink = () => null, runLink = (id) => code(id)) {
  return [
    element("h1", {}, run.recipe),
    quiet(`${run.run}, ${stateText(run)}, ${whenText(run.started_unix_ns)}`),
    element("div", { className: "pair" }, answerSection(run), changedSection(run)),
    lineageSection(run, runLink), timeSection(run, profileLink), findingsSection(run), trialsSection(run), ...restSections(run),
  ].filter(Boolean);
}

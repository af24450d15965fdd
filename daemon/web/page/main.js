// SPDX-License-Identifier: Apache-2.0
// Which page is shown, and where its data comes from: the daemon, or for a run in a file the file itself.
import { element, note, quiet, section } from "./parts.js";
import { forgetCharts, redrawCharts } from "./charts.js";
import { storyNodes } from "./story.js";
import { liveView, newLiveState, takeEvent } from "./live.js";
import { comparisonNodes, queueNodes, runsNodes } from "./history.js";

const STATUS_EVERY_MS = 3000;
const NAME = "[A-Za-z0-9.-]+";

const page = document.getElementById("page");
const choice = { recipe: "", machine: "", compare: [] };
let leave = () => {};  // ends what the page that is shown keeps going
let shown = 0;         // the number of that page: answers for an earlier one come too late

function show(title, trail, nodes) {
  forgetCharts();
  document.title = title;
  document.getElementById("trail").textContent = trail;
  page.replaceChildren(...nodes.filter(Boolean));
}

function showConnection(text) {
  const place = document.getElementById("connection");
  if (place.textContent !== text) place.textContent = text;
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    showConnection("! the daemon does not answer");
    throw new Error("The daemon does not answer. Does it still serve?");
  }
  showConnection("");
  const isJson = (answer.headers.get("content-type") || "").includes("json");
  const body = isJson ? await answer.json() : { error: { what: await answer.text() } };
  if (answer.ok) return body;
  const { what, where, remedy } = body.error || {};
  throw new Error([where, what].filter(Boolean).join(": ") + (remedy ? `; ${remedy}` : ""));
}

const failure = (error) => [section("That did not work", note(error.message), element("p", {}, element("a", { href: "#/" }, "all runs")))];

// Shows what `make` gives, unless another page is there by then.
async function showAsked(title, trail, make) {
  const number = shown;
  show(title, trail, [quiet("Reading …")]);
  let nodes;
  try {
    nodes = await make();
  } catch (error) {
    nodes = failure(error);
  }
  if (number === shown) show(title, trail, nodes);
}

async function showRuns() {
  const number = shown;
  const queue = element("div", {});
  const runs = element("div", {}, quiet("Reading …"));
  show("autotuned", "runs and history", [element("h1", {}, "Runs"), section("Now", queue), section("History", runs)]);
  let seen = "";
  const actions = { mayControl: false, cancel: async (job) => {
    try {
      await ask(`api/jobs/${job}/cancel`, { method: "POST" });
    } catch (error) {
      showConnection("! " + error.message);
    }
    seenQueue = "";
    await look();
  } };
  let seenQueue = "";
  const drawHistory = (history) => {
    forgetCharts();
    runs.replaceChildren(...runsNodes(history, choice, () => drawHistory(history)).filter(Boolean));
  };
  const look = async () => {
    if (number !== shown) return;
    let status;
    try {
      status = await ask("api/status");
    } catch (error) {
      if (number === shown) queue.replaceChildren(note(error.message));
      seenQueue = "";
      return;
    }
    if (number !== shown) return;
    actions.mayControl = status.may_control === true;
    // Buttons that are being pressed stay, as long as nothing has changed.
    const told = JSON.stringify([status.jobs, status.jobs_left_out]);
    if (told !== seenQueue) {
      seenQueue = told;
      queue.replaceChildren(...queueNodes(status, actions).filter(Boolean));
    }
    const states = JSON.stringify((status.jobs || []).map((job) => [job.id, job.state, job.run]));
    if (states === seen) return;
    seen = states;
    try {
      const history = await ask("api/runs");
      if (number === shown) drawHistory(history);
    } catch (error) {
      if (number === shown) runs.replaceChildren(note(error.message));
    }
  };
  const timer = setInterval(() => { if (!document.hidden) look(); }, STATUS_EVERY_MS);
  leave = () => clearInterval(timer);
  await look();
}

function showRun(run) {
  const profileLink = (which) => element("a", { href: `profile/${run}/${which}` }, which === "start" ? "at the start" : "now");
  const runLink = (id) => element("a", { href: `#/run/${id}` }, id);
  return showAsked(`${run} – autotuned`, "a run", async () => storyNodes(await ask(`api/runs/${run}`), profileLink, runLink));
}

function showJob(job) {
  const state = newLiveState();
  const view = liveView(state);
  const end = element("p", {});
  show(`run ${job} of the queue – autotuned`, `number ${job} of the queue`, [...view.nodes, end]);
  let isDue = false;
  const drawSoon = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => { isDue = false; view.draw(); });
  };
  const source = new EventSource(`api/jobs/${job}/events`);
  source.addEventListener("open", () => showConnection("following"));
  source.addEventListener("message", (message) => {
    takeEvent(state, JSON.parse(message.data));
    drawSoon();
  });
  source.addEventListener("ended", (message) => {
    state.ended = JSON.parse(message.data);
    state.phase = "ended: " + state.ended.state;
    source.close();
    showConnection("the run has ended");
    if (state.run) end.replaceChildren(element("a", { href: `#/run/${state.run}` }, "the story of this run"));
    drawSoon();
  });
  source.addEventListener("error", () => showConnection(source.readyState === EventSource.CLOSED ? "! this run cannot be followed" : "! the daemon does not answer; trying again"));
  leave = () => { source.close(); showConnection(""); };
  drawSoon();
}

const ROUTES = [
  [new RegExp(`^#/run/(${NAME})$`), showRun],
  [/^#\/job\/([0-9]+)$/, showJob],
  [new RegExp(`^#/compare/(${NAME})/(${NAME})$`), (a, b) => showAsked("Two runs – autotuned", "comparison", async () => comparisonNodes(await ask(`api/compare/${a}/${b}`)))],
];

function follow() {
  const hash = location.hash;
  if (hash !== "" && !hash.startsWith("#/")) return;  // a place on the page
  leave();
  leave = () => {};
  if (++shown > 1) {
    page.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  for (const [pattern, open] of ROUTES) {
    const found = pattern.exec(hash);
    if (found) return open(...found.slice(1));
  }
  return showRuns();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
const held = document.getElementById("run");
if (held) {
  const run = JSON.parse(held.textContent);
  document.querySelector(".name").replaceChildren("autotuned");
  show(`${run.recipe} – autotuned`, run.run, storyNodes(run));
} else {
  addEventListener("hashchange", follow);
  follow();
}

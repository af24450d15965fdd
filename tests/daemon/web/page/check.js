// SPDX-License-Identifier: Apache-2.0
// Runs the script of the page and looks at what it shows. The run is that of page_script_test.cpp.
//
// usage: node check.js SCENE PAGE [TEXT]
"use strict";
const assert = require("assert");
const { open } = require("./browser.js");

const [scene, file, more] = process.argv.slice(2);
const says = (node, text) => assert(node.textContent.includes(text), `"${text}" is not in: ${node.textContent.slice(0, 2000)}`);
const trial = (number, more = {}) => ({ number, kind: "proposal", plugin: "amp", reference: { "precision.autocast": "off", batch_size: 32 },
  change: { "precision.autocast": "bf16" }, verdict: "running", ratio: null, ratio_low: null, ratio_high: null, pairs: 0, reason: "", ...more });
const block = (pairs, low, high) => ({ event: "block", trial: 1, pair: pairs, ratio: 1.4, ratio_low: low, ratio_high: high, pairs, loss: 1 / pairs, peak_host_memory_bytes: 1e8, peak_device_memory_bytes: 0 });
const summary = (run, more = {}) => ({ run, recipe: "small", machine: "m1", state: "finished", is_interrupted: false, started_unix_ns: 1.79e18, pairs: 20, baseline: { samples_per_second: 1000 },
  best: { samples_per_second: 1250, speedup: 1.25, speedup_low: 1.2, speedup_high: 1.5, change: "a 1 → 2" }, ...more });

const scenes = {
  async story() {
    const { page, charts, requests, document } = await open(file);
    assert.strictEqual(document.title, "small – autotuned");
    says(page, "1.25 ×as fast as at the start (1.20 to 1.50)");
    says(page, "Sure: the whole interval is above 1, over 20 pairs");
    says(page, "optimizer.set_to_noneoffon");
    says(page, "1,000 samples/s");
    says(page, "at least, bound by compute; 50.0 % of it is reached");
    says(page, "waiting for data41.0 %3.28 ms10.0 %");
    says(page, "+25.0 %1.20 to 1.50");
    assert.strictEqual(charts.length, 2);
    const [button] = page.findAll("button", (one) => one.textContent.startsWith("1. set_to_none"));
    assert.strictEqual(button.getAttribute("aria-expanded"), "false");
    await button.fire("click");
    assert.strictEqual(button.getAttribute("aria-expanded"), "true");
    says(page, "it looked promising");
    says(page, "exact checkpassed: all are equal");
    // A file asks nobody.
    assert.deepStrictEqual(requests, []);
  },

  async extended() {
    const { page } = await open(file);
    says(page, "1r-20261121-7f3a9cnot known");
    says(page, "2this run20 epochs–✕ cancelled");
    // A file leads nowhere.
    assert.deepStrictEqual(page.findAll("a"), []);
    const part = (run, steps) => ({ run, length: "20 epochs", steps, state: "finished", is_interrupted: false });
    const answers = { "api/runs/r-2": { run: "r-2", recipe: "small", state: "finished", started_unix_ns: 1.79e18, pairs: 0, baseline: {}, best: { change: {} }, start: {}, trials: [], ablation: [],
      lineage: [part("r-1", 10000), part("r-2", 20000)] } };
    const served = await open(file, { hash: "#/run/r-2", answers });
    says(served.page, "One training in several runs");
    says(served.page, "1r-120 epochs10,000✓ finished");
    assert.strictEqual(served.page.find("a", (one) => one.textContent === "r-1").href, "#/run/r-1");
    assert.deepStrictEqual(served.page.findAll("a", (one) => one.textContent === "r-2"), []);
  },

  async reached() {
    const { page } = await open(file);
    says(page, "1,254 samples/sreached, bound by compute");
  },

  async findings() {
    const { page } = await open(file);
    says(page, "data_loading (high) 41.0 % of the step is spent waiting→ do something about it (plugin num_workers)");
    says(page, "Gain: at most 41.0 % of the step (1.69 x the rate), if no step waits any more");
    says(page.find("details"), "PyTorch code to pasteloader = DataLoader(data, num_workers=4)");
    says(page, "Nothing stands out any more.");
  },

  async tried() {
    const { page } = await open(file);
    says(page, "41.0 % of the step is spent waiting→ trial 3 tried it: gain unlikely");
    says(page, "≈ gain unlikely");
    says(page, "1.005 ×as fast as at the start (1.002 to 1.008)");
  },

  async left_out() {
    const told = "measured with plugin mine, which the training left out";
    const { page } = await open(file);
    says(page, `1.25 ×as fast as at the start (1.20 to 1.50), ${told}`);
    says(page, `1,250 samples/s${told}`);
    const answers = { "api/status": { jobs: [] }, "api/runs": { has_more: false, machines: {}, runs: [summary("r-1", { left_out: told })] } };
    says((await open(file, { hash: "", answers })).page, `✓ 1.25 ×1.20 to 1.50, ${told}`);
  },

  async hostile() {
    const { page } = await open(file);
    says(page, more);
    for (const button of page.findAll("button")) await button.fire("click");
  },

  async live() {
    const { page, charts, sources, settle, byId } = await open(file, { hash: "#/job/7" });
    assert.strictEqual(sources[0].url, "api/jobs/7/events");
    const send = (...events) => { for (const event of events) sources[0].send("message", event); };
    send({ event: "run", run: "r-1", recipe: "small", device: "cpu", state: "tuning" }, { event: "baseline", samples_per_second: 1000 }, { event: "nobody knows this" });
    send({ event: "profiled", is_start: true, metrics: { "step.duration_ns": 8e6, "step.data_wait_ratio": 0.4, "step.forward_ratio": 0.6 }, findings: [] });
    send({ event: "trial_started", trial: trial(1) });
    await settle();
    says(page, "no gain yet");
    says(page, "amp: precision.autocast off → bf16");
    says(page, "waiting for data40.0 %");
    send(block(1, 0, 1e6), block(2, 0, 1e6));
    await settle();
    says(page, "+40.0 % so far (no interval yet) after 2 pairs");
    const growing = charts.find((chart) => chart.canvas.getAttribute("aria-label").startsWith("The ratio so far"));
    const points = () => growing.data.datasets.at(-1).data.length;
    const limits = () => growing.data.datasets[0].data.length;
    assert.strictEqual(points(), 2);
    assert.strictEqual(limits(), 0);
    // It moves: the band is there and closes in.
    send(block(3, 1.1, 1.9));
    await settle();
    send(block(4, 1.2, 1.6));
    await settle();
    assert.strictEqual(points(), 4);
    assert.deepStrictEqual(JSON.parse(JSON.stringify(growing.data.datasets[1].data)), [{ x: 3, y: 1.9 }, { x: 4, y: 1.6 }]);
    says(page, "+40.0 % so far (1.20 to 1.60) after 4 pairs");
    send({ event: "trial_finished", trial: trial(1, { verdict: "accepted", ratio: 1.4, ratio_low: 1.2, ratio_high: 1.6, pairs: 4 }) });
    await settle();
    says(page, "about 1.40 ×as fast as at the start, to be confirmed");
    says(page, "✓ accepted");
    send({ event: "trial_finished", trial: trial(3, { verdict: "rejected", rejection: "undecided_in_time", ratio: 1.02, ratio_low: 0.9, ratio_high: 1.2, pairs: 9 }) });
    await settle();
    says(page, "≈ undecided");
    send({ event: "trial_started", trial: trial(2, { kind: "confirmation" }) }, { event: "trial_finished", trial: trial(2, { kind: "confirmation", verdict: "accepted", ratio: 1.38, ratio_low: 1.2, ratio_high: 1.5, pairs: 12 }) });
    send({ event: "tuned", speedup: 1.38, speedup_low: 1.2, speedup_high: 1.5, change: "precision.autocast off → bf16" });
    send({ event: "training", progress: { step: 5, samples: 50, samples_total: 200, loss: 0.5, samples_per_second: 10 } });
    send({ event: "training", progress: { evaluation: { epoch: 1, accuracy: 0.5, loss: null } } });
    await settle();
    says(page, "test loss not finite");
    says(page, "1.38 ×as fast as at the start (1.20 to 1.50)");
    says(page, "over 12 pairs");
    says(page, "done25.0 %");
    says(page, "15.0 s");
    sources[0].send("ended", { state: "finished" });
    await settle();
    assert.strictEqual(sources[0].readyState, 2);
    says(page, "ended: finished");
    assert.strictEqual(page.find("a", (one) => one.textContent === "the story of this run").href, "#/run/r-1");
    says(byId.connection, "the run has ended");
  },

  async runs() {
    const answers = {
      "api/status": { may_control: true, jobs_left_out: 0, jobs: [{ id: 7, state: "running", recipe: "large", device: "cpu", run: "r-9", trials: { accepted: 2 } }, { id: 8, state: "queued", recipe: "next", device: "cpu", run: "", trials: {} }, { id: 1, state: "finished", recipe: "old", device: "cpu" }] },
      "api/runs": { has_more: false, machines: { m1: { cpu_model: "one CPU", cpus_allowed: 2, gpus: [] }, m2: { cpu_model: "another CPU", cpus_allowed: 8, gpus: [{ name: "a GPU" }] } },
        runs: [summary("r-3", { pairs: 0, best: { samples_per_second: 0, speedup: 1, speedup_low: 0, speedup_high: 0, change: "" } }), summary("r-2", { machine: "m2" }), summary("r-1", { recipe: "other" })] },
      "api/jobs/7/cancel": { job: 7 },
    };
    const { page, requests, charts, settle } = await open(file, { hash: "", answers });
    says(page, "large");
    says(page, "▶ running2 accepted");
    assert(!page.textContent.includes("old"), "what has ended is no work");
    assert.strictEqual(page.find("a", (one) => one.textContent === "large").href, "#/job/7");
    says(page, "✓ 1.25 ×1.20 to 1.50");
    says(page, "= no gain");
    says(page, "another CPU, 8 CPUs, a GPU");
    await settle();
    assert.strictEqual(charts.length, 1);
    // Two are chosen; a third takes the place of the first.
    const boxes = page.findAll("input");
    for (const box of boxes) {
      box.checked = true;
      await box.fire("change");
    }
    assert.strictEqual(page.find("a", (one) => one.textContent.startsWith("compare")).href, "#/compare/r-2/r-1");
    assert.deepStrictEqual(page.findAll("input").map((box) => box.checked), [false, true, true]);
    // Cancelling takes two presses.
    const button = page.find("button", (one) => one.textContent === "cancel");
    await button.fire("click");
    assert(!requests.some((one) => one.startsWith("POST")));
    await button.fire("click");
    await settle();
    assert(requests.includes("POST api/jobs/7/cancel"), requests.join());
    // Only those of one recipe.
    const chooser = page.findAll("select")[0];
    chooser.value = "other";
    await chooser.fire("change");
    assert.strictEqual(page.findAll("input").length, 1);
  },

  async compare() {
    const side = (name) => ({ name, what: "a run", note: "", samples_per_second: 1000, ratio: 1.2, ratio_low: 1.1, ratio_high: 1.3, pairs: 9, checks: [], left_out: name === "r-1" ? "measured with plugin mine, which the training left out" : "" });
    const answers = { "api/compare/r-1/r-2.3": { a: side("r-1"), b: side("r-2.3"), ratio: 1.5, knobs: [{ field: "batch_size", a: 32, b: 128 }], recipe: [], environment: [{ field: "gpus", a: [], b: null }],
      spans_ns_per_step: { step: { a: 2e6, b: 1e6, difference: -1e6 } }, metrics: { "step.data_wait_ratio": { a: 0.5, b: null, difference: null } } } };
    const { page } = await open(file, { hash: "#/compare/r-1/r-2.3", answers });
    says(page, "1.50 ×");
    says(page, "1.20 ×1.10 to 1.30, measured with plugin mine, which the training left out");
    says(page, "batch_size32128");
    says(page, "step2.00 ms1.00 ms");
    says(page, "step.data_wait_ratio50.0 %–");
    const missing = await open(file, { hash: "#/compare/r-1/r-3" });
    says(missing.page, "there is nothing here");
  },
};

scenes[scene]().then(() => { console.log("as expected"); process.exit(0); }, (error) => { console.log(error.stack); process.exit(1); });

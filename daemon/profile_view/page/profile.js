// SPDX-License-Identifier: Apache-2.0
// The page of a profile: overview, findings and tables. Everything from the trace becomes text nodes, never
// markup. Times are nanoseconds.
"use strict";

const data = JSON.parse(document.getElementById("profile").textContent);
const PARTS = ["kernel", "copy", "fill", "communication", "runtime", "loading", "cpu", "other"];
const FIRST_ROWS = 15;

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const isDeviceKind = (kind) => kind >= 6 && kind <= 8;  // kernel, copy, fill of traces::EventKind

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function timeText(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return ns.toFixed(0) + " ns";
  if (size < 1e6) return (ns / 1e3).toFixed(1) + " µs";
  if (size < 1e9) return (ns / 1e6).toFixed(2) + " ms";
  return (ns / 1e9).toFixed(2) + " s";
}
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.abs(bytes);
  let unit = 0;
  while (size >= 1024 && unit + 1 < units.length) { size /= 1024; ++unit; }
  return (bytes < 0 ? "−" : "") + (unit === 0 ? size.toFixed(0) : size.toFixed(1)) + " " + units[unit];
}
const percentText = (ratio) => (100 * ratio).toFixed(1) + " %";
const countText = (count) => Math.round(count).toLocaleString("en");

function cellText(value, unit) {
  if (value === null) return unit === "change" ? "new" : "–";
  if (typeof value === "string") return value;
  switch (unit) {
    case "time": return timeText(value);
    case "bytes": return bytesText(value);
    case "ratio": return percentText(value);
    case "change": return value > 10 ? (1 + value).toFixed(0) + " x as much" : percentText(value);
    case "number": return value.toFixed(2);
    default: return countText(value);
  }
}

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  const below = event.clientY + 16;
  tip.style.top = (below + box.height > innerHeight ? event.clientY - box.height - 10 : below) + "px";
}
const hideTip = () => { tip.hidden = true; };
function withTip(node, text) {
  node.addEventListener("mousemove", (event) => showTip(event, text));
  node.addEventListener("mouseleave", hideTip);
  return node;
}

// Without columns of the device where nothing ran on one.
function pruned(table) {
  const kept = table.columns.map((column, i) => !column.key.includes("device_") && !column.key.includes("_device") || table.rows.some((row) => row[i] !== 0));
  return { ...table, columns: table.columns.filter((_, i) => kept[i]), rows: table.rows.map((row) => row.filter((_, i) => kept[i])) };
}

// A click shows a call stack frame by frame, the innermost first.
function foldStack(cell, stack) {
  const turn = () => { cell.textContent = cell.classList.toggle("open") ? stack.split(" ← ").join("\n← ") : stack; };
  cell.tabIndex = 0;
  cell.addEventListener("click", turn);
  cell.addEventListener("keydown", (event) => { if (event.key === "Enter") turn(); });
}

// A table that sorts by a click on a heading and filters by text. `update(rows)` gives it other rows.
function sortedTable(table) {
  const state = { rows: table.rows, column: -1, falling: true, limit: FIRST_ROWS, filter: "" };
  const head = element("tr");
  const body = element("tbody");
  const more = element("button", { type: "button", className: "more" });
  const filter = element("input", { type: "search", placeholder: "filter", ariaLabel: "filter " + table.title });

  function compare(a, b) {
    const [x, y] = [a[state.column], b[state.column]];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "string" ? x.localeCompare(String(y)) : x - y;
    return state.falling ? -order : order;
  }
  function draw() {
    let rows = state.rows;
    if (state.filter) {
      rows = rows.filter((row) => row.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(state.filter)));
    }
    if (state.column >= 0) rows = [...rows].sort(compare);
    body.replaceChildren(...rows.slice(0, state.limit).map((row) => element("tr", {}, ...row.map((value, i) => {
      const { unit, key } = table.columns[i];
      const cell = element("td", { className: unit === "text" ? "text" : "" }, cellText(value, unit));
      if (unit === "text" && value) cell.title = value;
      if (key === "stack" && value) foldStack(cell, value);
      if (key.startsWith("change") && value) cell.classList.add(value < 0 ? "better" : "worse");
      return cell;
    }))));
    if (rows.length === 0) body.append(element("tr", {}, element("td", { className: "text quiet", colSpan: table.columns.length }, table.when_empty || "nothing matches")));
    more.hidden = rows.length <= FIRST_ROWS;
    more.textContent = state.limit >= rows.length ? "show fewer" : `show all ${countText(rows.length)}`;
  }
  table.columns.forEach((column, i) => {
    const heading = element("th", { className: column.unit === "text" ? "text" : "", scope: "col", tabIndex: 0 }, column.heading);
    const choose = () => {
      state.falling = state.column === i ? !state.falling : column.unit !== "text";
      state.column = i;
      for (const other of head.children) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", state.falling ? "descending" : "ascending");
      draw();
    };
    heading.addEventListener("click", choose);
    heading.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
    head.append(heading);
  });
  filter.addEventListener("input", () => { state.filter = filter.value.toLowerCase(); draw(); });
  more.addEventListener("click", () => { state.limit = state.limit > FIRST_ROWS ? FIRST_ROWS : Infinity; draw(); });
  draw();
  const title = element("h3", {}, table.title);
  const tools = element("div", { className: "tools" }, title, table.rows.length > FIRST_ROWS ? filter : null);
  const left = table.left_out ? element("p", { className: "note" }, `${countText(table.left_out)} more rows are left out of this page: autotuned analyze --view prints them`) : null;
  const node = element("div", {}, tools, element("div", { className: "scroll tall" }, element("table", {}, element("thead", {}, head), body)), more, left);
  return { node, update(rows, words) { state.rows = rows; title.textContent = words || table.title; draw(); } };
}

const tableNodes = (tables) => tables.map((table) => sortedTable(pruned(table)).node);

// The first of several tables, and buttons for the others.
function chosenTable(tables) {
  if (tables.length < 2) return tableNodes(tables);
  const place = element("div");
  const buttons = tables.map((table) => element("button", { type: "button" }, table.title));
  const choose = (chosen) => {
    buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(i === chosen)));
    place.replaceChildren(...tableNodes([tables[chosen]]));
  };
  buttons.forEach((one, i) => one.addEventListener("click", () => choose(i)));
  choose(0);
  return [element("div", { className: "tools" }, ...buttons), place];
}

function figure(value, words) {
  return element("div", { className: "figure" }, element("b", {}, value), element("span", {}, words));
}

// What the host did in the time of "CPU Exec", where the trace tells.
function phaseLines(rank, times, step) {
  return times.map((ns, i) => [ns, rank.cpu_phases[i].name]).filter(([ns]) => ns > 0)
    .map(([ns, name]) => `${name}  ${timeText(ns)}  ${percentText(ns / step)}`);
}

function overviewSection(rank) {
  const step = rank.step_ns;
  const figures = [figure(timeText(step), rank.steps.length + rank.steps_left_out > 1
    ? `a step, mean of ${rank.steps.length + rank.steps_left_out}` : "recorded, as one step")];
  for (const device of rank.devices) {
    figures.push(figure(percentText(device.utilization), device.name + " utilization"));
    if (device.sm_efficiency !== null) figures.push(figure(percentText(device.sm_efficiency), "est. SM efficiency"));
    if (device.achieved_occupancy_percent !== null) figures.push(figure(device.achieved_occupancy_percent.toFixed(1) + " %", "est. achieved occupancy"));
    figures.push(figure(percentText(device.tensor_core_ratio), "of kernel time on tensor cores"));
  }
  for (const device of rank.memory.devices) figures.push(figure(bytesText(device.peak), "most memory, " + device.name));
  const bar = element("div", { className: "share" });
  const legend = element("div", { className: "legend" });
  rank.parts.forEach((part, i) => {
    if (part.ns <= 0) return;
    const words = `${part.name}  ${timeText(part.ns)}  ${percentText(part.ns / step)}`;
    const piece = withTip(element("div"), words);
    piece.style.background = `var(--${PARTS[i]})`;
    piece.style.flex = `${part.ns} 0 0`;
    bar.append(piece);
    const mark = element("i");
    mark.style.background = `var(--${PARTS[i]})`;
    legend.append(element("span", {}, mark, words));
    if (PARTS[i] === "cpu") legend.append(...phaseLines(rank, rank.cpu_phases.map((one) => one.ns), step).map((line) => element("span", { className: "quiet" }, "of it " + line)));
  });
  const titles = rank.devices.map((device) => element("p", { className: "quiet" }, device.title));
  const nodes = [...titles, element("div", { className: "figures" }, ...figures), bar, legend];
  if (rank.steps.length > 1) nodes.push(stepsPlot(rank));
  for (const note of rank.notes) nodes.push(element("p", { className: "note" }, note));
  return nodes;
}

function findingsSection() {
  if (data.findings.length === 0) return [element("p", { className: "quiet" }, "Nothing was found that stands out.")];
  const severities = ["high", "medium", "low", "note"];
  const findings = [...data.findings].sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
  return findings.map((finding) => {
    const acts = finding.plugin ? [element("p", {}, "turned by ", element("code", {}, finding.knob || ""), ", tried by the plugin ", element("code", {}, finding.plugin), " in autotuned run")]
      : finding.knob ? [element("p", {}, "turned by ", element("code", {}, finding.knob))] : [];
    return element("div", { className: "finding" }, element("p", {}, element("span", { className: "severity " + finding.severity }, finding.severity), element("strong", {}, finding.id), finding.evidence),
      element("p", { className: "quiet" }, "→ " + finding.advice), finding.gain ? element("p", {}, finding.gain) : null, finding.code ? element("pre", {}, finding.code) : null, ...acts);
  });
}

// Title, whether there is something to show, and what.
function sectionsOf(rank) {
  return [
    ["Overview", true, () => overviewSection(rank)],
    ["Findings", true, findingsSection],
    ["Difference", data.difference.length > 0, () => [...data.difference_notes.map((note) => element("p", { className: "quiet" }, note)), ...tableNodes(data.difference)]],
    ["Timeline", rank.bars.bars.length > 0, () => timelinePlot(rank)],
    ["Flame graph", rank.flame.frames.length > 0, () => flamePlot(rank)],
    ["Operators", true, () => chosenTable(rank.tables.operators)],
    ["Kernels", rank.tables.kernels[0].rows.length > 0, () => tableNodes(rank.tables.kernels)],
    ["Modules", rank.tables.modules[0].rows.length > 0, () => tableNodes(rank.tables.modules)],
    ["Memory", rank.memory.devices.length > 0, () => memoryPlot(rank)],
    ["Input", true, () => [...rank.input_facts.map((line) => element("p", {}, line)), ...tableNodes(rank.tables.input)]],
    ["Threads", true, () => tableNodes(rank.tables.trace)],
    ["Distributed", data.ranks.length > 1 || data.distributed[1].rows.length > 0, () => [...data.straggler_facts.map((line) => element("p", {}, line)), ...tableNodes(data.distributed)]],
  ];
}

const redraws = [];  // of plots: called when the width or the colours change

function drawPage(rank) {
  redraws.length = 0;
  hideTip();
  const page = document.getElementById("page");
  const links = [];
  page.replaceChildren();
  for (const [title, has, make] of sectionsOf(rank)) {
    if (!has) continue;
    const id = title.toLowerCase().replace(" ", "-");
    links.push(element("a", { href: "#" + id }, title));
    const section = element("section", { id }, element("h2", {}, title));
    page.append(section);
    section.append(...make().filter((node) => node));
  }
  document.getElementById("sections").replaceChildren(...links);
  redraw();
}
function redraw() { for (const draw of redraws) draw(); }

function start() {
  const root = document.documentElement;
  root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    redraw();
  });
  addEventListener("resize", redraw);
  document.getElementById("files").textContent = data.ranks.map((rank) => rank.file).join(", ");
  const choice = document.getElementById("rank");
  data.ranks.forEach((rank, i) => choice.append(element("option", { value: i }, String(rank.rank))));
  document.getElementById("rank-choice").hidden = data.ranks.length < 2;
  choice.addEventListener("change", () => drawPage(data.ranks[choice.value]));
  drawPage(data.ranks[0]);
}

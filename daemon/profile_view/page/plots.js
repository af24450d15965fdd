// SPDX-License-Identifier: Apache-2.0
// What is drawn on a canvas: steps, flame graph, memory curve. The timeline is in timeline.js.

const FONT = "11px system-ui, sans-serif";
// By traces::EventKind.
const KIND_COLOURS = ["other", "loading", "communication", "", "", "runtime", "", "copy", "fill", "other", ""];
const NAME_COLOURS = ["#5b7fb5", "#5f9b86", "#b0834f", "#8a74b0", "#b0687c", "#739c55", "#4f98ad", "#9a9153", "#c07a5a", "#6b8fa8"];

// Loading, communication, copies and the like have a colour of their own; operators, modules and kernels one for
// each name.
function barColour(kind, name) {
  if (KIND_COLOURS[kind]) return colour(KIND_COLOURS[kind]);
  let hash = 0;
  for (let i = 0; i < name.length; ++i) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return NAME_COLOURS[hash % NAME_COLOURS.length];
}

// A canvas of `height` pixels that is drawn again at every change of width or colours.
function plot(height, words, draw) {
  const canvas = element("canvas", { tabIndex: 0 });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", words);
  const state = { canvas, height, width: 0, redraw };
  function redraw() {
    const ratio = devicePixelRatio || 1;
    state.width = canvas.clientWidth || 800;
    canvas.style.height = state.height + "px";
    canvas.width = Math.round(state.width * ratio);
    canvas.height = Math.round(state.height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = FONT;
    context.textBaseline = "middle";
    draw(context, state);
  }
  redraws.push(redraw);
  return state;
}
const placeOf = (canvas, event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

const shortName = (name) => name.replace(/^nn\.Module: /, "");

function fittingText(context, text, width) {
  if (width < 18) return "";
  if (context.measureText(text).width <= width) return text;
  let length = Math.min(text.length, Math.floor(width / 5));
  while (length > 1 && context.measureText(text.slice(0, length) + "…").width > width) --length;
  return length > 1 ? text.slice(0, length) + "…" : "";
}
function block(context, x, y, width, height, fill, text) {
  context.fillStyle = fill;
  context.fillRect(x, y, Math.max(width - 0.6, 0.6), height - 1);
  const words = fittingText(context, text, width - 8);
  if (!words) return;
  context.fillStyle = darkInk(fill) ? "#10151c" : "#ffffff";
  context.fillText(words, x + 4, y + height / 2);
}
function darkInk(fill) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
  return 0.3 * red + 0.59 * green + 0.11 * blue > 140;
}
// Round times, some 100 pixels apart.
function timeMarks(from, to, width) {
  const rough = (to - from) / Math.max(width / 110, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const marks = [];
  for (let mark = Math.ceil(from / step) * step; mark <= to; mark += step) marks.push(mark);
  return marks;
}
function timeAxis(context, from, to, left, width, height) {
  context.fillStyle = colour("soft");
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.textAlign = "left";
  for (const mark of timeMarks(from, to, width)) {
    const x = left + (mark - from) / (to - from) * width;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    context.fillText(timeText(mark), x + 3, 8);
  }
}

// Upwards the time of a step, to the right the steps by their numbers.
function stepsPlot(rank) {
  const height = 150;
  const left = 64;
  const bottom = height - 14;
  const longest = Math.max(...rank.steps.map((step) => step.ns), 1);
  const state = plot(height, "duration of each step by parts", (context, { width }) => {
    const wide = (width - left) / rank.steps.length;
    const heightOf = (ns) => ns / longest * (height - 24);
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    context.lineWidth = 1;
    context.textAlign = "left";
    for (const mark of timeMarks(0, longest, 330)) {
      const y = bottom - heightOf(mark);
      context.beginPath();
      context.moveTo(left - 4, y);
      context.lineTo(width, y);
      context.stroke();
      context.fillText(mark === 0 ? "0" : timeText(mark), 0, Math.max(y, 6));
    }
    context.fillText("step", 30, height - 6);
    rank.steps.forEach((step, i) => {
      let y = bottom;
      step.parts.forEach((ns, part) => {
        context.fillStyle = colour(PARTS[part]);
        // Shades of one colour: the phases, where they are known.
        const shades = PARTS[part] === "cpu" && step.cpu ? step.cpu : [ns];
        shades.forEach((shade, phase) => {
          if (phase > 0 && shade <= 0) return;
          const tall = heightOf(shade);
          context.globalAlpha = 1 - 0.2 * phase;
          y -= tall;
          context.fillRect(left + i * wide, y, Math.max(wide - 1.5, 0.7), tall);
        });
        context.globalAlpha = 1;
      });
      context.fillStyle = colour("soft");
      if (wide > 24 || i % Math.ceil(26 / wide) === 0) context.fillText(step.name, left + i * wide + 1, height - 6);
    });
  });
  state.canvas.addEventListener("mousemove", (event) => {
    const step = rank.steps[Math.floor((placeOf(state.canvas, event)[0] - left) / (state.width - left) * rank.steps.length)];
    if (!step) return;
    const lines = step.parts.map((ns, i) => [ns, i]).filter(([ns]) => ns > 0).flatMap(([ns, i]) => [
      `${rank.parts[i].name}  ${timeText(ns)}  ${percentText(ns / step.ns)}`,
      ...(PARTS[i] === "cpu" && step.cpu ? phaseLines(rank, step.cpu, step.ns).map((line) => "  " + line) : [])]);
    showTip(event, `step ${step.name}: ${timeText(step.ns)}\n` + lines.join("\n"));
  });
  state.canvas.addEventListener("mouseleave", hideTip);
  const note = rank.steps_left_out ? element("p", { className: "note" }, `only the first ${rank.steps.length} steps are drawn`) : null;
  return element("div", {}, element("h3", {}, "Steps"), state.canvas, note);
}

function flameTree({ frames, names }) {
  const words = names.map(shortName);
  const nodes = frames.map(([name, parent, kind, calls, host, device]) => ({ name: words[name], parent, kind, calls, host, device, inner: [] }));
  const root = { name: "all", kind: 9, calls: 1, host: 0, device: 0, inner: [], parent: null };
  for (const node of nodes) {
    const above = node.parent < 0 ? root : nodes[node.parent];
    above.inner.push(node);
    node.above = above;
    if (above === root) { root.host += node.host; root.device += node.device; }
  }
  return { root, nodes };
}

function flamePlot(rank) {
  const ROW = 19;
  let { root, nodes } = flameTree(rank.flame);
  let by = root.device > 0 && rank.devices.length > 0 ? "device" : "host";
  let shown = root;
  let sought = "";
  let drawn = [];
  const deepest = (node) => 1 + Math.max(0, ...node.inner.map(deepest));
  const heightOf = (node) => Math.min(deepest(node), 60) * ROW + 4;
  const state = plot(heightOf(root), "flame graph of modules and operators", (context, { width }) => {
    drawn = [];
    for (const node of [root, ...nodes]) node.colour = barColour(node.kind, node.name);
    const path = [];
    for (let node = shown; node; node = node.above) path.unshift(node);
    path.forEach((node, depth) => drawn.push({ node, x: 0, wide: width, depth }));
    const lay = (node, x, wide, depth) => {
      const inner = [...node.inner].sort((a, b) => b[by] - a[by]);
      const whole = Math.max(node[by], inner.reduce((sum, one) => sum + one[by], 0), 1);
      for (const one of inner) {
        const size = one[by] / whole * wide;
        if (size < 0.5) break;
        drawn.push({ node: one, x, wide: size, depth });
        lay(one, x, size, depth + 1);
        x += size;
      }
    };
    lay(shown, 0, width, path.length);
    for (const { node, x, wide, depth } of drawn) {
      const isFound = sought && node.name.toLowerCase().includes(sought);
      block(context, x, depth * ROW, wide, ROW, isFound ? colour("copy") : node.colour, node.name);
    }
  });
  const nodeAt = (event) => {
    const [x, y] = placeOf(state.canvas, event);
    return drawn.find((one) => one.depth === Math.floor(y / ROW) && x >= one.x && x < one.x + one.wide)?.node;
  };
  state.canvas.addEventListener("mousemove", (event) => {
    const node = nodeAt(event);
    if (!node) { hideTip(); return; }
    showTip(event, `${node.name}\nhost ${timeText(node.host)}, device ${timeText(node.device)}, ${countText(node.calls)} calls\n${percentText(node[by] / Math.max(root[by], 1))} of all`);
  });
  state.canvas.addEventListener("mouseleave", hideTip);
  state.canvas.addEventListener("click", (event) => { const node = nodeAt(event); if (node) { shown = node; state.redraw(); } });
  const switches = ["host", "device"].map((what) => element("button", { type: "button" }, what + " time"));
  const press = () => switches.forEach((one, i) => one.setAttribute("aria-pressed", String(by === ["host", "device"][i])));
  switches.forEach((one, i) => one.addEventListener("click", () => { by = ["host", "device"][i]; press(); state.redraw(); }));
  switches[1].disabled = root.device === 0;
  press();
  const search = element("input", { type: "search", placeholder: "find", ariaLabel: "find in the flame graph" });
  search.addEventListener("input", () => { sought = search.value.toLowerCase(); state.redraw(); });
  const left = element("p", { className: "note" });
  const tellLeftOut = ({ left_out }) => {
    left.hidden = !left_out;
    left.textContent = `the ${countText(left_out)} smallest frames are left out`;
  };
  tellLeftOut(rank.flame);
  let python = null;
  if (rank.python_flame.frames.length > 0) {
    python = element("button", { type: "button" }, "with Python functions");
    python.setAttribute("aria-pressed", "false");
    python.addEventListener("click", () => {
      const isOn = python.getAttribute("aria-pressed") !== "true";
      python.setAttribute("aria-pressed", String(isOn));
      const flame = isOn ? rank.python_flame : rank.flame;
      ({ root, nodes } = flameTree(flame));
      shown = root;
      state.height = heightOf(root);
      tellLeftOut(flame);
      state.redraw();
    });
  }
  return [element("div", { className: "tools" }, ...switches, ...(python ? [python] : []), element("span", {}, "all steps together; a click goes into a frame, the rows above go back"), search), element("div", { className: "scroll tall" }, state.canvas), left];
}

// The same sums as autotuned analyze --view memory --range.
function memoryRows(memory, from, to) {
  const rows = new Map();
  const seen = new Set();
  for (const [at, bytes, device, call] of memory.changes) {
    if (at < from || at >= to) continue;
    const names = new Set();
    const taken = Math.max(bytes, 0);
    for (let one = call, isSelf = true; ; one = memory.calls[one][1], isSelf = false) {
      const name = one < 0 ? -1 : memory.calls[one][0];
      const key = device + ":" + name;
      if (!rows.has(key)) rows.set(key, [name < 0 ? "(no operator)" : memory.names[name], memory.devices[device].name, 0, 0, 0, 0, 0, 0]);
      const row = rows.get(key);
      if (!names.has(name)) { row[5] += bytes; row[7] += taken; names.add(name); }
      if (one < 0 || !seen.has(device + ":" + one)) { row[2] += 1; seen.add(device + ":" + one); }
      if (isSelf) { row[4] += bytes; row[6] += taken; if (bytes > 0) row[3] += 1; }
      if (one < 0 || memory.calls[one][1] < 0) break;
    }
  }
  return [...rows.values()].sort((a, b) => b[4] - a[4]);
}

function memoryPlot(rank) {
  const memory = rank.memory;
  const LEFT = 74, TOP = 16, HEIGHT = 230, BOTTOM = HEIGHT - 8;
  const end = Math.max(rank.length_ns, 1);
  let device = memory.devices.findIndex((one) => one.name !== "CPU");
  if (device < 0) device = 0;
  let chosen = null;
  const table = sortedTable(rank.tables.memory[0]);
  const blocks = sortedTable(rank.tables.memory[1]);
  const takenAt = rank.tables.memory[1].columns.findIndex((column) => column.key === "taken_at");
  const state = plot(HEIGHT, "memory over time", (context, { width }) => {
    const { curve } = memory.devices[device];
    timeAxis(context, 0, end, LEFT, width - LEFT, HEIGHT);
    const most = Math.max(...curve.map((point) => Math.max(point[1], point[2])), 1);
    const x = (ns) => LEFT + ns / end * (width - LEFT);
    const y = (bytes) => BOTTOM - Math.max(bytes, 0) / most * (BOTTOM - TOP - 6);
    if (chosen) {
      context.fillStyle = colour("accent-ground");
      context.fillRect(x(chosen[0]), TOP, x(chosen[1]) - x(chosen[0]), BOTTOM - TOP);
    }
    for (const [column, name] of [[2, "copy"], [1, "accent"]]) {
      if (!curve.some((point) => point[column] > 0)) continue;
      context.strokeStyle = colour(name);
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x(curve[0][0]), y(curve[0][column]));
      let last = curve[0];
      for (const point of curve) {
        context.lineTo(x(point[0]), y(last[column]));
        context.lineTo(x(point[0]), y(point[column]));
        last = point;
      }
      context.lineTo(x(end), y(last[column]));
      context.stroke();
    }
    context.fillStyle = colour("soft");
    for (const share of [0, 0.5, 1]) context.fillText(bytesText(share * most), 0, y(share * most));
  });
  const words = element("span", {});
  const choose = (range) => {
    chosen = range;
    state.redraw();
    words.textContent = range ? `from ${timeText(range[0])} to ${timeText(range[1])}: --range ${(range[0] / 1e6).toFixed(3)}:${(range[1] / 1e6).toFixed(3)}` : "drag over the curve to choose a stretch of time";
    blocks.update(rank.tables.memory[1].rows.filter((row) => !range || row[takenAt] >= range[0] && row[takenAt] < range[1]));
    if (!memory.changes_left_out) table.update(range ? memoryRows(memory, range[0], range[1]) : rank.tables.memory[0].rows);
  };
  const timeAt = (event) => Math.max(0, Math.min(end, (placeOf(state.canvas, event)[0] - LEFT) / (state.width - LEFT) * end));
  state.canvas.addEventListener("pointerdown", (event) => {
    const from = timeAt(event);
    const move = (next) => { const to = timeAt(next); choose([Math.min(from, to), Math.max(from, to)]); };
    const finish = (next) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", finish);
      if (Math.abs(timeAt(next) - from) < end / 500) choose(null);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", finish);
  });
  const devices = element("select", { ariaLabel: "device" });
  memory.devices.forEach((one, i) => devices.append(element("option", { value: i, selected: i === device }, one.name)));
  devices.addEventListener("change", () => { device = Number(devices.value); state.redraw(); });
  const everything = element("button", { type: "button", onclick: () => choose(null) }, "all of it");
  words.textContent = "drag over the curve to choose a stretch of time";
  const left = memory.changes_left_out ? element("p", { className: "note" }, "there are too many allocations for this page to choose from: autotuned analyze --view memory --range does it") : null;
  return [element("div", { className: "tools" }, devices, everything, words), state.canvas, left, table.node, blocks.node];
}

start();

// SPDX-License-Identifier: Apache-2.0
// The timeline: events as bars on the rows of their threads and streams, and arrows between what caused what.

// Zoom and pan of a stretch of time: ctrl and the wheel, dragging, and the keys W, S, A and D.
function navigation(state, whole, left) {
  const view = { from: whole[0], to: whole[1], moved: false };
  const clamp = (from, to) => {
    const length = Math.min(Math.max(to - from, 200), whole[1] - whole[0]);
    view.from = Math.max(whole[0], Math.min(from, whole[1] - length));
    view.to = view.from + length;
    state.redraw();
  };
  view.show = clamp;
  view.zoom = (factor, share = 0.5) => {
    const length = view.to - view.from;
    const centre = view.from + share * length;
    clamp(centre - share * length * factor, centre + (1 - share) * length * factor);
  };
  view.pan = (share) => clamp(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
  const shareAt = (event) => (placeOf(state.canvas, event)[0] - left) / (state.width - left);
  state.canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;
    event.preventDefault();
    view.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, Math.max(0, shareAt(event)));
  }, { passive: false });
  state.canvas.addEventListener("pointerdown", (event) => {
    let last = shareAt(event);
    view.moved = false;
    const move = (next) => {
      const share = shareAt(next);
      if (Math.abs(share - last) * state.width > 2) view.moved = true;
      view.pan(last - share);
      last = share;
    };
    const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  });
  state.canvas.addEventListener("keydown", (event) => {
    const acts = { w: () => view.zoom(0.7), s: () => view.zoom(1.4), a: () => view.pan(-0.2), d: () => view.pan(0.2) };
    const act = acts[event.key.toLowerCase()];
    if (act && !event.ctrlKey && !event.metaKey) act();
  });
  return view;
}

// What a bar has to do with others: the call that launched it, its forward or backward, and what it launched, or what was
// launched inside of it.
function linksOf(bar, row) {
  const MOST = 60;
  const own = [...(bar.cause ? [[bar.cause, bar]] : []), ...bar.effects.map((effect) => [bar, effect])];
  if (isDeviceKind(bar.kind) || own.some(([, to]) => isDeviceKind(to.kind))) return own.slice(0, MOST);
  const held = row.bars.filter((one) => one.depth > bar.depth && one.from >= bar.from && one.to <= bar.to);
  const launches = held.flatMap((one) => one.effects.filter((effect) => isDeviceKind(effect.kind)).map((effect) => [one, effect]));
  return [...own, ...launches].slice(0, MOST);
}

function linkText(bar, [from, to]) {
  const later = timeText(to.from - from.from);
  if (isDeviceKind(to.kind)) return to === bar ? `launched by ${from.name}, ${later} before` : `launches ${to.name}, which begins ${later} later`;
  return to === bar ? `backward of ${from.name}, ${later} before` : `its backward is ${to.name}, ${later} later`;
}

function barText(bar, links) {
  const SHOWN = 6;
  const lines = links.slice(0, SHOWN).map((link) => linkText(bar, link));
  if (links.length > SHOWN) lines.push(`and ${countText(links.length - SHOWN)} more`);
  return [`${bar.name}`, `${timeText(bar.to - bar.from)}, at ${timeText(bar.from)}`, ...lines].join("\n");
}

function drawArrow(context, [x1, y1], [x2, y2], stroke) {
  const bend = Math.min(Math.max(Math.abs(x2 - x1) / 3, 18), 160);
  context.strokeStyle = stroke;
  context.fillStyle = stroke;
  context.lineWidth = 1.4;
  context.beginPath();
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  context.stroke();
  context.beginPath();
  context.moveTo(x2, y2);
  context.lineTo(x2 - 7, y2 - 4);
  context.lineTo(x2 - 7, y2 + 4);
  context.fill();
}

function timelinePlot(rank) {
  const ROW = 17, GAP = 8, LEFT = 150, TOP = 18, DEEPEST = 14;
  const { tracks, left_out } = rank.bars;
  const names = rank.bars.names.map(shortName);
  const rows = tracks.map((name) => ({ name, deep: 1, bars: [] }));
  const bars = rank.bars.bars.map(([track, name, depth, kind, from, length, cause]) => ({ track, name: names[name], depth, kind, from, to: from + length, cause, effects: [] }));
  for (const bar of bars) {
    bar.cause = bars[bar.cause] || null;
    if (bar.cause) bar.cause.effects.push(bar);
    if (bar.depth >= DEEPEST) continue;
    rows[bar.track].bars.push(bar);
    rows[bar.track].deep = Math.max(rows[bar.track].deep, bar.depth + 1);
  }
  let height = TOP;
  for (const row of rows) { row.top = height; height += row.deep * ROW + GAP; }
  const end = bars.reduce((latest, bar) => Math.max(latest, bar.to), 1);
  const start = bars.reduce((earliest, bar) => Math.min(earliest, bar.from), end);
  let view;
  let hovered = null;
  let selected = null;
  const links = (bar) => bar.links ??= linksOf(bar, rows[bar.track]);
  const drawLinks = (context, bar, placeOfBar, scale) => {
    const [x, y] = placeOfBar(bar);
    context.strokeStyle = colour("ink");
    context.lineWidth = 1.5;
    if (bar.depth < DEEPEST) context.strokeRect(x, y - ROW / 2, Math.max((bar.to - bar.from) * scale, 1), ROW - 1);
    for (const [from, to] of links(bar)) {
      drawArrow(context, placeOfBar(from), placeOfBar(to), colour(isDeviceKind(to.kind) ? "accent" : "communication"));
    }
  };
  const state = plot(height, "timeline of all threads and streams", (context, { width }) => {
    const { from, to } = view;
    const scale = (width - LEFT) / (to - from);
    timeAxis(context, from, to, LEFT, width - LEFT, height);
    const colours = new Map();  // reading styles for each bar would take long
    for (const row of rows) {
      for (const bar of row.bars) {
        const key = bar.kind + bar.name;
        if (!colours.has(key)) colours.set(key, barColour(bar.kind, bar.name));
        bar.colour = colours.get(key);
      }
    }
    for (const row of rows) {
      context.fillStyle = colour("line");
      context.fillRect(0, row.top - GAP / 2, width, 1);
      context.save();
      context.beginPath();
      context.rect(LEFT, row.top, width - LEFT, row.deep * ROW);
      context.clip();
      const drawn = new Map();  // the last pixel of a depth and kind that is painted: thousands share one
      for (const bar of row.bars) {
        if (bar.to < from || bar.from > to) continue;
        const x = LEFT + (Math.max(bar.from, from) - from) * scale;
        const wide = (Math.min(bar.to, to) - Math.max(bar.from, from)) * scale;
        if (wide < 1) {
          const key = bar.depth * 16 + bar.kind;
          if (drawn.get(key) === Math.floor(x)) continue;
          drawn.set(key, Math.floor(x));
        }
        block(context, x, row.top + bar.depth * ROW, wide, ROW, bar.colour, bar.name);
      }
      context.restore();
      context.fillStyle = colour("soft");
      context.fillText(fittingText(context, row.name, LEFT - 8), 0, row.top + ROW / 2);
    }
    // What is far outside is drawn at the edge: browsers give up on coordinates of millions.
    const placeOfBar = (bar) => [Math.max(-1e4, Math.min(LEFT + (bar.from - from) * scale, 1e4)), rows[bar.track].top + (Math.min(bar.depth, DEEPEST - 1) + 0.5) * ROW];
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    if (selected) drawLinks(context, selected, placeOfBar, scale);
    if (hovered && hovered !== selected) drawLinks(context, hovered, placeOfBar, scale);
    context.restore();
  });
  view = navigation(state, [start, end], LEFT);
  const barAt = (event) => {
    const [x, y] = placeOf(state.canvas, event);
    const row = rows.find((one) => y >= one.top && y < one.top + one.deep * ROW);
    if (!row || x < LEFT) return null;
    const at = view.from + (x - LEFT) / (state.width - LEFT) * (view.to - view.from);
    const slack = (view.to - view.from) / (state.width - LEFT);
    const depth = Math.floor((y - row.top) / ROW);
    return row.bars.find((bar) => bar.depth === depth && bar.from - slack <= at && at <= bar.to + slack) || null;
  };
  const hover = (bar) => {
    if (bar === hovered) return;
    const isSeen = [hovered, bar].some((one) => one && links(one).length > 0);
    hovered = bar;
    if (isSeen) state.redraw();
  };
  const details = element("p", { className: "quiet details" });
  const select = (bar) => {
    selected = bar;
    details.textContent = bar ? barText(bar, links(bar)) : "";
    state.redraw();
  };
  state.canvas.addEventListener("mousemove", (event) => {
    const bar = barAt(event);
    hover(bar);
    if (bar) showTip(event, barText(bar, links(bar)));
    else hideTip();
  });
  state.canvas.addEventListener("mouseleave", () => { hover(null); hideTip(); });
  state.canvas.addEventListener("click", (event) => {
    if (view.moved) return;
    const bar = barAt(event);
    select(bar === selected ? null : bar);
  });
  state.canvas.addEventListener("keydown", (event) => { if (event.key === "Escape") select(null); });
  state.canvas.addEventListener("dblclick", (event) => {
    const bar = barAt(event);
    if (bar) view.show(bar.from - 0.05 * (bar.to - bar.from), bar.to + 0.05 * (bar.to - bar.from));
    else view.show(start, end);
  });
  const button = (words, act) => element("button", { type: "button", onclick: act }, words);
  const tools = element("div", { className: "tools" }, button("zoom in", () => view.zoom(0.6)), button("zoom out", () => view.zoom(1.6)), button("all of it", () => view.show(start, end)),
    element("span", {}, "ctrl + wheel zooms, dragging moves, a click keeps the arrows of an event, a double click fits it, keys W A S D"));
  const left = left_out ? element("p", { className: "note" }, `the ${countText(left_out)} shortest events are left out, so that the page stays small`) : null;
  return [tools, element("div", { className: "scroll tall" }, state.canvas), details, left];
}


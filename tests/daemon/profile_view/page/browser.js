// SPDX-License-Identifier: Apache-2.0
// As much of a browser as the page of a profile needs: elements and events (page_elements.js), and canvases that note what is
// drawn.
"use strict";
const fs = require("fs");
const vm = require("vm");
const { Element } = require("../../page_elements.js");

const WIDTH = 1000;  // of every canvas

// Told apart by what is drawn with them.
const COLOURS = {};
for (const [i, name] of ["kernel", "copy", "fill", "communication", "runtime", "loading", "cpu", "other", "accent", "accent-ground", "ink", "soft", "line"].entries()) {
  COLOURS[name] = "#" + (0x102030 + i * 0x0f0e0d).toString(16);
}

class PageElement extends Element {
  constructor(tag) {
    super(tag);
    this.href = "";
    const classes = new Set();
    this.classList = {
      add: (name) => classes.add(name),
      contains: (name) => classes.has(name),
      toggle: (name) => (classes.has(name) ? !classes.delete(name) : !!classes.add(name)),
    };
    if (tag === "canvas") {
      this.clientWidth = WIDTH;
      this.drawing = [];
    }
  }
  fire(type, event = {}) {
    const whole = { preventDefault() {}, clientX: 0, clientY: 0, key: "", ...event };
    if (type === "click" && this.onclick) this.onclick(whole);
    for (const listener of this.listeners[type] ?? []) listener(whole);
  }
  getBoundingClientRect() { return { left: 0, top: 0, width: WIDTH, height: parseFloat(this.style.height) || 20 }; }
  getContext() { return contextOf(this); }
}

// What is drawn since the canvas was last cleared, which a new size does.
function contextOf(canvas) {
  canvas.drawing = [];
  let path = [];
  const note = (what, values) => canvas.drawing.push({ what, ...values });
  const finite = (...numbers) => {
    for (const number of numbers) if (!Number.isFinite(number)) throw new Error(`a coordinate is ${number}`);
  };
  const context = {
    fillStyle: "", strokeStyle: "", lineWidth: 1, font: "", textBaseline: "", textAlign: "",
    scale() {}, save() {}, restore() {}, clip() {}, rect() {},
    measureText: (text) => ({ width: 6 * text.length }),
    fillRect(x, y, wide, tall) { finite(x, y, wide, tall); note("box", { x, y, wide, tall, fill: context.fillStyle }); },
    strokeRect(x, y, wide, tall) { finite(x, y, wide, tall); note("frame", { x, y, wide, tall }); },
    fillText(text, x, y) { finite(x, y); note("text", { text, x, y }); },
    beginPath() { path = []; },
    moveTo(x, y) { finite(x, y); path.push([x, y]); },
    lineTo(x, y) { finite(x, y); path.push([x, y]); },
    bezierCurveTo(...points) { finite(...points); path.push(points.slice(4)); path.isCurve = true; },
    stroke() { note(path.isCurve ? "arrow" : "line", { points: path, stroke: context.strokeStyle }); },
    fill() {},
  };
  return context;
}

// Loads the page and runs its script. `created` has every element that was ever made.
function open(file) {
  const page = fs.readFileSync(file, "utf8");
  const parts = [...page.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];
  if (parts.length !== 2) throw new Error(`the page has ${parts.length} scripts`);
  const byId = {};
  const created = [];
  const make = (tag) => { const made = new PageElement(tag); created.push(made); return made; };
  const root = make("html");
  const body = make("body");
  root.append(body);
  for (const [tag, id] of [["p", "files"], ["nav", "sections"], ["label", "rank-choice"], ["select", "rank"], ["button", "theme"], ["main", "page"], ["div", "tip"]]) {
    if (!page.includes(`id="${id}"`)) throw new Error(`the page has no ${id}`);
    byId[id] = make(tag);
    byId[id].id = id;
    body.append(byId[id]);
  }
  byId.profile = make("script");
  byId.profile.textContent = parts[0][2];
  const listeners = {};
  const window = {
    console, Math, JSON, Map, Set, Object, Array, Number, String, Infinity,
    document: {
      documentElement: root,
      getElementById: (id) => byId[id],
      createElement: make,
      write() { throw new Error("document.write is called"); },
    },
    getComputedStyle: () => ({ getPropertyValue: (name) => {
      const known = COLOURS[name.slice(2)];
      if (!known) throw new Error(`the colour ${name} is not known`);
      return " " + known;
    } }),
    matchMedia: () => ({ matches: false }),
    addEventListener: (type, listener) => (listeners[type] = listeners[type] || []).push(listener),
    removeEventListener: (type, listener) => { listeners[type] = (listeners[type] ?? []).filter((one) => one !== listener); },
    devicePixelRatio: 1, innerWidth: 1200, innerHeight: 900,
    alert() { throw new Error("alert is called"); },
    fetch() { throw new Error("fetch is called"); },
  };
  vm.runInNewContext(parts[1][2], window, { filename: "page.js", timeout: 20000 });
  const fire = (type, event) => { for (const listener of [...(listeners[type] ?? [])]) listener({ clientX: 0, clientY: 0, ...event }); };
  return { body, created, byId, fire, data: JSON.parse(parts[0][2]), section: (id) => body.find("section", (one) => one.id === id) };
}

module.exports = { open, COLOURS, WIDTH };

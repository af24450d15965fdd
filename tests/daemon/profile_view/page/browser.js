// SPDX-License-Identifier: Apache-2.0
// As much of a browser as the page of a profile needs: elements that hold each other, events, and canvases that note
// what is drawn. Markup from text is refused, so that names of a trace can only be text.
"use strict";
const fs = require("fs");
const vm = require("vm");

const WIDTH = 1000;  // of every canvas

// Told apart by what is drawn with them.
const COLOURS = {};
for (const [i, name] of ["kernel", "copy", "fill", "communication", "runtime", "loading", "cpu", "other", "accent", "accent-ground", "ink", "soft", "line"].entries()) {
  COLOURS[name] = "#" + (0x102030 + i * 0x0f0e0d).toString(16);
}

class Node {
  constructor() { this.parent = null; }
}
class Text extends Node {
  constructor(text) { super(); this.data = String(text); }
  get textContent() { return this.data; }
}

class Element extends Node {
  constructor(tag) {
    super();
    this.tag = tag;
    this.children = [];  // texts, too
    this.attributes = {};
    this.listeners = {};
    this.style = {};
    this.dataset = {};
    this.className = "";
    this.id = "";
    this.title = "";
    this.type = "";
    this.href = "";
    this.value = "";
    this.placeholder = "";
    this.ariaLabel = "";
    this.hidden = false;
    this.disabled = false;
    this.selected = false;
    this.tabIndex = -1;
    this.colSpan = 1;
    this.onclick = null;
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
  append(...nodes) {
    for (const node of nodes) {
      const child = node instanceof Node ? node : new Text(node);
      if (child.parent) child.parent.children = child.parent.children.filter((one) => one !== child);
      child.parent = this;
      this.children.push(child);
    }
  }
  replaceChildren(...nodes) {
    for (const child of this.children) child.parent = null;
    this.children = [];
    this.append(...nodes);
  }
  get textContent() { return this.children.map((child) => child.textContent).join(""); }
  set textContent(text) { this.replaceChildren(new Text(text)); }
  setAttribute(name, value) {
    if (/^on|^src|^srcdoc|^style/.test(name)) throw new Error(`the attribute ${name} is set from text`);
    this.attributes[name] = String(value);
  }
  getAttribute(name) { return this.attributes[name] ?? null; }
  removeAttribute(name) { delete this.attributes[name]; }
  addEventListener(type, listener) { (this.listeners[type] = this.listeners[type] || []).push(listener); }
  fire(type, event = {}) {
    const whole = { preventDefault() {}, clientX: 0, clientY: 0, key: "", ...event };
    if (type === "click" && this.onclick) this.onclick(whole);
    for (const listener of this.listeners[type] ?? []) listener(whole);
  }
  getBoundingClientRect() { return { left: 0, top: 0, width: WIDTH, height: parseFloat(this.style.height) || 20 }; }
  // All below, and itself.
  *all() {
    yield this;
    for (const child of this.children) if (child instanceof Element) yield* child.all();
  }
  find(tag, test = () => true) {
    const found = this.findAll(tag, test);
    if (found.length === 0) throw new Error(`there is no ${tag} of that kind in ${this.tag} ${this.id}`);
    return found[0];
  }
  findAll(tag, test = () => true) { return [...this.all()].filter((one) => one.tag === tag && test(one)); }
  getContext() { return contextOf(this); }
}
for (const name of ["innerHTML", "outerHTML", "srcdoc", "src"]) {
  Object.defineProperty(Element.prototype, name, { set() { throw new Error(`${name} is set`); } });
}
for (const name of ["insertAdjacentHTML", "setHTMLUnsafe"]) {
  Element.prototype[name] = () => { throw new Error(`${name} is called`); };
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
  const make = (tag) => { const made = new Element(tag); created.push(made); return made; };
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

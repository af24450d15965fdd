// SPDX-License-Identifier: Apache-2.0
// As much of a browser as the page needs: elements and events (page_elements.js), requests that the test answers, and charts that
// note what they are given.
"use strict";
const fs = require("fs");
const vm = require("vm");
const { Element } = require("../../page_elements.js");

class PageElement extends Element {
  after(node) {
    node.remove();
    node.parent = this.parent;
    this.parent.children.splice(this.parent.children.indexOf(this) + 1, 0, node);
  }
  get isConnected() { return this.tag === "body" || (this.parent !== null && this.parent.isConnected); }
  setAttribute(name, value) {
    if (name === "href" && !/^(#|profile\/[A-Za-z0-9.-]+\/(start|best)$)/.test(value)) throw new Error(`a link leads to ${value}`);
    super.setAttribute(name, value);
  }
  set href(value) { this.setAttribute("href", value); }
  get href() { return this.attributes.href; }
  async fire(type) { for (const listener of this.listeners[type] ?? []) await listener({}); }
  // Knows only the selectors that the page uses.
  querySelectorAll(selector) {
    if (selector === "tbody > tr") return this.findAll("tr", (one) => one.parent.tag === "tbody");
    if (selector === "input") return this.findAll("input");
    throw new Error(`the selector ${selector} is not known`);
  }
  querySelector(selector) { return this.findAll(selector)[0] ?? null; }
}

// Opens the script of `file`, a page of one run. `hash`: as the daemon serves it instead, at that place. `answers` are those
// of the daemon, by path.
async function open(file, { hash = null, answers = {} } = {}) {
  const markup = fs.readFileSync(file, "utf8");
  const scripts = [...markup.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];
  if (scripts.length !== 3) throw new Error(`the page has ${scripts.length} scripts`);
  const body = new PageElement("body");
  const byId = {};
  for (const [tag, id] of [["p", "trail"], ["p", "connection"], ["main", "page"]]) {
    if (!markup.includes(`id="${id}"`)) throw new Error(`the page has no ${id}`);
    byId[id] = new PageElement(tag);
    body.append(byId[id]);
  }
  const name = new PageElement("p");
  body.append(name);
  if (hash === null) {
    byId.run = new PageElement("script");
    byId.run.textContent = scripts[2][2];
  }
  const charts = [];
  const frames = [];
  const requests = [];
  const sources = [];
  const place = { hash: hash ?? "" };
  const listeners = {};
  class Chart {
    constructor(canvas, config) { Object.assign(this, { canvas, ...config }); charts.push(this); this.check(); }
    update() { this.check(); ++this.updates; }
    destroy() { charts.splice(charts.indexOf(this), 1); }
    updates = 0;
    check() {
      for (const { data } of this.data.datasets) {
        for (const value of data) if (typeof value === "object" ? !Number.isFinite(value.x) : !Number.isFinite(value)) throw new Error("a chart gets no number");
      }
    }
  }
  class EventSource {
    static CLOSED = 2;
    readyState = 1;
    listeners = {};
    constructor(url) { this.url = url; sources.push(this); }
    addEventListener(type, listener) { this.listeners[type] = listener; }
    send(type, data) { this.listeners[type]({ data: JSON.stringify(data) }); }
    close() { this.readyState = 2; }
  }
  const window = {
    Chart, EventSource, location: place, setTimeout, setInterval: () => 1, clearInterval() {}, console,
    document: { documentElement: body, hidden: false, title: "", getElementById: (id) => byId[id] ?? null, createElement: (tag) => new PageElement(tag), querySelector: () => name },
    getComputedStyle: () => ({ getPropertyValue: () => " #123456" }),
    matchMedia: () => ({ matches: false, addEventListener() {} }),
    requestAnimationFrame: (call) => frames.push(call),
    addEventListener: (type, listener) => { listeners[type] = listener; },
    fetch: async (path, options = {}) => {
      requests.push(`${options.method ?? "GET"} ${path}`);
      if (!(path in answers)) return { ok: false, headers: { get: () => "application/json" }, json: async () => ({ error: { what: "there is nothing here" } }) };
      return { ok: true, headers: { get: () => "application/json" }, json: async () => JSON.parse(JSON.stringify(answers[path])) };
    },
    alert() { throw new Error("alert is called"); },
  };
  // Answers arrive, and what waits for a frame is drawn.
  const settle = async () => {
    for (let i = 0; i < 20; ++i) await new Promise((resolve) => setImmediate(resolve));
    for (const frame of frames.splice(0)) frame();
  };
  vm.runInNewContext(scripts[1][2], window, { filename: "page.js", timeout: 20000 });
  await settle();
  return { body, page: byId.page, byId, charts, requests, sources, settle, document: window.document };
}

module.exports = { open };

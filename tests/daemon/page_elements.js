// SPDX-License-Identifier: Apache-2.0
// As much of a document as the pages need: elements that hold each other, and events. Markup from text is refused, so that what
// others have named can only be text.
"use strict";

class Node {
  constructor() { this.parent = null; }
  remove() {
    if (this.parent) this.parent.children = this.parent.children.filter((one) => one !== this);
    this.parent = null;
  }
}

class Text extends Node {
  constructor(text) { super(); this.data = String(text); }
  get textContent() { return this.data; }
}

class Element extends Node {
  constructor(tag) {
    super();
    Object.assign(this, { tag, children: [], attributes: {}, listeners: {}, style: {}, dataset: {}, className: "", id: "", title: "", type: "", value: "",
      role: "", scope: "", placeholder: "", ariaLabel: "", hidden: false, disabled: false, checked: false, selected: false, tabIndex: -1, colSpan: 1,
      max: 1, onclick: null });
  }
  append(...nodes) {
    for (const node of nodes) {
      const child = node instanceof Node ? node : new Text(node);
      child.remove();
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
  addEventListener(type, listener) { (this.listeners[type] ??= []).push(listener); }
  // All below, and itself.
  *all() {
    yield this;
    for (const child of this.children) if (child instanceof Element) yield* child.all();
  }
  findAll(tag, test = () => true) { return [...this.all()].filter((one) => one.tag === tag && test(one)); }
  find(tag, test = () => true) {
    const [found] = this.findAll(tag, test);
    if (!found) throw new Error(`there is no ${tag} of that kind in ${this.tag} ${this.id}`);
    return found;
  }
}
for (const name of ["innerHTML", "outerHTML", "srcdoc", "src"]) {
  Object.defineProperty(Element.prototype, name, { set() { throw new Error(`${name} is set`); } });
}
for (const name of ["insertAdjacentHTML", "setHTMLUnsafe"]) {
  Element.prototype[name] = () => { throw new Error(`${name} is called`); };
}

module.exports = { Element };

// SPDX-License-Identifier: Apache-2.0
// Pieces of the page. Everything that a run, a plugin or a file says becomes a text node, never markup.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (/^aria[A-Z]/.test(name)) made.setAttribute("aria-" + name.slice(4).toLowerCase(), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

let headings = 0;
export function section(title, ...children) {
  const id = "heading-" + ++headings;
  return element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...children);
}

// [[label, value, remark]], those without a value left out.
export function figureList(figures) {
  return element("dl", { className: "figures" }, figures.filter(([, value]) => value).map(([label, value, remark]) =>
    element("div", {}, element("dt", {}, label), element("dd", {}, value, remark ? element("span", {}, remark) : null))));
}

// Columns are {title, right, wide}: `wide` ones are left out on small screens. The first cell of a row is its heading. A cell is a
// text, a node or a list of them.
export function tableOf(caption, columns, rows) {
  const classOf = (column) => [column.right ? "right" : "", column.wide ? "wide" : ""].join(" ").trim();
  const cellOf = (content, i) => {
    const parts = Array.isArray(content) ? content : [content];
    return i === 0 ? element("th", { scope: "row", className: classOf(columns[i]) }, ...parts) : element("td", { className: classOf(columns[i]) }, ...parts);
  };
  const body = element("tbody", {}, rows.map((row) => element("tr", {}, row.map(cellOf))));
  const table = element("table", {}, caption ? element("caption", {}, caption) : null,
    element("thead", {}, element("tr", {}, columns.map((column) => element("th", { scope: "col", className: classOf(column) }, column.title)))), body);
  return element("div", { className: "scroll", role: "region", tabIndex: 0, ariaLabel: caption || columns.map((column) => column.title).join(", ") }, table);
}

export const small = (text) => element("small", {}, text);
export const quiet = (text) => element("p", { className: "quiet" }, text);
export const note = (text) => element("p", { className: "note" }, text);
// A name. On a narrow screen it is broken behind its dots and low lines.
export const code = (text) => element("code", {}, String(text).split(/(?<=[._])/).flatMap((part, i) => i > 0 ? [element("wbr"), part] : [part]));
export const moodClass = (mood) => mood > 0 ? "good" : mood < 0 ? "bad" : "";

// Knobs and their values before and after.
export function changeTable(changes) {
  return tableOf("", [{ title: "knob" }, { title: "start" }, { title: "now" }], changes.map(({ knob, from, to }) => [code(knob), from || "unset", element("strong", {}, to || "unset")]));
}

// A button that acts at the second press, so that a slip does nothing.
export function carefulButton(label, act) {
  const button = element("button", { type: "button" }, label);
  let isAsked = false;
  button.addEventListener("click", () => {
    if (!isAsked) {
      isAsked = true;
      button.textContent = `${label}: press again`;
      setTimeout(() => { isAsked = false; button.textContent = label; }, 4000);
      return;
    }
    button.disabled = true;
    act();
  });
  return button;
}

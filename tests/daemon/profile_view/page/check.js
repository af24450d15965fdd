// SPDX-License-Identifier: Apache-2.0
// Runs the script of a profile's page and looks at what it draws. Whoever calls it knows the trace; all of the
// figures below are those of PageScript in page_script_test.cpp, in microseconds unless they say otherwise.
//
// usage: node check.js SCENE PAGE [ROWS]
"use strict";
const assert = require("assert");
const fs = require("fs");
const { open, COLOURS, WIDTH } = require("./browser.js");

const near = (actual, expected, what) => assert(Math.abs(actual - expected) < 1e-6 * (1 + Math.abs(expected)), `${what}: ${actual} instead of ${expected}`);
const boxes = (canvas) => canvas.drawing.filter((one) => one.what === "box");
const canvasOf = (section) => section.find("canvas");

// The box in which `name` is written.
function boxOf(canvas, name) {
  const at = canvas.drawing.findIndex((one) => one.what === "text" && one.text === name && canvas.drawing[canvas.drawing.indexOf(one) - 1]?.what === "box");
  assert(at > 0, `${name} is drawn nowhere`);
  return canvas.drawing[at - 1];
}
const middle = (box) => ({ clientX: box.x + box.wide / 2, clientY: box.y + box.tall / 2 });

const scenes = {
  // Each part of each step is a box whose height is its time.
  steps(page) {
    const HEIGHT = 126, LONGEST = 200;  // of the longest step: pixels, and time
    const LEFT = 64, WIDE = (WIDTH - LEFT) / 2;  // of the axis, and of a step
    const canvas = canvasOf(page.section("overview"));
    const expected = [
      ["kernel", 0, 40], ["runtime", 0, 1], ["loading", 0, 20], ["cpu", 0, 29], ["other", 0, 10],
      ["kernel", 1, 30], ["runtime", 1, 1], ["cpu", 1, 39], ["other", 1, 130],
    ];
    const drawn = boxes(canvas).filter((box) => box.tall > 0);
    assert.strictEqual(drawn.length, expected.length);
    for (const [part, step, time] of expected) {
      const box = drawn.find((one) => one.fill === COLOURS[part] && one.x === LEFT + step * WIDE);
      assert(box, `no box of ${part} in step ${step}`);
      near(box.tall, time / LONGEST * HEIGHT, part);
      near(box.wide, WIDE - 1.5, "width");
    }
    // One above the other.
    const first = drawn.filter((box) => box.x === LEFT).sort((a, b) => b.y - a.y);
    for (let i = 1; i < first.length; ++i) near(first[i].y + first[i].tall, first[i - 1].y, "place");
    assert.deepStrictEqual(canvas.drawing.filter((one) => one.what === "text").map((one) => one.text), ["0", "100.0 µs", "200.0 µs", "step", "1", "2"]);
    // A mark of the axis is as high as a box of that time.
    const marks = canvas.drawing.filter((one) => one.what === "line").map((one) => one.points[0][1]);
    [0, 100, 200].forEach((time, i) => near(marks[i], 136 - time / LONGEST * HEIGHT, "mark"));
    canvas.fire("mousemove", { clientX: 700, clientY: 50 });
    assert(page.byId.tip.textContent.startsWith("step 2: 200.0 µs\n"), page.byId.tip.textContent);
    assert(page.byId.tip.textContent.includes("CPU Exec  39.0 µs  19.5 %"), page.byId.tip.textContent);
    // What matters most first, with code to paste.
    const findings = page.section("findings").findAll("div", (one) => one.className === "finding");
    const order = ["high", "medium", "low", "note"];
    const severities = findings.map((one) => order.indexOf(one.find("span").textContent));
    assert(severities.length > 1 && severities.every((one, i) => one >= (severities[i - 1] ?? 0)), severities.join());
    const loading = findings.find((one) => one.find("strong").textContent === "data_loading");
    assert(loading.find("pre").textContent.includes("num_workers="), loading.textContent);
    // The mean of both, as shares of a bar.
    const shares = page.section("overview").find("div", (one) => one.className === "share").children;
    assert.deepStrictEqual(shares.map((one) => one.style.flex), ["35000 0 0", "1000 0 0", "10000 0 0", "34000 0 0", "70000 0 0"]);
  },

  timeline(page) {
    const LEFT = 150, SCALE = (WIDTH - LEFT) / 300;
    const section = page.section("timeline");
    const canvas = canvasOf(section);
    for (const [name, from, length] of [["aten::linear", 20, 50], ["aten::addmm", 30, 30], ["aten::relu", 120, 40], ["gemm", 50, 40]]) {
      const box = boxOf(canvas, name);
      near(box.x, LEFT + from * SCALE, name);
      near(box.wide, length * SCALE - 0.6, name);
    }
    assert(boxOf(canvas, "aten::addmm").y > boxOf(canvas, "aten::linear").y, "what is called stands below");
    // An arrow from the call to what it launched, while the pointer is there.
    assert.strictEqual(canvas.drawing.filter((one) => one.what === "arrow").length, 0);
    canvas.fire("mousemove", middle(boxOf(canvas, "gemm")));
    assert(page.byId.tip.textContent.includes("launched by cudaLaunchKernel, 10.0 µs before"), page.byId.tip.textContent);
    const [arrow] = canvas.drawing.filter((one) => one.what === "arrow");
    near(arrow.points[0][0], LEFT + 40 * SCALE, "begin of the arrow");
    near(arrow.points[1][0], LEFT + 50 * SCALE, "end of the arrow");
    // A click keeps it and says what it joins.
    canvas.fire("click", middle(boxOf(canvas, "gemm")));
    canvas.fire("mouseleave");
    assert.strictEqual(canvas.drawing.filter((one) => one.what === "arrow").length, 1);
    assert(section.find("p", (one) => one.className.includes("details")).textContent.startsWith("gemm\n40.0 µs, at 50.0 µs"));
    canvas.fire("keydown", { key: "Escape" });
    assert.strictEqual(canvas.drawing.filter((one) => one.what === "arrow").length, 0);
    // A double click fits an event, with a twentieth of it at either side.
    canvas.fire("dblclick", middle(boxOf(canvas, "aten::relu")));
    near(boxOf(canvas, "aten::relu").wide, (WIDTH - LEFT) / 1.1 - 0.6, "fitted");
    assert(!canvas.drawing.some((one) => one.text === "gemm"), "what is outside is not drawn");
    section.find("button", (one) => one.textContent === "all of it").fire("click");
    near(boxOf(canvas, "aten::relu").wide, 40 * SCALE - 0.6, "all of it");
    canvas.fire("keydown", { key: "w" });
    near(boxOf(canvas, "aten::relu").wide, 40 * SCALE / 0.7 - 0.6, "zoomed");
  },

  // Boxes are as wide as their share of what they are in.
  flame(page) {
    const section = page.section("flame-graph");
    const canvas = canvasOf(section);
    near(boxOf(canvas, "aten::linear").wide, 40 / 70 * WIDTH - 0.6, "of the device's time");
    const press = (words) => section.find("button", (one) => one.textContent === words).fire("click");
    press("host time");
    const HOST = 20 + 50 + 40;
    near(boxOf(canvas, "all").wide, WIDTH - 0.6, "all");
    const linear = boxOf(canvas, "aten::linear");
    near(linear.wide, 50 / HOST * WIDTH - 0.6, "aten::linear");
    near(boxOf(canvas, "aten::relu").wide, 40 / HOST * WIDTH - 0.6, "aten::relu");
    const inner = boxOf(canvas, "aten::addmm");
    near(inner.wide, 30 / HOST * WIDTH - 0.6, "aten::addmm");
    near(inner.x, linear.x, "begins with what it is in");
    assert(inner.y > linear.y);
    canvas.fire("mousemove", middle(inner));
    assert(page.byId.tip.textContent.startsWith("aten::addmm\nhost 30.0 µs, device 40.0 µs, 1 calls\n27.3 % of all"), page.byId.tip.textContent);
    const search = section.find("input");
    search.value = "RELU";
    search.fire("input");
    assert.strictEqual(boxOf(canvas, "aten::relu").fill, COLOURS.copy);
    assert.notStrictEqual(boxOf(canvas, "aten::linear").fill, COLOURS.copy);
    canvas.fire("click", middle(boxOf(canvas, "aten::linear")));
    near(boxOf(canvas, "aten::linear").wide, WIDTH - 0.6, "gone into");
    near(boxOf(canvas, "aten::addmm").wide, 30 / 50 * WIDTH - 0.6, "within it");
    assert(!canvas.drawing.some((one) => one.text === "aten::relu"));
    canvas.fire("click", middle(boxOf(canvas, "all")));
    near(boxOf(canvas, "aten::linear").wide, 50 / HOST * WIDTH - 0.6, "gone back");
  },

  // `rows` is what `analyze --view memory --range 0.1:0.2 --json` says of the same stretch.
  memory(page, rows) {
    const LEFT = 74, TOP = 22, BOTTOM = 222, MOST = 4000, END = 300;
    const section = page.section("memory");
    const canvas = canvasOf(section);
    const x = (us) => LEFT + us / END * (WIDTH - LEFT);
    const y = (bytes) => BOTTOM - bytes / MOST * (BOTTOM - TOP);
    const curve = canvas.drawing.filter((one) => one.what === "line" && one.stroke === COLOURS.accent);
    assert.strictEqual(curve.length, 1);
    // What is held from each change on: a staircase.
    const corners = [[35, 1000], [130, 1000], [130, 4000], [150, 4000], [150, 3000], [250, 3000], [250, 3500], [END, 3500]];
    for (const [us, bytes] of corners) {
      assert(curve[0].points.some(([px, py]) => Math.abs(px - x(us)) < 1e-6 && Math.abs(py - y(bytes)) < 1e-6), `no corner at ${us} us, ${bytes} bytes`);
    }
    assert(curve[0].points.every(([, py]) => py >= TOP - 1e-6));
    const cells = (table) => table.find("tbody").children.map((row) => row.children.map((cell) => cell.textContent));
    const [operators, blocks] = section.findAll("table");
    const whole = cells(operators);
    assert.strictEqual(whole.length, 4);
    assert.strictEqual(cells(blocks).length, 3);
    canvas.fire("pointerdown", { clientX: x(200) });
    page.fire("pointermove", { clientX: x(100) });
    page.fire("pointerup", { clientX: x(100) });
    const chosen = boxes(canvas).find((box) => box.fill === COLOURS["accent-ground"]);
    near(chosen.x, x(100), "begin of the choice");
    near(chosen.wide, x(200) - x(100), "width of the choice");
    assert(section.textContent.includes("from 100.0 µs to 200.0 µs: --range 0.100:0.200"), section.textContent);
    const own = page.data.ranks[0].tables.memory[0].columns;
    assert.strictEqual(cells(operators).length, rows.length);
    for (const row of rows) {
      const shown = cells(operators).find((one) => one[0] === row.name);
      assert(shown, `${row.name} is not shown`);
      for (const [i, column] of own.entries()) {
        const key = column.unit === "bytes" ? column.key + "_bytes" : column.key;
        const text = typeof row[key] === "number" && column.unit === "bytes" ? Math.abs(row[key]) < 1024 ? `${row[key]} B` : `${(row[key] / 1024).toFixed(1)} KiB` : String(row[key]);
        assert.strictEqual(shown[i].replace("−", "-"), text, `${row.name}, ${key}`);
      }
    }
    assert.strictEqual(cells(blocks).length, 1);
    section.find("button", (one) => one.textContent === "all of it").fire("click");
    assert.deepStrictEqual(cells(operators), whole);
    assert(!boxes(canvas).some((box) => box.fill === COLOURS["accent-ground"]));
  },

  // Everything is looked at, pressed and typed into; names stay text.
  hostile(page, hostile) {
    const TAGS = new Set(["html", "body", "p", "nav", "label", "select", "button", "main", "div", "section", "h2", "h3", "a", "b", "i", "span", "strong", "code", "pre", "canvas", "table", "thead", "tbody", "tr", "th", "td", "input", "option", "script"]);
    const use = () => {
      for (const one of [...page.body.all()]) {
        if (one.tag !== "canvas") continue;
        for (let x = 5; x < WIDTH; x += 45) {
          for (let y = 4; y < 400; y += 16) {
            for (const type of ["mousemove", "click", "dblclick"]) one.fire(type, { clientX: x, clientY: y });
          }
        }
        for (const key of ["w", "a", "s", "d", "Escape"]) one.fire("keydown", { key });
        one.fire("wheel", { ctrlKey: true, deltaY: 1 });
      }
      for (const one of [...page.body.all()]) {
        if (["button", "th", "td"].includes(one.tag)) { one.fire("mousemove"); one.fire("click"); one.fire("keydown", { key: "Enter" }); }
        if (one.tag === "input") { one.value = hostile.slice(0, 5); one.fire("input"); one.value = ""; one.fire("input"); }
      }
    };
    use();
    use();
    page.fire("resize");
    for (const made of page.created) {
      assert(TAGS.has(made.tag), `an element ${made.tag} was made`);
      assert(made.tag !== "a" || made.href.startsWith("#"), `a link goes to ${made.href}`);
    }
    assert.strictEqual(page.created.filter((made) => made.tag === "script").length, 1);
    assert(page.section("kernels").find("tbody").textContent.includes(hostile), "the name is not shown as it is");
    assert(page.created.length > 100);
  },
};

const [, , scene, file, more] = process.argv;
scenes[scene](open(file), scene === "memory" ? JSON.parse(fs.readFileSync(more, "utf8")) : more);
console.log("as expected");

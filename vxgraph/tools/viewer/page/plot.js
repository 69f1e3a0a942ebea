// What the drawn views share: canvases at the device's pixels, spans that zoom and pan, keys, patterns and labels.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});

  const el = (...parts) => vxg.el(...parts); // app.js may come later

  let choices = 0;
  /** A row of radio buttons, `options` being [value, text, enabled?]. */
  function choice(label, options, chosen, onchange) {
    const name = `vx-choice-${(choices += 1)}`;
    const field = el("fieldset", { class: "vx-choice" }, el("legend", {}, label));
    for (const [value, text, enabled = true] of options) {
            const radio = el("input", { type: "radio", name, value, change: () => onchange(value), disabled: !enabled });
      radio.checked = value === chosen;
      field.append(el("label", { "data-value": value }, radio, el("span", {}, text)));
    }
    return field;
  }

  /** A stretch [lo, hi] of [min, max] that is in sight. */
  class Span {
    constructor(min, max, least) {
      Object.assign(this, { min, max, least, lo: min, hi: max });
    }
    get length() {
      return this.hi - this.lo;
    }
    set(lo, length) {
      const most = this.max - this.min;
      const span = Math.min(most, Math.max(Math.min(this.least, most), length));
      this.lo = Math.min(Math.max(lo, this.min), this.max - span);
      this.hi = this.lo + span;
    }
    zoom(factor, at = (this.lo + this.hi) / 2) {
      const before = this.length;
      const length = Math.min(this.max - this.min, Math.max(this.least, before * factor));
      this.set(at - ((at - this.lo) * length) / before, length);
    }
    pan(by) {
      this.set(this.lo + by, this.length);
    }
    reset() {
      this.set(this.min, this.max - this.min);
    }
    /** Brings [first, last] into sight, if it is not. */
    reveal(first, last) {
      if (first <= this.hi && last >= this.lo) return;
      this.pan((first + last) / 2 - (this.lo + this.hi) / 2);
    }
  }

  /** A canvas that fills `parent`; `paint(context, width, height)` runs once per frame after `repaint()`. */
  function surface(parent, id, label, paint) {
    const canvas = el("canvas", { id, class: "vx-canvas", tabindex: "0", role: "application", "aria-label": label });
    parent.append(canvas);
    const made = { canvas, width: 0, height: 0, repaint };
    let asked = false;
    function repaint() {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        if (made.width > 0 && made.height > 0) draw();
      });
    }
    function draw() {
      const ratio = window.devicePixelRatio || 1;
      const [wide, high] = [Math.round(made.width * ratio), Math.round(made.height * ratio)];
      if (canvas.width !== wide) canvas.width = wide;
      if (canvas.height !== high) canvas.height = high;
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, made.width, made.height);
      paint(context, made.width, made.height);
    }
    new ResizeObserver(() => {
      [made.width, made.height] = [parent.clientWidth, parent.clientHeight];
      repaint();
    }).observe(parent);
    return made;
  }

  const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

  /**
   * Wheel, drag and keys for a surface. `on` has: x() and y() -> Span or null, area() -> the plot's box in pixels, hover(x, y),
   * leave(), click(x, y), step(by) for the next and previous thing, scroll(pixels) where there is no y.
   */
  function navigate(made, on) {
    const canvas = made.canvas;
    const at = (event) => [event.offsetX, event.offsetY];
    const part = (px, lo, hi) => Math.min(1, Math.max(0, (px - lo) / (hi - lo || 1)));
    function zoom(factor, px, py, wide = true, high = true) {
      const [x, y, box] = [on.x(), on.y(), on.area()];
      if (x && wide) x.zoom(factor, x.lo + x.length * part(px, box.left, box.right));
      if (y && high) y.zoom(factor, y.lo + y.length * part(py, box.bottom, box.top));
      made.repaint();
    }
    function pan(dx, dy) {
      const [x, y, box] = [on.x(), on.y(), on.area()];
      if (x) x.pan((-dx * x.length) / (box.right - box.left || 1));
      if (y) y.pan((dy * y.length) / (box.bottom - box.top || 1));
      else if (dy) on.scroll?.(-dy);
      made.repaint();
    }
    canvas.addEventListener(
      "wheel",
      (event) => {
        const [px, py] = at(event);
        const box = on.area();
        if (!on.y() && px < box.left) return;
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(-(event.deltaX || event.deltaY), 0);
        else zoom(Math.exp(event.deltaY * 0.0016), px, py, px >= box.left, py >= box.top && py <= box.bottom);
      },
      { passive: false },
    );
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      drag = { x: event.clientX, y: event.clientY, far: 0 };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return on.hover(...at(event), event.clientX, event.clientY);
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag = { x: event.clientX, y: event.clientY, far: drag.far + Math.abs(dx) + Math.abs(dy) };
      if (drag.far <= 4) return;
      on.leave();
      canvas.classList.add("vx-dragged");
      pan(dx, dy);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && drag.far <= 4) on.click(...at(event));
      canvas.classList.remove("vx-dragged");
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener("pointerleave", () => on.leave());
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const box = on.area();
      const [px, py] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      if (event.key === "+" || event.key === "=") zoom(0.7, px, py);
      else if (event.key === "-" || event.key === "_") zoom(1 / 0.7, px, py);
      else if (event.key === "0") for (const span of [on.x(), on.y()]) span?.reset();
      else if (event.key === "n" || event.key === "p") on.step(event.key === "n" ? 1 : -1);
      else if (KEYS[event.key]) pan(-KEYS[event.key][0] * 80, KEYS[event.key][1] * 60);
      else return;
      event.preventDefault();
      event.stopPropagation();
      made.repaint();
    });
  }

  /** Buttons for those who do not know the keys. */
  function zoomButtons(made, spans) {
    const act = (change) => () => {
      for (const span of spans()) if (span) change(span);
      made.repaint();
    };
    const button = (text, label, change) =>
      el("button", { type: "button", "aria-label": label, title: label, click: act(change) }, text);
    return el(
      "span",
      { class: "vx-zoom", role: "group", "aria-label": "Zoom" },
      button("+", "Zoom in (+)", (span) => span.zoom(0.6)),
      button("\u2212", "Zoom out (-)", (span) => span.zoom(1 / 0.6)),
      button("All", "Show all (0)", (span) => span.reset()),
    );
  }

  const widths = new Map();
  function widthOf(context, text) {
    const key = context.font + text;
    if (!widths.has(key)) {
      if (widths.size > 50000) widths.clear();
      widths.set(key, context.measureText(text).width);
    }
    return widths.get(key);
  }

  /** The longest ending of a dotted name that fits `width` pixels, or its begin, or "": `matmul.4`, but never `4`. */
  function fit(context, name, width) {
    if (width < 14) return "";
    let text = name;
    for (;;) {
      if (widthOf(context, text) <= width) return text;
      const dot = text.indexOf(".");
      if (dot < 0 || /^\d+$/.test(text.slice(dot + 1))) break;
      text = text.slice(dot + 1);
    }
    const keep = Math.floor((text.length * width) / widthOf(context, text)) - 1;
    return keep >= 3 ? `${text.slice(0, keep)}\u2026` : "";
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const COLOURS = { ink: "--text", muted: "--muted", ground: "--bg", panel: "--surface", line: "--line-2", accent: "--accent" };
  const MORE = { band: "--vx-band", peer: "--wire-peer", host: "--wire-host" };
  /** The page's colours by what they are for, read once per theme. */
  function palette() {
    const named = Object.entries({ ...COLOURS, ...MORE }).map(([use, name]) => [use, css(name)]);
    return { ...Object.fromEntries(named), ops: Array.from({ length: 10 }, (_, i) => css(`--vx-op-${i}`)) };
  }

  const inks = new Map();
  /** Black or white, whichever is read better on `#rrggbb`. */
  function inkOn(fill) {
    if (!inks.has(fill)) inks.set(fill, luminance(fill) > 0.2 ? "#0d1117" : "#ffffff");
    return inks.get(fill);
  }
  /** WCAG 2.2's relative luminance. */
  function luminance(fill) {
    const parts = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16) / 255);
    const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  /** Round numbers in [lo, hi], about `wanted` of them. */
  function ticks(lo, hi, wanted) {
    const raw = (hi - lo) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((times) => times * power >= raw * 0.999);
    const first = Math.ceil(lo / step);
    return Array.from({ length: Math.max(0, Math.floor(hi / step) - first + 1) }, (_, i) => (first + i) * step);
  }

  const STROKES = {
    param: [[3, 3.5, 5, 3.5]],
    kv: [[-1, 9, 9, -1], [-1, 1, 1, -1], [7, 9, 9, 7]],
    staging: [[0, 0.5, 8, 0.5], [0.5, 0, 0.5, 8]],
  };
  /** Strokes that tell a kind without its colour; null where it is plain. */
  function hatch(context, kind, ink) {
    if (!STROKES[kind]) return null;
    const canvas = el("canvas", { width: 8, height: 8 });
    const pen = canvas.getContext("2d");
    pen.strokeStyle = ink;
    pen.globalAlpha = 0.32;
    for (const [x1, y1, x2, y2] of STROKES[kind]) {
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
    }
    pen.stroke();
    return context.createPattern(canvas, "repeat");
  }

  /** Names of the values that a selected item stands for. */
  function named({ data, model }, item) {
    if (item.slot !== undefined) return [data.slots[item.slot].value];
    if (item.move !== undefined) return [data.moves[item.move].name];
    if (item.moves !== undefined) return item.moves.map((i) => data.moves[i].name);
    return boxesOf(model, item).flatMap((i) => data.boxes[i].made);
  }

  /** The boxes of a selected item: a group's are all in it, however deep. */
  function boxesOf(model, item) {
    if (!item) return [];
    if (item.box !== undefined) return [item.box];
    if (item.group === undefined) return [];
    const { groups, boxes } = model.kids[item.group];
    return [...boxes, ...groups.flatMap((group) => boxesOf(model, { group }))];
  }

  /** Why a view is empty: `what` is missing, and what the program's notes say. */
  function empty(root, what, notes) {
    const reasons = notes.map((note) => el("li", {}, note));
    root.append(el("div", { class: "vx-empty", role: "note" }, el("p", {}, what), el("ul", {}, ...reasons)));
  }

  const count = (n) => n.toLocaleString("en-US");
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

  vxg.views = vxg.views || {};
  vxg.plot = {
    el, choice, Span, surface, navigate, zoomButtons, fit, widthOf, palette, inkOn, ticks, hatch, empty, count, plural, named, boxesOf,
  };
})();

/**
 * The page's shell: tabs, theme, keys, selection. Makes `app`, which every view gets when its tab is first shown.
 *
 * A view is `vxg.views.NAME = { title, mount(app) -> { show(), hide(), focus?(box) } }`. An item that can be selected is
 * `{box: i}`, `{move: i}`, `{slot: i}`, `{group: i}`, `{moves: [i], edge: id}` (edges drawn as one) or null.
 * Text from the data only ever becomes textContent: a name may be any text, also a closing tag.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  vxg.views = vxg.views || {};
  const ORDER = ["graph", "memory", "bill", "timeline"];
  const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  const PALETTE = 8;
  const WIDE_SCREEN = 1500;
  const LONG = 160;
  /** One mark per colour, in a box of 12 x 12: places differ by more than colour. */
  const GLYPHS = [
    "M6 1a5 5 0 1 0 .01 0Z",
    "M1.5 1.5h9v9h-9Z",
    "M6 .8 11.4 10.8H.6Z",
    "M6 .2 11.8 6 6 11.8.2 6Z",
    "M.6 1.2h10.8L6 11.2Z",
    "M4 .8h4v3.2h3.2v4H8v3.2H4V8H.8V4H4Z",
    "M3.2 1h5.6l2.8 5-2.8 5H3.2L.4 6Z",
    "M6 .3 7.6 4.2l4.2.3-3.2 2.7 1 4.1L6 9.1l-3.6 2.2 1-4.1L.2 4.5l4.2-.3Z",
  ];
  const RING = "M6 1a5 5 0 1 0 .01 0ZM6 3.2a2.8 2.8 0 1 1-.01 0Z";
  const ICONS = {
    theme: "M12 3a9 9 0 1 0 0 18ZM12 3a9 9 0 0 1 0 18",
    "panel-button": "M4 5h16v14H4ZM14.5 5v14",
    "help-button": "M9.2 9a2.9 2.9 0 1 1 4.2 2.6c-.9.5-1.4 1-1.4 2.1M12 17.2v.1M12 3a9 9 0 1 0 .01 0Z",
  };
  const KEYS = [
    ["/", "search"], ["1 – 4", "graph, memory, transfers, timeline"], ["← ↑ → ↓", "pan"], ["+  −", "zoom"], ["0", "fit"],
    ["Tab", "next box"], ["Enter", "fold or unfold, or select"], ["d", "details panel"], ["Esc", "close, select nothing"], ["?", "this help"],
  ];

  /** @param {string} tag @param {Object<string, any>} [attrs] @param {...(Node|string)} children an element; strings become text */
  vxg.el = function (tag, attrs, ...children) {
    return fill(document.createElement(tag), attrs, children);
  };
  vxg.svg = function (tag, attrs, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);
  };
  function fill(element, attrs, children) {
    for (const [key, value] of Object.entries(attrs || {})) {
      if (typeof value === "function") element.addEventListener(key, value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  /** `1.00 KiB`; halves go to even, as Python's formatting does. */
  function bytes(n) {
    if (n < 0) return `-${bytes(-n)}`;
    if (n < 1024) return `${n} B`;
    let power = 0;
    for (; n >= 1024 && power < UNITS.length; power++) n /= 1024;
    const whole = Math.floor(n * 100);
    const rest = n * 100 - whole;
    const rounded = rest === 0.5 ? whole + (whole % 2) : Math.round(n * 100);
    return `${(rounded / 100).toFixed(2)} ${UNITS[power - 1]}`;
  }

  /** `4.79 ms` */
  function seconds(s) {
    if (s < 0) return `-${seconds(-s)}`;
    for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["us", 1e-6]]) {
      if (s >= 0.9995 * scale) return s < 999.5 * scale ? `${Number((s / scale).toPrecision(3))} ${unit}` : `${(s / scale).toFixed(0)} ${unit}`;
    }
    return `${Number((s / 1e-9).toPrecision(3))} ns`;
  }

  /** Storage may be forbidden (file:, sandboxed frames): then the choice lives as long as the page. */
  function stored(key, value) {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch {
      return null;
    }
    return value;
  }

  class App {
    constructor(data) {
      this.data = data;
      this.model = vxg.model.build(data);
      this.selected = null;
      this.current = null;
      this.listeners = { select: [], theme: [], view: [] };
      this.mounted = {};
      this.roots = {};
      this.palette = paletteOf(data.places);
      this.bytes = bytes;
      this.seconds = seconds;
    }
    on(event, f) {
      this.listeners[event].push(f);
    }
    emit(event, value) {
      for (const f of this.listeners[event]) f(value);
    }
    root(name) {
      return this.roots[name];
    }
    select(item) {
      this.selected = item;
      this.emit("select", item);
    }
    /** Selects a box, a group or a move, and brings it into view in the graph, unfolding what hides it. */
    reveal(item) {
      this.show("graph");
      this.select(item); // first, for it may open the panel, which makes the view narrower
      const view = this.mounted.graph;
      if (item.group !== undefined) view.focusGroup(item.group);
      else if (item.box !== undefined) view.focus(item.box);
      else view.focusMove(item.move);
    }
    show(name) {
      if (!vxg.views[name] || name === this.current) return;
      if (this.current) this.leave(this.current);
      this.current = name;
      this.roots[name].hidden = false;
      const tab = document.getElementById(`tab-${name}`);
      tab.setAttribute("aria-selected", "true");
      tab.tabIndex = 0;
      document.body.dataset.view = name;
      replaceHash(name);
      if (!this.mounted[name]) this.mounted[name] = vxg.views[name].mount(this) || {};
      if (this.mounted[name].show) this.mounted[name].show();
      this.emit("view", name);
    }
    leave(name) {
      this.roots[name].hidden = true;
      const tab = document.getElementById(`tab-${name}`);
      tab.setAttribute("aria-selected", "false");
      tab.tabIndex = -1;
      this.tooltip(null);
      if (this.mounted[name].hide) this.mounted[name].hide();
    }
    /** A place's colour as CSS text, for canvas; SVG and HTML better say `var(--place-0-line)` (see `paint`). */
    colour(place, part) {
      return cssValue(`--place-${this.palette[place]}-${part}`);
    }
    kindColour(kind) {
      return cssValue(`--kind-${kind}`) || cssValue("--muted");
    }
    /** Gives an element its place's colours as `--fill` and `--line`, which follow the theme by themselves. */
    paint(element, place) {
      const key = this.palette[place] ?? "none";
      element.style.setProperty("--fill", `var(--place-${key}-fill)`);
      element.style.setProperty("--line", `var(--place-${key}-line)`);
      return element;
    }
    /** The path of a place's mark, in a box of 12 x 12. */
    glyph(place) {
      const key = this.palette[place];
      return typeof key === "number" ? GLYPHS[key] : RING;
    }
    theme() {
      return document.documentElement.dataset.theme;
    }
    /** Says something for a few seconds at the bottom of the page (and to a screen reader). */
    say(text) {
      const said = document.getElementById("said");
      said.textContent = text;
      said.classList.add("on");
      clearTimeout(this.saying);
      this.saying = setTimeout(() => said.classList.remove("on"), 4500);
    }
    /** @param {string[]|null} lines the first is the title */
    tooltip(lines, x, y) {
      const box = document.getElementById("tooltip");
      box.hidden = !lines;
      if (!lines) return;
      box.replaceChildren(...lines.map((line) => vxg.el("div", {}, line.length > LONG ? `${line.slice(0, LONG)}…` : line)));
      const { width, height } = box.getBoundingClientRect();
      box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
      box.style.top = `${y + 18 + height > innerHeight ? Math.max(8, y - height - 12) : y + 18}px`;
    }
  }

  /** Place -> palette entry; host and what is not placed are grey, the rest take colours in order. */
  function paletteOf(places) {
    let next = 0;
    return places.map(({ name }) => (name === "host" ? "host" : name === "not placed" ? "none" : next++ % PALETTE));
  }

  function cssValue(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function replaceHash(name) {
    try {
      history.replaceState(null, "", `#${name}`);
    } catch {
      // A page in a notebook's frame has no address of its own.
    }
  }

  function setTheme(app, theme) {
    document.documentElement.dataset.theme = theme;
    app.emit("theme", theme);
  }

  function firstTheme() {
    const kept = stored("vxgraph-theme");
    if (kept === "dark" || kept === "light") return kept;
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function buildHeader(app) {
    const { title, name, machine, digest, version } = app.data;
    document.getElementById("title").textContent = title || name;
    document.getElementById("title").title = title || name;
    document.getElementById("version").textContent = version;
    const facts = document.getElementById("facts");
    facts.append(vxg.el("span", {}, machine ? `on ${machine}` : "no machine"));
    if (digest) facts.append(vxg.el("code", { title: digest }, digest.replace(/^sha256:/, "").slice(0, 12)));
    for (const [id, path] of Object.entries(ICONS)) {
      document.getElementById(id).append(vxg.svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, vxg.svg("path", { d: path })));
    }
    document.getElementById("keys").append(...KEYS.flatMap(([key, what]) => [vxg.el("dt", {}, vxg.el("kbd", {}, key)), vxg.el("dd", {}, what)]));
  }

  function buildTabs(app) {
    const tabs = document.getElementById("tabs");
    for (const name of ORDER.filter((each) => vxg.views[each])) {
      const tab = vxg.el("button", { type: "button", role: "tab", id: `tab-${name}`, "data-view": name, "aria-selected": "false", "aria-controls": `view-${name}`, tabindex: -1, click: () => app.show(name) }, vxg.views[name].title);
      const root = vxg.el("section", { id: `view-${name}`, class: `view view-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, hidden: true });
      tabs.append(tab);
      document.getElementById("views").append(root);
      app.roots[name] = root;
    }
    tabs.addEventListener("keydown", (event) => walkTabs(event, tabs));
  }

  function walkTabs(event, tabs) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...tabs.children];
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus();
    next.click();
    event.preventDefault();
    event.stopPropagation();
  }

  function togglePanel(open) {
    const shut = document.body.classList.toggle("no-details", open === undefined ? undefined : !open);
    document.getElementById("panel-button").setAttribute("aria-expanded", String(!shut));
    window.dispatchEvent(new Event("resize"));
  }

  /** On a small screen the panel comes with the first selection; after that it is as the reader left it. */
  function hidePanelAtFirst(app) {
    if (innerWidth >= WIDE_SCREEN) return;
    togglePanel(false);
    let fresh = true;
    document.getElementById("panel-button").addEventListener("click", () => (fresh = false));
    app.on("select", (item) => {
      if (item && fresh) togglePanel(true);
      if (item) fresh = false;
    });
  }

  function bindButtons(app) {
    document.getElementById("theme").addEventListener("click", () => {
      setTheme(app, stored("vxgraph-theme", app.theme() === "dark" ? "light" : "dark") || (app.theme() === "dark" ? "light" : "dark"));
    });
    document.getElementById("panel-button").addEventListener("click", () => togglePanel());
    document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
    const help = document.getElementById("help");
    help.addEventListener("click", (event) => event.target === help && help.close());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(app, firstTheme()));
    addEventListener("hashchange", () => app.show(location.hash.slice(1)));
  }

  /** What was typed before is typed over. */
  function typeOver(input) {
    input.focus();
    input.select();
  }

  function bindKeys(app) {
    addEventListener("keydown", (event) => {
      const typing = event.target.matches?.("input, textarea, select");
      if (event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]")) return;
      const views = ORDER.filter((name) => vxg.views[name]);
      const actions = {
        "/": () => typeOver(document.getElementById("search")),
        "?": () => document.getElementById("help").showModal(),
        d: () => togglePanel(),
        Escape: () => app.select(null),
      };
      if (/^[1-9]$/.test(event.key) && views[event.key - 1]) app.show(views[event.key - 1]);
      else if (actions[event.key]) actions[event.key]();
      else return;
      event.preventDefault();
    });
  }

  function start() {
    vxg.layout.start(); // its worker reads a large script meanwhile
    document.documentElement.dataset.theme = firstTheme();
    const app = (vxg.app = new App(JSON.parse(document.getElementById("data").textContent)));
    buildHeader(app);
    buildTabs(app);
    hidePanelAtFirst(app);
    vxg.details.mount(app);
    vxg.search.mount(app);
    bindButtons(app);
    bindKeys(app);
    const wanted = location.hash.slice(1);
    app.show(vxg.views[wanted] ? wanted : "graph");
  }

  // The scripts may come in any order: all of them have run by then.
  document.addEventListener("DOMContentLoaded", start);
})();

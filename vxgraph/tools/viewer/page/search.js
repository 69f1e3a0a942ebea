/**
 * Search: every word must occur in a box's or a move's name, op, type or source line; best matches first, each with the
 * groups it is in.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  const SHOWN = 60;

  /** What can be found: boxes, then moves (which are shown as edges). */
  function entries(app) {
    const boxes = app.data.boxes.map((box, i) => ({ item: { box: i }, name: box.name, what: box.op || box.kind, place: box.place, text: [box.name, box.op, box.types, box.loc, ...(box.made || []), ...box.lines] }));
    const moves = app.data.moves.map((move, i) => ({ item: { move: i }, name: move.name, what: `${move.kind}, ${app.bytes(move.nbytes)}`, place: move.dst, text: [move.name, move.kind, move.type, move.loc] }));
    const all = [...boxes, ...moves];
    for (const entry of all) entry.text = entry.text.join("\n").toLowerCase();
    return all;
  }

  /** 0 is best: the whole name, its beginning, a part of it, anything else. */
  function rank(entry, query) {
    const name = entry.name.toLowerCase().replace(/^%/, "");
    if (name === query.replace(/^%/, "")) return 0;
    if (name.startsWith(query)) return 1;
    return name.includes(query) ? 2 : 3;
  }

  function find(all, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const whole = words.join(" ");
    const found = all.filter((entry) => words.every((word) => entry.text.includes(word)));
    return found.map((entry) => [rank(entry, whole), entry]).sort((a, b) => a[0] - b[0]).map(([, entry]) => entry);
  }

  class Search {
    constructor(app) {
      this.app = app;
      this.input = document.getElementById("search");
      this.list = document.getElementById("matches");
      this.matches = [];
      this.at = 0;
      this.input.addEventListener("input", () => this.look());
      this.input.addEventListener("focus", () => this.input.value && this.look());
      this.input.addEventListener("keydown", (event) => this.key(event));
      document.addEventListener("pointerdown", (event) => document.getElementById("finder").contains(event.target) || this.close());
    }
    look() {
      this.all = this.all || entries(this.app);
      this.matches = find(this.all, this.input.value);
      this.at = 0;
      this.draw();
    }
    draw() {
      const shown = this.matches.slice(0, SHOWN);
      const open = this.input.value.trim() !== "";
      const count = this.matches.length;
      const head = vxg.el("div", { class: "found", role: "presentation" }, count ? `${count} ${count > 1 ? "matches" : "match"}${count > SHOWN ? `, the first ${SHOWN} are shown` : ""}` : "No match in names, ops, types and source lines");
      this.list.replaceChildren(head, ...shown.map((entry, i) => this.row(entry, i)));
      this.list.hidden = !open;
      this.input.setAttribute("aria-expanded", String(open));
      this.point(0);
    }
    row(entry, i) {
      const { app } = this;
      const glyph = app.paint(vxg.svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, vxg.svg("path", { d: app.glyph(entry.place) })), entry.place);
      return vxg.el(
        "div",
        { class: "match", role: "option", id: `match-${i}`, "data-match": Object.values(entry.item)[0], click: () => this.choose(i), pointermove: () => this.point(i) },
        glyph,
        vxg.el("span", { class: "name", title: entry.name }, ...marked(entry.name, this.input.value.trim())),
        vxg.el("span", { class: "what" }, entry.what),
        vxg.el("span", { class: "path" }, this.path(entry)),
      );
    }
    path({ item }) {
      const { app } = this;
      if (item.move !== undefined) return ends(app, app.data.moves[item.move]);
      const titles = vxg.model.pathOf(app.model, app.model.parent[item.box]).map((g) => app.model.groups[g].title);
      return [...titles, app.data.boxes[item.box].loc].filter(Boolean).join("  ›  ");
    }
    point(i) {
      this.list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
      this.at = i;
      const row = document.getElementById(`match-${i}`);
      if (!row) return this.input.removeAttribute("aria-activedescendant");
      row.setAttribute("aria-selected", "true");
      this.input.setAttribute("aria-activedescendant", row.id);
    }
    key(event) {
      const last = Math.min(this.matches.length, SHOWN) - 1;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && last >= 0) {
        this.point((this.at + step + last + 1) % (last + 1));
        document.getElementById(`match-${this.at}`).scrollIntoView({ block: "nearest" });
      } else if (event.key === "Enter" && last >= 0) this.choose(this.at);
      else if (event.key === "Escape") this.close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    }
    choose(i) {
      const { item } = this.matches[i];
      this.close();
      this.app.reveal(item);
    }
    close() {
      this.list.hidden = true;
      this.input.setAttribute("aria-expanded", "false");
      this.input.blur();
    }
  }

  function ends(app, move) {
    const name = (place) => app.data.places[place]?.name ?? "host";
    return `${name(move.src)} → ${name(move.dst)}`;
  }

  /** The name with the part that was looked for marked. */
  function marked(name, query) {
    const at = query ? name.toLowerCase().indexOf(query.toLowerCase()) : -1;
    if (at < 0) return [name];
    return [name.slice(0, at), vxg.el("mark", {}, name.slice(at, at + query.length)), name.slice(at + query.length)];
  }

  vxg.search = { mount: (app) => new Search(app) };
})();

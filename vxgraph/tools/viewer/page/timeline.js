// The timeline: one lane per queue, grouped by topology; what was predicted, what was observed, or both above each other.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const { el, choice, Span, surface, navigate, zoomButtons, palette, empty, plural, count, boxesOf } = vxg.plot;
  const { lanesOf, rowsOf, firstAfter, tiesOf, flowsOf, opsOf } = vxg.lanes;
  const { LEFT, TOP } = vxg.timelineBox;
  const COLOURS = 10;
  const NEAR = 3; // pixels beside a thin slice that still mean it

  function mount(app) {
    const root = app.root("timeline");
    const found = ["predicted", "observed"].filter((which) => app.data.timelines[which]?.slices.length);
    if (!found.length) {
      empty(root, "There is no timeline to show: nothing was predicted and no run was observed.", app.data.notes);
      return { show() {}, hide() {} };
    }
    const view = new Timeline(app, root, found);
    vxg.views.timeline.debug = () => view.debug();
    return { show: () => view.made.repaint(), hide: () => app.tooltip(null) };
  }

  class Timeline {
    constructor(app, root, found) {
      Object.assign(this, { app, data: app.data, found, hovered: null, marked: { b: new Set(), m: new Set() }, drawn: 0 });
      this.all = found.map((which) => ({ which, made: lanesOf(app.data, app.data.timelines[which]) }));
      this.ties = tiesOf(app.data);
      this.ops = opsOf(app.data, this.all.map(({ made }) => made), COLOURS);
      this.opColour = new Map(this.ops);
      this.anyMarked = false;
      this.build(root);
      this.show(found.length > 1 ? "both" : found[0]);
      app.on("select", (item) => this.select(item));
      app.on("theme", () => this.recolour());
    }

    build(root) {
      this.bar = el("div", { class: "vx-bar" });
      this.facts = el("p", { id: "timeline-facts", class: "vx-facts" });
      this.scroller = el("div", { class: "vx-plot vx-scroll" });
      this.sticky = el("div", { class: "vx-sticky" });
      this.spacer = el("div", {});
      this.scroller.append(this.sticky, this.spacer);
      this.totals = el("details", { class: "vx-totals", id: "timeline-totals" });
      root.append(el("div", { class: "vx-view" }, this.bar, this.facts, this.scroller, this.totals));
      this.made = surface(this.sticky, "timeline-canvas", "", (pen, width, height) => {
        this.fitHeight();
        vxg.paintTimeline(this, pen, width, height);
      });
      this.scroller.addEventListener("scroll", () => this.made.repaint());
      navigate(this.made, {
        x: () => this.x,
        y: () => null,
        area: () => this.area(),
        hover: (x, y, pageX, pageY) => this.hover(this.sliceAt(x, y), pageX, pageY),
        leave: () => this.hover(null),
        click: (x, y) => this.click(this.sliceAt(x, y)),
        step: (by) => this.step(by),
        scroll: (pixels) => (this.scroller.scrollTop += pixels),
      });
    }

    // What is shown

    show(mode) {
      this.mode = mode;
      this.shown = this.all.filter(({ which }) => mode === "both" || which === mode);
      this.hovered = this.picked = null;
      Object.assign(this, rowsOf(this.data, this.shown));
      const end = Math.max(...this.shown.map(({ made }) => made.end));
      if (this.x?.max !== end) this.x = this.spanTo(end);
      this.fillBar();
      this.fillFacts();
      this.fillTotals();
      this.recolour();
      this.select(this.app.selected);
      const tracks = this.rows.filter((row) => row.first).length;
      const what = `Timeline, ${mode}: ${plural(tracks, "queue")}, time to the right.`;
      this.made.canvas.setAttribute("aria-label", `${what} Arrows move, + and - zoom, 0 shows all, n and p select slices.`);
    }

    /** All of it, or what comes before steps that are not drawn, where these would take most of the width. */
    spanTo(end) {
      const span = new Span(0, end, Math.max(end * 1e-7, 1e-9));
      const gap = undrawn(this.shown[0].made);
      if (gap && gap.start > 0 && Math.min(gap.end, end) - gap.start > end / 2) span.set(0, gap.start * 1.05);
      return span;
    }

    fillBar() {
      const options = ["predicted", "observed", "both"].map((mode) => {
        return [mode, mode[0].toUpperCase() + mode.slice(1), mode === "both" ? this.found.length > 1 : this.found.includes(mode)];
      });
      const modes = choice("Timeline", options, this.mode, (mode) => {
        this.show(mode);
        this.bar.querySelector("input:checked").focus();
      });
      modes.id = "timeline-mode";
      const legend = el("span", { class: "vx-legend", "aria-label": "Colours of ops" });
      for (const [op, colour] of this.ops.slice(0, 5)) legend.append(key(op, `var(--vx-op-${colour})`));
      if (this.ops.length > 5) legend.append(el("span", {}, `and ${plural(this.ops.length - 5, "more op")}`));
      const kinds = new Set(this.data.moves.map(({ kind }) => (kind === "peer" ? "peer" : "host")));
      if (kinds.has("peer")) legend.append(key("transfer between devices", "var(--wire-peer)"));
      if (kinds.has("host")) legend.append(key("upload or download", "var(--wire-host)"));
      this.bar.replaceChildren(modes, zoomButtons(this.made, () => [this.x]), legend);
    }

    /** How long it takes, how good the prediction was, and what is not drawn. */
    fillFacts() {
      const { predicted, observed } = this.data.timelines;
      const facts = this.shown.map(({ which, made }) => `${which} ${this.app.seconds(made.timeline.seconds)}`);
      let text = `${facts.join(", ")}.`;
      if (this.shown.length > 1 && predicted.seconds > 0) text += ` A run took ${ratio(observed.seconds / predicted.seconds)} of what was predicted.`;
      text += [...new Set(this.shown.map(({ made }) => leftOut(made)))].join("");
      if (this.found.length < 2) text += ` ${this.data.notes.join(" ")}`;
      this.facts.textContent = text[0].toUpperCase() + text.slice(1);
    }

    fillTotals() {
      const queues = [...new Map(this.rows.filter((row) => row.kind === "lane").map((row) => [row.name, row])).keys()];
      const both = this.shown.length > 1;
      const heads = ["Queue", ...this.shown.flatMap(({ which }) => [`Busy, ${which}`, "Share"]), ...(both ? ["Observed / predicted"] : [])];
      const head = el("tr", {}, ...heads.map((text, i) => el("th", { scope: "col", class: i ? "vx-number" : null }, text)));
      const body = queues.map((name) => this.totalsOf(name, both));
      const table = el("table", { class: "vx-table" }, el("thead", {}, head), el("tbody", {}, ...body));
      if (!this.totals.childElementCount) this.totals.open = queues.length <= 6;
      this.totals.replaceChildren(el("summary", {}, "Busy time of each queue, of the slices that are drawn"), el("div", { class: "vx-rows" }, table));
    }

    totalsOf(name, both) {
      const busy = this.shown.map(({ made }) => made.lanes.find((lane) => lane.name === name)?.busy ?? 0);
      const cells = busy.flatMap((seconds, i) => [this.app.seconds(seconds), percent(seconds / this.shown[i].made.end)]);
      if (both) cells.push(busy[0] > 0 ? ratio(busy[1] / busy[0]) : "");
      return el("tr", { "data-queue": name }, el("th", { scope: "row" }, name), ...cells.map((text) => el("td", { class: "vx-number" }, text)));
    }

    recolour() {
      this.colours = palette();
      this.made.repaint();
    }

    colourOf(made, slice) {
      const [, , , kind, index] = made.timeline.slices[slice];
      if (kind === "m") return this.data.moves[index].kind === "peer" ? this.colours.peer : this.colours.host;
      return this.colours.ops[this.opColour.get(this.data.boxes[index].op)];
    }

    nameOf(made, slice) {
      const [, , , kind, index] = made.timeline.slices[slice];
      return kind === "m" ? this.data.moves[index].name : this.data.boxes[index].name;
    }

    // Geometry

    area() {
      return { left: LEFT, right: this.made.width - 10, top: TOP, bottom: this.made.height };
    }
    px(time) {
      const { left, right } = this.area();
      const x = left + ((time - this.x.lo) / this.x.length) * (right - left);
      return Math.max(-1e5, Math.min(1e5, x));
    }
    rowY(row) {
      return TOP + row.y - this.scroller.scrollTop;
    }
    end() {
      return Math.max(...this.shown.map(({ made }) => made.end));
    }
    /** Rows grow into the room that there is; where there is too little they scroll. */
    fitHeight() {
      const stretch = Math.max(1, Math.min(2, (this.made.height - TOP) / this.height));
      for (const row of this.rows) [row.y, row.height] = [row.at * stretch, row.least * stretch];
      this.spacer.style.height = `${Math.max(0, this.height + TOP - this.made.height)}px`;
    }

    /** The longest slice within a few pixels of a point, as {row, slice}; what the point is on comes first. */
    sliceAt(x, y) {
      const { left, right } = this.area();
      if (x < left || x > right || y < TOP) return null;
      const row = this.rows.find((one) => one.kind === "lane" && y >= this.rowY(one) && y < this.rowY(one) + one.height);
      if (!row?.lane) return null;
      const each = this.x.length / (right - left);
      const time = this.x.lo + (x - left) * each;
      const { lane } = row;
      let [found, longest] = [-1, -1];
      for (let k = firstAfter(lane, time - NEAR * each); k < lane.starts.length && lane.starts[k] < time + NEAR * each; k += 1) {
        if (lane.starts[k] <= time && lane.ends[k] > time && lane.ends[k] - lane.starts[k] > 2 * each) return { row, slice: lane.rows[k] };
        if (lane.ends[k] - lane.starts[k] > longest) [found, longest] = [lane.rows[k], lane.ends[k] - lane.starts[k]];
      }
      return found < 0 ? null : { row, slice: found };
    }

    // Pointer and selection

    hover(hit, pageX, pageY) {
      if (hit?.slice !== this.hovered?.slice || hit?.row !== this.hovered?.row) this.made.repaint();
      this.hovered = hit;
      this.made.canvas.style.cursor = hit ? "pointer" : "";
      this.app.tooltip(hit ? this.words(hit) : null, pageX, pageY);
    }

    words({ row, slice }) {
      const [, start, seconds, kind, index, step] = row.made.timeline.slices[slice];
      const lines = kind === "m" ? this.moveWords(this.data.moves[index]) : this.boxWords(this.data.boxes[index]);
      const times = step > 0 ? `, step ${count(step)}` : "";
      return [...lines, `${row.which} ${this.app.seconds(seconds)}, from ${this.app.seconds(start)} on ${row.name}${times}`];
    }

    moveWords(move) {
      const name = (i) => this.data.places[i].name;
      const route = move.route ? `, ${move.route}` : "";
      return [`${move.name}: ${move.type}`, `${move.kind} ${name(move.src)} to ${name(move.dst)}${route}, ${this.app.bytes(move.nbytes)}`, move.why].filter(Boolean);
    }

    boxWords(box) {
      return [`${box.name}: ${box.types}`, [box.op, box.loc].filter(Boolean).join(", "), box.why].filter(Boolean);
    }

    click(hit) {
      if (!hit) return this.app.select(null);
      const [, , , kind, index] = hit.row.made.timeline.slices[hit.slice];
      this.picked = hit;
      this.app.select(kind === "m" ? { move: index } : { box: index });
    }

    select(item) {
      this.marked = this.markedBy(item);
      this.anyMarked = this.marked.b.size + this.marked.m.size > 0;
      const slices = this.slicesMarked();
      this.anyMarked = slices.length > 0;
      if (!slices.some(({ row, slice }) => this.picked?.row === row && this.picked.slice === slice)) this.picked = slices[0] ?? null;
      if (this.picked) this.reveal(this.picked);
      this.made.repaint();
    }

    markedBy(item) {
      const marked = { b: new Set(boxesOf(this.app.model, item)), m: new Set(item?.moves ?? []) };
      if (item?.move !== undefined) marked.m.add(item.move);
      if (item?.slot === undefined) return marked;
      const { value } = this.data.slots[item.slot];
      for (const i of this.ties.brought.get(value) ?? []) marked.m.add(i);
      for (const i of this.ties.made.get(value) ?? []) marked.b.add(i);
      return marked;
    }

    /** Every slice of what is selected, as {row, slice}. */
    slicesMarked() {
      const rowOf = new Map(this.rows.filter((row) => row.lane).map((row) => [row.lane, row]));
      return this.shown.flatMap(({ made }) =>
        ["b", "m"].flatMap((kind) =>
          [...this.marked[kind]].flatMap((index) => (made.own[kind].get(index) ?? []).map((slice) => {
            return { row: rowOf.get(made.lanes[made.timeline.slices[slice][0]]), slice };
          })),
        ),
      );
    }

    markedIn() {
      return this.anyMarked ? this.slicesMarked() : [];
    }

    reveal({ row, slice }) {
      const [, start, seconds] = row.made.timeline.slices[slice];
      this.x.reveal(start, start + seconds);
      const y = this.rowY(row);
      if (y < TOP || y + row.height > this.made.height) this.scroller.scrollTop = row.at - 40;
    }

    /** Selects the next or the previous slice of the same queue. */
    step(by) {
      const first = this.rows.find((row) => row.lane?.rows.length);
      const { row, slice } = this.picked ?? { row: first, slice: undefined };
      const at = row.lane.rows.indexOf(slice);
      const next = row.lane.rows[at < 0 ? 0 : Math.min(row.lane.rows.length - 1, Math.max(0, at + by))];
      this.click({ row, slice: next });
    }

    /** Arrows around what is under the pointer, or else what was selected here. */
    flows() {
      const hit = this.hovered ?? (this.anyMarked ? this.picked : null);
      if (!hit) return [];
      const { made } = hit.row;
      const rowOf = new Map(this.rows.filter((row) => row.made === made && row.lane).map((row) => [row.lane, row]));
      const end = (slice) => {
        const [track, start, seconds] = made.timeline.slices[slice];
        const row = rowOf.get(made.lanes[track]);
        return { start, end: start + seconds, y: this.rowY(row) + row.height / 2 };
      };
      return flowsOf(this.ties, made, hit.slice).map(([from, to]) => ({ from: end(from), to: end(to) }));
    }

    debug() {
      const { mode, drawn, x, rows } = this;
      const tracks = rows.filter((row) => row.kind === "lane").map(({ name, which, lane }) => ({ name, which, slices: lane?.rows.length ?? 0 }));
      const lane = rows.find((row) => row.lane?.rows.length);
      const point = lane && [this.px((lane.lane.starts[0] + lane.lane.ends[0]) / 2), this.rowY(lane) + lane.height / 2];
      return { mode, drawn, tracks, x, point, marked: this.slicesMarked().length, flows: this.flows().length };
    }
  }

  /** The section that stands for all steps that are not drawn; its title ends in `steps 34 to 4095`. */
  const undrawn = ({ timeline }) => timeline.sections.find(({ title }) => / steps \d+ to \d+$/.test(title));

  function leftOut(made) {
    const left = made.timeline.left_out;
    if (!left) return "";
    const section = undrawn(made);
    return ` ${plural(left, "further slice")} alike ${left === 1 ? "is" : "are"} not drawn${section ? ` (${section.title})` : ""}.`;
  }

  function key(text, colour) {
    const mark = el("i", { class: "vx-key" });
    mark.style.background = colour;
    return el("span", {}, mark, text);
  }
  const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)}%`;
  const ratio = (value) => `${value.toFixed(2)}\u00d7`;

  vxg.views.timeline = { title: "Timeline", mount };
})();

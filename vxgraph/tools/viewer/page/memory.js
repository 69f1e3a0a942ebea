// The memory plan: position in the program to the right, address upwards, one rectangle per slot.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const { el, choice, Span, surface, navigate, zoomButtons, palette, inkOn, hatch, empty, plural, count, named } = vxg.plot;
  const { plansOf, ownersAt, addresses, positions, BOX, KINDS, REGION } = vxg.plan;
  const KIND_TEXT = { param: "params", kv: "kv cache", activation: "activations", staging: "staging" };
  const MODES = { split: "Every region", scale: "To scale", params: "Params", kv: "KV cache", transient: "Transient" };

  function mount(app) {
    const root = app.root("memory");
    const plans = plansOf(app.data);
    if (!plans.length) {
      empty(root, "There is no memory plan to show.", app.data.notes);
      return { show() {}, hide() {} };
    }
    const view = new Memory(app, root, plans);
    vxg.views.memory.debug = () => view.debug();
    return { show: () => view.made.repaint(), hide: () => app.tooltip(null) };
  }

  class Memory {
    constructor(app, root, plans) {
      Object.assign(this, { app, plans, data: app.data, marked: new Set(), hovered: -1, chosen: -1, drawn: 0 });
      this.x = new Span(0, positions(app.data), 4);
      this.bar = el("div", { class: "vx-bar" });
      this.use = el("div", { class: "vx-use" });
      this.plot = el("div", { class: "vx-plot" });
      this.peak = el("div", { class: "vx-peak", id: "memory-peak" });
      root.append(el("div", { class: "vx-view" }, this.bar, this.use, this.plot, this.peak));
      this.made = surface(this.plot, "memory-canvas", "", (pen, width, height) => this.paint(pen, width, height));
      navigate(this.made, {
        x: () => this.x,
        y: () => this.y,
        area: () => this.area(),
        hover: (x, y, pageX, pageY) => this.hover(this.slotAt(x, y), pageX, pageY),
        leave: () => this.hover(-1),
        click: (x, y) => this.click(this.slotAt(x, y)),
        step: (by) => this.step(by),
      });
      app.on("select", (item) => this.select(item));
      app.on("theme", () => this.recolour());
      const largest = plans.reduce((a, b) => (b.arena > a.arena ? b : a));
      this.choosePlan(largest);
      if (app.selected) this.select(app.selected);
    }

    // What is shown

    choosePlan(plan) {
      this.plan = plan;
      this.mode = plan.regions.length > 1 ? "split" : "scale";
      this.chooseMode(this.mode);
      this.fillBar();
      this.fillUse();
      this.fillPeak();
      this.recolour();
      const place = this.data.places[plan.place].name;
      const what = `Memory plan of ${place}: ${plural(plan.slots.length, "slot")}, address over position in the program.`;
      this.made.canvas.setAttribute("aria-label", `${what} Arrows move, + and - zoom, 0 shows all, n and p select slots.`);
    }

    chooseMode(mode) {
      this.mode = mode;
      this.scale = addresses(this.plan, mode);
      this.parts = new Map(this.plan.slots.map((i) => [i, this.partsOf(this.data.slots[i])]));
      this.y = new Span(0, 1, 1e-7);
      this.made.repaint();
    }

    fillBar() {
      const names = new Set(this.plan.regions.map((region) => region.name));
      const modes = Object.entries(MODES).filter(([mode]) => this.offers(mode, names));
      const legend = el("span", { class: "vx-legend", "aria-label": "Kinds of slots" });
      const here = new Set(this.plan.slots.map((i) => this.data.slots[i].kind));
      for (const kind of KINDS.filter((one) => here.has(one))) {
        const swatch = el("canvas", { class: "vx-swatch", width: 32, height: 24, "data-kind": kind, "aria-hidden": "true" });
        legend.append(el("span", {}, swatch, KIND_TEXT[kind]));
      }
      const buttons = zoomButtons(this.made, () => [this.x, this.y]);
      const scale = choice("Addresses", modes, this.mode, (mode) => this.chooseMode(mode));
      scale.id = "memory-mode";
      this.bar.replaceChildren(this.placeMenu(), scale, buttons, legend);
    }

    offers(mode, names) {
      return mode === "scale" || (mode === "split" ? names.size > 1 : names.has(mode));
    }

    placeMenu() {
      const menu = el("select", { id: "memory-place", "aria-label": "Memory" });
      this.plans.forEach((plan, i) => {
        const memory = plan.memory ? ` in ${plan.memory.name}` : "";
        const text = `${this.data.places[plan.place].name}${memory}, ${this.app.bytes(plan.arena)}`;
        menu.append(el("option", { value: i, selected: plan === this.plan }, text));
      });
      menu.addEventListener("change", () => {
        this.choosePlan(this.plans[Number(menu.value)]);
        this.bar.querySelector("select").focus();
      });
      return menu;
    }

    /** The use bar: the memory's parts out of its capacity. */
    fillUse() {
      const { memory, arena } = this.plan;
      const use = memory ?? this.data.places[this.plan.place].use ?? {};
      const parts = [
        ["param", "params", use.params],
        ["kv", "kv", use.kv],
        ["activation", "activations", use.activations],
        ["staging", "staging", use.staging],
        ["reserved", "reserved", use.reserved],
      ].filter(([, , nbytes]) => nbytes > 0);
      const used = parts.reduce((sum, [, , nbytes]) => sum + nbytes, 0);
      const all = Math.max(memory?.capacity ?? 0, used, 1);
      const bar = el("div", { class: "vx-usebar", "aria-hidden": "true" });
      for (const [kind, , nbytes] of parts) {
        bar.append(el("span", { class: `vx-part vx-part-${kind}`, style: `flex: 0 0 ${(100 * nbytes) / all}%` }));
      }
      const shares = parts.map(([, name, nbytes]) => `${name} ${this.app.bytes(nbytes)}`).join(" \u00b7 ");
      const of = memory?.capacity
        ? `${this.app.bytes(used)} of ${this.app.bytes(memory.capacity)} in ${memory.name} (${percent(used / memory.capacity)})`
        : `${this.app.bytes(used || arena)}, no capacity known`;
      this.use.replaceChildren(bar, el("p", { id: "memory-use" }, el("b", {}, of), shares ? ` \u00b7 ${shares}` : ""));
    }

    fillPeak() {
      const { plan, data, app } = this;
      const all = ownersAt(data, plan, plan.peak);
      const owners = largestOf(all);
      const at = `${data.steps[plan.peak] ?? "the end"} (position ${count(plan.peak)} of ${count(positions(data))})`;
      const shares = plan.regions.map(({ name }) => `${name} ${app.bytes(plan.live[name][plan.peak])}`).join(", ");
      const show = el("button", { type: "button", click: () => this.showPeak() }, "Show");
      const list = el("ol", { "aria-label": "Largest owners at the peak" });
      for (const owner of owners) {
        const name = data.slots[owner.slots[0]].value.replace(/\d+/g, owner.slots.length > 1 ? "*" : "$&");
        const many = owner.slots.length > 1 ? ` \u00d7 ${count(owner.slots.length)}` : "";
        const label = `${name}${many}`;
        const button = el(
          "button",
          { type: "button", click: () => app.select({ slot: owner.slots[0] }), title: label },
          el("i", { class: `vx-part-${owner.kind}` }),
          el("span", {}, label),
          el("b", {}, app.bytes(owner.nbytes)),
        );
        list.append(el("li", {}, button));
      }
      const more = all.length > owners.length ? el("li", { class: "vx-more" }, `and ${plural(all.length - owners.length, "more owner")}`) : null;
      if (more) list.append(more);
      const line = el("p", {}, el("b", {}, `Fullest at ${at}: `), `${app.bytes(plan.total[plan.peak])} are live (${shares}). `, show);
      this.peak.replaceChildren(line, list);
    }

    showPeak() {
      const width = Math.max(20, Math.min(this.x.length, (this.x.max - this.x.min) / 20));
      this.x.set(this.plan.peak - width / 2, width);
      this.y.reset();
      this.made.repaint();
    }

    recolour() {
      const pen = this.made.canvas.getContext("2d");
      this.colours = palette();
      this.fills = Object.fromEntries(KINDS.map((kind) => [kind, this.app.kindColour(kind)]));
      this.hatches = Object.fromEntries(KINDS.map((kind) => [kind, hatch(pen, kind, inkOn(this.fills[kind]))]));
      for (const swatch of this.bar.querySelectorAll("canvas")) this.paintSwatch(swatch);
      this.made.repaint();
    }

    paintSwatch(swatch) {
      const pen = swatch.getContext("2d");
      for (const fill of [this.fills[swatch.dataset.kind], this.hatches[swatch.dataset.kind]]) {
        if (!fill) continue;
        pen.fillStyle = fill;
        pen.fillRect(0, 0, 32, 24);
      }
    }

    // Selection

    select(item) {
      this.chosen = item?.slot ?? -1;
      this.marked = new Set(this.slotsOf(item));
      const elsewhere = this.plans.find((plan) => plan.slots.some((i) => this.marked.has(i)));
      const here = this.plan.slots.some((i) => this.marked.has(i));
      if (elsewhere && !here) this.choosePlan(elsewhere);
      const first = this.chosen >= 0 ? this.chosen : this.plan.slots.find((i) => this.marked.has(i));
      if (first !== undefined) this.reveal(this.data.slots[first]);
      this.made.repaint();
    }

    reveal(slot) {
      this.x.reveal(slot.first, slot.last + 1);
      const [lo, hi] = [this.scale.part(slot.offset), this.scale.part(slot.offset + slot.nbytes)];
      if (hi <= 0 || lo >= 1) this.backToAll();
      else this.y.reveal(lo, hi);
    }

    backToAll() {
      this.chooseMode(this.plan.regions.length > 1 ? "split" : "scale");
      this.fillBar();
      this.recolour();
    }

    slotsOf(item) {
      if (!item) return [];
      if (item.slot !== undefined) return [item.slot];
      const names = new Set(named(this.app, item));
      return this.data.slots.flatMap((slot, i) => (names.has(slot.value) ? [i] : []));
    }

    click(i) {
      this.app.select(i < 0 ? null : { slot: i });
    }

    /** Selects the next or the previous slot by position, then address. */
    step(by) {
      const { slots } = this.data;
      const order = [...this.plan.slots].sort((a, b) => slots[a].first - slots[b].first || slots[a].offset - slots[b].offset);
      const at = order.indexOf(this.chosen);
      this.app.select({ slot: order[(at < 0 ? (by > 0 ? 0 : order.length - 1) : at + by + order.length) % order.length] });
    }

    hover(i, pageX, pageY) {
      if (i !== this.hovered) this.made.repaint();
      this.hovered = i;
      this.made.canvas.style.cursor = i < 0 ? "" : "pointer";
      this.app.tooltip(i < 0 ? null : this.words(this.data.slots[i]), pageX, pageY);
    }

    words(slot) {
      const name = (at) => this.data.steps[at] ?? "the end";
      return [
        `${slot.value}: ${slot.type}`,
        `${KIND_TEXT[slot.kind]}, ${this.app.bytes(slot.nbytes)} (${count(slot.nbytes)} bytes)`,
        `at ${count(slot.offset)} to ${count(slot.offset + slot.nbytes)} on ${this.data.places[slot.place].name}`,
        `from ${name(slot.first)} (${count(slot.first)}) to ${name(slot.last)} (${count(slot.last)})`,
      ];
    }

    // Geometry

    area() {
      return { left: BOX.left, right: this.made.width - BOX.right, top: BOX.top, bottom: this.made.height - BOX.bottom };
    }
    px(at) {
      const { left, right } = this.area();
      return left + ((at - this.x.lo) / this.x.length) * (right - left);
    }
    /** A part of the axis, 0 to 1, in pixels. */
    partPx(part) {
      const { top, bottom } = this.area();
      return bottom - ((part - this.y.lo) / this.y.length) * (bottom - top);
    }
    py(address) {
      return this.partPx(this.scale.part(address));
    }
    partsOf({ offset, nbytes }) {
      return [this.scale.part(offset), this.scale.part(offset + nbytes)];
    }
    /** What turns positions and parts into pixels; made once for many slots. */
    frame() {
      const { left, right, top, bottom } = this.area();
      return { left, bottom, wide: (right - left) / this.x.length, high: (bottom - top) / this.y.length };
    }
    rect(i, { left, bottom, wide, high } = this.frame()) {
      const { first, last } = this.data.slots[i];
      const [lo, hi] = this.parts.get(i);
      const [width, height] = [(last + 1 - first) * wide, (hi - lo) * high];
      return [left + (first - this.x.lo) * wide, bottom - (hi - this.y.lo) * high, Math.max(1, width), Math.max(1, height)];
    }
    inSight([x, y, width, height], { left, right, top, bottom } = this.area()) {
      return x < right && x + width > left && y < bottom && y + height > top;
    }

    /** The smallest slot under a point; a pixel or two beside a thin one will do. */
    slotAt(x, y) {
      const { left, right, top, bottom } = this.area();
      if (x < left || x > right || y < top || y > bottom) return -1;
      const frame = this.frame();
      let [found, size] = [-1, Infinity];
      for (const i of this.plan.slots) {
        const [sx, sy, width, height] = this.rect(i, frame);
        const near = x >= sx - 1 && x <= sx + width + 1 && y >= sy - 1 && y <= sy + height + 1;
        if (near && width * height < size) [found, size] = [i, width * height];
      }
      return found;
    }

    paint(pen, width, height) {
      vxg.paintMemory(this, pen, width, height);
    }

    debug() {
      const { plan, mode, drawn, x, y } = this;
      const rects = () => Object.fromEntries(plan.slots.map((i) => [i, this.rect(i)]));
      const place = this.data.places[plan.place].name;
      return { place, mode, drawn, slots: plan.slots.length, peak: plan.peak, marked: [...this.marked], x, y, rects };
    }
  }

  const MOST = { params: 2, kv: 2, transient: 3 };
  /** The largest owners of each region: params would leave no room for others. */
  function largestOf(owners) {
    const taken = { params: 0, kv: 0, transient: 0 };
    return owners.filter(({ kind }) => (taken[REGION[kind]] += 1) <= MOST[REGION[kind]]);
  }

  const percent = (part) => `${(100 * part).toFixed(part < 0.1 ? 1 : 0)}%`;

  vxg.views.memory = { title: "Memory", mount };
})();

/**
 * The graph view: which groups are open, what is under the pointer, and the keys. Layout, drawing and camera are apart.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  vxg.views = vxg.views || {};
  /** More cards than this at once are neither readable nor quick to lay out. */
  const MOST = 600;
  const PAN = 80;
  const MANY_PLACES = 5;

  class GraphView {
    constructor(app, root) {
      this.app = app;
      this.root = root;
      this.open = new Set(app.model.groups.flatMap((group, g) => (group.open ? [g] : [])));
      this.turn = 0;
      this.layouts = 0;
      this.build();
      this.bind();
      this.ready = this.refresh(() => this.camera.fit(false));
    }

    build() {
      this.world = vxg.svg("g", { class: "world" });
      this.canvas = vxg.svg("svg", { class: "canvas", role: "group", "aria-label": "Graph", "data-testid": "graph" }, vxg.arrowHeads(), this.world);
      const map = vxg.el("canvas", { class: "minimap", "aria-hidden": "true", hidden: true });
      this.busy = vxg.el("div", { class: "busy", hidden: true });
      this.root.append(this.canvas, map, this.busy, this.buttons());
      this.painter = new vxg.Painter(this.app, this.world);
      this.camera = new vxg.Camera(this.canvas, this.world, map);
      this.camera.moves = () => this.cull();
    }

    buttons() {
      const button = (label, title, act, id) => vxg.el("button", { type: "button", title, "aria-label": title, "data-testid": id, click: act }, label);
      return vxg.el(
        "div",
        { class: "controls", role: "toolbar", "aria-label": "Graph" },
        button("Unfold all", "Unfold all", () => this.unfoldAll(), "unfold-all"),
        button("Fold all", "Fold all", () => this.foldAll(), "fold-all"),
        vxg.el("span", { class: "gap" }),
        button("−", "Zoom out (−)", () => this.camera.by(1 / 1.35), "zoom-out"),
        button("+", "Zoom in (+)", () => this.camera.by(1.35), "zoom-in"),
        button("Fit", "Fit all (0)", () => this.camera.fit(), "fit"),
      );
    }

    /** Computes, lays out and draws the present fold state; `then()` moves the camera before the first paint. */
    async refresh(then) {
      const turn = (this.turn += 1);
      const scene = vxg.model.visible(this.app.model, this.open);
      for (const edge of scene.edges.values()) this.dress(edge, scene.tree.length > MANY_PLACES);
      const slow = setTimeout(() => (this.busy.hidden = false), 200);
      const size = await vxg.layout.layOut(this.app, scene);
      clearTimeout(slow);
      if (turn !== this.turn) return;
      this.busy.hidden = true;
      this.hover(null);
      this.scene = scene;
      this.index();
      this.painter.draw(scene);
      this.camera.setScene(size, this.mapMarks());
      then();
      this.cull();
      this.highlight(this.app.selected);
      this.layouts += 1;
      Object.assign(document.documentElement.dataset, { ready: "true", layouts: this.layouts });
    }

    /** Kind and label of an edge: `60 transfers, 1.63 MiB`; only bytes where many places share the screen's width. */
    dress(edge, short) {
      const moves = edge.moves.map((m) => this.app.data.moves[m]);
      edge.kind = moves.some((move) => move.kind === "peer") ? "peer" : moves.length ? "host" : "plain";
      if (moves.length) edge.label = this.labelOf(moves, short);
    }
    labelOf(moves, short) {
      const size = this.app.bytes(moves.reduce((total, move) => total + move.nbytes, 0));
      const times = moves.every((move) => move.count === moves[0].count) && moves[0].count > 1 ? ` × ${moves[0].count}` : "";
      if (moves.length > 1) return `${moves.length} transfers, ${size}${times}`;
      if (short) return `${size}${times}`;
      return `${vxg.layout.clip(moves[0].name, "label", 96)}, ${size}${times}`;
    }

    /** Visible id -> node, and -> ids of its edges. */
    index() {
      this.shown = new Map();
      this.near = new Map();
      const walk = (node) => {
        this.shown.set(node.id, node);
        node.children.forEach(walk);
      };
      this.scene.tree.forEach(walk);
      for (const edge of this.scene.edges.values()) {
        for (const end of [edge.src, edge.dst]) this.near.set(end, [...(this.near.get(end) || []), edge.id]);
      }
    }

    /** Text that is not in view is not drawn: most of the time that a frame takes is its text. */
    cull() {
      if (!this.scene) return;
      const seen = this.camera.seen();
      for (const [id, node] of this.shown) this.painter.find(id)?.classList.toggle("away", !touches(node.rect, seen));
    }

    mapMarks() {
      this.camera.ink = this.app.kindColour("peer");
      return [...this.shown.values()].map((node) => ({ rect: node.rect, colour: this.app.colour(node.place, "line"), solid: !node.open }));
    }

    /** Folds or unfolds, and keeps the corner that was clicked where it was. */
    toggle(g) {
      if (!vxg.model.folds(this.app.model, g)) return;
      const before = this.shown.get(`g${g}`);
      const screen = before && this.camera.screen(before.rect);
      const opens = !this.open.delete(g);
      if (opens) this.open.add(g);
      this.refresh(() => {
        const after = this.shown.get(`g${g}`);
        if (!after) return this.camera.fit();
        if (screen) this.camera.pin(after.rect, screen);
        this.painter.find(`g${g}`).focus({ preventScroll: true });
        this.camera.show(after.rect, true, opens ? 0.8 : 0.3);
      });
    }

    foldAll() {
      this.open.clear();
      this.refresh(() => this.camera.fit());
    }

    /** Unfolds level by level while no more than MOST are drawn. */
    unfoldAll() {
      const { model } = this.app;
      let drawn = this.scene.count;
      let level = [...this.shown.values()].filter((node) => node.group !== undefined && !node.open).map((node) => node.group);
      let left = 0;
      while (level.length) {
        const next = [];
        for (const g of level) {
          const more = model.kids[g].groups.length + model.kids[g].boxes.length;
          if (drawn + more > MOST) left += 1;
          else {
            this.open.add(g);
            drawn += more;
            next.push(...model.kids[g].groups);
          }
        }
        level = next;
      }
      if (left) this.app.say(`${drawn} are drawn; ${left} ${left > 1 ? "groups stay" : "group stays"} folded, for more than ${MOST} at once cannot be read. Unfold one by hand, or search.`);
      return this.refresh(() => this.camera.fitTop());
    }

    reach(parent, id) {
      const path = vxg.model.pathOf(this.app.model, parent).filter((g) => vxg.model.folds(this.app.model, g));
      const hidden = path.some((g) => !this.open.has(g));
      path.forEach((g) => this.open.add(g));
      const look = () => {
        const node = this.shown.get(id);
        if (node) this.camera.centre(node.rect);
      };
      return hidden || !this.scene ? this.refresh(look) : look();
    }

    /** Unfolds what hides a box and centres it. */
    focus(box) {
      return this.reach(this.app.model.parent[box], String(box));
    }
    focusGroup(g) {
      return this.reach(this.app.model.groups[g].parent, `g${g}`);
    }
    /** A move is shown as the edge that it is part of, folded or not. */
    focusMove(m) {
      return this.ready.then(() => {
        const edge = [...(this.scene?.edges.values() ?? [])].find((each) => each.moves.includes(m));
        if (edge) this.camera.centre(edge.spot || this.shown.get(edge.dst).rect);
        else this.app.say(`${this.app.data.moves[m].name} happens at load, before what the graph shows: see Transfers.`);
      });
    }

    /** Ids of the drawn things that an item stands for. */
    idsOf(item) {
      if (!item || !this.scene) return [];
      const all = [...this.scene.edges.values()];
      if (item.edge) return [item.edge];
      if (item.group !== undefined) return [`g${item.group}`];
      if (item.move !== undefined) return all.filter((edge) => edge.moves.includes(item.move)).map((edge) => edge.id);
      const box = item.box ?? this.app.data.slots[item.slot]?.box ?? -1;
      return box < 0 ? [] : [this.scene.rep[box]];
    }

    highlight(item) {
      const ids = this.idsOf(item);
      this.mark("selected", ids);
      this.mark("beside", ids.flatMap((id) => this.around(id)));
      this.canvas.classList.toggle("has-selection", ids.length > 0);
    }

    /** An edge's ends, or a node's edges. */
    around(id) {
      const edge = this.scene.edges.get(id);
      return edge ? [edge.src, edge.dst] : this.near.get(id) || [];
    }

    mark(name, ids) {
      for (const element of this.canvas.querySelectorAll(`.${name}`)) element.classList.remove(name);
      for (const id of ids) this.painter.parts(id).forEach((element) => element.classList.add(name));
    }

    bind() {
      const { canvas } = this;
      canvas.addEventListener("click", (event) => this.clicked(event));
      canvas.addEventListener("dblclick", (event) => {
        const hit = hitOf(event.target);
        if (hit?.group !== undefined && !event.target.closest(".fold")) this.toggle(hit.group);
      });
      canvas.addEventListener("pointerover", (event) => this.hover(event));
      canvas.addEventListener("pointermove", (event) => this.hinted && this.app.tooltip(this.hinted, event.clientX, event.clientY));
      canvas.addEventListener("pointerleave", () => this.hover(null));
      canvas.addEventListener("focusin", (event) => this.focused(event));
      addEventListener("keydown", (event) => this.key(event));
      addEventListener("resize", () => this.camera.drawMap());
      this.app.on("select", (item) => this.highlight(item));
      this.app.on("theme", () => this.scene && this.camera.setScene(this.camera.size, this.mapMarks()));
    }

    clicked(event) {
      const hit = hitOf(event.target);
      if (!hit) return this.app.select(null);
      if (event.target.closest(".fold")) return this.toggle(hit.group);
      this.app.select(this.itemOf(hit));
    }

    itemOf(hit) {
      if (hit.edge === undefined) return hit;
      const edge = this.scene.edges.get(hit.edge);
      return edge.moves.length === 1 ? { move: edge.moves[0] } : { moves: edge.moves, edge: edge.id, members: edge.members };
    }

    hover(event) {
      const hit = event && hitOf(event.target);
      const id = hit && (hit.edge ?? (hit.group !== undefined ? `g${hit.group}` : String(hit.box)));
      if (id === this.hovered) return;
      this.hovered = id;
      const frame = id && this.shown.get(id)?.open;
      this.mark("lit", id && !frame ? [id, ...this.around(id)] : []);
      this.hinted = id && !frame ? this.hint(id) : null;
      if (!this.hinted) this.app.tooltip(null);
    }

    hint(id) {
      const edge = this.scene.edges.get(id);
      if (!edge) return this.shown.get(id).full.length ? this.shown.get(id).full : null;
      const ends = `${this.nameOf(edge.src)} → ${this.nameOf(edge.dst)}`;
      const kinds = new Set(edge.moves.map((m) => [this.app.data.moves[m].kind, this.app.data.moves[m].route].filter(Boolean).join(", ")));
      return [edge.label || (edge.later ? "next step" : "reads"), ends, ...kinds];
    }
    nameOf(id) {
      return this.shown.get(id).full[0];
    }

    focused(event) {
      const hit = hitOf(event.target);
      const node = hit && this.shown.get(hit.group !== undefined ? `g${hit.group}` : String(hit.box));
      if (node && event.target.matches(":focus-visible")) this.camera.show(node.open ? { ...node.rect, height: 60, width: 120 } : node.rect);
    }

    key(event) {
      const busy = event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, textarea, select") || document.querySelector("dialog[open]");
      if (busy || this.root.hidden || event.target.closest?.(".details, [role=tablist]")) return;
      const hit = hitOf(event.target);
      const pans = { ArrowLeft: [PAN, 0], ArrowRight: [-PAN, 0], ArrowUp: [0, PAN], ArrowDown: [0, -PAN] }[event.key];
      if (pans) this.camera.pan(...pans);
      else if (event.key === "+" || event.key === "=") this.camera.by(1.35);
      else if (event.key === "-") this.camera.by(1 / 1.35);
      else if (event.key === "0") this.camera.fit();
      else if (hit && (event.key === "Enter" || event.key === " ")) this.press(hit);
      else return;
      event.preventDefault();
    }

    press(hit) {
      this.app.select(this.itemOf(hit));
      if (hit.group !== undefined) this.toggle(hit.group);
    }
  }

  function touches(a, b) {
    return a.x < b.x + b.width && a.x + a.width > b.x && a.y < b.y + b.height && a.y + a.height > b.y;
  }

  /** The item that an element of the drawing stands for. */
  function hitOf(target) {
    const { group, body, box, edge } = target.closest?.("[data-group], [data-body], [data-box], [data-edge]")?.dataset ?? {};
    if (group ?? body) return { group: Number(group ?? body) };
    if (box !== undefined) return { box: Number(box) };
    return edge === undefined ? null : { edge };
  }

  vxg.views.graph = {
    title: "Graph",
    mount(app) {
      const view = new GraphView(app, app.root("graph"));
      return { show: () => view.camera.drawMap(), hide() {}, focus: (box) => view.focus(box), focusGroup: (g) => view.focusGroup(g), focusMove: (m) => view.focusMove(m) };
    },
  };
})();

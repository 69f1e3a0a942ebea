/**
 * Draws a laid-out scene as SVG: bodies of frames, edges, cards and heads of frames, labels, in this order. Elements that stay are moved, not made anew,
 * so that unfolding reads as motion and the focus stays where it was.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  const CORNER = 8;
  /** With more nodes than this nothing glides. */
  const LIVELY = 150;
  const GLIDE = 260; // milliseconds
  const PAD = 13;
  const USES = ["params", "kv", "activations", "staging"];
  const CHEVRON = { open: "M-4-2 0 2.4 4-2", shut: "M-2-4 2.4 0-2 4" };
  const ROUND = new Set(["input", "output"]);

  class Painter {
    constructor(app, world) {
      this.app = app;
      this.layers = Object.fromEntries(["bodies", "edges", "nodes", "labels"].map((name) => [name, world.appendChild(vxg.svg("g", { class: name }))]));
      this.nodes = new Map();
      this.edges = new Map();
    }

    /** @param {object} scene laid out */
    draw(scene) {
      const before = this.nodes;
      const first = before.size === 0;
      this.nodes = new Map();
      this.glides = [];
      const [bodies, elements] = [[], []];
      const visit = (node) => {
        if (node.open) bodies.push(this.element(node, `${node.id}:body`, before));
        elements.push(this.element(node, `${node.id}${node.open ? ":open" : ""}`, before));
        node.children.forEach(visit);
      };
      scene.tree.forEach(visit);
      for (const element of before.values()) element.remove();
      arrange(this.layers.bodies, bodies);
      arrange(this.layers.nodes, elements);
      this.drawEdges(scene);
      this.glide(!first && scene.count <= LIVELY && !matchMedia("(prefers-reduced-motion: reduce)").matches);
    }

    /** Moves what has a new place there in a moment. Drawn step by step: hundreds of CSS transitions each take a layer of their own. */
    glide(smooth) {
      if (this.timer) this.timer.stop();
      const glides = this.glides;
      const step = (t) => {
        for (const each of glides) place(each, t);
        const late = Math.max(0, 2 * t - 1);
        for (const layer of [this.layers.edges, this.layers.labels]) layer.setAttribute("opacity", late);
      };
      if (!smooth) return step(1);
      step(0);
      this.timer = d3.timer((elapsed) => {
        step(d3.easeCubicOut(Math.min(1, elapsed / GLIDE)));
        if (elapsed >= GLIDE) this.timer.stop();
      });
    }

    element(node, key, before) {
      const body = key.endsWith(":body");
      const shape = `${node.rect.width}x${node.rect.height}`;
      let element = before.get(key);
      if (!element) element = body ? this.newBody(node) : this.newNode(node);
      else if (!body && element.dataset.shape !== shape) element.replaceChildren(...this.inside(node));
      this.glides.push({ element, body, from: before.has(key) ? element.rect : null, to: node.rect });
      before.delete(key);
      element.dataset.shape = shape;
      element.rect = node.rect;
      this.nodes.set(key, element);
      return element;
    }

    /** A frame's ground lies below the edges, its head above them. */
    newBody(node) {
      const element = vxg.svg("g", { class: `node frame kind-${node.kind}`, "data-body": node.group, "aria-hidden": "true" });
      element.append(vxg.svg("rect", { class: "body", rx: node.kind === "place" ? 14 : CORNER + 2 }));
      return this.app.paint(element, node.place);
    }

    newNode(node) {
      const isGroup = node.box === undefined;
      const element = vxg.svg("g", {
        class: `node ${node.open ? "head" : "card"} ${isGroup ? "group" : "box"} kind-${node.kind}`,
        [isGroup ? "data-group" : "data-box"]: isGroup ? node.group : node.box,
        tabindex: 0,
        role: "button",
        "aria-label": node.full.join(", "),
        "aria-expanded": isGroup && vxg.model.folds(this.app.model, node.group) ? String(node.open) : null,
      });
      this.app.paint(element, node.place).append(...this.inside(node));
      return element;
    }

    inside(node) {
      if (node.kind === "place" && node.open) return this.placeFrame(node);
      return node.open ? this.openFrame(node) : this.card(node);
    }

    card(node) {
      const { width, height } = node.rect;
      const isGroup = node.box === undefined;
      const rx = ROUND.has(node.kind) ? 16 : CORNER;
      const behind = node.kind === "repeat" ? [8, 4] : node.kind === "layer" || node.kind === "run" ? [4] : [];
      const parts = behind.map((off) => vxg.svg("rect", { class: "body behind", x: off, y: off, width, height, rx }));
      parts.push(vxg.svg("rect", { class: "body", width, height, rx }));
      if (!ROUND.has(node.kind)) parts.push(vxg.svg("path", { class: "strip", d: `M4 0H${CORNER}V${height}H${CORNER}A${CORNER} ${CORNER} 0 0 1 0 ${height - CORNER}V${CORNER}A${CORNER} ${CORNER} 0 0 1 ${CORNER} 0Z` }));
      if (isGroup && vxg.model.folds(this.app.model, node.group)) parts.push(foldButton(width - 17, 17, false));
      const room = width - (isGroup ? 22 : 0);
      node.texts.forEach((text, i) => {
        const y = 7 + 14 + i * vxg.layout.LINE_STEP + (i ? 3 : 0);
        parts.push(vxg.svg("text", { class: i ? "line" : "title", x: (i ? width : room) / 2 + 2, y, "text-anchor": "middle" }, text));
      });
      return parts;
    }

    openFrame(node) {
      const { width } = node.rect;
      const parts = [
        vxg.svg("rect", { class: "handle", x: 1, y: 1, width: width - 2, height: 30, rx: CORNER }),
        vxg.svg("text", { class: "title", x: 32, y: 21 }, vxg.layout.clip(node.full[0], "title", width - 46)),
      ];
      if (node.full.length > 1) parts.push(vxg.svg("text", { class: "line", x: 32, y: 37 }, vxg.layout.clip(node.full[1], "line", width - 46)));
      if (node.kind === "loop") parts.push(vxg.svg("path", { class: "icon", d: "M21 13a5.5 5.5 0 1 0 .6 4.6M21.6 10v4h-4" }));
      else parts.push(foldButton(17, 16, true));
      return parts;
    }

    placeFrame(node) {
      const { width } = node.rect;
      const { name, memory, use } = this.app.data.places[node.place] || { name: node.full[0] };
      const title = node.full[0] || name;
      const parts = [
        vxg.svg("rect", { class: "handle", x: 2, y: 2, width: width - 4, height: 58, rx: 12 }),
        vxg.svg("path", { class: "glyph", d: this.app.glyph(node.place), transform: "translate(18 16) scale(1.2)" }),
        vxg.svg("text", { class: "place-title", x: 40, y: 28 }, vxg.layout.clip(title, "place", width - 60)),
      ];
      const total = use ? USES.reduce((sum, key) => sum + (use[key] || 0), 0) : 0;
      const said = total ? `${this.app.bytes(total)}${memory ? ` in ${memory}` : ""}` : node.full[1] || "";
      parts.push(vxg.svg("text", { class: "line", x: 18, y: 46 }, vxg.layout.clip(said, "line", width - 36)));
      if (total) parts.push(useBar(use, total, width - 36));
      return parts;
    }

    drawEdges(scene) {
      const [lines, labels] = [[], []];
      this.edges = new Map();
      for (const edge of scene.edges.values()) {
        if (!edge.d) continue;
        const line = edgeElement(edge);
        lines.push(line);
        const parts = [line];
        if (edge.spot) labels.push(parts[1] = labelElement(edge));
        this.edges.set(edge.id, parts);
      }
      this.layers.edges.replaceChildren(...lines);
      this.layers.labels.replaceChildren(...labels);
    }

    /** The element of a visible id that has the focus and the name: a card or a frame's head. */
    find(id) {
      return this.nodes.get(id) || this.nodes.get(`${id}:open`);
    }
    /** All elements of a visible id or an edge's. */
    parts(id) {
      return this.edges.get(id) || [this.find(id), this.nodes.get(`${id}:body`)].filter(Boolean);
    }
  }

  /** An element on its way at time `t` of 0..1: from its old rectangle, or out of nothing. */
  function place({ element, body, from, to }, t) {
    const mix = (key) => (from ? from[key] + (to[key] - from[key]) * t : to[key]);
    element.setAttribute("transform", `translate(${mix("x")} ${mix("y")})`);
    if (!from) element.setAttribute("opacity", t);
    if (!body) return;
    element.firstChild.setAttribute("width", mix("width"));
    element.firstChild.setAttribute("height", mix("height"));
  }

  /** Puts `elements` in order into `layer` and touches none that is in place: a moved element would lose its focus. */
  function arrange(layer, elements) {
    let next = layer.firstChild;
    for (const element of elements) {
      if (element === next) next = next.nextSibling;
      else layer.insertBefore(element, next);
    }
  }

  function foldButton(x, y, open) {
    return vxg.svg("g", { class: "fold", transform: `translate(${x} ${y})` }, vxg.svg("circle", { r: 9 }), vxg.svg("path", { d: open ? CHEVRON.open : CHEVRON.shut }));
  }

  function useBar(use, total, width) {
    const bar = vxg.svg("g", { class: "use", transform: "translate(18 53)" }, vxg.svg("rect", { class: "trough", width, height: 4, rx: 2 }));
    let x = 0;
    for (const key of USES.filter((each) => use[each])) {
      const part = (use[key] / total) * width;
      bar.append(vxg.svg("rect", { x, width: Math.max(1, part - 0.5), height: 4, class: `use-${key}` }));
      x += part;
    }
    return bar;
  }

  function edgeElement(edge) {
    const { d } = edge;
    return vxg.svg("g", { class: `edge ${edge.kind}${edge.later ? " later" : ""}`, "data-edge": edge.id }, vxg.svg("path", { class: "hit", d }), vxg.svg("path", { class: "wire", d, "marker-end": `url(#head-${edge.kind})` }));
  }

  function labelElement(edge) {
    const { x, y, width, height } = edge.spot;
    return vxg.svg(
      "g",
      { class: `edge-label ${edge.kind}`, "data-edge": edge.id, transform: `translate(${x} ${y})`, tabindex: 0, role: "button", "aria-label": edge.label },
      vxg.svg("rect", { width, height, rx: height / 2 }),
      vxg.svg("text", { x: width / 2, y: height / 2 + 4, "text-anchor": "middle" }, edge.label),
    );
  }

  /** Arrow heads, one for each kind of edge (a marker cannot take its line's colour everywhere). */
  function heads() {
    return vxg.svg("defs", {}, ...["plain", "host", "peer"].map((kind) => vxg.svg("marker", { id: `head-${kind}`, class: `head ${kind}`, viewBox: "0 0 10 10", refX: 9, refY: 5, markerUnits: "userSpaceOnUse", markerWidth: kind === "peer" ? 12 : 9, markerHeight: kind === "peer" ? 12 : 9, orient: "auto" }, vxg.svg("path", { d: "M0 .8 10 5 0 9.2Z" }))));
  }

  vxg.Painter = Painter;
  vxg.arrowHeads = heads;
})();

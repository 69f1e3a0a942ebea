/**
 * Where everything goes: sizes from text, positions from ELK (layered), which runs in a worker so that the page stays
 * alive meanwhile.
 *
 * Places are columns from left to right, each laid out downward by itself (and only when its fold state changes); what
 * crosses from one to another is routed between them (`vxg.route`). So the way down is time, and the way across is a
 * transfer.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
  const FONTS = { title: `600 12.5px ${FONT}`, line: `11px ${MONO}`, place: `650 15px ${FONT}`, label: `600 11.5px ${FONT}` };
  const MIN_WIDTH = 84;
  const MAX_WIDTH = 216;
  const MAX_FRAME = 280;
  const PLACE_WIDTH = 200;
  const TITLE_STEP = 20;
  const LINE_STEP = 15;
  const MAX_LINES = 3;
  const PILE = 12;
  const FAN = 5;
  const brush = document.createElement("canvas").getContext("2d");
  const widths = new Map();

  function textWidth(text, font) {
    const key = `${font}|${text}`;
    if (!widths.has(key)) {
      brush.font = FONTS[font];
      widths.set(key, brush.measureText(text).width);
    }
    return widths.get(key);
  }

  /** `text`, with its middle left out where it is wider than `room` pixels: names differ at both ends. */
  function clip(text, font, room) {
    if (text.length < 400 && textWidth(text, font) <= room) return text;
    const letters = [...text.slice(0, 200), ...(text.length > 400 ? text.slice(-200) : text.slice(200))];
    let [low, high] = [1, letters.length];
    const cut = (n) => `${letters.slice(0, Math.ceil(n * 0.6)).join("")}…${letters.slice(letters.length - Math.floor(n * 0.4)).join("")}`;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (textWidth(cut(middle), font) <= room) low = middle;
      else high = middle - 1;
    }
    return cut(low);
  }

  /** `%layers.3.q` in the frame `layers.3` is `.q`. */
  function brief(name, parent) {
    const prefix = parent && `${parent.full[0]}.`;
    const bare = name.replace(/^%/, "");
    return prefix && bare.startsWith(prefix) ? bare.slice(prefix.length - 1) : name;
  }

  /** Adds `texts` (clipped) and, where it is not a frame, width and height. */
  function sizeOf(app, node, parent) {
    const from = node.box === undefined ? app.model.groups[node.group] : app.data.boxes[node.box];
    const texts = node.box === undefined ? [from.title.replace(/^(\d+) x /, "$1 × "), ...from.lines] : from.lines.length ? from.lines : [from.name];
    node.kind = from.kind;
    node.place = from.place;
    node.bare = texts.length === 1 && !app.data.places[from.place]?.use;
    node.full = texts;
    const extra = node.box === undefined ? 22 : 0;
    node.texts = [brief(texts[0], parent), ...texts.slice(1, 1 + MAX_LINES)].map((text, i) => clip(text, i ? "line" : "title", MAX_WIDTH - 26 - (i ? 0 : extra)));
    const wide = Math.max(...node.texts.map((text, i) => textWidth(text, i ? "line" : "title") + (i ? 0 : extra)));
    node.width = Math.ceil(Math.max(MIN_WIDTH, wide + 26));
    node.height = 14 + TITLE_STEP + LINE_STEP * (node.texts.length - 1);
    if (node.open) node.least = node.kind === "place" ? PLACE_WIDTH : Math.min(MAX_FRAME, Math.ceil(Math.max(textWidth(texts[0], "title") + 58, textWidth(texts[1] ?? "", "line") + 46)));
    node.children.forEach((child) => sizeOf(app, child, node));
  }

  const OPTIONS = {
    "elk.algorithm": "layered",
    "elk.direction": "DOWN",
    "elk.hierarchyHandling": "INCLUDE_CHILDREN",
    "elk.edgeRouting": "ORTHOGONAL",
    "elk.json.edgeCoords": "ROOT",
    "elk.json.shapeCoords": "ROOT",
    "elk.aspectRatio": "0.4",
    "elk.layered.feedbackEdges": "true",
    "elk.layered.mergeEdges": "true",
    "elk.layered.nodePlacement.favorStraightEdges": "true",
    "elk.layered.thoroughness": "5",
    "elk.spacing.nodeNode": "24",
    "elk.spacing.edgeNode": "14",
    "elk.spacing.edgeEdge": "10",
    "elk.spacing.componentComponent": "22",
    "elk.layered.spacing.nodeNodeBetweenLayers": "32",
    "elk.layered.spacing.edgeNodeBetweenLayers": "12",
    "elk.layered.spacing.edgeEdgeBetweenLayers": "10",
    "elk.edgeLabels.inline": "true",
    "elk.nodeSize.constraints": "MINIMUM_SIZE",
  };
  const PLAIN = new Set(["elk.algorithm", "elk.direction", "elk.hierarchyHandling", "elk.json.edgeCoords", "elk.json.shapeCoords", "elk.padding"]);
  const PADDING = { place: "[top=72,left=18,bottom=20,right=18]", bare: "[top=52,left=18,bottom=20,right=18]", lined: "[top=60,left=16,bottom=18,right=16]", plain: "[top=44,left=16,bottom=18,right=16]" };

  function elkNode(node) {
    const made = { id: node.id, width: node.width, height: node.height };
    if (!node.open) return made;
    const padding = node.kind === "place" ? (node.bare ? PADDING.bare : PADDING.place) : node.full.length > 1 ? PADDING.lined : PADDING.plain;
    // ELK takes a frame's least size as (height, width) where it lays out downward.
    made.layoutOptions = { ...OPTIONS, "elk.padding": padding, "elk.nodeSize.minimum": `(60, ${node.least})` };
    made.children = node.children.map(elkNode);
    return made;
  }

  /** Visible id -> the root (column) that it stands in. */
  function columnsOf(tree) {
    const found = new Map();
    const walk = (node, column) => {
      found.set(node.id, column);
      node.children.forEach((child) => walk(child, column));
    };
    tree.forEach((node, column) => walk(node, column));
    return found;
  }

  /** Everything that a column's layout depends on. */
  function keyOf(node) {
    return node.open ? `${node.id}(${node.children.map(keyOf).join(" ")})` : node.id;
  }

  /** Positions from ELK's answer, relative to the column: node id -> rectangle, edge id -> {points, spot}. */
  function readBack(answer) {
    const rects = new Map();
    const lines = new Map();
    const walk = (node) => {
      const at = node === answer ? { x: 0, y: 0 } : node;
      rects.set(node.id, { x: at.x, y: at.y, width: node.width, height: node.height });
      for (const edge of node.edges || []) lines.set(edge.id, lineOf(edge));
      (node.children || []).forEach(walk);
    };
    walk(answer);
    return { rects, lines };
  }

  function lineOf({ sections, labels }) {
    const points = (sections || []).flatMap(({ startPoint, bendPoints, endPoint }) => [startPoint, ...(bendPoints || []), endPoint]);
    const [label] = labels || [];
    return { points, spot: label ? { x: label.x, y: label.y, width: label.width, height: label.height } : null };
  }

  /** The worker has its text from the page itself: a file has no other address that it may load scripts from. */
  function startEngine() {
    const text = document.getElementById("elk-worker").textContent;
    try {
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      return new window.ELK({ workerFactory: () => new Worker(url) });
    } catch {
      return engineInPage(text);
    }
  }

  /** Some notebooks' frames forbid workers: then the same script runs here, in a function of its own. */
  function engineInPage(text) {
    window.vxgElk = { exports: {} };
    document.head.append(vxg.el("script", {}, `(function(module,exports){${text}\n})(window.vxgElk,window.vxgElk.exports)`));
    return new window.ELK({ workerFactory: () => new window.vxgElk.exports.Worker() });
  }

  let engine = null;
  const kept = new Map();

  /**
   * Parts edges that ELK lays out from those of hubs, which would each take a track of their own beside all layers: they
   * run down a rail at the column's left (`vxg.route`). ELK keeps a hub's nearest edge, for the order from above to below.
   */
  function partHubs(edges) {
    const by = { src: new Map(), dst: new Map() };
    for (const edge of edges) for (const end of ["src", "dst"]) by[end].set(edge[end], [...(by[end].get(edge[end]) || []), edge]);
    const rails = new Map();
    for (const [end, near] of [["src", 0], ["dst", -1]]) {
      for (const [hub, all] of by[end]) {
        if (all.length > FAN) all.forEach((edge) => (edge !== all.at(near) || edge.later) && rails.set(edge, rails.get(edge) ?? `${end} ${hub}`));
      }
    }
    const names = [...new Set(rails.values())];
    for (const [edge, name] of rails) edge.rail = names.indexOf(name);
    return { led: edges.filter((edge) => !rails.has(edge)), railed: [...rails.keys()], rails: names.length };
  }

  /** @returns {Promise<{rects: Map, lines: Map}>} of one column, from memory where its fold state was laid out before */
  async function layColumn(node, edges) {
    if (!node.open) return { rects: new Map([[node.id, { x: 0, y: 0, width: node.width, height: node.height }]]), lines: new Map() };
    const key = keyOf(node);
    if (!kept.has(key)) {
      const { led, railed, rails } = partHubs(edges);
      const graph = { ...elkNode(node), edges: [...led.map(elkEdge), ...pile(node, edges)] };
      const left = 18 + vxg.route.RAIL * rails;
      graph.layoutOptions["elk.padding"] = graph.layoutOptions["elk.padding"].replace(/left=\d+/, `left=${left}`);
      // At the root it takes the width for both: `widen` does it then.
      delete graph.layoutOptions["elk.nodeSize.minimum"];
      const laid = widen(node, readBack(await attempt(graph)));
      vxg.route.railAll(node, laid, railed);
      kept.set(key, laid);
    }
    return kept.get(key);
  }

  /** A column is at least as wide as its title; what is in it stands in its middle. */
  function widen(node, laid) {
    const frame = laid.rects.get(node.id);
    const shift = Math.max(0, (node.least - frame.width) / 2);
    for (const rect of laid.rects.values()) if (rect !== frame) rect.x += shift;
    for (const { points, spot } of laid.lines.values()) for (const point of spot ? [...points, spot] : points) point.x += shift;
    frame.width += 2 * shift;
    return laid;
  }

  /** ELK's finer options have failed on some nested graphs: then it lays out with the plain ones. */
  function attempt(graph) {
    return engine.layout(graph).catch(() => engine.layout(plainer(graph)));
  }
  function plainer(node) {
    const options = node.layoutOptions && Object.fromEntries(Object.entries(node.layoutOptions).filter(([key]) => PLAIN.has(key)));
    return { ...node, layoutOptions: options, children: node.children?.map(plainer), edges: node.edges?.map(({ layoutOptions, ...edge }) => edge) };
  }

  /** An edge to the next step gives way where edges run in circles (MODEL_ORDER would say so, but fails in nested frames). */
  function elkEdge(edge) {
    const priority = { "elk.layered.priority.direction": edge.later ? "0" : "10" };
    return { id: edge.id, sources: [edge.src], targets: [edge.dst], labels: labelOf(edge), layoutOptions: priority };
  }

  /** Edges that are not drawn: parts of a column that have nothing to do with each other stand below each other, not in one row. */
  function pile(node, edges) {
    const parts = partsOf(node, edges);
    const links = [];
    for (let i = 1; i < parts.length; i++) {
      if (i % PILE) links.push({ id: `pile-${i}`, sources: [leaf(parts[i - 1].at(-1), -1)], targets: [leaf(parts[i][0], 0)] });
    }
    return links;
  }
  const leaf = (node, which) => (node.children.length ? leaf(node.children.at(which), which) : node.id);

  /** The column's direct children in connected parts, in order. */
  function partsOf(node, edges) {
    const owner = new Map();
    const own = (each, child) => {
      owner.set(each.id, child);
      each.children.forEach((inner) => own(inner, child));
    };
    node.children.forEach((child) => own(child, child));
    const root = new Map(node.children.map((child) => [child, child]));
    const find = (child) => (root.get(child) === child ? child : find(root.get(child)));
    for (const { src, dst } of edges) root.set(find(owner.get(dst)), find(owner.get(src)));
    const parts = new Map();
    for (const child of node.children) parts.set(find(child), [...(parts.get(find(child)) || []), child]);
    return [...parts.values()];
  }

  function labelOf(edge) {
    const size = labelSize(edge);
    return size ? [{ id: `${edge.id}:l`, text: "x", ...size }] : [];
  }

  function labelSize(edge) {
    return edge.label ? { width: Math.ceil(textWidth(edge.label, "label")) + 20, height: 22 } : null;
  }

  /**
   * @param {object} scene from vxg.model.visible, its edges with their `label`
   * @returns {Promise<{width: number, height: number}>} the scene's nodes then have a `rect`, its edges a path `d` and the `spot` of their label
   */
  async function layOut(app, scene) {
    start();
    scene.tree.forEach((node) => sizeOf(app, node, null));
    const columns = columnsOf(scene.tree);
    const inside = scene.tree.map(() => []);
    const across = [];
    for (const edge of scene.edges.values()) {
      const [from, to] = [columns.get(edge.src), columns.get(edge.dst)];
      if (from === to) inside[from].push(edge);
      else across.push({ edge, from, to, label: labelSize(edge) });
    }
    const laid = await Promise.all(scene.tree.map((node, i) => layColumn(node, inside[i])));
    return vxg.route.assemble(scene, laid, inside, across);
  }

  function start() {
    engine = engine || startEngine();
  }

  vxg.layout = { layOut, clip, textWidth, start, LINE_STEP };
})();

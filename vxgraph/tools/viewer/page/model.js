/**
 * What the graph view can draw, apart from how: the forest of groups, what is visible in a fold state, and the edges
 * between what is visible.
 *
 * Ids: a box is `12`, a group `g3`, an edge `g3-12`.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  /** Children of one group that are still drawn side by side; more are split into runs of at most RUN. */
  const WIDE = 60;
  const RUN = 40;
  const FRAMES = new Set(["place", "loop"]);

  function build(data) {
    const model = { data, groups: data.groups.map((group) => ({ ...group })), parent: data.boxes.map((box) => box.parent) };
    list(model);
    for (let g = 0; g < data.groups.length; g++) splitWide(model, g);
    list(model);
    measure(model);
    model.out = data.boxes.map(() => []);
    model.into = data.boxes.map(() => []);
    data.edges.forEach((edge, e) => {
      model.out[edge.src].push(e);
      model.into[edge.dst].push(e);
    });
    return model;
  }

  /** Children of every group, and the roots. */
  function list(model) {
    model.kids = model.groups.map(() => ({ groups: [], boxes: [] }));
    model.roots = { groups: [], boxes: [] };
    model.groups.forEach((group, g) => (group.parent < 0 ? model.roots : model.kids[group.parent]).groups.push(g));
    model.parent.forEach((group, b) => (group < 0 ? model.roots : model.kids[group]).boxes.push(b));
  }

  /** Sums over all boxes in a group, children first; groups may stand in any order. */
  function measure(model) {
    model.sums = model.groups.map(() => null);
    const sum = (g) => {
      if (model.sums[g]) return model.sums[g];
      const { groups, boxes } = model.kids[g];
      const total = { boxes: boxes.length, first: Math.min(Infinity, ...boxes), predicted: null, observed: null };
      for (const b of boxes) addTimes(total, model.data.boxes[b]);
      for (const child of groups) {
        const part = sum(child);
        total.boxes += part.boxes;
        total.first = Math.min(total.first, part.first);
        addTimes(total, part);
      }
      return (model.sums[g] = total);
    };
    model.groups.forEach((_, g) => sum(g));
  }

  function addTimes(total, part) {
    for (const key of ["predicted", "observed"]) {
      if (part[key] !== null && part[key] !== undefined) total[key] = (total[key] || 0) + part[key];
    }
  }

  /** A group with hundreds of direct boxes becomes nested runs, so that no fold state draws hundreds at once by surprise. */
  function splitWide(model, g) {
    let items = model.kids[g].boxes;
    if (items.length <= WIDE) return;
    let put = (b, run) => (model.parent[b] = run);
    let sizeOf = () => 1;
    const sizes = new Map();
    while (items.length > WIDE) {
      const runs = [];
      for (let at = 0; at < items.length; at += RUN) runs.push(addRun(model, g, items.slice(at, at + RUN), put, sizeOf, sizes));
      items = runs;
      put = (inner, run) => (model.groups[inner].parent = run);
      sizeOf = (inner) => sizes.get(inner);
    }
  }

  function addRun(model, g, items, put, sizeOf, sizes) {
    const run = model.groups.length;
    const count = items.reduce((total, item) => total + sizeOf(item), 0);
    model.groups.push({ title: `${count} ops`, kind: "run", parent: g, place: model.groups[g].place, lines: [], open: false });
    sizes.set(run, count);
    for (const item of items) put(item, run);
    return run;
  }

  const folds = (model, g) => !FRAMES.has(model.groups[g].kind);

  /** Groups from the root down to (and with) `g`. */
  function pathOf(model, g) {
    const path = [];
    for (let at = g; at >= 0; at = model.groups[at].parent) path.unshift(at);
    return path;
  }

  /** For every group the id of the folded group that hides its inside, or null. */
  function covers(model, open) {
    const found = new Map();
    const cover = (g) => {
      if (g < 0) return null;
      if (!found.has(g)) found.set(g, cover(model.groups[g].parent) ?? (folds(model, g) && !open.has(g) ? `g${g}` : null));
      return found.get(g);
    };
    model.groups.forEach((_, g) => cover(g));
    found.set(-1, null);
    return found;
  }

  /**
   * What is drawn: a tree of {id, group, open, place, children} and {id, box}, and the edges between them.
   * @returns {{tree: object[], edges: Map<string, object>, count: number, rep: string[]}}
   */
  function visible(model, open) {
    const cover = covers(model, open);
    const rep = model.parent.map((group, b) => cover.get(group) ?? String(b));
    let count = 0;
    const node = (g) => {
      const isOpen = !folds(model, g) || open.has(g);
      count += 1;
      return { id: `g${g}`, group: g, open: isOpen, children: isOpen ? inside(model.kids[g]) : [] };
    };
    const inside = ({ groups, boxes }) => {
      count += boxes.length;
      const all = [...groups.map((g) => [model.sums[g].first, node(g)]), ...boxes.map((b) => [b, { id: String(b), box: b, open: false, children: [] }])];
      return all.sort((a, b) => a[0] - b[0]).map(([, each]) => each);
    };
    const tree = inside(model.roots).sort((a, b) => homeless(model, b) - homeless(model, a));
    return { tree, edges: merge(model, rep), count, rep };
  }

  /** 1 for the host and for what has no place: args come from there, so it stands first. */
  function homeless(model, node) {
    const { place } = node.box === undefined ? model.groups[node.group] : model.data.boxes[node.box];
    return ["host", "not placed"].includes(model.data.places[place]?.name) ? 1 : 0;
  }

  /** Edges between the same two visible ends are one; an edge inside a folded group is none. */
  function merge(model, rep) {
    const edges = new Map();
    model.data.edges.forEach((edge, e) => {
      const [src, dst] = [rep[edge.src], rep[edge.dst]];
      if (src === dst) return;
      const id = `${src}-${dst}`;
      let drawn = edges.get(id);
      if (!drawn) edges.set(id, (drawn = { id, src, dst, later: true, moves: new Set(), members: [] }));
      drawn.later = drawn.later && edge.later;
      drawn.members.push(e);
      for (const move of edge.moves || []) drawn.moves.add(move);
    });
    for (const drawn of edges.values()) drawn.moves = [...drawn.moves];
    return edges;
  }

  /** How many nodes are drawn if all is unfolded below `g` (or everywhere). */
  function fullSize(model, g) {
    if (g === undefined) return model.groups.length + model.parent.length;
    return 1 + model.kids[g].boxes.length + model.kids[g].groups.reduce((total, child) => total + fullSize(model, child), 0);
  }

  vxg.model = { build, visible, folds, pathOf, fullSize };
})();

/**
 * Puts the columns side by side and leads what crosses between them: out of a box sideways, through the gap between two
 * columns, where its label is, into the other box sideways.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  const GAP = 52;
  const BEND = 38;
  const LABEL_STEP = 28;
  const STEP = 14;
  const RAIL = 9;

  /**
   * @param {object} scene @param {{rects: Map, lines: Map}[]} laid one per column
   * @param {object[][]} inside the edges of each column @param {{edge, from, to, label}[]} across the others
   * @returns {{width: number, height: number}}
   */
  function assemble(scene, laid, inside, across) {
    const boxes = scene.tree.map((node, i) => laid[i].rects.get(node.id));
    const lefts = spread(boxes, across);
    const tops = align(boxes, laid, across);
    const lift = lanes(across, boxes, tops, laid) * LABEL_STEP;
    tops.forEach((_, i) => (tops[i] += lift));
    for (const each of across) if (each.lane !== undefined) each.lane += lift;
    const put = (node, i) => {
      const rect = laid[i].rects.get(node.id);
      node.rect = { ...rect, x: rect.x + lefts[i], y: rect.y + tops[i] };
      node.children.forEach((child) => put(child, i));
    };
    scene.tree.forEach(put);
    inside.forEach((edges, i) => edges.forEach((edge) => settle(edge, laid[i].lines.get(edge.id), lefts[i], tops[i])));
    const frames = scene.tree.map((node) => node.rect);
    crossAll(across, scene.tree, frames);
    return sizeOf(frames, across);
  }

  function sizeOf(frames, across) {
    const height = Math.max(1, ...frames.map((rect) => rect.y + rect.height), ...across.map(({ edge }) => (edge.spot ? edge.spot.y + edge.spot.height : 0)));
    return { width: Math.max(1, ...frames.map((rect) => rect.x + rect.width)), height };
  }

  /** The gap (its left column) that an edge's label stands in: the first on its way. */
  const home = ({ from, to }) => (from < to ? from : from - 1);

  function spread(boxes, across) {
    const gaps = boxes.map(() => GAP);
    for (const each of across) gaps[home(each)] = Math.max(gaps[home(each)], (each.label?.width ?? 0) + 2 * BEND);
    let x = 0;
    return boxes.map((box, i) => {
      const left = x;
      x += box.width + gaps[i];
      return left;
    });
  }

  /** Moves a column down toward what it gets from earlier ones, never beyond the tallest column's foot. */
  function align(boxes, laid, across) {
    const tallest = Math.max(...boxes.map((box) => box.height));
    const tops = boxes.map(() => 0);
    boxes.forEach((box, i) => {
      const middle = (column, id) => laid[column].rects.get(id).y + laid[column].rects.get(id).height / 2;
      const wanted = across.filter(({ from, to }) => to === i && from < i).map(({ edge, from }) => tops[from] + middle(from, edge.src) - middle(i, edge.dst));
      wanted.sort((a, b) => a - b);
      const shift = wanted.length ? wanted[Math.floor(wanted.length / 2)] : 0;
      tops[i] = Math.max(0, Math.min(tallest - box.height, shift));
    });
    return tops;
  }

  /**
   * An edge that passes other columns does so above or below them, each in a lane of its own (`lane`, its height).
   * @returns {number} how many pass above
   */
  function lanes(across, boxes, tops, laid) {
    const used = { above: 0, below: 0 };
    for (const each of across) {
      const [low, high] = [Math.min(each.from, each.to), Math.max(each.from, each.to)];
      if (high - low < 2) continue;
      const foot = Math.max(...boxes.slice(low + 1, high).map((box, i) => tops[low + 1 + i] + box.height));
      const y = (column, id) => tops[column] + laid[column].rects.get(id).y;
      const sum = y(each.from, each.edge.src) + y(each.to, each.edge.dst);
      const side = sum < foot ? "above" : "below";
      used[side] += 1;
      each.lane = side === "above" ? -LABEL_STEP * (used.above - 0.4) : foot + LABEL_STEP * used.below;
    }
    return used.above;
  }

  /** Edges of hubs: out of the left side, down a rail that they share, into the left side. */
  function railAll(node, laid, edges) {
    const cards = [leaves(node).map(({ id }) => ({ id, rect: laid.rects.get(id) }))];
    const last = Math.max(0, ...edges.map((edge) => edge.rail));
    for (const edge of edges) {
      const x = 12 + RAIL * (last - edge.rail);
      const [src, dst] = [edge.src, edge.dst].map((id) => ({ id, column: 0, ...laid.rects.get(id) }));
      src.at = src.y + src.height * 0.62;
      dst.at = dst.y + dst.height * 0.38;
      const out = detour(src, false, cards, src.y + src.height + STEP);
      const into = detour(dst, false, cards, dst.y - STEP);
      laid.lines.set(edge.id, { points: [...hook(src, out), { x, y: out }, { x, y: into }, ...hook(dst, into).reverse()], spot: null });
    }
  }

  /** From a card's left side to height `y` beside it. */
  function hook({ x, at }, y) {
    return y === at ? [{ x, y }] : [{ x, y: at }, { x: x - 7, y: at }, { x: x - 7, y }];
  }

  /** An edge inside a column, as ELK led it. */
  function settle(edge, line, x, y) {
    const points = line.points.map((point) => ({ x: point.x + x, y: point.y + y }));
    edge.d = points.length > 1 ? roundPath(points, 7) : "";
    edge.spot = line.spot && { ...line.spot, x: line.spot.x + x, y: line.spot.y + y };
  }

  function crossAll(across, tree, frames) {
    const cards = tree.map(leaves);
    const rects = cards.map((all) => new Map(all.map((node) => [node.id, node.rect])));
    for (const each of across) {
      each.ends = [[each.from, each.edge.src], [each.to, each.edge.dst]].map(([column, id]) => ({ id, column, ...rects[column].get(id) }));
    }
    fan(across);
    for (const [gap, edges] of groupBy(across, home)) {
      const middle = (frames[gap].x + frames[gap].width + frames[gap + 1].x) / 2;
      stack(edges);
      for (const each of edges) cross(each, frames, middle, cards);
    }
  }

  const leaves = (node) => (node.open ? node.children.flatMap(leaves) : [node]);

  function groupBy(items, keyOf) {
    const found = new Map();
    for (const item of items) found.set(keyOf(item), [...(found.get(keyOf(item)) || []), item]);
    return found;
  }

  /** Edges at the same side of the same box leave it at different heights, in the order of their other ends. */
  function fan(across) {
    const sides = new Map();
    for (const each of across) {
      each.ends.forEach((end, i) => {
        const key = `${end.id} ${(each.from < each.to) === (i === 0)}`;
        sides.set(key, [...(sides.get(key) || []), { end, other: each.ends[1 - i] }]);
      });
    }
    for (const side of sides.values()) {
      side.sort((a, b) => a.other.y - b.other.y);
      side.forEach(({ end }, i) => (end.at = end.y + (end.height * (i + 1)) / (side.length + 1)));
    }
  }

  /** Heights of the labels in one gap: as near to the middle of their edges as their neighbours allow. */
  function stack(edges) {
    const wanted = (each) => each.lane ?? (each.ends[0].at + each.ends[1].at) / 2;
    const sorted = [...edges].sort((a, b) => wanted(a) - wanted(b));
    const blocks = [];
    for (const each of sorted) {
      blocks.push({ edges: [each], centre: wanted(each) });
      while (blocks.length > 1 && overlap(blocks.at(-2), blocks.at(-1))) {
        const [above, below] = blocks.splice(-2);
        const count = above.edges.length + below.edges.length;
        blocks.push({ edges: [...above.edges, ...below.edges], centre: (above.centre * above.edges.length + below.centre * below.edges.length) / count });
      }
    }
    for (const { edges: block, centre } of blocks) block.forEach((each, i) => (each.y = centre + (i - (block.length - 1) / 2) * LABEL_STEP));
  }

  const overlap = (above, below) => above.centre + (above.edges.length * LABEL_STEP) / 2 > below.centre - (below.edges.length * LABEL_STEP) / 2;

  function cross(each, frames, middle, cards) {
    const right = each.from < each.to;
    const way = right ? 1 : -1;
    const [src, dst] = each.ends;
    const side = (rect, far) => (far ? rect.x + rect.width : rect.x);
    const leave = side(frames[each.from], right);
    const enter = side(frames[each.to], !right);
    const half = ((each.label?.width ?? 0) / 2) * way;
    const last = each.lane === undefined ? middle + half : enter - BEND * way;
    const out = step(side(src, right), src.at, way, detour(src, right, cards, src.y + src.height + STEP));
    const into = step(side(dst, !right), dst.at, -way, detour(dst, !right, cards, dst.y - STEP));
    const through = `H${leave}${swing(leave, out.y, middle - half, each.y)}H${last}${swing(last, each.y, enter, into.y)}`;
    each.edge.d = `M${out.x} ${src.at}${out.turn}${through}${into.back}`;
    each.edge.spot = each.label && { ...each.label, x: middle - each.label.width / 2, y: each.y - each.label.height / 2 };
  }

  /** The height beside a card's row, where another card of the row stands in the way; otherwise its own. */
  function detour(end, right, cards, beside) {
    const blocks = ({ id, rect }) => id !== end.id && rect.y < end.at && rect.y + rect.height > end.at && (right ? rect.x > end.x : rect.x < end.x);
    return cards[end.column].some(blocks) ? beside : end.at;
  }

  /** From a card's side to height `y`, and back. */
  function step(x, at, way, y) {
    if (y === at) return { x, y, turn: "", back: `H${x}` };
    const [near, far] = [x + 12 * way, x + 18 * way];
    const bend = y > at ? 6 : -6;
    return { x, y, turn: `Q${near} ${at} ${near} ${at + bend}V${y - bend}Q${near} ${y} ${far} ${y}`, back: `H${far}Q${near} ${y} ${near} ${y - bend}V${at + bend}Q${near} ${at} ${x} ${at}` };
  }

  function swing(x, y, toX, toY) {
    const half = (x + toX) / 2;
    return `C${half} ${y} ${half} ${toY} ${toX} ${toY}`;
  }

  /** A polyline with round corners. */
  function roundPath(points, radius) {
    let d = `M${points[0].x} ${points[0].y}`;
    for (let i = 1; i < points.length - 1; i++) {
      const [before, here, after] = [points[i - 1], points[i], points[i + 1]];
      const [a, b] = [toward(here, before, radius), toward(here, after, radius)];
      d += `L${a.x} ${a.y}Q${here.x} ${here.y} ${b.x} ${b.y}`;
    }
    const last = points[points.length - 1];
    return `${d}L${last.x} ${last.y}`;
  }

  function toward(from, to, radius) {
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const part = Math.min(radius, length / 2) / length;
    return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
  }

  vxg.route = { assemble, railAll, RAIL };
})();

// How queues are painted: the time axis, a lane per queue, slices and their flows, memory under each topology.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const { fit, widthOf, ticks: roundIn, inkOn } = vxg.plot;
  const { firstAfter } = vxg.lanes;
  const FONT = "11px system-ui, sans-serif";
  const BOLD = "600 12px system-ui, sans-serif";
  const LEFT = 148; // pixels, the names of the queues
  const TOP = 42; // pixels, the axis and the names of the sections

  vxg.timelineBox = { LEFT, TOP };

  vxg.paintTimeline = (view, pen, width, height) => {
    pen.font = FONT;
    pen.textBaseline = "middle";
    view.drawn = 0;
    const box = view.area();
    clip(pen, 0, TOP, width, height - TOP, () => {
      for (const row of view.rows) paintRow(view, pen, box, row);
      paintMarked(view, pen, box);
      paintFlows(view, pen);
    });
    clip(pen, LEFT, 0, width - LEFT, height, () => {
      paintAxis(view, pen, box);
      paintSections(view, pen, box);
    });
  };

  function clip(pen, x, y, width, height, paint) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    paint();
    pen.restore();
  }

  function fill(pen, colour, x, y, width, height) {
    pen.fillStyle = colour;
    pen.fillRect(x, y, width, height);
  }

  function text(pen, colour, words, x, y, align = "left") {
    pen.fillStyle = colour;
    pen.textAlign = align;
    pen.fillText(words, x, y);
  }

  function paintRow(view, pen, box, row) {
    const y = view.rowY(row);
    if (y > box.bottom || y + row.height < box.top) return;
    if (row.kind === "head") paintHead(view, pen, row, y);
    else if (row.kind === "memory") paintMemory(view, pen, box, row, y);
    else paintLane(view, pen, box, row, y);
  }

  function paintHead(view, pen, row, y) {
    const colour = row.place < 0 ? view.colours.muted : view.app.colour(row.place, "line");
    fill(pen, colour, 0, y + 5, 4, row.height - 8);
    pen.font = BOLD;
    text(pen, view.colours.ink, fit(pen, row.name, LEFT - 20), 11, y + row.height / 2 + 1);
    pen.font = FONT;
  }

  function paintLane(view, pen, box, row, y) {
    const { colours } = view;
    fill(pen, colours.panel, LEFT, y, box.right - LEFT, row.height - 1);
    if (row.first) text(pen, colours.ink, row.queue, 11, y + row.height / 2);
    if (view.shown.length > 1) text(pen, colours.muted, row.which, LEFT - 8, y + row.height / 2, "right");
    clip(pen, LEFT, y, box.right - LEFT, row.height, () => {
      paintBands(view, pen, row, y);
      if (row.lane) paintSlices(view, pen, box, row, y);
    });
  }

  /** Every second section shaded, where sections are wide enough to tell. */
  function paintBands(view, pen, row, y) {
    row.made.timeline.sections.forEach((section, i) => {
      const [x, right] = [view.px(section.start), view.px(section.end)];
      if (right - x < 4 || i % 2) return;
      fill(pen, view.colours.band, x, y, right - x, row.height - 1);
    });
  }

  /** Slices of under two pixels share a column: the longest gives the colour, what they cover the strength. */
  function paintSlices(view, pen, box, row, y) {
    const { lane } = row;
    const height = row.height - 2;
    const column = { at: -1, longest: -1, seconds: 0, covered: 0 };
    const each = view.x.length / (box.right - box.left); // seconds per pixel
    for (let k = firstAfter(lane, view.x.lo); k < lane.starts.length && lane.starts[k] < view.x.hi; k += 1) {
      const [x, right] = [view.px(lane.starts[k]), view.px(lane.ends[k])];
      view.drawn += 1;
      if (right - x >= 2) {
        flush(view, pen, column, y, height, each, row);
        paintSlice(view, pen, row, lane.rows[k], Math.max(x, LEFT), y, Math.min(right, box.right), height);
        continue;
      }
      if (Math.floor(x) !== column.at) flush(view, pen, column, y, height, each, row);
      const seconds = lane.ends[k] - lane.starts[k];
      column.at = Math.floor(x);
      column.covered += seconds;
      if (seconds >= column.seconds) [column.seconds, column.longest] = [seconds, lane.rows[k]];
    }
    flush(view, pen, column, y, height, each, row);
  }

  function flush(view, pen, column, y, height, each, row) {
    if (column.at < 0) return;
    pen.globalAlpha = Math.min(1, 0.45 + (0.55 * column.covered) / each);
    fill(pen, view.colourOf(row.made, column.longest), column.at, y, 1, height);
    pen.globalAlpha = 1;
    Object.assign(column, { at: -1, longest: -1, seconds: -1, covered: 0 });
  }

  function paintSlice(view, pen, row, slice, x, y, right, height) {
    const gap = right - x > 5 ? 1 : 0;
    const colour = view.colourOf(row.made, slice);
    fill(pen, colour, x, y, right - x - gap, height);
    const room = right - x - 8;
    if (room < 16) return;
    const words = fit(pen, view.nameOf(row.made, slice), room);
    if (words) text(pen, inkOn(colour), words, x + 4, y + height / 2 + 0.5);
  }

  /** What is selected over a veil on all the rest; what is under the pointer with an outline. */
  function paintMarked(view, pen, box) {
    const marked = view.markedIn(box);
    if (view.anyMarked) {
      pen.globalAlpha = 0.6;
      fill(pen, view.colours.ground, LEFT, TOP, box.right - LEFT, box.bottom - TOP);
      pen.globalAlpha = 1;
    }
    for (const { row, slice } of marked) outline(view, pen, box, row, slice, view.colours.accent);
    if (view.hovered) outline(view, pen, box, view.hovered.row, view.hovered.slice, view.colours.ink);
  }

  function outline(view, pen, box, row, slice, colour) {
    const [, start, seconds] = row.made.timeline.slices[slice];
    const x = Math.max(LEFT, view.px(start));
    const right = Math.min(box.right, Math.max(view.px(start + seconds), x + 2));
    if (right <= LEFT || x >= box.right) return;
    const y = view.rowY(row);
    paintSlice(view, pen, row, slice, x, y, right, row.height - 2);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.strokeRect(x - 0.5, y - 0.5, right - x + 1, row.height - 1);
  }

  function paintFlows(view, pen) {
    pen.lineWidth = 1.5;
    for (const { from, to } of view.flows()) {
      const [x1, y1, x2, y2] = [view.px(from.end), from.y, view.px(to.start), to.y];
      const bend = Math.max(14, Math.min(80, Math.abs(x2 - x1) / 2));
      pen.strokeStyle = pen.fillStyle = view.colours.ink;
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 5, y2);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x2, y2);
      pen.lineTo(x2 - 7, y2 - 4);
      pen.lineTo(x2 - 7, y2 + 4);
      pen.fill();
    }
  }

  const UNITS = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];

  function paintAxis(view, pen, box) {
    const { x, colours } = view;
    fill(pen, colours.ground, LEFT, 0, box.right - LEFT, TOP);
    const ticks = roundIn(x.lo, x.hi, Math.max(2, (box.right - LEFT) / 110));
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : x.length;
    const [unit, scale] = UNITS.find(([, size]) => x.hi >= size) ?? UNITS[3];
    const digits = Math.max(0, Math.min(12, Math.ceil(-Math.log10(step / scale) - 1e-6)));
    for (const tick of ticks) {
      const at = Math.round(view.px(tick)) + 0.5;
      fill(pen, colours.line, at, TOP - 20, 1, 5);
      pen.globalAlpha = 0.35;
      fill(pen, colours.line, at, TOP, 1, box.bottom - TOP);
      pen.globalAlpha = 1;
      text(pen, colours.muted, `${(tick / scale).toFixed(digits)} ${unit}`, at, TOP - 30, tick === 0 ? "left" : "center");
    }
  }

  /** Names of load, run and loop steps under the axis; those of the first timeline where two are shown. */
  function paintSections(view, pen, box) {
    const { colours, shown } = view;
    let free = LEFT;
    const digits = shown[0].made.timeline.sections.reduce((most, { title }) => Math.max(most, title.split(" ").at(-1).length), 0);
    for (const section of shown[0].made.timeline.sections) {
      const [x, right] = [Math.max(LEFT, view.px(section.start)), Math.min(box.right, view.px(section.end))];
      if (right - x < 3 || right < free) continue;
      fill(pen, colours.band, x, TOP - 15, right - x - 1, 13);
      text(pen, colours.muted, titleOf(pen, section.title, right - x - 7, digits), x + 4, TOP - 8);
      free = right;
    }
  }

  /** `loop %x step 3`, or `step 3`, or `3`, or nothing: what there is room for. */
  function titleOf(pen, title, room, digits) {
    const words = title.split(" ");
    const ending = [title, words.slice(-2).join(" ")].find((one) => widthOf(pen, one) <= room);
    return ending ?? (widthOf(pen, "0".repeat(digits)) <= room ? words.at(-1) : "");
  }

  function paintMemory(view, pen, box, row, y) {
    const { colours, app } = view;
    const [lo, hi] = extent(row.series);
    const base = y + row.height - 4;
    text(pen, colours.muted, "memory", 11, y + 11);
    const [first, second] = extentWords(app, lo, hi);
    text(pen, colours.muted, first, LEFT - 8, y + 11, "right");
    text(pen, colours.muted, second, LEFT - 8, y + 26, "right");
    const heightOf = (bytes) => ((bytes - lo) / (hi - lo || 1)) * (row.height - 8);
    clip(pen, LEFT, y, box.right - LEFT, row.height, () => {
      fill(pen, colours.panel, LEFT, y, box.right - LEFT, row.height - 3);
      row.series.forEach((series, i) => paintSeries(view, pen, box, row, series, base, heightOf, i > 0));
    });
  }

  function extentWords(app, lo, hi) {
    if (lo <= 0) return ["to", app.bytes(hi)];
    const alike = app.bytes(lo) === app.bytes(hi);
    return alike ? [app.bytes(lo), `and ${app.bytes(hi - lo)}`] : [`${app.bytes(lo)} to`, app.bytes(hi)];
  }

  /** The axis starts at 0 unless nearly all of it is in use all the time. */
  function extent(series) {
    let [lo, hi] = [Infinity, 0];
    for (const { points } of series) for (const [, bytes] of points) [lo, hi] = [Math.min(lo, bytes), Math.max(hi, bytes)];
    return lo > 0.6 * hi && hi > lo ? [Math.floor(lo - 0.1 * (hi - lo)), hi] : [0, hi];
  }

  /** Steps as a path; of the points that share a pixel only the least, the most and the last are drawn. */
  function traceSteps(view, pen, box, points, base, heightOf) {
    const first = Math.max(0, points.findLastIndex(([time]) => time <= view.x.lo));
    let column = { x: view.px(points[first][0]), low: base, high: base, last: base };
    pen.moveTo(column.x, base);
    const flush = () => {
      for (const y of [column.low, column.high, column.last]) pen.lineTo(column.x, y);
    };
    for (let i = first; i < points.length; i += 1) {
      const x = view.px(points[i][0]);
      const y = base - heightOf(points[i][1]);
      if (x - column.x < 1) column = { ...column, low: Math.max(column.low, y), high: Math.min(column.high, y), last: y };
      else {
        flush();
        pen.lineTo(x, column.last);
        column = { x, low: y, high: y, last: y };
      }
      if (x > box.right) break;
    }
    flush();
    pen.lineTo(Math.max(column.x, Math.min(box.right, view.px(view.end()))), column.last);
  }

  function paintSeries(view, pen, box, row, { points }, base, heightOf, over) {
    pen.beginPath();
    traceSteps(view, pen, box, points, base, heightOf);
    pen.strokeStyle = row.place < 0 ? view.colours.muted : view.app.colour(row.place, "line");
    pen.setLineDash(over ? [3, 3] : []);
    pen.lineWidth = 1.2;
    pen.stroke();
    pen.setLineDash([]);
    if (over) return;
    pen.lineTo(Math.min(box.right, view.px(view.end())), base);
    pen.globalAlpha = 0.22;
    pen.fillStyle = pen.strokeStyle;
    pen.fill();
    pen.globalAlpha = 1;
  }
})();

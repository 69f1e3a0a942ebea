// How the memory plan is painted: bands, slots, axes, the area of live bytes, the peak and the ends of arena and capacity.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const { fit, widthOf, count, ticks: roundIn, inkOn } = vxg.plot;
  const { BOX, STRIP, REGION } = vxg.plan;
  const FONT = "11px system-ui, sans-serif";
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

  vxg.paintMemory = (view, pen, width, height) => {
    pen.font = FONT;
    pen.textBaseline = "middle";
    const box = view.area();
    paintMarks(view, pen, box);
    clipped(pen, box, () => {
      paintRegions(view, pen, box);
      paintSlots(view, pen, box);
      paintEnds(view, pen, box);
    });
    paintAddresses(view, pen, box);
    paintPositions(view, pen, box);
    paintLive(view, pen, box);
    paintPeak(view, pen, box);
  };

  function clipped(pen, box, paint) {
    pen.save();
    pen.beginPath();
    pen.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    pen.clip();
    paint();
    pen.restore();
  }

  function line(pen, colour, x1, y1, x2, y2, dash = []) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1;
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
    pen.setLineDash([]);
  }

  function text(pen, colour, words, x, y, align = "left") {
    pen.fillStyle = colour;
    pen.textAlign = align;
    pen.fillText(words, x, y);
  }

  /** Load and loops as bands behind everything, with their names at the top. */
  function paintMarks(view, pen, box) {
    const { colours, data } = view;
    pen.fillStyle = colours.panel;
    pen.fillRect(box.left, BOX.top - STRIP, box.right - box.left, box.bottom - BOX.top + STRIP);
    data.marks.forEach((mark, i) => {
      const x = Math.max(box.left, view.px(mark.first));
      const right = Math.min(box.right, view.px(mark.last + 1));
      if (right <= x) return;
      pen.fillStyle = colours.band;
      pen.fillRect(x, BOX.top - STRIP - 18, right - x, box.bottom - BOX.top + STRIP + 18);
      line(pen, colours.line, x, BOX.top - STRIP - 18, x, box.bottom);
      line(pen, colours.line, right, BOX.top - STRIP - 18, right, box.bottom);
      const inner = data.marks.slice(i + 1).find((one) => one.first >= mark.first && one.last <= mark.last);
      const end = inner ? Math.min(right, view.px(inner.first)) : right;
      text(pen, colours.ink, fit(pen, mark.title, end - x - 8), x + 5, BOX.top - STRIP - 9);
    });
  }

  function paintRegions(view, pen, box) {
    const { colours, scale } = view;
    for (const region of scale.regions.slice(1)) {
      const y = Math.round(view.partPx(region.from)) + 0.5;
      line(pen, colours.ground, box.left, y, box.right, y);
      line(pen, colours.muted, box.left, y, box.right, y, [2, 4]);
    }
  }

  function paintSlots(view, pen, box) {
    const { plan, data, fills, hatches, colours, marked } = view;
    const dim = marked.size > 0 && plan.slots.some((i) => marked.has(i));
    const big = [];
    const frame = view.frame();
    view.drawn = 0;
    for (const i of plan.slots) {
      const slot = data.slots[i];
      const rect = view.rect(i, frame);
      if (!view.inSight(rect, box)) continue;
      view.drawn += 1;
      const [x, y, width, height] = cut(rect, box);
      const gap = width > 4 && height > 4 ? 1 : 0;
      pen.globalAlpha = dim && !marked.has(i) ? 0.35 : 1;
      pen.fillStyle = fills[slot.kind];
      pen.fillRect(x, y, width - gap, height - gap);
      if (width > 7 && height > 7) big.push([slot, i, x, y, width - gap, height - gap]);
    }
    for (const [slot, i, x, y, width, height] of big) {
      if (hatches[slot.kind]) fillWith(pen, hatches[slot.kind], x, y, width, height);
      if (height >= 13 && width >= 24) label(pen, fills[slot.kind], slot, dim && !marked.has(i), x, y, width, height);
    }
    pen.globalAlpha = 1;
    outline(view, pen, box);
  }

  function fillWith(pen, fill, x, y, width, height) {
    pen.fillStyle = fill;
    pen.fillRect(x, y, width, height);
  }

  /** The name on a plate of the slot's own colour, so that strokes do not cross it. */
  function label(pen, fill, slot, dim, x, y, width, height) {
    const words = fit(pen, slot.value, width - 8);
    if (!words) return;
    pen.globalAlpha = dim ? 0.45 : 1;
    const middle = y + Math.min(height / 2, 40);
    fillWith(pen, fill, x + 2, middle - 6, widthOf(pen, words) + 5, 12);
    text(pen, inkOn(fill), words, x + 4, middle + 0.5);
  }

  function cut([x, y, width, height], box) {
    const [left, top] = [Math.max(x, box.left), Math.max(y, box.top)];
    return [left, top, Math.max(1, Math.min(x + width, box.right) - left), Math.max(1, Math.min(y + height, box.bottom) - top)];
  }

  function outline(view, pen, box) {
    const { data, marked, hovered, chosen, colours } = view;
    for (const i of [...marked, hovered]) {
      if (i < 0 || data.slots[i].place !== view.plan.place) continue;
      const rect = view.rect(i);
      if (!view.inSight(rect)) continue;
      const [x, y, width, height] = cut(rect, box);
      pen.strokeStyle = marked.has(i) ? colours.accent : colours.ink;
      pen.lineWidth = i === chosen ? 3 : 2;
      pen.strokeRect(x - 1, y - 1, width + 1, height + 1);
    }
  }

  /** Where arena and capacity end, where the axis reaches that far. */
  function paintEnds(view, pen, box) {
    const { plan, app, colours, scale } = view;
    const top = scale.regions.at(-1).hi;
    const ends = [["arena", plan.arena], ["capacity", plan.memory?.capacity]];
    for (const [name, at] of ends) {
      if (!at || at > top || view.mode !== "scale") continue;
      const y = Math.round(view.py(at)) + 0.5;
      line(pen, colours.accent, box.left, y, box.right, y, name === "arena" ? [6, 3] : []);
      text(pen, colours.ink, `${name} ${app.bytes(at)}`, box.right - 6, y + (y > box.top + 16 ? -8 : 9), "right");
    }
  }

  /** A step of a power of two bytes, such that ticks stand some 44 pixels apart. */
  function stepOf(nbytes, pixels) {
    return 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, (nbytes * 44) / Math.max(1, pixels)))));
  }

  function short(nbytes) {
    const power = nbytes < 1 ? 0 : Math.min(4, Math.floor(Math.log2(nbytes) / 10));
    return `${Number((nbytes / 1024 ** power).toFixed(2))} ${UNITS[power]}`;
  }

  function paintAddresses(view, pen, box) {
    for (const region of view.scale.regions) {
      const bottom = Math.min(box.bottom, view.partPx(region.from));
      const top = Math.max(box.top, view.partPx(region.to));
      if (bottom - top < 2) continue;
      paintTicks(view, pen, box, region, top, bottom);
    }
    line(pen, view.colours.line, box.left + 0.5, box.top, box.left + 0.5, box.bottom);
    paintRegionNames(view, pen, box);
  }

  /** Ticks count from the region's start where that is not 0, with a + before them. */
  function paintTicks(view, pen, box, region, top, bottom) {
    const at = (y) => view.scale.address(view.y.lo + ((box.bottom - y) / (box.bottom - box.top)) * view.y.length);
    const [lo, hi] = [Math.max(region.lo, at(bottom)) - region.lo, Math.min(region.hi, at(top)) - region.lo];
    const step = stepOf(hi - lo, bottom - top);
    for (let tick = Math.ceil(lo / step) * step; tick <= hi; tick += step) {
      const y = Math.round(view.py(region.lo + tick)) + 0.5;
      if (y > box.bottom + 1 || y < box.top || (tick > 0 && y < top + 12 && region.to < 1)) continue;
      line(pen, view.colours.line, box.left - 4, y, box.left, y);
      const words = tick === 0 || region.lo === 0 ? short(region.lo + tick) : `+${short(tick)}`;
      text(pen, view.colours.muted, words, box.left - 8, y, "right");
    }
  }

  function paintRegionNames(view, pen, box) {
    const { colours, app, scale } = view;
    if (scale.regions.length < 2) return;
    for (const region of scale.regions) {
      const [bottom, top] = [Math.min(box.bottom, view.partPx(region.from)), Math.max(box.top, view.partPx(region.to))];
      if (bottom - top < 18) continue;
      const words = `${region.name} ${app.bytes(region.hi - region.lo)}, own scale`;
      pen.globalAlpha = 0.9;
      fillWith(pen, colours.panel, box.left + 1, top + 2, widthOf(pen, words) + 12, 16);
      pen.globalAlpha = 1;
      text(pen, colours.ink, words, box.left + 6, top + 10.5);
    }
  }

  function paintPositions(view, pen, box) {
    const { colours, x, data } = view;
    line(pen, colours.line, box.left, box.bottom + 0.5, box.right, box.bottom + 0.5);
    const each = (box.right - box.left) / x.length;
    const ticks = roundIn(x.lo, x.hi, Math.max(2, (box.right - box.left) / 110)).filter(Number.isInteger);
    for (const tick of ticks) {
      const at = Math.round(view.px(tick)) + 0.5;
      line(pen, colours.line, at, box.bottom, at, box.bottom + 4);
      const side = at - box.left < 40 ? "left" : box.right - at < 40 ? "right" : "center";
      text(pen, colours.muted, count(tick), at, box.bottom + 12, side);
      const room = each * (ticks.length > 1 ? ticks[1] - ticks[0] : 1) - 8;
      const words = fit(pen, data.steps[tick] ?? "", Math.min(side === "center" ? room : room / 2, 150));
      text(pen, colours.ink, words, at, box.bottom + 26, side);
    }
  }

  /** Live bytes of the region in sight; of the transient one where all are, as the others seldom change. */
  function paintLive(view, pen, box) {
    const { plan, x, mode, colours, app, fills } = view;
    const name = plan.live[mode] ? mode : "transient";
    const live = plan.live[name];
    const most = live.reduce((a, b) => Math.max(a, b), 0);
    const base = BOX.top - 4;
    const first = Math.max(0, Math.floor(x.lo));
    const last = Math.min(live.length - 1, Math.ceil(x.hi));
    const stride = Math.max(1, Math.floor((last - first) / (box.right - box.left)));
    pen.save();
    pen.beginPath();
    pen.rect(box.left, 0, box.right - box.left, base + 1);
    pen.clip();
    pen.beginPath();
    pen.moveTo(view.px(first), base);
    for (let at = first; at <= last; at += stride) {
      let top = 0;
      for (let k = at; k < Math.min(at + stride, last + 1); k += 1) top = Math.max(top, live[k]);
      const y = base - (most ? (top / most) * (STRIP - 8) : 0);
      pen.lineTo(view.px(at), y);
      pen.lineTo(view.px(at + stride), y);
    }
    pen.lineTo(view.px(last + 1), base);
    pen.closePath();
    pen.globalAlpha = 0.55;
    pen.fillStyle = fills[Object.keys(REGION).find((kind) => REGION[kind] === name)];
    pen.fill();
    pen.restore();
    line(pen, colours.line, box.left, base + 0.5, box.right, base + 0.5);
    text(pen, colours.muted, `${name} live`, box.left - 8, base - 24, "right");
    text(pen, colours.muted, `to ${app.bytes(most)}`, box.left - 8, base - 10, "right");
  }

  function paintPeak(view, pen, box) {
    const { plan, colours, app } = view;
    const at = view.px(plan.peak + 0.5);
    if (at < box.left || at > box.right) return;
    line(pen, colours.accent, at, BOX.top - STRIP, at, box.bottom, [3, 3]);
    const words = `peak ${app.bytes(plan.total[plan.peak])}`;
    const right = at + widthOf(pen, words) + 8 > box.right;
    fillWith(pen, colours.accent, right ? at - widthOf(pen, words) - 9 : at, BOX.top - STRIP, widthOf(pen, words) + 9, 14);
    text(pen, inkOn(colours.accent), words, right ? at - 5 : at + 5, BOX.top - STRIP + 7.5, right ? "right" : "left");
  }
})();

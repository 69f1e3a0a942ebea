// What the timeline view knows before it draws: lanes by topology, who follows whom, busy time, colours by op.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});

  /** A timeline's tracks as sorted arrays, and the slices of each box and move by their start. */
  function lanesOf(data, timeline) {
    const lanes = timeline.tracks.map((name) => ({ name, place: placeOf(data, name), rows: [], busy: 0 }));
    timeline.slices.forEach(([track], i) => lanes[track].rows.push(i));
    const own = { b: new Map(), m: new Map() };
    let end = 0;
    for (const lane of lanes) {
      lane.rows.sort((a, b) => timeline.slices[a][1] - timeline.slices[b][1]);
      lane.starts = Float64Array.from(lane.rows, (i) => timeline.slices[i][1]);
      lane.ends = Float64Array.from(lane.rows, (i) => timeline.slices[i][1] + timeline.slices[i][2]);
      lane.busy = lane.rows.reduce((sum, i) => sum + timeline.slices[i][2], 0);
      end = lane.ends.reduce((most, one) => Math.max(most, one), end);
    }
    timeline.slices.forEach(([, , , kind, index], i) => {
      if (!own[kind].has(index)) own[kind].set(index, []);
      own[kind].get(index).push(i);
    });
    for (const all of [...own.b.values(), ...own.m.values()]) all.sort((a, b) => timeline.slices[a][1] - timeline.slices[b][1]);
    return { timeline, lanes, own, end: end || timeline.seconds || 1e-9 };
  }

  /** The place whose name a track's begins with, the longest of them: `gpu:0.copy` is of `gpu:0`. */
  function placeOf(data, track) {
    let found = -1;
    data.places.forEach(({ name }, i) => {
      const mine = track === name || (track.startsWith(name) && /[. /]/.test(track[name.length]));
      if (mine && (found < 0 || name.length > data.places[found].name.length)) found = i;
    });
    return found;
  }

  /** Rows from top to bottom: a head per topology, its queues, its memory. `which` is predicted and observed, or one. */
  function rowsOf(data, shown) {
    const names = [...new Set(shown.flatMap(({ made }) => made.timeline.tracks))];
    const memory = (place) => shown.flatMap(({ which, made }) => memoryOf(made.timeline, place, which));
    const places = [...new Set(names.map((name) => placeOf(data, name)))].sort((a, b) => order(a) - order(b));
    const rows = [];
    let y = 0;
    const add = (row, height) => {
      rows.push({ ...row, at: y, least: height, y, height });
      y += height;
    };
    for (const place of places) {
      add({ kind: "head", place, name: place < 0 ? "other" : data.places[place].name }, 24);
      for (const name of names.filter((one) => placeOf(data, one) === place)) {
        const queue = place < 0 ? name : name.slice(data.places[place].name.length + 1) || name;
        for (const { which, made } of shown) {
          const lane = made.lanes.find((one) => one.name === name) ?? null;
          add({ kind: "lane", place, name, queue, which, made, lane, first: which === shown[0].which }, shown.length > 1 ? 19 : 26);
        }
        y += 3;
      }
      const series = memory(place);
      if (series.length) add({ kind: "memory", place, name: "memory", series }, 40);
      y += 6;
    }
    return { rows, height: y };
  }
  const order = (place) => (place < 0 ? Infinity : place);

  function memoryOf(timeline, place, which) {
    return timeline.memory.filter(([owner, points]) => owner === place && points.length).map(([, points]) => ({ which, points }));
  }

  /** The first slice of a lane that ends after a time. */
  function firstAfter(lane, time) {
    let [lo, hi] = [0, lane.ends.length];
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (lane.ends[middle] > time) hi = middle;
      else lo = middle + 1;
    }
    return lo;
  }

  /** Which boxes each move comes from and goes to, which moves each box sends and gets, and who makes what name. */
  function tiesOf(data) {
    const ties = { from: new Map(), to: new Map(), sends: new Map(), gets: new Map(), made: new Map(), brought: new Map() };
    const add = (map, key, i) => (map.has(key) ? map.get(key).push(i) : map.set(key, [i]));
    for (const { src, dst, moves } of data.edges) {
      for (const move of moves ?? []) {
        add(ties.from, move, src);
        add(ties.to, move, dst);
        add(ties.sends, src, move);
        add(ties.gets, dst, move);
      }
    }
    data.boxes.forEach((box, i) => box.made.forEach((name) => add(ties.made, name, i)));
    data.moves.forEach((move, i) => add(ties.brought, move.name, i));
    return ties;
  }

  /** Pairs of slices [from, to] around one: a move with who made it and its first use; a box with its moves. */
  function flowsOf(ties, made, slice) {
    const [, , , kind, index] = made.timeline.slices[slice];
    if (kind === "m") {
      const sources = (ties.from.get(index) ?? []).map((box) => before(made, made.own.b.get(box), slice));
      const uses = (ties.to.get(index) ?? []).map((box) => after(made, made.own.b.get(box), slice));
      return [...pairs(sources, slice), ...pairs(slice, [earliest(made, uses)])];
    }
    const into = (ties.gets.get(index) ?? []).map((move) => before(made, made.own.m.get(move), slice));
    const out = (ties.sends.get(index) ?? []).map((move) => after(made, made.own.m.get(move), slice));
    return [...pairs(into, slice), ...pairs(slice, out)].slice(0, MANY);
  }

  function pairs(from, to) {
    const all = Array.isArray(from) ? from.map((one) => [one, to]) : to.map((one) => [from, one]);
    return all.filter(([a, b]) => a !== undefined && b !== undefined);
  }
  function earliest(made, found) {
    const start = (i) => made.timeline.slices[i][1];
    return found.filter((i) => i !== undefined).reduce((a, b) => (a === undefined || start(b) < start(a) ? b : a), undefined);
  }
  const MANY = 24; // arrows at once
  const SLACK = 1e-9; // seconds: sums of floats
  const before = (made, all = [], slice) => {
    const start = made.timeline.slices[slice][1];
    return all.findLast((i) => made.timeline.slices[i][1] + made.timeline.slices[i][2] <= start + SLACK);
  };
  const after = (made, all = [], slice) => {
    const [, start, seconds] = made.timeline.slices[slice];
    return all.find((i) => made.timeline.slices[i][1] >= start + seconds - SLACK);
  };

  /** Ops by the time they take; each has its own colour until the colours run out. */
  function opsOf(data, all, colours) {
    const times = new Map();
    for (const { timeline } of all) {
      for (const [, , seconds, kind, index] of timeline.slices) {
        if (kind === "b") times.set(data.boxes[index].op, (times.get(data.boxes[index].op) ?? 0) + seconds);
      }
    }
    return [...times].sort((a, b) => b[1] - a[1]).map(([op], i) => [op, i % colours]);
  }

  vxg.lanes = { lanesOf, rowsOf, firstAfter, tiesOf, flowsOf, opsOf };
})();

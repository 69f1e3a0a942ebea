// What the memory view knows of a plan before it draws: slots by place, regions, live bytes, the fullest position.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const REGION = { param: "params", kv: "kv", activation: "transient", staging: "transient" };
  const KINDS = Object.keys(REGION);
  const BOX = { left: 94, right: 14, top: 74, bottom: 36 }; // pixels around the plot
  const STRIP = 40; // pixels, the height of the area of live bytes above it
  const ORDER = ["params", "kv", "transient"];

  /** Slots of each place that has some: [{place, slots: [index], regions, arena, live, peak}]. */
  function plansOf(data) {
    const byPlace = new Map();
    data.slots.forEach((slot, i) => {
      if (!byPlace.has(slot.place)) byPlace.set(slot.place, []);
      byPlace.get(slot.place).push(i);
    });
    return [...byPlace].sort((a, b) => a[0] - b[0]).map(([place, slots]) => planOf(data, place, slots));
  }

  function planOf(data, place, slots) {
    const end = slots.reduce((most, i) => Math.max(most, data.slots[i].offset + data.slots[i].nbytes), 0);
    const arena = Math.max(end, data.places[place].use?.arena ?? 0, 1);
    const memory = data.memories.find((one) => one.places.includes(place)) ?? null;
    const live = liveBytes(data, slots);
    const total = live.params.map((n, at) => n + live.kv[at] + live.transient[at]);
    let peak = 0;
    total.forEach((n, at) => {
      if (n > total[peak]) peak = at;
    });
    return { place, slots, arena, memory, live, total, peak, regions: regionsOf(data, slots, arena) };
  }

  /** The address ranges of params, kv and transient, or [] where they are mixed. */
  function regionsOf(data, slots, arena) {
    const found = new Map();
    for (const i of slots) {
      const { kind, offset, nbytes } = data.slots[i];
      const range = found.get(REGION[kind]) ?? { name: REGION[kind], lo: Infinity, hi: 0 };
      range.lo = Math.min(range.lo, offset);
      range.hi = Math.max(range.hi, offset + nbytes);
      found.set(REGION[kind], range);
    }
    const regions = ORDER.filter((name) => found.has(name)).map((name) => found.get(name));
    regions.sort((a, b) => a.lo - b.lo);
    if (regions.some((region, i) => i > 0 && region.lo < regions[i - 1].hi)) return [];
    regions.forEach((region, i) => {
      if (i === 0) region.lo = 0;
      region.hi = regions[i + 1]?.lo ?? Math.max(arena, region.hi);
    });
    return regions.filter((region) => region.hi > region.lo);
  }

  /** Bytes alive at each position, by region. */
  function liveBytes(data, slots) {
    const length = positions(data);
    const live = Object.fromEntries(ORDER.map((name) => [name, new Array(length + 1).fill(0)]));
    for (const i of slots) {
      const { kind, first, last, nbytes } = data.slots[i];
      live[REGION[kind]][Math.max(0, first)] += nbytes;
      live[REGION[kind]][Math.min(length - 1, Math.max(first, last)) + 1] -= nbytes;
    }
    for (const name of ORDER) {
      for (let at = 1; at < length; at += 1) live[name][at] += live[name][at - 1];
      live[name].length = length;
    }
    return live;
  }

  const positions = (data) => data.slots.reduce((most, slot) => Math.max(most, slot.last + 1), data.steps.length || 1);

  /** What is alive at a position, largest first; names that differ in their numbers only are one owner. */
  function ownersAt(data, plan, at) {
    const owners = new Map();
    for (const i of plan.slots) {
      const slot = data.slots[i];
      if (slot.first > at || slot.last < at) continue;
      const key = `${slot.kind} ${slot.value.replace(/\d+/g, "*")}`;
      const owner = owners.get(key) ?? { kind: slot.kind, slots: [], nbytes: 0 };
      owner.slots.push(i);
      owner.nbytes += slot.nbytes;
      owners.set(key, owner);
    }
    return [...owners.values()].sort((a, b) => b.nbytes - a.nbytes);
  }

  /**
   * Addresses to [0, 1] and back. "split" gives every region a share of the height, so that a few MiB of activations are
   * seen beside GiB of params; "scale" is true to scale; a region's name shows it alone.
   */
  function addresses(plan, mode) {
    const one = plan.regions.find((region) => region.name === mode);
    if (one) return scaleOf([one], [1]);
    if (mode === "split" && plan.regions.length > 1) return scaleOf(plan.regions, plan.regions.map(weight));
    return scaleOf([{ name: "all", lo: 0, hi: ceiling(plan) }], [1]);
  }
  const weight = (region) => (region.name === "transient" ? 2 : 1);

  /** As far as the axis goes to scale: the capacity, unless the arena would be lost under it. */
  function ceiling(plan) {
    const capacity = plan.memory?.capacity ?? 0;
    return capacity > plan.arena && capacity < plan.arena * 3 ? capacity * 1.02 : plan.arena * 1.04;
  }

  function scaleOf(regions, weights) {
    const all = weights.reduce((sum, one) => sum + one, 0);
    const [domain, range] = [[regions[0].lo], [0]];
    regions.forEach((region, i) => {
      domain.push(region.hi);
      range.push(range[i] + weights[i] / all);
    });
    const piece = (along, value) => Math.max(0, along.findLastIndex((one, i) => one <= value && i < along.length - 1));
    const through = (from, to, value) => {
      const i = piece(from, value);
      return to[i] + ((value - from[i]) / (from[i + 1] - from[i])) * (to[i + 1] - to[i]);
    };
    const part = (address) => through(domain, range, address);
    const address = (value) => through(range, domain, value);
    return { part, address, regions: regions.map((region, i) => ({ ...region, from: range[i], to: range[i + 1] })) };
  }

  vxg.plan = { plansOf, ownersAt, addresses, positions, REGION, KINDS, BOX, STRIP };
})();

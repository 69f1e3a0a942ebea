/**
 * The side panel: all that is known of the selection, as text and links; an overview where nothing is selected.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  const MANY = 60;
  const USES = ["params", "kv", "activations", "staging", "reserved"];
  const el = (...args) => vxg.el(...args);

  function glyph(app, place) {
    return app.paint(vxg.svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, vxg.svg("path", { d: app.glyph(place) })), place);
  }
  function placeChip(app, place) {
    return app.paint(el("span", { class: "chip place" }, glyph(app, place), placeName(app, place)), place);
  }
  const placeName = (app, place) => app.data.places[place]?.name ?? "host";

  /** @param {[string, any][]} pairs those without a value are left out */
  function facts(pairs) {
    const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
    return rows.length ? [el("dl", {}, ...rows.flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]))] : [];
  }

  function section(title, ...children) {
    return children.length ? [el("h3", {}, title), ...children] : [];
  }

  function link(app, item, place, name, what) {
    const attrs = { class: "link", type: "button", title: name, click: () => app.reveal(item) };
    return el("li", {}, el("button", attrs, glyph(app, place), el("span", { class: "name" }, name), el("span", { class: "what" }, what)));
  }
  const boxLink = (app, b) => link(app, { box: b }, app.data.boxes[b].place, app.data.boxes[b].name, app.data.boxes[b].op || app.data.boxes[b].kind);
  const groupLink = (app, g) => link(app, { group: g }, app.model.groups[g].place, app.model.groups[g].title, ops(app.model.sums[g].boxes));
  const moveLink = (app, m) => link(app, { move: m }, app.data.moves[m].dst, app.data.moves[m].name, app.bytes(app.data.moves[m].nbytes));
  const ops = (n) => `${n} ${n === 1 ? "op" : "ops"}`;

  function links(title, all, make) {
    if (!all.length) return [];
    const more = all.length > MANY ? [el("p", { class: "lead" }, `and ${all.length - MANY} more`)] : [];
    return section(all.length > 1 ? `${title} (${all.length})` : title, el("ul", {}, ...all.slice(0, MANY).map(make)), ...more);
  }

  /** Predicted and observed seconds as bars beside each other. */
  function times(app, { predicted, observed }) {
    const known = [["predicted", predicted], ["observed", observed]].filter(([, s]) => s !== null && s !== undefined);
    if (!known.length) return [];
    const most = Math.max(...known.map(([, s]) => s)) || 1;
    const rows = known.flatMap(([name, s]) => {
      const bar = el("span", {});
      bar.style.width = `${(100 * s) / most}%`;
      return [el("span", {}, name), el("span", { class: `track ${name}` }, bar), el("span", { class: "mono" }, app.seconds(s))];
    });
    const ratio = known.length === 2 && predicted > 0 ? [el("p", { class: "lead" }, `observed is ${(observed / predicted).toPrecision(3)} times the prediction`)] : [];
    return section("Time of one execution", el("div", { class: "compare" }, ...rows), ...ratio);
  }

  const text = (line) => (line ? section("Text", el("pre", { "data-testid": "text" }, line)) : []);

  function path(app, g) {
    const titles = vxg.model.pathOf(app.model, g).map((each) => app.model.groups[each].title);
    return titles.length ? [el("div", { class: "path" }, titles.join("  ›  "))] : [];
  }

  function heading(app, title, place, ...chips) {
    return [el("h2", { "data-testid": "details-title" }, title), el("div", { class: "chips" }, ...(place === null ? [] : [placeChip(app, place)]), ...chips)];
  }
  const chip = (text, kind = "") => el("span", { class: `chip ${kind}` }, text);

  function ofBox(app, b) {
    const box = app.data.boxes[b];
    const { out, into } = app.model;
    const near = (list, end) => [...new Set(list[b].map((e) => app.data.edges[e][end]))];
    const moves = [...new Set([...into[b], ...out[b]].flatMap((e) => app.data.edges[e].moves || []))];
    return [
      ...path(app, app.model.parent[b]),
      ...heading(app, box.name, box.place, chip(box.op || box.kind)),
      ...facts([
        ["type", box.types && el("code", {}, box.types)],
        ["why here", box.why],
        ["source", box.loc && el("code", {}, box.loc)],
        ["queue", box.queue && el("code", {}, box.queue)],
        ["bytes", box.nbytes ? app.bytes(box.nbytes) : ""],
        ["runs", box.count > 1 ? `${box.count} times per run at most` : ""],
        ["makes", box.made?.length ? box.made.join(", ") : ""],
      ]),
      ...times(app, box),
      ...text(box.text),
      ...links("Reads", near(into, "src"), (each) => boxLink(app, each)),
      ...links("Read by", near(out, "dst"), (each) => boxLink(app, each)),
      ...links("Transfers", moves, (each) => moveLink(app, each)),
    ];
  }

  function ofMove(app, m) {
    const move = app.data.moves[m];
    const edges = app.data.edges.filter((edge) => (edge.moves || []).includes(m));
    return [
      el("div", { class: "path" }, "transfer"),
      ...heading(app, move.name, move.src, chip("→"), placeChip(app, move.dst), chip([move.kind, move.route].filter(Boolean).join(", "), move.kind)),
      ...facts([
        ["value", el("code", {}, move.value)],
        ["type", move.type && el("code", {}, move.type)],
        ["bytes", move.count > 1 ? `${app.bytes(move.nbytes)} × ${move.count} = ${app.bytes(move.nbytes * move.count)}` : app.bytes(move.nbytes)],
        ["why", move.why],
        ["source", move.loc && el("code", {}, move.loc)],
        ["queue", move.queue && el("code", {}, move.queue)],
      ]),
      ...times(app, move),
      ...text(move.text),
      ...links("From", [...new Set(edges.map((edge) => edge.src))], (each) => boxLink(app, each)),
      ...links("To", [...new Set(edges.map((edge) => edge.dst))], (each) => boxLink(app, each)),
    ];
  }

  const total = (items, key) => items.reduce((sum, item) => (item[key] === null || item[key] === undefined ? sum : (sum ?? 0) + item[key]), null);

  function ofEdge(app, item) {
    const moves = item.moves.map((m) => app.data.moves[m]);
    const members = (item.members || []).map((e) => app.data.edges[e]);
    const nbytes = moves.reduce((sum, move) => sum + move.nbytes, 0);
    const all = moves.reduce((sum, move) => sum + move.nbytes * move.count, 0);
    const ends = moves.length ? [placeChip(app, moves[0].src), chip("→"), placeChip(app, moves[0].dst)] : [];
    const kinds = [...new Set(moves.map((move) => [move.kind, move.route].filter(Boolean).join(", ")))];
    const title = moves.length ? `${moves.length} transfers, ${app.bytes(nbytes)}` : members.length > 1 ? `${members.length} values` : "1 value";
    return [
      el("div", { class: "path" }, moves.length ? "transfers" : "values that are read"),
      el("h2", { "data-testid": "details-title" }, title),
      el("div", { class: "chips" }, ...ends, ...kinds.map((kind) => chip(kind, kind.split(",")[0]))),
      ...facts([["bytes of a run", all !== nbytes ? `${app.bytes(all)} at most` : ""]]),
      ...times(app, { predicted: total(moves, "predicted"), observed: total(moves, "observed") }),
      ...links("Each of them", item.moves, (m) => moveLink(app, m)),
      ...(moves.length ? [] : [...links("From", [...new Set(members.map((edge) => edge.src))], (b) => boxLink(app, b)), ...links("To", [...new Set(members.map((edge) => edge.dst))], (b) => boxLink(app, b))]),
    ];
  }

  function ofGroup(app, g) {
    const group = app.model.groups[g];
    const { groups, boxes } = app.model.kids[g];
    return [
      ...path(app, group.parent),
      ...heading(app, group.title, group.place, chip(group.kind), chip(ops(app.model.sums[g].boxes))),
      ...group.lines.map((line) => el("p", { class: "lead" }, line)),
      ...(group.kind === "place" ? uses(app, app.data.places[group.place]?.use) : []),
      ...times(app, app.model.sums[g]),
      ...links("Groups in it", groups, (each) => groupLink(app, each)),
      ...links("Ops in it", boxes, (each) => boxLink(app, each)),
    ];
  }

  function ofSlot(app, s) {
    const slot = app.data.slots[s];
    return [
      el("div", { class: "path" }, "memory slot"),
      ...heading(app, slot.value, slot.place, chip(slot.kind)),
      ...facts([
        ["type", slot.type && el("code", {}, slot.type)],
        ["bytes", app.bytes(slot.nbytes)],
        ["at", `${slot.offset} .. ${slot.offset + slot.nbytes}`],
        ["from", app.data.steps[slot.first]],
        ["to", app.data.steps[slot.last]],
      ]),
      ...(slot.box < 0 ? [] : links("Made by", [slot.box], (each) => boxLink(app, each))),
    ];
  }

  function uses(app, use) {
    if (!use) return [];
    return facts(USES.filter((key) => use[key]).map((key) => [key, app.bytes(use[key])]));
  }

  function memoryRow(app, memory) {
    const used = USES.reduce((sum, key) => sum + (memory[key] || 0), 0);
    const meter = el("div", { class: "meter" });
    for (const key of USES.filter((each) => memory[each])) {
      const part = el("span", { title: `${key} ${app.bytes(memory[key])}` });
      part.style.cssText = `width:${(100 * memory[key]) / (memory.capacity || used)}%;background:var(--kind-${key})`;
      meter.append(part);
    }
    const marks = memory.places.map((place) => glyph(app, place));
    const said = memory.capacity ? `${app.bytes(used)} of ${app.bytes(memory.capacity)}` : app.bytes(used);
    return el("div", {}, el("div", { class: "row" }, ...marks, el("b", {}, memory.name), el("span", { class: "what" }, said)), meter);
  }

  function legend(app) {
    const wire = (kind) => vxg.svg("svg", { viewBox: "0 0 30 14", "aria-hidden": "true" }, vxg.svg("g", { class: `edge ${kind}` }, vxg.svg("path", { class: "wire", d: "M1 7H29" })));
    const used = USES.filter((key) => app.data.memories.some((memory) => memory[key])).map((key) => {
      const swatch = vxg.svg("rect", { width: 14, height: 10, x: 8, y: 2, rx: 2 });
      swatch.style.fill = `var(--kind-${key})`;
      return [vxg.svg("svg", { viewBox: "0 0 30 14", "aria-hidden": "true" }, swatch), el("span", {}, `memory: ${key}`)];
    });
    const wires = [["peer", "transfer between devices"], ["host", "upload or download"], ["plain", "read on the same place"], ["plain later", "next step of a loop"]];
    return section("Legend", el("div", { class: "legend" }, ...wires.flatMap(([kind, what]) => [wire(kind), el("span", {}, what)]), ...used.flat()));
  }

  function overview(app) {
    const { data, model } = app;
    const places = model.roots.groups.map((g) => groupLink(app, g));
    const moved = data.moves.filter((move) => move.kind === "peer");
    return [
      el("h2", { "data-testid": "details-title" }, data.title || data.name),
      el("p", { class: "lead" }, [data.kind, ops(data.boxes.length), data.moves.length && `${data.moves.length} transfers`, moved.length && `${moved.length} between devices`].filter(Boolean).join(" · ")),
      ...data.notes.map((note) => el("p", { class: "note" }, note)),
      ...(places.length ? section("Places", el("ul", {}, ...places)) : []),
      ...(data.memories.length ? section("Memory", ...data.memories.map((memory) => memoryRow(app, memory))) : []),
      ...legend(app),
      ...facts([["machine", data.machine], ["digest", data.digest && el("code", {}, data.digest)]]),
    ];
  }

  function contents(app, item) {
    if (!item) return overview(app);
    if (item.box !== undefined) return ofBox(app, item.box);
    if (item.move !== undefined) return ofMove(app, item.move);
    if (item.slot !== undefined) return ofSlot(app, item.slot);
    if (item.group !== undefined) return ofGroup(app, item.group);
    return ofEdge(app, item);
  }

  vxg.details = {
    mount(app) {
      const panel = document.getElementById("details");
      const show = (item) => {
        panel.replaceChildren(...contents(app, item));
        panel.scrollTop = 0;
      };
      app.on("select", show);
      show(null);
    },
  };
})();

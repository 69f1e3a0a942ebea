// The transfer bill: every kind of movement with its route, how often, and its bytes; a row opens to its single moves.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const { el, empty, count, plural } = vxg.plot;
  const FEW = 100; // moves that an open row shows before it is asked for all
  const COLUMNS = [
    { id: "when", title: "When", of: (one) => one.when, text: (app, one) => WHEN[one.when] ?? one.when },
    { id: "kind", title: "Kind", of: (one) => one.kind },
    { id: "src", title: "From", of: (one) => one.src },
    { id: "dst", title: "To", of: (one) => one.dst },
    { id: "route", title: "Route", of: (one) => one.route },
    { id: "edges", title: "Transfers", number: true, of: (one) => one.edges, text: (app, one) => count(one.edges) },
    { id: "each", title: "Bytes each", number: true, of: (one) => one.nbytes / Math.max(1, one.edges * one.count), text: eachOf },
    { id: "count", title: "Times", number: true, of: (one) => one.count, text: (app, one) => count(one.count) },
    { id: "nbytes", title: "Bytes in all", number: true, of: (one) => one.nbytes, text: (app, one) => app.bytes(one.nbytes) },
    { id: "seconds", title: "Predicted", number: true, of: (one) => one.seconds ?? -1, text: secondsOf },
  ];
  const WHEN = { load: "at load", run: "each run", step: "each loop step" };

  /** How many of which size: `60 x 384.00 KiB, 1 x 4 B`; the range where there are more sizes. */
  function eachOf(app, one) {
    const sizes = new Map();
    for (const i of one.moves) sizes.set(app.data.moves[i].nbytes, (sizes.get(app.data.moves[i].nbytes) ?? 0) + 1);
    const all = [...sizes].sort((a, b) => b[0] - a[0]);
    if (all.length < 2) return all.map(([nbytes]) => app.bytes(nbytes)).join();
    if (all.length > 2) return `${app.bytes(all.at(-1)[0])} to ${app.bytes(all[0][0])}`;
    return all.map(([nbytes, times]) => `${count(times)} \u00d7 ${app.bytes(nbytes)}`).join(", ");
  }
  function secondsOf(app, one) {
    return one.seconds === null ? "" : app.seconds(one.seconds);
  }
  const cellText = (app, column, one) => (column.text ? column.text(app, one) : column.of(one));

  function mount(app) {
    const root = app.root("bill");
    if (!app.data.bill.length) {
      const what = app.data.kind === "graph" ? "There is no transfer bill to show." : "Nothing moves: this program transfers no bytes.";
      empty(root, what, app.data.notes);
      return { show() {}, hide() {} };
    }
    const view = new Bill(app, root);
    vxg.views.bill.debug = () => view.debug();
    return { show() {}, hide() {} };
  }

  class Bill {
    constructor(app, root) {
      Object.assign(this, { app, data: app.data, sort: "nbytes", down: true, open: new Set(), whole: new Set(), wanted: "", pair: null });
      this.filter = el("input", { type: "search", id: "bill-filter", placeholder: "Filter: name, place, kind, reason", "aria-label": "Filter transfers" });
      this.filter.addEventListener("input", () => this.setFilter(this.filter.value));
      this.pairButton = el("button", { type: "button", hidden: true, id: "bill-pair", click: () => this.setPair(null) });
      this.copyButton = el("button", { type: "button", id: "bill-copy", click: () => this.copy() }, "Copy as CSV");
      this.facts = el("p", { id: "bill-facts", role: "status" });
      this.head = el("tr", {});
      this.body = el("tbody", {});
      this.foot = el("tfoot", {});
      const table = el("table", { class: "vx-table vx-bill", id: "bill-table" }, el("thead", {}, this.head), this.body, this.foot);
      const bar = el("div", { class: "vx-bar" }, this.filter, this.pairButton, this.copyButton, this.facts);
      this.matrix = el("div", { class: "vx-matrix-box" }, matrix(app, app.data.bill, (src, dst) => this.setPair([src, dst])));
      root.append(el("div", { class: "vx-view" }, bar, el("div", { class: "vx-page" }, this.matrix, table)));
      app.on("select", (item) => this.select(item));
      this.fill();
      if (app.selected) this.select(app.selected);
    }

    setFilter(text) {
      this.wanted = text.trim().toLowerCase();
      this.fill();
    }
    setPair(pair) {
      this.pair = pair;
      this.pairButton.hidden = !pair;
      if (pair) this.pairButton.textContent = `${pair[0]} to ${pair[1]} \u00d7`;
      this.pairButton.setAttribute("aria-label", pair ? `Show all places again, not only ${pair[0]} to ${pair[1]}` : "");
      this.fill();
    }

    // Rows

    /** The bill's rows that pass the filter, each with the moves that do. */
    rows() {
      const column = COLUMNS.find(({ id }) => id === this.sort);
      const compare = (a, b) => (column.number ? column.of(a.one) - column.of(b.one) : String(column.of(a.one)).localeCompare(String(column.of(b.one))));
      const found = this.data.bill.flatMap((one, i) => {
        const moves = this.movesOf(one);
        return moves ? [{ one: partOf(this.data, one, moves), i, moves }] : [];
      });
      return found.sort((a, b) => (this.down ? -1 : 1) * compare(a, b) || a.i - b.i);
    }

    movesOf(one) {
      if (this.pair && (one.src !== this.pair[0] || one.dst !== this.pair[1])) return null;
      const words = `${one.when} ${WHEN[one.when] ?? ""} ${one.kind} ${one.src} ${one.dst} ${one.route}`.toLowerCase();
      if (words.includes(this.wanted)) return one.moves;
      const moves = one.moves.filter((i) => this.matches(this.data.moves[i]));
      return moves.length ? moves : null;
    }
    matches(move) {
      return [move.name, move.value, move.type, move.why, move.loc].some((text) => text.toLowerCase().includes(this.wanted));
    }

    fill() {
      const rows = this.rows();
      this.fillHead();
      this.body.replaceChildren(...rows.flatMap((row) => this.rowOf(row)));
      if (!rows.length) this.body.append(el("tr", {}, el("td", { colspan: COLUMNS.length + 1 }, `No transfer has "${this.wanted}" in it.`)));
      this.fillTotals(rows);
      this.mark();
    }

    fillHead() {
      const heads = COLUMNS.map((column) => {
        const sorted = column.id === this.sort;
        const mark = sorted ? (this.down ? " \u2193" : " \u2191") : "";
        const button = el("button", { type: "button", "data-sort": column.id, click: () => this.sortBy(column) }, `${column.title}${mark}`);
        const order = sorted ? (this.down ? "descending" : "ascending") : null;
        return el("th", { scope: "col", class: column.number ? "vx-number" : null, "aria-sort": order }, button);
      });
      this.head.replaceChildren(el("td", {}), ...heads);
    }

    sortBy(column) {
      this.down = this.sort === column.id ? !this.down : Boolean(column.number);
      this.sort = column.id;
      this.fill();
      this.head.querySelector(`[data-sort="${column.id}"]`).focus();
    }

    rowOf(row) {
      const { one, i } = row;
      const open = this.open.has(i);
      const label = `${open ? "Hide" : "Show"} the ${plural(one.edges, "transfer")} from ${one.src} to ${one.dst}`;
      const toggle = el("button", { type: "button", class: "vx-toggle", "aria-expanded": String(open), "aria-label": label, click: () => this.toggle(i) }, open ? "\u25be" : "\u25b8");
      const cells = COLUMNS.map((column) => el("td", { class: column.number ? "vx-number" : null, "data-column": column.id }, cellText(this.app, column, one)));
      const line = el("tr", { "data-bill": i, class: "vx-line" }, el("td", {}, toggle), ...cells);
      line.addEventListener("click", (event) => event.target.closest("button") || this.toggle(i));
      return open ? [line, this.movesRow(row)] : [line];
    }

    toggle(i) {
      if (!this.open.delete(i)) this.open.add(i);
      this.fill();
      this.body.querySelector(`[data-bill="${i}"] button`).focus();
    }

    movesRow({ i, moves }) {
      const whole = this.whole.has(i) || moves.length <= FEW;
      const shown = whole ? moves : moves.slice(0, FEW);
      const heads = ["Value", "Type", "Bytes", "Reason", "Source"].map((title) => el("th", { scope: "col" }, title));
      const table = el("table", { class: "vx-table vx-moves" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...shown.map((move) => this.moveRow(move))));
      const more = () => {
        this.whole.add(i);
        this.fill();
      };
      const rest = whole ? [] : [el("button", { type: "button", class: "vx-rest", click: more }, `Show all ${count(moves.length)}`)];
      return el("tr", { class: "vx-opened" }, el("td", {}), el("td", { colspan: COLUMNS.length }, table, ...rest));
    }

    moveRow(i) {
      const move = this.data.moves[i];
      const select = el("button", { type: "button", class: "vx-name", click: () => this.app.select({ move: i }) }, move.name);
      const line = el("tr", { "data-move": i }, el("th", { scope: "row" }, select));
      const texts = [move.type, this.app.bytes(move.nbytes), move.why, move.loc.split(/[\\/]/).at(-1)];
      line.append(...texts.map((text, k) => el("td", { class: k === 1 ? "vx-number" : k === 2 ? "vx-why" : null, title: k === 3 ? move.loc : null }, text)));
      line.addEventListener("click", (event) => event.target.closest("button") || this.app.select({ move: i }));
      return line;
    }

    fillTotals(rows) {
      const all = totalsOf(rows.map(({ one }) => one));
      const texts = { when: "All", edges: count(all.edges), nbytes: this.app.bytes(all.nbytes), seconds: all.seconds === null ? "" : this.app.seconds(all.seconds) };
      const cells = COLUMNS.map((column) => el("td", { class: column.number ? "vx-number" : null, "data-column": column.id }, texts[column.id] ?? ""));
      this.foot.replaceChildren(el("tr", {}, el("td", {}), ...cells));
      const peers = totalsOf(rows.map(({ one }) => one).filter(({ src, dst }) => src !== "host" && dst !== "host"));
      const between = peers.edges ? `, ${count(peers.edges)} between devices with ${this.app.bytes(peers.nbytes)}` : "";
      this.facts.textContent = `${plural(all.edges, "transfer")}, ${this.app.bytes(all.nbytes)} in all${between}.`;
    }

    // Selection and copies

    select(item) {
      const moves = item?.moves ?? (item?.move === undefined ? [] : [item.move]);
      const added = moves.length ? this.data.bill.findIndex((one, i) => one.moves.includes(moves[0]) && !this.open.has(i)) : -1;
      if (added >= 0) {
        this.open.add(added);
        if (this.data.bill[added].moves.indexOf(moves[0]) >= FEW) this.whole.add(added);
        this.fill();
      }
      this.mark(true);
    }

    mark(scroll = false) {
      const item = this.app.selected;
      const moves = new Set(item?.moves ?? (item?.move === undefined ? [] : [item.move]));
      let first = null;
      for (const line of this.body.querySelectorAll("tr[data-move]")) {
        const marked = moves.has(Number(line.dataset.move));
        line.classList.toggle("vx-marked", marked);
        if (marked) first ??= line;
      }
      if (scroll) first?.scrollIntoView({ block: "nearest" });
    }

    csv() {
      const lines = this.rows().map(({ one }) => [one.when, one.kind, one.src, one.dst, one.route, one.edges, one.count, one.nbytes, one.seconds ?? ""]);
      const all = [["when", "kind", "from", "to", "route", "transfers", "times", "bytes", "predicted_seconds"], ...lines];
      return all.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
    }

    async copy() {
      const text = this.csv();
      const done = await navigator.clipboard?.writeText(text).then(() => true, () => false);
      this.say(done || copiedBySelection(text) ? "Copied" : "This browser does not let a page copy");
    }

    say(words) {
      this.copyButton.textContent = words;
      setTimeout(() => (this.copyButton.textContent = "Copy as CSV"), 2000);
    }

    debug() {
      return { rows: this.rows().map(({ one, moves }) => ({ ...one, moves })), csv: this.csv(), open: [...this.open] };
    }
  }

  /** Bytes by source (rows) and destination (columns), darker for more; a cell calls `choose(src, dst)`. */
  function matrix(app, bill, choose) {
    const sums = new Map();
    for (const { src, dst, nbytes } of bill) sums.set(key(src, dst), (sums.get(key(src, dst)) ?? 0) + nbytes);
    const [from, to] = ["src", "dst"].map((end) => inOrder(app, new Set(bill.map((one) => one[end]))));
    const most = Math.max(1, ...sums.values());
    const corner = el("td", {}, "from \\ to");
    const head = el("tr", {}, corner, ...to.map((name) => el("th", { scope: "col" }, name)));
    const rows = from.map((src) => {
      const cells = to.map((dst) => cell(app, src, dst, sums.get(key(src, dst)), most, choose));
      return el("tr", {}, el("th", { scope: "row" }, src), ...cells);
    });
    const caption = el("caption", {}, "Bytes from place to place");
    return el("table", { class: "vx-matrix", id: "bill-matrix" }, caption, el("thead", {}, head), el("tbody", {}, ...rows));
  }

  const key = (src, dst) => JSON.stringify([src, dst]);

  function inOrder(app, names) {
    return app.data.places.map(({ name }) => name).filter((name) => names.has(name));
  }

  /** Strength goes with the logarithm: params would leave all else white. */
  function cell(app, src, dst, nbytes, most, choose) {
    if (!nbytes) return el("td", {}, "");
    const label = `${src} to ${dst}: ${app.bytes(nbytes)}`;
    const button = el("button", { type: "button", "aria-label": label, title: label, click: () => choose(src, dst) }, app.bytes(nbytes));
    const part = Math.max(0.08, (Math.log2(nbytes) - Math.log2(most) + 24) / 24);
    button.style.setProperty("--strength", `${Math.round(55 * part)}%`);
    return el("td", { "data-src": src, "data-dst": dst }, button);
  }

  /** A row for some of its moves only, with their sums. */
  function partOf(data, one, moves) {
    if (moves.length === one.moves.length) return one;
    const all = moves.map((i) => data.moves[i]);
    const timed = one.seconds !== null && all.every(({ predicted }) => predicted !== null);
    const seconds = timed ? all.reduce((sum, move) => sum + move.predicted * one.count, 0) : null;
    const nbytes = all.reduce((sum, move) => sum + move.nbytes * one.count, 0);
    return { ...one, moves, edges: moves.length, nbytes, seconds };
  }

  function totalsOf(bill) {
    const sum = (name) => bill.reduce((all, one) => all + (one[name] ?? 0), 0);
    const seconds = bill.some((one) => one.seconds !== null) ? sum("seconds") : null;
    return { edges: sum("edges"), nbytes: sum("nbytes"), seconds };
  }

  const quoted = (value) => (/[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

  /** For pages from file: where the clipboard is refused. */
  function copiedBySelection(text) {
    const box = el("textarea", { class: "vx-hidden" });
    box.value = text;
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }

  vxg.views.bill = { title: "Transfers", mount };
})();

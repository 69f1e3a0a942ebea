// Bytes from place to place as a small table: rows send, columns receive, darker is more.
"use strict";
(() => {
  const vxg = (window.vxg = window.vxg || {});
  const { el } = vxg.plot;

  /** A table of the bill's bytes by source and destination; a cell filters the bill to its pair with `choose(src, dst)`. */
  vxg.matrix = (app, bill, choose) => {
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
  };

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
})();

/**
 * Pan and zoom of an SVG (d3-zoom), and the minimap that shows where one is.
 */
"use strict";
(function () {
  const vxg = (window.vxg = window.vxg || {});
  const MARGIN = 28;
  /** Zoomed out further than this, second lines cannot be read and are not drawn. */
  const FAR = 0.36;
  const LEGIBLE = 0.45;
  const MAP = { width: 168, height: 112 };

  class Camera {
    /** @param {SVGSVGElement} svg @param {SVGGElement} world what moves @param {HTMLCanvasElement} map */
    constructor(svg, world, map) {
      Object.assign(this, { svg, world, map, size: { width: 1, height: 1 }, marks: [] });
      this.zoom = d3.zoom().scaleExtent([0.02, 4]).on("zoom", ({ transform }) => this.moved(transform));
      this.view = d3.select(svg).call(this.zoom).on("dblclick.zoom", null);
      this.at = d3.zoomIdentity;
      this.grip(map);
    }
    moved(transform) {
      this.at = transform;
      this.world.setAttribute("transform", transform.toString());
      this.svg.classList.toggle("far", transform.k < FAR);
      this.svg.style.setProperty("--grid", `${24 * transform.k}px`);
      this.svg.style.backgroundPosition = `${transform.x}px ${transform.y}px`;
      this.drawMap();
      if (this.moves) this.moves();
    }
    /** The part of the world that is in view, and a little around it. */
    seen() {
      const { width, height } = this.room();
      const x = this.at.invertX(-MARGIN);
      const y = this.at.invertY(-MARGIN);
      return { x, y, width: (width + 2 * MARGIN) / this.at.k, height: (height + 2 * MARGIN) / this.at.k };
    }
    room() {
      return { width: this.svg.clientWidth || 1, height: this.svg.clientHeight || 1 };
    }
    go(transform, smooth = true) {
      const still = !smooth || matchMedia("(prefers-reduced-motion: reduce)").matches;
      this.zoom.transform(still ? this.view.interrupt() : this.view.transition().duration(260), transform);
    }
    fit(smooth) {
      const { width, height } = this.room();
      const k = Math.min(1.15, (width - 2 * MARGIN) / this.size.width, (height - 2 * MARGIN) / this.size.height);
      const scale = Math.max(0.02, k);
      this.go(d3.zoomIdentity.translate((width - this.size.width * scale) / 2, (height - this.size.height * scale) / 2).scale(scale), smooth);
    }
    /** The top at a scale that can be read, where all of it would be too small. */
    fitTop() {
      const { width, height } = this.room();
      const k = Math.min(1, Math.max(LEGIBLE, (width - 2 * MARGIN) / this.size.width));
      if (this.size.height * k <= height) return this.fit();
      this.go(d3.zoomIdentity.translate(Math.max(MARGIN, (width - this.size.width * k) / 2), MARGIN).scale(k));
    }
    pan(dx, dy) {
      this.go(d3.zoomIdentity.translate(this.at.x + dx, this.at.y + dy).scale(this.at.k), false);
    }
    by(factor) {
      this.zoom.scaleBy(this.view.transition().duration(140), factor);
    }
    /** Screen position of a point of the world. */
    screen(point) {
      return { x: this.at.applyX(point.x), y: this.at.applyY(point.y) };
    }
    /** Puts the world's point `point` at `screen` at once. */
    pin(point, screen, k = this.at.k) {
      this.go(d3.zoomIdentity.translate(screen.x - point.x * k, screen.y - point.y * k).scale(k), false);
    }
    centre(rect, k = Math.max(this.at.k, 0.85)) {
      const { width, height } = this.room();
      this.go(d3.zoomIdentity.translate(width / 2 - (rect.x + rect.width / 2) * k, height / 2 - (rect.y + rect.height / 2) * k).scale(k));
    }
    /** Moves as little as shows the rectangle; zooms out (not below `least`) where it is larger than the view. */
    show(rect, smooth = true, least = 0.5) {
      const { width, height } = this.room();
      const k = Math.max(Math.min(this.at.k, (width - 2 * MARGIN) / rect.width, (height - 2 * MARGIN) / rect.height), Math.min(this.at.k, least));
      const shift = (near, far, room) => (far - near > room - 2 * MARGIN || near < MARGIN ? MARGIN - near : Math.min(0, room - MARGIN - far));
      const x = this.at.applyX(rect.x);
      const y = this.at.applyY(rect.y);
      const dx = shift(x, x + rect.width * k, width);
      const dy = shift(y, y + rect.height * k, height);
      if (dx || dy || k !== this.at.k) this.go(d3.zoomIdentity.translate(x + dx - rect.x * k, y + dy - rect.y * k).scale(k), smooth);
    }
    /** @param {{width: number, height: number}} size @param {object[]} marks what the minimap shows: {rect, colour, solid} */
    setScene(size, marks) {
      Object.assign(this, { size, marks });
      this.drawMap();
    }
    mapScale() {
      return Math.min(MAP.width / this.size.width, MAP.height / this.size.height);
    }
    drawMap() {
      const { width, height } = this.room();
      const whole = this.at.applyX(0) >= -2 && this.at.applyY(0) >= -2 && this.at.applyX(this.size.width) <= width + 2 && this.at.applyY(this.size.height) <= height + 2;
      this.map.hidden = whole || !this.marks.length;
      if (this.map.hidden) return;
      const pen = this.map.getContext("2d");
      const sharp = window.devicePixelRatio || 1;
      Object.assign(this.map, { width: MAP.width * sharp, height: MAP.height * sharp });
      const k = this.mapScale();
      pen.setTransform(sharp * k, 0, 0, sharp * k, (sharp * (MAP.width - this.size.width * k)) / 2, (sharp * (MAP.height - this.size.height * k)) / 2);
      for (const { rect, colour, solid } of this.marks) {
        pen.fillStyle = pen.strokeStyle = colour;
        pen.lineWidth = 1 / k;
        if (solid) pen.fillRect(rect.x, rect.y, rect.width, rect.height);
        else pen.strokeRect(rect.x, rect.y, rect.width, rect.height);
      }
      pen.strokeStyle = this.ink;
      pen.lineWidth = 1.6 / k;
      pen.strokeRect(this.at.invertX(0), this.at.invertY(0), width / this.at.k, height / this.at.k);
    }
    grip(map) {
      const jump = (event) => {
        const box = map.getBoundingClientRect();
        const k = this.mapScale();
        const x = (event.clientX - box.left - (MAP.width - this.size.width * k) / 2) / k;
        const y = (event.clientY - box.top - (MAP.height - this.size.height * k) / 2) / k;
        const { width, height } = this.room();
        this.pin({ x, y }, { x: width / 2, y: height / 2 });
      };
      map.addEventListener("pointerdown", (event) => {
        map.setPointerCapture(event.pointerId);
        jump(event);
      });
      map.addEventListener("pointermove", (event) => event.buttons && jump(event));
    }
  }

  vxg.Camera = Camera;
})();

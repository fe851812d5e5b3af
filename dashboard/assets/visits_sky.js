/* Where the telescope looked: an equal-area map around the south celestial pole, drawn here and of nothing else. */
(function (T) {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = 400;
  const RADIUS = 174; // of the map
  /** @type {[number, number][]} */
  const CAPS = [[10, 2.5], [15, 5], [20, 5], [30, 10], [45, 15], [60, 15], [90, 15], [180, 30]]; // degrees from the pole, step of its circles
  const radians = (/** @type {number} */ degrees) => (degrees * Math.PI) / 180;
  const $ = T.byId;
  let cap = 0;
  let drawn = "";

  T.drawVisitsSky = function (id, figures, live) {
    const { ra, decl, visit } = figures ? figures.columns : { ra: [], decl: [], visit: [] };
    const newest = ra.length ? { ra: ra[ra.length - 1], decl: decl[ra.length - 1], visit: visit[ra.length - 1] } : null;
    const last = live?.last || newest;
    const field = figures?.settings?.survey.field_deg ?? Number(T.settings.visits["survey.field_deg"].value);
    const stamp = id + "|" + (figures ? figures.stamp : 0) + "|" + (last ? last.visit : "");
    if (stamp === drawn) return;
    const first = drawn.split("|")[0] !== id;
    drawn = stamp;
    const svg = $("visits-sky").querySelector("svg") || build();
    const widest = Math.max(0, ...decl.map((value) => value + 90), last ? last.decl + 90 : 0) + field / 2;
    const [needed, step] = CAPS.find(([degrees]) => degrees >= widest) || CAPS[CAPS.length - 1];
    if (first || needed > cap) graticule(svg, (cap = needed), step);
    T.find(svg, ".seen").setAttribute("d", ra.map((value, i) => "M" + at(value, decl[i]) + "h0").join(""));
    T.find(svg, ".field").setAttribute("d", last ? circle(last.ra, last.decl, field / 2) : "");
    const words = last
      ? "visit " + T.count(last.visit) + " at RA " + T.number(last.ra, 1) + "°, Dec " + T.number(last.decl, 1).replace("-", "−") + "° · field " + T.plain(field) + "° across"
      : "no visit yet";
    T.text($("visits-sky-note"), words);
    svg.setAttribute("aria-label", "Map of the sky around the south celestial pole: " + words + ", " + T.count(ra.length) + " earlier pointings faint");
  };

  const distance = (/** @type {number} */ degrees) => (RADIUS * Math.sin(radians(degrees) / 2)) / Math.sin(radians(cap) / 2);

  /**
   * Lambert's projection around the pole, as seen from the ground: right ascension runs clockwise, 0 is on top.
   * @param {number} ra
   * @param {number} decl
   */
  function at(ra, decl) {
    const r = distance(decl + 90);
    return (SIZE / 2 + r * Math.sin(radians(ra))).toFixed(1) + " " + (SIZE / 2 - r * Math.cos(radians(ra))).toFixed(1);
  }

  /**
   * Of its true size: 60 points at an angle from its middle, each projected.
   * @param {number} ra
   * @param {number} decl
   * @param {number} radius
   */
  function circle(ra, decl, radius) {
    const [a, d, r] = [radians(ra), radians(decl), radians(radius)];
    const points = Array.from({ length: 60 }, (_, i) => {
      const bearing = (i * Math.PI) / 30;
      const other = Math.asin(Math.sin(d) * Math.cos(r) + Math.cos(d) * Math.sin(r) * Math.cos(bearing));
      const along = Math.atan2(Math.sin(bearing) * Math.sin(r) * Math.cos(d), Math.cos(r) - Math.sin(d) * Math.sin(other));
      return at(((a + along) * 180) / Math.PI, (other * 180) / Math.PI);
    });
    return "M" + points.join("L") + "Z";
  }

  /** @param {"svg" | "g" | "path" | "circle" | "text"} tag @param {Record<string, string | number>} attributes @param {string} [text] */
  function element(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
    if (text) made.textContent = text;
    return made;
  }

  function build() {
    const svg = element("svg", { viewBox: "0 0 " + SIZE + " " + SIZE, role: "img", class: "sky" });
    svg.append(element("g", { class: "graticule" }), element("path", { class: "seen" }), element("path", { class: "field" }));
    $("visits-sky").replaceChildren(svg);
    return svg;
  }

  /** @param {Element} svg @param {number} degrees @param {number} step */
  function graticule(svg, degrees, step) {
    const middle = SIZE / 2;
    const made = [element("circle", { class: "rim", cx: middle, cy: middle, r: RADIUS })];
    for (let ra = 0; ra < 360; ra += 30) {
      const [x, y] = [Math.sin(radians(ra)), -Math.cos(radians(ra))];
      const inner = ra % 90 ? distance(step) : 0;
      made.push(element("path", { d: "M" + (middle + inner * x) + " " + (middle + inner * y) + "L" + (middle + RADIUS * x) + " " + (middle + RADIUS * y) }));
      made.push(element("text", { x: middle + (RADIUS + 15) * x, y: middle + (RADIUS + 13) * y + 4, "text-anchor": "middle" }, ra / 15 + "h"));
    }
    for (let from = step; from < degrees; from += step) {
      const r = distance(from);
      made.push(element("circle", { cx: middle, cy: middle, r: r.toFixed(1) }));
      /* Declinations stand along 1h, where no line of right ascension runs. */
      const [x, y] = [middle + r * Math.sin(radians(15)), middle - r * Math.cos(radians(15)) + 4];
      const declination = from > 90 ? "+" + T.plain(from - 90) : "−" + T.plain(90 - from);
      made.push(element("text", { class: "decl", x, y, "text-anchor": "middle" }, declination + "°"));
    }
    T.find(svg, ".graticule").replaceChildren(...made);
  }
})(window.triggerlog);

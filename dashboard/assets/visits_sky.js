/* Where the telescope looked: an equal-area map around the south celestial pole, drawn here and of nothing else. */
(function (T) {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = 400;
  const ROOM = 174; // radius of the map
  const CAPS = [10, 15, 20, 30, 45, 60, 90]; // degrees from the pole that the map may show
  const STEPS = { 10: 2.5, 15: 5, 20: 5, 30: 10, 45: 15, 60: 15, 90: 15 };
  const FIELD_DEG = 3.5; // unless the settings are known
  const radians = (degrees) => (degrees * Math.PI) / 180;
  const $ = (id) => document.getElementById(id);
  let svg = null;
  let cap = null;
  let drawn = null;

  T.drawVisitsSky = function (id, told, live) {
    const ra = told ? told.columns.ra : [];
    const decl = told ? told.columns.decl : [];
    const last = live && live.last ? live.last : ra.length ? { ra: ra[ra.length - 1], decl: decl[ra.length - 1], visit: told.columns.visit[ra.length - 1] } : null;
    const field = told && told.settings ? told.settings.survey.field_deg : FIELD_DEG;
    const stamp = id + "|" + (told ? told.stamp : 0) + "|" + (last ? last.visit : "");
    if (stamp === drawn) return;
    const first = drawn === null || drawn.split("|")[0] !== id;
    drawn = stamp;
    if (svg === null) build();
    const widest = Math.max(0, ...decl.map((value) => value + 90), last ? last.decl + 90 : 0) + field / 2;
    const needed = CAPS.find((one) => one >= widest) || 180;
    if (first || needed > cap) graticule((cap = needed));
    path(".seen", ra.map((value, i) => dot(value, decl[i])).join(""));
    path(".field", last ? circle(last.ra, last.decl, field / 2) : "");
    const words = last
      ? "visit " + T.count(last.visit) + " at RA " + T.number(last.ra, 1) + "°, Dec " + T.number(last.decl, 1).replace("-", "−") + "° · field " + T.plain(field) + "° across"
      : "no visit yet";
    T.text($("visits-sky-note"), words);
    svg.setAttribute("aria-label", "Map of the sky around the south celestial pole: " + words + ", " + T.count(ra.length) + " earlier pointings faint");
  };

  const path = (selector, d) => svg.querySelector(selector).setAttribute("d", d);

  /* Lambert's projection around the pole, as seen from the ground: right ascension runs clockwise, 0 is on top. */
  function project(ra, decl) {
    const r = (ROOM * Math.sin(radians(decl + 90) / 2)) / Math.sin(radians(cap) / 2);
    return [SIZE / 2 + r * Math.sin(radians(ra)), SIZE / 2 - r * Math.cos(radians(ra))];
  }

  const at = (ra, decl) => project(ra, decl).map((value) => value.toFixed(1)).join(" ");
  const dot = (ra, decl) => "M" + at(ra, decl) + "h0";

  /* Of its true size: 60 points at an angle from its middle, each projected. */
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

  function element(tag, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  }

  function build() {
    svg = element("svg", { viewBox: "0 0 " + SIZE + " " + SIZE, role: "img", class: "sky" });
    svg.append(element("g", { class: "graticule" }), element("path", { class: "seen" }), element("path", { class: "field" }));
    $("visits-sky").replaceChildren(svg);
  }

  function graticule(degrees) {
    const place = svg.querySelector(".graticule");
    const middle = SIZE / 2;
    const radius = (distance) => (ROOM * Math.sin(radians(distance) / 2)) / Math.sin(radians(degrees) / 2);
    const made = [element("circle", { class: "rim", cx: middle, cy: middle, r: ROOM })];
    const step = STEPS[degrees] || 30;
    for (let distance = step; distance < degrees; distance += step) made.push(element("circle", { cx: middle, cy: middle, r: radius(distance).toFixed(1) }));
    for (let ra = 0; ra < 360; ra += 30) {
      const [x, y] = [Math.sin(radians(ra)), -Math.cos(radians(ra))];
      const inner = ra % 90 ? radius(step) : 0;
      made.push(element("path", { d: "M" + (middle + inner * x) + " " + (middle + inner * y) + "L" + (middle + ROOM * x) + " " + (middle + ROOM * y) }));
      made.push(element("text", { x: middle + (ROOM + 15) * x, y: middle + (ROOM + 13) * y + 4, "text-anchor": "middle" }, ra / 15 + "h"));
    }
    /* Declinations stand along 1h, where no line of right ascension runs. */
    for (let distance = step; distance < degrees; distance += step) {
      const r = radius(distance);
      made.push(element("text", { class: "decl", x: middle + r * Math.sin(radians(15)), y: middle - r * Math.cos(radians(15)) + 4, "text-anchor": "middle" }, "−" + T.plain(90 - distance) + "°"));
    }
    place.replaceChildren(...made);
  }
})((window.triggerlog = window.triggerlog || {}));

/* One cell per instrument: glyph, colour and words for its state; arrow keys move, Enter opens. */
(function (T) {
  "use strict";

  const STATES = Object.entries(T.settings.states);
  const LARGE = 600; // instruments that are still taken in at a glance
  /** @type {Record<string, Grid>} */
  const drawn = Object.create(null);

  T.instrumentName = (group, number) => T.section(`names/${group}`)?.[number] || group + " " + number;

  T.cell = function (address) {
    const [group, number] = address.split(":");
    return drawn[group] && drawn[group].cells[Number(number)];
  };

  /* Whether a group has its grid in sight: the chosen one, or each of a few. */
  T.hasGrid = (group) => (T.view.group ? T.view.group === group : T.groups().length <= T.settings.buttons_most);

  /** @param {Liveness} liveness */
  function drawGrids(liveness) {
    const place = T.byId("panel-" + T.view.tab).querySelector(".grids");
    if (place === null) return;
    const groups = T.groups().filter(T.hasGrid);
    for (const group of Object.keys(drawn)) {
      if (groups.includes(group)) continue;
      drawn[group].root.remove();
      delete drawn[group];
    }
    for (const group of groups) {
      const size = T.section(`group/${group}`)?.instruments || 0;
      const names = T.section(`names/${group}`) || null;
      if (!drawn[group] || drawn[group].cells.length !== size || drawn[group].names !== names) {
        if (drawn[group]) drawn[group].root.remove();
        drawn[group] = build(group, size, names);
      }
      /* One grid for the tabs that show it: a cell is where somebody looks. */
      if (drawn[group].root.parentNode !== place) place.append(drawn[group].root);
      update(drawn[group], group, T.section(`states/${group}`) || "", liveness);
      explain(drawn[group], group, T.section(`slips/${group}`) || {});
    }
  }

  /* Rows of one length, as far as possible: a last row of four cells looks like a loss of the rest. */
  const balanced = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      if (!(target instanceof HTMLElement)) continue;
      const gap = parseFloat(getComputedStyle(target).columnGap);
      const most = Math.max(1, Math.floor((contentRect.width + gap) / (Number(target.dataset.least) + gap)));
      const rows = Math.ceil(target.childElementCount / most);
      target.style.gridTemplateColumns = "repeat(" + Math.ceil(target.childElementCount / rows) + ", minmax(0, 1fr))";
    }
  });

  /**
   * What all names begin with says nothing in a cell: bpm_006 becomes 006.
   * @param {string[]} names
   */
  function common(names) {
    let prefix = names[0] || "";
    for (const name of names) while (!name.startsWith(prefix)) prefix = prefix.slice(0, -1);
    return names.length > 1 ? prefix.replace(/\d+$/, "") : "";
  }

  /** @param {string} group @param {number} size @param {string[] | null} names @returns {Grid} */
  function build(group, size, names) {
    const root = T.make("div", "panel grid-panel", undefined, { "data-group": group });
    const head = T.make("div", "panel-head");
    head.append(T.make("h2", "", group), T.make("span", "legend"));
    const label = T.section(`words/${group}`)?.grid || group;
    const grid = T.make("div", "grid", undefined, { role: "group", "aria-label": label });
    if (size > LARGE) grid.dataset.large = "";
    const prefix = names ? common(names).length : 0;
    const width = names ? Math.max(...names.map((name) => name.length - prefix)) : String(size - 1).length;
    grid.dataset.least = String(Math.round(Math.min(14, Math.max(3, width)) * 7.6 + 26));
    balanced.observe(grid);
    const cells = Array.from({ length: size }, (_, number) => {
      const full = T.instrumentName(group, number);
      return cellOf(number, full, names ? full.slice(prefix) || full : String(number));
    });
    grid.append(...cells);
    grid.addEventListener("click", (event) => {
      const number = cells.findIndex((cell) => event.target instanceof Node && cell.contains(event.target));
      if (number >= 0) T.pick(group, number);
    });
    grid.addEventListener("keydown", (event) => move(event, cells));
    grid.addEventListener("focusin", (event) => rove(event.target, cells));
    root.append(head, grid);
    return { root, cells, names, states: "", liveness: null, slips: null };
  }

  /** @param {number} number @param {string} full @param {string} label */
  function cellOf(number, full, label) {
    const cell = T.make("button", "cell", undefined, { type: "button", "data-number": String(number), title: full });
    cell.tabIndex = number === 0 ? 0 : -1;
    cell.append(T.make("span", "glyph", "", { "aria-hidden": "true" }), T.make("span", "label", label));
    return cell;
  }

  /** @param {Grid} grid @param {string} group @param {string} states @param {Liveness} liveness */
  function update(grid, group, states, liveness) {
    if (states === grid.states && liveness === grid.liveness) return;
    for (let i = 0; i < grid.cells.length; i++) {
      if (states[i] === grid.states[i] && liveness === grid.liveness) continue;
      const state = T.settings.states[states[i]] || T.settings.states.n;
      const cell = grid.cells[i];
      T.attribute(cell, "data-state", state.name);
      T.text(cell.children[0], state.name === "ok" ? "" : state.glyph);
      const said = liveness === "none" ? state.said_lost : state.said;
      T.attribute(cell, "aria-label", said.replace("{}", () => T.instrumentName(group, i)));
    }
    grid.states = states;
    grid.liveness = liveness;
    legend(T.find(grid.root, ".legend"), states);
  }

  /**
   * By how much an instrument is out of step, where the pointer rests on its cell.
   * @param {Grid} grid
   * @param {string} group
   * @param {Record<string, string>} slips
   */
  function explain(grid, group, slips) {
    if (slips === grid.slips) return;
    grid.cells.forEach((cell, number) => {
      const name = T.instrumentName(group, number);
      T.attribute(cell, "title", Object.hasOwn(slips, name) ? slips[name] : name);
    });
    grid.slips = slips;
  }

  /** @param {HTMLElement} place @param {string} states */
  function legend(place, states) {
    const entries = STATES.map(([letter, state]) => {
      const n = states.split(letter).length - 1;
      const entry = T.make("span", "entry", undefined, { "data-state": state.name, "data-none": String(n === 0) });
      const glyph = T.make("span", "glyph", state.glyph, { "aria-hidden": "true" });
      entry.append(glyph, " ", T.make("b", "", T.count(n)), " " + state.words);
      return entry;
    });
    place.replaceChildren(...entries);
  }

  /** @param {EventTarget | null} target @param {HTMLElement[]} cells */
  function rove(target, cells) {
    const chosen = cells.find((cell) => cell === target);
    if (!chosen) return;
    for (const cell of cells) if (cell.tabIndex === 0 && cell !== chosen) cell.tabIndex = -1;
    chosen.tabIndex = 0;
  }

  /** @param {KeyboardEvent} event @param {HTMLElement[]} cells */
  function move(event, cells) {
    const at = cells.findIndex((cell) => cell === document.activeElement);
    if (at < 0) return;
    const across = cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length;
    /** @type {Record<string, number>} */
    const places = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + across, ArrowUp: at - across, Home: 0, End: cells.length - 1 };
    const to = places[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (cells[to]) cells[to].focus();
  }

  T.onTab("live", drawGrids);
  T.onTab("instruments", drawGrids);
})(window.triggerlog);

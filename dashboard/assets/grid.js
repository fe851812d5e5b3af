/* One cell an instrument: glyph, colour and words for its state; arrow keys move, Enter opens. */
(function (T) {
  "use strict";

  const STATES = {
    o: { name: "ok", glyph: "", words: "ok" },
    l: { name: "late", glyph: "◐", words: "late" },
    m: { name: "missing", glyph: "✕", words: "missing" },
    d: { name: "desynchronised", glyph: "≠", words: "out of step" },
    s: { name: "silent", glyph: "▲", words: "silent" },
    n: { name: "never", glyph: "○", words: "never heard" },
  };
  const LEGEND = { o: "■" };
  const GAP = 4; // px between cells, as in grid.css
  const LARGE = 600; // instruments that still lie before one's eyes at once
  const drawn = {}; // group -> {root, cells, names, states, liveness, slips}

  T.instrumentName = function (group, number) {
    const names = T.section("names", group);
    return (names && names[number]) || group + " " + number;
  };

  T.stateWords = (letter) => ((STATES[letter] || STATES.n).glyph || LEGEND.o) + " " + (STATES[letter] || STATES.n).words;

  T.cell = function (address) {
    const [group, number] = address.split(":");
    return drawn[group] && drawn[group].cells[Number(number)];
  };

  T.drawGrids = function (liveness) {
    const place = document.querySelector("#panel-" + T.view.tab + " .grids");
    const groups = T.groups();
    for (const group of Object.keys(drawn)) {
      if (groups.includes(group)) continue;
      drawn[group].root.remove();
      delete drawn[group];
    }
    for (const group of groups) {
      const told = T.section("group", group);
      const names = T.section("names", group) || null;
      if (!drawn[group] || drawn[group].cells.length !== told.instruments || drawn[group].names !== names) {
        if (drawn[group]) drawn[group].root.remove();
        drawn[group] = build(group, told.instruments, names);
      }
      /* One grid for the tabs that show it: a cell is where somebody looks. */
      if (drawn[group].root.parentNode !== place) place.append(drawn[group].root);
      update(drawn[group], group, T.section("states", group), liveness);
      explain(drawn[group], group, T.section("slips", group) || {});
    }
  };

  /* Rows of one length, as far as may be: a last row of four cells looks like a loss of the rest. */
  const balanced = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const most = Math.max(1, Math.floor((contentRect.width + GAP) / (Number(target.dataset.least) + GAP)));
      const rows = Math.ceil(target.childElementCount / most);
      target.style.gridTemplateColumns = "repeat(" + Math.ceil(target.childElementCount / rows) + ", minmax(0, 1fr))";
    }
  });

  /* What all names begin with says nothing in a cell: bpm_006 becomes 006. */
  function common(names) {
    let prefix = names[0] || "";
    for (const name of names) while (!name.startsWith(prefix)) prefix = prefix.slice(0, -1);
    return names.length > 1 ? prefix.replace(/\d+$/, "") : "";
  }

  function build(group, size, names) {
    const root = T.make("div", "panel grid-panel");
    root.dataset.group = group;
    const head = T.make("div", "panel-head");
    head.append(T.make("h2", "", group), T.make("span", "legend"));
    const grid = T.make("div", "grid");
    grid.setAttribute("role", "group");
    grid.setAttribute("aria-label", group + ": " + size + " instruments, arrow keys move");
    if (size > LARGE) grid.dataset.large = "";
    const cells = [];
    const prefix = names ? common(names).length : 0;
    const width = names ? Math.max(...names.map((name) => name.length - prefix)) : String(size - 1).length;
    balanced.observe(grid);
    grid.dataset.least = Math.round(Math.min(14, Math.max(3, width)) * 7.6 + 26);
    for (let number = 0; number < size; number++) {
      const cell = T.make("button", "cell");
      cell.type = "button";
      cell.tabIndex = number === 0 ? 0 : -1;
      cell.dataset.number = number;
      const glyph = T.make("span", "glyph");
      glyph.setAttribute("aria-hidden", "true");
      const full = T.instrumentName(group, number);
      cell.append(glyph, T.make("span", "label", names ? full.slice(prefix) || full : String(number)));
      cell.title = full;
      cells.push(cell);
      grid.append(cell);
    }
    grid.addEventListener("click", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) T.pick(group, Number(cell.dataset.number));
    });
    grid.addEventListener("keydown", (event) => move(event, cells));
    grid.addEventListener("focusin", (event) => rove(event.target, cells));
    root.append(head, grid);
    return { root, cells, names, states: "", liveness: null, slips: null };
  }

  function update(grid, group, states, liveness) {
    if (states === grid.states && liveness === grid.liveness) return;
    const known = liveness !== "none";
    for (let i = 0; i < grid.cells.length; i++) {
      if (states[i] === grid.states[i] && liveness === grid.liveness) continue;
      const state = STATES[states[i]] || STATES.n;
      const cell = grid.cells[i];
      T.attribute(cell, "data-state", state.name);
      T.text(cell.firstChild, state.glyph);
      const words = known ? state.words : "not known, was " + state.words;
      T.attribute(cell, "aria-label", T.instrumentName(group, i) + ": " + words);
    }
    grid.states = states;
    grid.liveness = liveness;
    legend(grid.root.querySelector(".legend"), states);
  }

  /* By how much an instrument is out of step, where the pointer rests on its cell. */
  function explain(grid, group, slips) {
    if (slips === grid.slips) return;
    for (const cell of grid.cells) {
      const name = T.instrumentName(group, Number(cell.dataset.number));
      T.attribute(cell, "title", Object.hasOwn(slips, name) ? name + ": " + slips[name] : name);
    }
    grid.slips = slips;
  }

  function legend(place, states) {
    const entries = Object.entries(STATES).map(([letter, state]) => {
      const n = states.split(letter).length - 1;
      const entry = T.make("span", "entry");
      entry.dataset.state = state.name;
      entry.dataset.none = String(n === 0);
      const glyph = T.make("span", "glyph", state.glyph || LEGEND[letter]);
      glyph.setAttribute("aria-hidden", "true");
      entry.append(glyph, " ", T.make("b", "", T.count(n)), " " + state.words);
      return entry;
    });
    place.replaceChildren(...entries);
  }

  function rove(target, cells) {
    if (!target.classList.contains("cell")) return;
    for (const cell of cells) if (cell.tabIndex === 0 && cell !== target) cell.tabIndex = -1;
    target.tabIndex = 0;
  }

  function move(event, cells) {
    const at = cells.indexOf(document.activeElement);
    if (at < 0) return;
    const across = cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
    let to = null;
    if (event.key in steps) to = at + steps[event.key];
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = cells.length - 1;
    if (to === null) return;
    event.preventDefault();
    if (cells[to]) cells[to].focus();
  }

  T.onTab("live", T.drawGrids);
  T.onTab("instruments", T.drawGrids);
})((window.triggerlog = window.triggerlog || {}));

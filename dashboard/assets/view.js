/* What a person has chosen, stored in the address so that a reload, the way back or a colleague sees the same. */
(function (T) {
  "use strict";

  const RANGES = T.settings.ranges_s;
  const STORED = /** @type {(keyof View)[]} */ (["tab", "range", "group", "instrument", "pausedAt", "channel", "calibrated", "experiment", "visits", "snapshots", "tags", "type", "folder"]);
  const ALL = "All groups";
  const LEAST_S = 60; // what is shown of a run that has just begun
  const $ = T.byId;

  T.view = { tab: "live", range: "5m", group: "", instrument: null, pausedAt: null, channel: null, calibrated: null, experiment: null, visits: null, snapshots: null, tags: null, type: null, folder: null };
  const usual = Object.assign({}, T.view);
  /** @type {string | null} */
  let picked = null;
  /** @type {string | null} */
  let offered = null;
  let alone = false; // a group that was the only one was chosen by nobody

  /* From when to when the charts show: up to now, or to where they were paused. */
  T.timeRange = function () {
    const to = T.view.pausedAt === null ? T.state.newest : T.view.pausedAt;
    if (to === null) return null;
    const width = RANGES[T.view.range];
    return { from: width === null ? Math.min(T.began(T.view.group) ?? to, to - LEAST_S * 1e3) : to - width * 1e3, to };
  };

  T.readView = function () {
    read();
    window.addEventListener("popstate", () => {
      read();
      close();
      marks();
      T.showTab();
      T.redraw();
    });
    for (const button of rangeButtons()) {
      button.addEventListener("click", () => T.choose({ range: button.dataset.range }));
    }
    $("pause").addEventListener("click", T.pause);
    const header = T.find(document.body, "#page > header");
    const below = () => document.documentElement.style.setProperty("--header", Math.ceil(header.getBoundingClientRect().height) + "px");
    new ResizeObserver(below).observe(header);
    marks();
    T.showTab();
  };

  const rangeButtons = () => /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("button.range"));

  function read() {
    const asked = new URLSearchParams(location.search);
    Object.assign(T.view, Object.fromEntries(STORED.map((name) => [name, asked.get(name) || usual[name]])));
    if (!Object.hasOwn(RANGES, T.view.range)) T.view.range = usual.range;
    T.view.pausedAt = new Date(Number(T.view.pausedAt)).getTime() || null; // null of what is no time
    if (!document.getElementById("panel-" + T.view.tab)) T.view.tab = usual.tab;
  }

  /* `further`: a step that the browser's way back undoes; what is only switched there and back is none. */
  T.choose = function (change, further) {
    Object.assign(T.view, change);
    const asked = new URLSearchParams(location.search);
    const before = asked.toString();
    for (const name of STORED) {
      const value = T.view[name];
      if (value === null || (value === usual[name] && !asked.has(name))) asked.delete(name);
      else asked.set(name, String(value));
    }
    const address = asked.toString() ? "?" + asked : location.pathname;
    if (further && asked.toString() !== before) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    marks();
    T.redraw();
  };

  T.pause = () => T.choose({ pausedAt: T.view.pausedAt === null ? T.state.newest : null });

  T.stepRange = function (by) {
    const names = Object.keys(RANGES);
    const range = names[names.indexOf(T.view.range) + by];
    if (range) T.choose({ range });
  };

  function marks() {
    for (const button of rangeButtons()) {
      T.attribute(button, "aria-pressed", String(button.dataset.range === T.view.range));
    }
  }

  T.drawView = function () {
    const groups = T.groups();
    const many = groups.length > 1;
    if (groups.length && (!groups.includes(T.view.group) || (many && alone))) T.view.group = many ? "" : groups[0];
    alone = groups.length === 1;
    drawGroups(groups);
    T.complete(T.view.group);
    T.attribute($("pause"), "aria-pressed", String(T.view.pausedAt !== null));
    reopen();
  };

  /**
   * The groups to choose from: a button each, or of many a list in which a name is typed; one in trouble has a sign.
   * @param {string[]} groups
   */
  function drawGroups(groups) {
    const bad = T.section("together")?.bad || [];
    const many = groups.length > T.settings.buttons_most;
    const state = JSON.stringify([groups, bad, many && T.view.group]);
    if (state === offered) return mark();
    offered = state;
    $("groups").hidden = groups.length < 2 || many;
    $("groups-list").hidden = !many;
    const named = [["", ALL], ...groups.map((group) => [group, group])];
    if (many) {
      const data = named.map(([value, name]) => ({ value, label: name + (bad.includes(value) ? " ▲" : "") }));
      window.dash_clientside.set_props("group-choice", { data, value: T.view.group });
    }
    const buttons = named.map(([group, name]) => {
      const button = T.button("", name, () => T.choose({ group }, true));
      button.dataset.group = group;
      T.attribute(button, "data-level", bad.includes(group) ? "over" : null);
      return button;
    });
    $("groups").replaceChildren(...(many ? [] : buttons));
    mark();
  }

  function mark() {
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#groups button"))) {
      T.attribute(button, "aria-pressed", String(button.dataset.group === T.view.group));
    }
  }

  /* An address that names an instrument opens its drawer as soon as the instrument is known. */
  function reopen() {
    if (T.view.instrument === null || picked === T.view.instrument) return;
    const [group, number] = T.view.instrument.split(":");
    const known = T.section(`group/${group}`);
    const hasGrid = T.byId("panel-" + T.view.tab).querySelector(".grids") !== null && T.hasGrid(group);
    const isFilled = hasGrid ? T.cell(T.view.instrument) : T.byId("fill-" + T.view.tab).childElementCount;
    if (isFilled && known && /^\d+$/.test(number) && Number(number) < known.instruments) T.pick(group, Number(number));
  }

  T.pick = function (group, instrument) {
    picked = group + ":" + instrument;
    T.choose({ instrument: picked });
    const data = { group, instrument, name: T.instrumentName(group, instrument) };
    window.dash_clientside.set_props("picked", { data });
  };

  /* The way back leads to an address without an instrument. */
  function close() {
    if (T.view.instrument !== null || picked === null) return;
    picked = null;
    window.dash_clientside.set_props("picked", { data: null });
  }

  /* The drawer was closed: in the drawer itself, so it is Dash that knows. */
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.triggerlog = {
    /* What a callback has chosen: `set_props("choose", {"data": {"experiment": …}})`. */
    choose(change) {
      if (!change) return;
      T.choose(change, true);
      document.querySelector("#panel-" + T.view.tab + " .panel")?.scrollIntoView({ block: "nearest" });
    },
    /* A group was chosen: in the list, or its name in the table was pressed. */
    group(value, given) {
      const group = given?.rowId ?? value;
      if (typeof group === "string" && group !== T.view.group) T.choose({ group }, true);
    },
    keys(on) {
      document.body.dataset.keys = on ? "on" : "off";
    },
    closed(opened) {
      if (opened !== false || picked === null) return;
      const cell = T.cell(picked);
      picked = null;
      T.choose({ instrument: null });
      window.dash_clientside.set_props("picked", { data: null });
      if (cell) cell.focus();
    },
  };
})(window.triggerlog);

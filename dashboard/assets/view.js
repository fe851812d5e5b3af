/* What a person has chosen, kept in the address so that a reload or a colleague sees the same. */
(function (T) {
  "use strict";

  const RANGES = { "1m": 60e3, "5m": 300e3, "1h": 3600e3 };
  const $ = (id) => document.getElementById(id);

  T.view = { range: "5m", group: null, instrument: null, pausedAt: null };
  let picked = null;
  let tabs = null;

  T.rangeMs = () => RANGES[T.view.range];

  T.readView = function () {
    const asked = new URLSearchParams(location.search);
    if (RANGES[asked.get("range")]) T.view.range = asked.get("range");
    T.view.group = asked.get("group");
    T.view.instrument = asked.get("instrument");
    for (const button of document.querySelectorAll("button.range")) {
      button.addEventListener("click", () => choose({ range: button.dataset.range }));
    }
    $("pause").addEventListener("click", () => {
      T.view.pausedAt = T.view.pausedAt === null ? T.state.newest : null;
      T.redraw();
    });
    marks();
  };

  function choose(change) {
    Object.assign(T.view, change);
    const asked = new URLSearchParams(location.search);
    for (const name of ["range", "group", "instrument"]) {
      if (T.view[name] === null) asked.delete(name);
      else asked.set(name, T.view[name]);
    }
    history.replaceState(null, "", asked.toString() ? "?" + asked : location.pathname);
    marks();
    T.redraw();
  }

  function marks() {
    for (const button of document.querySelectorAll("button.range")) {
      T.attribute(button, "aria-pressed", String(button.dataset.range === T.view.range));
    }
  }

  T.drawView = function () {
    const groups = T.groups();
    if (!groups.includes(T.view.group)) T.view.group = groups[0];
    drawTabs(groups);
    const paused = T.view.pausedAt !== null;
    T.attribute($("pause"), "aria-pressed", String(paused));
    T.text($("pause"), paused ? "Resume charts" : "Pause charts");
    T.text($("paused"), paused ? "Charts paused at " + T.time(T.view.pausedAt) + " UTC; data goes on gathering" : "");
    reopen();
  };

  function drawTabs(groups) {
    const wanted = groups.join("|");
    if (wanted !== tabs) {
      tabs = wanted;
      $("groups").hidden = groups.length < 2;
      $("groups").replaceChildren(
        ...groups.map((group) => {
          const button = T.make("button", "", group);
          button.dataset.group = group;
          button.addEventListener("click", () => choose({ group }));
          return button;
        })
      );
    }
    for (const button of $("groups").children) {
      T.attribute(button, "aria-pressed", String(button.dataset.group === T.view.group));
    }
  }

  /* An address that names an instrument opens its drawer as soon as the instrument is known. */
  function reopen() {
    if (T.view.instrument === null || picked !== null) return;
    const [group, number] = T.view.instrument.split(":");
    const told = T.section("group", group);
    if (told && Number(number) < told.instruments) T.pick(group, Number(number));
  }

  T.pick = function (group, instrument) {
    picked = group + ":" + instrument;
    choose({ instrument: picked });
    const data = { group, instrument, name: T.instrumentName(group, instrument) };
    window.dash_clientside.set_props("picked", { data });
  };

  /* The drawer was closed: in the drawer itself, so it is Dash that knows. */
  (window.dash_clientside = window.dash_clientside || {}).triggerlog = {
    closed: function (opened) {
      if (opened !== false || picked === null) return;
      const cell = T.cell(picked);
      picked = null;
      choose({ instrument: null });
      window.dash_clientside.set_props("picked", { data: null });
      if (cell) cell.focus();
    },
  };
})((window.triggerlog = window.triggerlog || {}));

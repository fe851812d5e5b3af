/* Four charts of the chosen group: drawn when seen, once per animation frame at most. */
(function (T) {
  "use strict";

  const MOST = 1300; // points a line; beyond it a screen has no more pixels
  const LIMIT = "#d98a86";
  const charts = [];
  let forced = true;
  let budgetShown = false;

  /* Least time between two drawings: the longer the range, the less a frame moves it. */
  const EVERY = { "1m": 200, "5m": 450, "1h": 1900 };

  T.redraw = function () {
    forced = true;
    T.schedule();
  };

  function find() {
    const names = ["rates", "latency", "backlog", "missing"];
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const chart = charts.find((one) => one.box === entry.target);
        chart.seen = entry.isIntersecting;
      }
      T.schedule();
    });
    for (const name of names) {
      const box = document.getElementById("chart-" + name);
      const line = T.make("div", "crosshair");
      line.hidden = true;
      box.append(line);
      box.addEventListener("pointermove", point);
      box.addEventListener("pointerleave", () => charts.forEach((chart) => (chart.line.hidden = true)));
      charts.push({ name, box, line, seen: true, drawnAt: 0, drawnTo: null });
      seen.observe(box);
    }
  }

  /* One moment in all charts: they share their time axis, so it lies equally far across each. */
  function point(event) {
    const axis = (box) => box.querySelector(".js-plotly-plot")._fullLayout.xaxis;
    const under = axis(event.currentTarget);
    const across = (event.clientX - event.currentTarget.getBoundingClientRect().left - under._offset) / under._length;
    for (const chart of charts) {
      const { _offset, _length } = axis(chart.box);
      chart.line.hidden = across < 0 || across > 1;
      chart.line.style.left = _offset + across * _length + "px";
    }
  }

  T.drawCharts = function () {
    if (!charts.length) find();
    const to = T.view.pausedAt === null ? T.state.newest : T.view.pausedAt;
    if (to === null) return;
    const now = performance.now();
    for (const chart of charts) {
      const due = now - chart.drawnAt >= EVERY[T.view.range] && chart.drawnTo !== to;
      const gd = chart.box.querySelector(".js-plotly-plot");
      if (!gd || !gd.layout || !(forced || (chart.seen && due))) continue;
      draw(chart, gd, to);
      chart.drawnAt = now;
      chart.drawnTo = to;
    }
    forced = false;
  };

  function draw(chart, gd, to) {
    const from = to - T.rangeMs();
    const ys = gd.data.map((trace) => {
      const { x, y } = T.window(T.view.group, trace.meta, from, to, MOST);
      trace.x = x;
      trace.y = y;
      return y;
    });
    gd.layout.xaxis.range = [from, to];
    gd.layout.xaxis.autorange = false;
    gd.layout.xaxis.showticklabels = gd.layout.yaxis.showticklabels = true;
    gd.layout.xaxis.tickformat = T.view.range === "1h" ? "%H:%M" : "%H:%M:%S";
    SCALE[chart.name](gd.layout, ...extremes(ys));
    window.Plotly.redraw(gd);
    note(chart.name, gd.layout.yaxis.range[0]);
  }

  function extremes(ys) {
    let low = Infinity;
    let high = -Infinity;
    for (const y of ys) {
      for (const value of y) {
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return low === Infinity ? [0, 0] : [low, high];
  }

  function range(layout, low, high) {
    layout.yaxis.range = [low, high];
    layout.yaxis.autorange = false;
  }

  /* A little below it, or a line at zero would lie on the frame. */
  const fromZero = (layout, high) => range(layout, -0.04 * high, high);

  const SCALE = {
    /* Not from zero: a dip of a few percent has to be seen. Never narrower than 4 %, or noise would look like dips. */
    rates: function (layout, low, high) {
      const span = Math.max(high - low, high * 0.04, 0.2);
      const middle = (high + low) / 2;
      range(layout, Math.max(-0.02 * span, middle - span * 0.65), middle + span * 0.65);
    },
    latency: function (layout, _low, high) {
      const budget = (T.section("limits") || {}).commit_p99_ms;
      const top = Math.max(high * 1.2, 1);
      /* A far budget would flatten the lines. Shown from a third of it, until below a sixth: the axis must not jump. */
      budgetShown = budget !== undefined && high > budget / (budgetShown ? 6 : 3);
      fromZero(layout, budgetShown ? Math.max(top, budget * 1.15) : top);
      layout.shapes = budgetShown ? [limit(budget)] : [];
    },
    backlog: (layout, _low, high) => fromZero(layout, Math.max(high * 1.2, 5)),
    missing: (layout, _low, high) => fromZero(layout, Math.max(high * 1.2, 1)),
  };

  function limit(y) {
    return { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: LIMIT, width: 1, dash: "dash" } };
  }

  function note(name, lowest) {
    const place = document.getElementById("note-" + name);
    const group = T.view.group;
    const budget = (T.section("limits") || {}).commit_p99_ms;
    const instruments = (T.section("group", group) || {}).instruments;
    if (name === "latency") T.text(place, budget === undefined ? "" : "budget " + budget + " ms");
    else if (name === "missing") T.text(place, "of " + T.count(instruments) + " instruments");
    else if (name === "rates") T.text(place, lowest > 0 ? "axis from " + T.number(lowest) : "");
    else T.text(place, "triggers");
  }
})((window.triggerlog = window.triggerlog || {}));

/* Live charts of the chosen group over one common stretch of time: drawn when seen, once per animation frame at most. */
(function (T) {
  "use strict";

  const POINTS_A_PX = 2; // of a line; beyond it a screen shows no more
  const WIDTH = 640; // px of a chart that was not drawn yet
  const LIMIT = "#d98a86";
  const charts = [];
  let forced = true;
  let budgetShown = false;

  const STEP_PX = 1; // that the lines move on at a drawing: less is not seen, and a drawing is dear
  const OFTEN_MS = 250;
  const SELDOM_MS = { hour: 1900, longer: 4900 };

  T.redraw = function () {
    forced = true;
    T.schedule();
  };

  function find() {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) charts.find((one) => one.box === entry.target).seen = entry.isIntersecting;
      T.schedule();
    });
    for (const box of document.querySelectorAll(".chart[id^=chart-]")) {
      const line = T.make("div", "crosshair");
      line.hidden = true;
      box.append(line);
      box.addEventListener("pointermove", point);
      box.addEventListener("pointerleave", () => charts.forEach((chart) => (chart.line.hidden = true)));
      const tab = box.closest("[role=tabpanel]").id.slice(6);
      charts.push({ name: box.id.slice(6), box, tab, line, seen: true, drawnAt: 0, drawnTo: null });
      seen.observe(box);
    }
  }

  const axisOf = (box) => {
    const gd = box.querySelector(".js-plotly-plot");
    return gd && gd._fullLayout && gd._fullLayout.xaxis;
  };

  /* One moment in all charts: they share their time axis, so it lies equally far across each. */
  function point(event) {
    const under = axisOf(event.currentTarget);
    if (!under) return;
    const across = (event.clientX - event.currentTarget.getBoundingClientRect().left - under._offset) / under._length;
    for (const chart of charts) {
      const axis = axisOf(chart.box);
      if (!axis) continue;
      chart.line.hidden = across < 0 || across > 1;
      chart.line.style.left = axis._offset + across * axis._length + "px";
    }
  }

  T.drawCharts = function () {
    if (!charts.length) find();
    const stretch = T.stretch();
    if (stretch === null) return;
    const now = performance.now();
    for (const chart of charts) {
      if (chart.tab !== T.view.tab) continue;
      const gd = chart.box.querySelector(".js-plotly-plot");
      if (!gd || !gd.layout) continue;
      const due = chart.drawnTo !== stretch.to && now - chart.drawnAt >= every(gd, stretch);
      if (!(forced || (chart.seen && due))) continue;
      draw(chart, gd, stretch);
      chart.drawnAt = now;
      chart.drawnTo = stretch.to;
    }
    forced = false;
  };

  const width = (gd) => (gd._fullLayout && gd._fullLayout.xaxis && gd._fullLayout.xaxis._length) || WIDTH;

  /* Least time between two drawings of a chart. */
  function every(gd, { from, to }) {
    const step = (STEP_PX * (to - from)) / width(gd);
    return Math.min(Math.max(step, OFTEN_MS), to - from > 3600e3 ? SELDOM_MS.longer : SELDOM_MS.hour);
  }

  function draw(chart, gd, { from, to }) {
    const most = Math.ceil(POINTS_A_PX * width(gd));
    const ys = gd.data.map((trace) => {
      const { x, y } = T.window(T.view.group, trace.meta, from, to, most);
      trace.x = x;
      trace.y = y;
      return y;
    });
    gd.layout.xaxis.range = [from, to];
    gd.layout.xaxis.autorange = false;
    gd.layout.xaxis.showticklabels = gd.layout.yaxis.showticklabels = true;
    gd.layout.xaxis.tickformat = format(to - from);
    (T.scales[chart.name] || T.scales.plain)(gd.layout, ...extremes(ys));
    window.Plotly.redraw(gd);
    const told = T.notes[chart.name];
    if (told) T.text(document.getElementById("note-" + chart.name), told(gd.layout.yaxis.range[0]));
  }

  const format = (width) => (width < 1500e3 ? "%H:%M:%S" : width < 86400e3 ? "%H:%M" : "%m-%d %H:%M");

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

  /* How a chart's axis of values lies, by the chart's name: (layout, least, greatest). */
  T.scales = {
    plain: (layout, _low, high) => fromZero(layout, Math.max(high * 1.2, 1e-9)),
    /* Not from zero: a dip of a few percent has to be seen. Never narrower than 4 %, or noise would look like dips. */
    rates: function (layout, low, high) {
      const span = Math.max(high - low, high * 0.04, 0.2);
      const middle = (high + low) / 2;
      range(layout, Math.max(-0.02 * span, middle - span * 0.65), middle + span * 0.65);
    },
    latency: function (layout, _low, high) {
      const most = budget();
      const top = Math.max(high * 1.2, 1);
      /* A far budget would flatten the lines. Shown from a third of it, until below a sixth: the axis must not jump. */
      budgetShown = most !== undefined && high > most / (budgetShown ? 6 : 3);
      fromZero(layout, budgetShown ? Math.max(top, most * 1.15) : top);
      layout.shapes = budgetShown ? [limit(most)] : [];
    },
    backlog: (layout, _low, high) => fromZero(layout, Math.max(high * 1.2, 5)),
    missing: (layout, _low, high) => fromZero(layout, Math.max(high * 1.2, 1)),
  };

  function limit(y) {
    return { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: LIMIT, width: 1, dash: "dash" } };
  }

  const budget = () => (T.section("limits") || {}).commit_p99_ms;

  /* What stands beside a chart's title, by the chart's name: (least value on its axis). */
  T.notes = {
    latency: () => (budget() === undefined ? "" : "budget " + budget() + " ms"),
    missing: () => "of " + T.count((T.section("group", T.view.group) || {}).instruments) + " instruments",
    rates: (lowest) => (lowest > 0 ? "axis from " + T.number(lowest) : ""),
    backlog: () => "triggers",
  };
})((window.triggerlog = window.triggerlog || {}));

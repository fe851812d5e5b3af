/* Live charts of the chosen group over one common time range: drawn when visible, once per animation frame at most. */
(function (T) {
  "use strict";

  const POINTS_A_PX = 2; // of a line; beyond it a screen shows no more
  const WIDTH = 640; // px of a chart that was not drawn yet
  /** @type {LiveChart[]} */
  const charts = [];
  let forced = true;
  let budgetShown = false;

  const STEP_PX = 1; // that the lines move on at a drawing: less is not visible, and a drawing is expensive
  const OFTEN_MS = 250;
  const SELDOM_MS = { hour: 1900, longer: 4900 };

  T.redraw = function () {
    forced = true;
    T.schedule();
  };

  /* What every drawn chart looks like; a script adds its own to it. */
  T.plotLayout = function (height) {
    const { ink, faint, rule } = T.settings.colours;
    const font = { ...T.settings.font, color: faint };
    return {
      height,
      autosize: true,
      margin: { l: 56, r: 12, t: 8, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font,
      showlegend: false,
      dragmode: false,
      hoverlabel: { bgcolor: "#0b0f14", bordercolor: rule, font: { ...font, color: ink } },
    };
  };

  T.plotAxis = () => ({ fixedrange: true, gridcolor: T.settings.colours.rule, zeroline: false, nticks: 6 });

  const plotOf = (/** @type {HTMLElement} */ box) => /** @type {PlotElement | null} */ (box.querySelector(".js-plotly-plot"));

  T.plotOf = plotOf;

  function find() {
    const visible = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const chart = charts.find((one) => one.box === entry.target);
        if (chart) chart.visible = entry.isIntersecting;
      }
      T.schedule();
    });
    const boxes = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".chart[id^=chart-]"));
    for (const box of boxes) {
      const line = T.make("div", "crosshair");
      line.hidden = true;
      box.append(line);
      box.addEventListener("pointermove", (event) => point(box, event.clientX));
      box.addEventListener("pointerleave", () => charts.forEach((chart) => (chart.line.hidden = true)));
      const tab = (box.closest("[role=tabpanel]")?.id || "").slice("panel-".length);
      charts.push({ name: box.id.slice("chart-".length), box, tab, line, visible: true, drawnAt: 0, drawnTo: null });
      visible.observe(box);
    }
  }

  const axisOf = (/** @type {HTMLElement} */ box) => plotOf(box)?._fullLayout?.xaxis;

  /**
   * One moment in all charts: they share their time axis, so it is equally far across each.
   * @param {HTMLElement} box
   * @param {number} clientX
   */
  function point(box, clientX) {
    const under = axisOf(box);
    if (!under) return;
    const across = (clientX - box.getBoundingClientRect().left - under._offset) / under._length;
    for (const chart of charts) {
      const axis = axisOf(chart.box);
      if (!axis) continue;
      chart.line.hidden = across < 0 || across > 1;
      chart.line.style.left = axis._offset + across * axis._length + "px";
    }
  }

  T.drawCharts = function () {
    if (!charts.length) find();
    const range = T.timeRange();
    if (range === null) return;
    const now = performance.now();
    for (const chart of charts) {
      if (chart.tab !== T.view.tab) continue;
      const plot = plotOf(chart.box);
      if (!plot || !plot.layout) continue;
      const due = chart.drawnTo !== range.to && now - chart.drawnAt >= every(plot, range);
      if (!(forced || (chart.visible && due))) continue;
      draw(chart, plot, range);
      chart.drawnAt = now;
      chart.drawnTo = range.to;
    }
    forced = false;
  };

  const width = (/** @type {PlotElement} */ plot) => plot._fullLayout?.xaxis?._length || WIDTH;

  /**
   * Least time between two drawings of a chart.
   * @param {PlotElement} plot
   * @param {TimeRange} range
   */
  function every(plot, { from, to }) {
    const step = (STEP_PX * (to - from)) / width(plot);
    return Math.min(Math.max(step, OFTEN_MS), to - from > 3600e3 ? SELDOM_MS.longer : SELDOM_MS.hour);
  }

  /** @param {LiveChart} chart @param {PlotElement} plot @param {TimeRange} range */
  function draw(chart, plot, { from, to }) {
    const most = Math.ceil(POINTS_A_PX * width(plot));
    const ys = plot.data.map((trace) => {
      const { x, y } = T.window(T.view.group, String(trace.meta), from, to, most);
      trace.x = x;
      trace.y = y;
      return y;
    });
    const { xaxis, yaxis } = plot.layout;
    xaxis.range = [from, to];
    xaxis.autorange = yaxis.autorange = false;
    xaxis.showticklabels = yaxis.showticklabels = true;
    xaxis.tickformat = format(to - from);
    const [least, greatest] = extremes(ys);
    const axis = (AXES[chart.name] || plainAxis)(least, greatest);
    yaxis.range = axis.range;
    plot.layout.shapes = axis.limit === undefined ? [] : [limit(axis.limit)];
    window.Plotly.redraw(plot);
    T.text(T.byId("note-" + chart.name), note(chart.name, axis.range[0]));
  }

  const format = (/** @type {number} */ width) => (width < 1500e3 ? "%H:%M:%S" : width < 86400e3 ? "%H:%M" : "%m-%d %H:%M");

  /** @param {Value[][]} ys */
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

  /**
   * From a little below zero, or a line at zero would lie on the frame.
   * @param {number} high
   * @returns {ValueAxis}
   */
  const fromZero = (high) => ({ range: [-0.04 * high, high] });

  const plainAxis = (/** @type {number} */ _low, /** @type {number} */ high) => fromZero(high > 0 ? high * 1.2 : 1);

  /**
   * The axis of values, by the chart's name, for the least and the greatest value.
   * @type {Record<string, (low: number, high: number) => ValueAxis>}
   */
  const AXES = {
    rates: (low, high) => ({ range: T.around(low, high, 0.2) }),
    latency(_low, high) {
      const most = budget();
      const top = Math.max(high * 1.2, 1);
      /* A far budget would flatten the lines. Shown from a third of it, until below a sixth: the axis must not jump. */
      budgetShown = most !== undefined && high > most / (budgetShown ? 6 : 3);
      return most !== undefined && budgetShown ? { ...fromZero(Math.max(top, most * 1.15)), limit: most } : fromZero(top);
    },
    backlog: (_low, high) => fromZero(Math.max(high * 1.2, 5)),
    missing: (_low, high) => fromZero(Math.max(high * 1.2, 1)),
  };

  /* Not from zero: a dip of a few percent has to be visible. Never narrower than 4 %, or noise would look like dips. */
  T.around = function (low, high, least) {
    const span = Math.max(high - low, high * 0.04, least);
    const middle = (high + low) / 2;
    return [Math.max(-0.02 * span, middle - span * 0.65), middle + span * 0.65];
  };

  /** @param {number} y */
  function limit(y) {
    const line = { color: T.settings.colours.limit, width: 1, dash: "dash" };
    return { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line };
  }

  const budget = () => T.section("limits")?.commit_p99_ms;

  /**
   * The note next to a chart's title.
   * @param {string} chart
   * @param {number} lowest least value on its axis
   */
  function note(chart, lowest) {
    if (chart === "latency") return budget() === undefined ? "" : "budget " + budget() + " ms";
    if (chart === "missing") return "of " + T.count(T.section(`group/${T.view.group}`)?.instruments) + " instruments";
    if (chart === "rates") return lowest > 0 ? "axis from " + T.number(lowest) : "";
    if (chart === "read-p99") return "from when a question was due";
    return chart === "backlog" ? "triggers" : "";
  }
})(window.triggerlog);

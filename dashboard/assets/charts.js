/* Live charts of the chosen group over one common time range: drawn when visible, once per animation frame at most. */
(function (T) {
  "use strict";

  const POINTS_A_PX = 2; // of a line; beyond it a screen shows no more
  const WIDTH = 640; // px of a chart that was not drawn yet
  /** @type {LiveChart[]} */
  const charts = [];
  let forced = true;
  /** @type {MarksSection | undefined} */
  let marks; // that are drawn

  const STEP_PX = 1; // that the lines move on at a drawing: less is not visible, and a drawing is expensive
  const OFTEN_MS = 250;
  const NEARLY_ALL = 0.95;
  const FAR = 20; // times as high as nearly all values
  const ROOM = 3; // times as high as these the axis goes then
  const SELDOM_MS = { hour: 1900, longer: 4900 };

  T.redraw = function () {
    forced = true;
    T.schedule();
  };

  const plotOf = (/** @type {HTMLElement} */ box) => /** @type {PlotElement | null} */ (box.querySelector(".js-plotly-plot"));

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.find((one) => one.box === entry.target);
      if (chart) chart.visible = entry.isIntersecting;
    }
    T.schedule();
  });

  /* Dash puts in a chart when plotly.js has come, and those of a tab when it is opened. */
  function adopt() {
    const boxes = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#panel-" + T.view.tab + " .chart[id^=chart-]"));
    for (const box of boxes) {
      if (!plotOf(box)?.layout || charts.some((chart) => chart.box === box)) continue;
      const line = T.make("div", "crosshair");
      line.hidden = true;
      box.append(line);
      box.addEventListener("pointermove", (event) => point(box, event.clientX));
      box.addEventListener("pointerleave", () => charts.forEach((chart) => (chart.line.hidden = true)));
      charts.push({ name: box.id.slice("chart-".length), box, tab: T.view.tab, line, visible: true, drawnAt: 0, drawnTo: null });
      seen.observe(box);
      forced = true;
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
    adopt();
    const range = T.timeRange();
    if (range === null) return;
    const now = performance.now();
    forced ||= marks !== T.section("marks");
    marks = T.section("marks");
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
    const ahead = T.offset(to); // one for an axis: it would run back when summer time ends
    const ys = plot.data.map((trace) => {
      const { x, y } = T.window(T.view.group, String(trace.meta), from, to, most);
      trace.x = x.map((t) => t + ahead);
      trace.y = y;
      return y;
    });
    const { xaxis, yaxis } = plot.layout;
    xaxis.range = [from + ahead, to + ahead];
    xaxis.autorange = yaxis.autorange = false;
    xaxis.showticklabels = yaxis.showticklabels = true;
    xaxis.tickformat = format(to - from);
    const [least, greatest] = extremes(ys);
    const mostShown = usual(ys, greatest);
    const axis = axisFor(plot, least, mostShown);
    yaxis.range = axis.range;
    const { shapes, annotations } = T.marks(from, to, (t) => t + ahead);
    plot.layout.shapes = [...shapes, ...(axis.limit === undefined ? [] : [limit(axis.limit)])];
    plot.layout.annotations = mostShown < greatest ? [...annotations, beyond(plot, greatest)] : annotations;
    window.Plotly.redraw(plot);
    begins(chart.box, axis.range[0]);
  }

  /**
   * The greatest value that the axis has room for: one far beyond nearly all others, as after an outage, would flatten
   * these for as long as it is seen. It goes off the top, and is named there.
   * @param {Value[][]} ys
   * @param {number} greatest
   */
  function usual(ys, greatest) {
    const values = ys.flatMap((y) => y.filter((value) => value !== null)).sort((a, b) => Number(a) - Number(b));
    const high = Number(values[Math.floor(NEARLY_ALL * (values.length - 1))] ?? 0);
    return high > 0 && greatest > FAR * high ? ROOM * high : greatest;
  }

  /** @param {PlotElement} plot @param {number} greatest */
  function beyond(plot, greatest) {
    const { x = [], y = [] } = plot.data.find((trace) => trace.y?.includes(greatest)) ?? {};
    const place = y.indexOf(greatest);
    return {
      ...{ x: x[place], y: 1, xref: "x", yref: "paper", yanchor: "top", showarrow: false },
      xanchor: 2 * place > y.length ? "right" : "left",
      text: "↑ " + T.number(greatest),
      font: { size: 11, color: T.settings.colours.limit },
    };
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

  /**
   * The axis of values for the least and the greatest value, as the chart was declared.
   * @param {PlotElement} plot
   * @param {number} low
   * @param {number} high
   * @returns {ValueAxis}
   */
  function axisFor(plot, low, high) {
    const { from, least, limit: path } = plot.layout.meta;
    if (from === "around") return { range: around(low, high, least) };
    const top = Math.max(high * 1.2, least);
    const most = path === undefined ? null : T.figure(path);
    /* A far limit would flatten the lines. Shown from a third of it, until below a sixth: the axis must not jump. */
    const near = most !== null && high > most / (plot.dataset.limit ? 6 : 3);
    T.attribute(plot, "data-limit", near ? "shown" : null);
    return near ? { ...fromZero(Math.max(top, most * 1.15)), limit: most } : fromZero(top);
  }

  /* Not from zero: a dip of a few percent has to be visible. Never narrower than 4 %, or noise would look like dips. */
  /** @param {number} low @param {number} high @param {number} least @returns {[number, number]} */
  function around(low, high, least) {
    const span = Math.max(high - low, high * 0.04, least);
    const middle = (high + low) / 2;
    return [Math.max(-0.02 * span, middle - span * 0.65), middle + span * 0.65];
  }

  /** @param {number} y */
  function limit(y) {
    const line = { color: T.settings.colours.limit, width: 1, dash: "dash" };
    return { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line };
  }

  /**
   * Where the axis begins, beside the title of a chart that says so.
   * @param {HTMLElement} box
   * @param {number} lowest
   */
  function begins(box, lowest) {
    const note = /** @type {HTMLElement | null} */ (box.closest("figure")?.querySelector(".axis-note") || null);
    if (!note) return;
    note.hidden = lowest <= 0;
    T.text(T.find(note, ".axis-from"), T.number(lowest));
  }
})(window.triggerlog);

/* An experiment drawn: panels on one time axis with bands where readers read, and p99 against readers. */
(function (T) {
  "use strict";

  const { calm, faint, limit, chosen: marked, ink } = T.settings.colours;
  const HEIGHT = 430;
  const LOG_FROM = 12; // values that vary by more are drawn on a logarithmic axis
  const NAMED = 14; // bands that have room for words above them
  const TOP = 0.9; // of the drawing: above it are the words of the bands
  /** @type {number | null} */
  let chosen = null; // the number of readers whose bands and point are marked
  /** @type {ShownExperiment | null} */
  let latest = null;
  /** @type {Record<string, string>} */
  const drawn = {};

  T.readers = (n) => T.count(n) + (n === 1 ? " reader" : " readers");

  T.geometricMean = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

  /** @param {number} dose */
  function choose(dose) {
    chosen = chosen === dose ? null : dose;
    T.schedule();
  }

  T.drawExperimentCharts = function (shown) {
    latest = shown;
    const doses = shown === null ? [] : [...new Set(shown.blocks.filter((b) => b.kind === "B").map((b) => b.readers))].sort((a, b) => a - b);
    if (chosen !== null && chosen !== 0 && !doses.includes(chosen)) chosen = null;
    draw("time", shown, timeChart);
    draw("dose", shown, (experiment) => doseChart(experiment, doses));
    keys(doses);
  };

  /** @param {string} name @param {ShownExperiment | null} shown @param {(shown: ShownExperiment) => {traces: object[], layout: object}} chart */
  function draw(name, shown, chart) {
    const place = /** @type {PlotElement} */ (T.byId("experiment-" + name));
    const figure = /** @type {HTMLElement} */ (place.closest("figure"));
    figure.hidden = shown === null || shown.samples.length === 0;
    if (shown === null || figure.hidden) return;
    const stamp = [shown.id, shown.samples.length, shown.blocks.length, shown.result !== null, chosen, T.section("marks")?.all.map((mark) => mark.id)].join("|");
    if (stamp === drawn[name]) return;
    drawn[name] = stamp;
    const { traces, layout } = chart(shown);
    window.Plotly.react(place, traces, { ...T.plotLayout(HEIGHT), ...layout }, T.settings.graph);
    if (!place.dataset.listens) listen(place, name);
  }

  /** @param {PlotElement} place @param {string} name */
  function listen(place, name) {
    place.dataset.listens = "true";
    place.on("plotly_click", (event) => {
      const x = event.points[0].x;
      if (name === "dose") return choose(Math.round(x));
      const block = latest?.blocks.find((b) => b.begin_s <= x && x < b.end_s);
      if (block) choose(block.readers);
    });
  }

  /**
   * What a click on a point does, for the keyboard.
   * @param {number[]} doses
   */
  function keys(doses) {
    const place = T.byId("experiment-dose-keys");
    if (!T.differs(place, doses.length ? JSON.stringify([doses, chosen]) : "")) return;
    const group = T.make("div", "segments", undefined, { role: "group", "aria-label": "Mark the blocks with this number of readers" });
    for (const dose of [0, ...doses]) {
      const button = T.button("", dose === 0 ? "A" : T.count(dose), () => {
        choose(dose);
        const again = () => place.querySelectorAll("button")[[0, ...doses].indexOf(dose)];
        requestAnimationFrame(() => requestAnimationFrame(() => again()?.focus()));
      });
      button.title = dose === 0 ? "blocks without readers" : "blocks with " + T.readers(dose);
      button.setAttribute("aria-pressed", String(chosen === dose));
      group.append(button);
    }
    place.replaceChildren(...(doses.length ? [group] : []));
  }

  // --- over time -----------------------------------------------------------------------------------------------------

  /** @param {ShownExperiment} shown */
  function timeChart(shown) {
    const { samples, blocks, budget_ms } = shown;
    const x = samples.map((sample) => sample.t_s);
    const p99 = samples.map((sample) => sample.p99_ms);
    const median = middle(blocks.flatMap((b) => (b.kind === "A" && b.whole && b.p99_ms ? [b.p99_ms] : [])));
    const until = Math.max(T.lastOf(x) || 0, ...blocks.map((b) => b.end_s));
    const axis = latencyAxis(p99, budget_ms);
    const rates = smoothed(samples.map((sample) => sample.rate));
    const known = rates.filter((rate) => rate !== null);
    const most = Math.max(1, ...samples.map((sample) => sample.readers));
    const traces = [
      line(x, p99, "p99", "y", calm, "%{y:,.3~g} ms p99 of the sample"),
      line(x, rates, "rate", "y2", calm, "%{y:,.4~g} triggers/s committed"),
      {
        ...line(x, samples.map((s) => s.readers), "readers", "y3", faint, "%{y} readers", "hv"),
        ...{ fill: "tozeroy", fillcolor: "rgba(118,131,154,0.25)" },
      },
    ];
    if (median !== null) traces.push(level([0, until], median, "A, median " + T.number(median) + " ms", ink, "dash"));
    if (axis.budget) traces.push(level([0, until], budget_ms, "budget " + T.number(budget_ms) + " ms", limit, "dot"));
    const bands = [...blocks, ...underWay(shown, until)];
    const began = (shown.record?.began_ns ?? T.section("experiment")?.began_ns ?? 0) / 1e6;
    const marks = T.marks(began, began + until * 1e3, (t) => (t - began) / 1e3);
    const layout = {
      hovermode: "x unified",
      shapes: [...bands.flatMap(band), ...marks.shapes],
      annotations: [...names(blocks, bands), ...marks.annotations],
      xaxis: { ...T.plotAxis(), range: [0, Math.max(until, 1)], anchor: "y3", title: { text: "elapsed, s", standoff: 6 }, hoverformat: ".1f" },
      yaxis: { ...T.plotAxis(), ...axis.axis, domain: [0.47, TOP], title: { text: "commit p99, ms" } },
      yaxis2: { ...T.plotAxis(), range: known.length ? T.around(Math.min(...known), Math.max(...known), 0.1) : [0, 1], domain: [0.2, 0.41], title: { text: "commits/s" }, nticks: 4 },
      yaxis3: { ...T.plotAxis(), range: [0, most * 1.15], domain: [0, 0.14], title: { text: "readers" }, nticks: 3 },
    };
    const note = (median === null ? "" : "dashed: median of the blocks without readers") + (axis.budget ? "; dotted: budget" : "");
    T.text(T.byId("experiment-time-note"), note);
    return { traces, layout };
  }

  /** @param {number[]} x @param {Value[]} y @param {string} name @param {string} yaxis @param {string} color @param {string} hover @param {string} [shape] @returns {Trace} */
  const line = (x, y, name, yaxis, color, hover, shape = "linear") => ({
    ...{ type: "scatter", mode: "lines", x, y, name, yaxis, connectgaps: false },
    ...{ line: { color, width: 1.4, shape }, hovertemplate: hover + "<extra></extra>" },
  });

  /** @param {[number, number]} x @param {number} y @param {string} name @param {string} color @param {string} dash @returns {Trace} */
  const level = (x, y, name, color, dash) => ({
    ...{ type: "scatter", mode: "lines", x, y: [y, y], name, yaxis: "y", line: { color, width: 1, dash }, hoverinfo: "skip" },
  });

  /**
   * A block is sent when it is over; until then its readers show that it is under way.
   * @param {ShownExperiment} shown
   * @param {number} until
   * @returns {Band[]}
   */
  function underWay({ record, samples, blocks }, until) {
    if (record !== null || !samples.length) return [];
    const from = T.lastOf(blocks)?.end_s ?? 0;
    const readers = samples[samples.length - 1].readers;
    return readers && until > from ? [{ kind: "B", readers, begin_s: from, from_s: from, end_s: until }] : [];
  }

  /** @param {Band} block */
  function band(block) {
    const isMarked = chosen !== null && block.readers === chosen;
    /** @param {number} x0 @param {number} x1 @param {string} fillcolor */
    const rect = (x0, x1, fillcolor) => ({
      ...{ type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: TOP, fillcolor, line: { width: 0 }, layer: "below" },
    });
    const shapes = [];
    if (block.kind === "B" || isMarked) {
      const strength = isMarked ? 0.3 : chosen === null ? 0.13 : 0.06;
      shapes.push(rect(block.begin_s, block.end_s, "rgba(" + (isMarked ? "255,212,121" : "156,195,230") + "," + strength + ")"));
    }
    /* The warm-up is paler. */
    shapes.push(rect(block.begin_s, block.from_s, "rgba(11,15,20,0.4)"));
    return shapes;
  }

  /** @param {Block[]} blocks @param {Band[]} bands */
  function names(blocks, bands) {
    const read = bands.filter((block) => block.kind === "B");
    if (read.length > NAMED) return [];
    return read.map((each) => {
      const block = blocks.find((one) => one === each);
      const ratio = block ? T.byNeighbours(blocks, block, "p99_ms") : null;
      const words = read.length > 8 ? T.count(each.readers) : T.readers(each.readers);
      return {
        text: "<b>" + words + "</b>" + (ratio === null ? "" : "<br>" + (read.length > 8 ? "" : "p99 ") + "×" + T.factor(ratio)),
        x: (each.begin_s + each.end_s) / 2,
        y: TOP,
        ...{ xref: "x", yref: "paper", yanchor: "bottom", showarrow: false },
        font: { size: 11, color: chosen === each.readers ? marked : ink },
      };
    });
  }

  /* A block of B divided by the geometric mean of the blocks of A next to it, as in the report. */
  T.byNeighbours = function (blocks, block, figure) {
    const value = block[figure];
    const next = blocks.flatMap((b) => (Math.abs(b.number - block.number) === 1 && b.whole && b[figure] ? [b[figure]] : []));
    return next.length < 2 || !block.whole || !value ? null : value / T.geometricMean(next);
  };

  /** @param {number[]} rates @returns {Value[]} */
  function smoothed(rates) {
    return rates.map((_, i) => {
      const part = rates.slice(Math.max(0, i - 3), i + 1);
      return i < 3 && rates.length > 3 ? null : part.reduce((sum, rate) => sum + rate, 0) / part.length;
    });
  }

  /** @param {Value[]} values @param {number} budget */
  function latencyAxis(values, budget) {
    const known = values.filter((value) => value !== null && value > 0).map(Number);
    const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [1, 1];
    const near = Boolean(budget) && budget < 1.5 * high;
    const top = near ? Math.max(high, budget) : high;
    if (high / low <= LOG_FROM) return { budget: near, axis: { type: "linear", range: [0, 1.12 * top] } };
    return { budget: near, axis: { ...T.logAxis(low / 1.2, top, 500), range: [Math.log10(low / 1.2), Math.log10(top * 1.3)] } };
  }

  /* 1, 2, 5, 10, ... written out: plotly.js shortens those between two powers of ten to their first digit. */
  T.logAxis = function (low, high, wide) {
    const tickvals = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high * 1.3; power++) {
      for (const digit of high / low > wide ? [1] : [1, 2, 5]) tickvals.push(digit * 10 ** power);
    }
    const ticktext = tickvals.map((value) => Number(value.toPrecision(1)).toLocaleString("en-US", { maximumFractionDigits: 12 }));
    return { type: "log", tickmode: "array", tickvals, ticktext };
  };

  // --- against the number of readers -----------------------------------------------------------------------------------

  /** @param {ShownExperiment} shown @param {number[]} doses */
  function doseChart(shown, doses) {
    const blocks = shown.blocks.flatMap((block) => (block.whole && block.p99_ms ? [{ readers: block.readers, p99_ms: block.p99_ms }] : []));
    const points = shown.result && shown.result.doses.length ? shown.result.doses : means(blocks, [0, ...doses]);
    const values = [...blocks.map((b) => b.p99_ms), ...points.flatMap((p) => [p.p99_ms.value, p.p99_ms.high || 0])];
    const axis = latencyAxis(values, shown.budget_ms);
    /** @param {number} dose @param {string} usual */
    const mark = (dose, usual) => (chosen === dose ? marked : usual);
    const x = points.map((p) => p.readers);
    /** @param {Mean} mean @param {"low" | "high"} side */
    const bound = (mean, side) => Math.abs((mean[side] ?? mean.value) - mean.value);
    /** @type {Trace[]} */
    const traces = [
      {
        ...{ type: "scatter", mode: "markers", name: "blocks", x: blocks.map((b) => b.readers), y: blocks.map((b) => b.p99_ms) },
        marker: { size: 5, color: blocks.map((b) => mark(b.readers, "rgba(139,152,168,0.55)")) },
        hovertemplate: "%{y:,.3~g} ms in one block with %{x} readers<extra></extra>",
      },
      {
        ...{ type: "scatter", mode: "lines+markers", name: "mean", x, y: points.map((p) => p.p99_ms.value), line: { color: calm, width: 1.6 } },
        marker: { size: points.map((p) => (chosen === p.readers ? 13 : 9)), color: points.map((p) => mark(p.readers, calm)) },
        error_y: {
          ...{ type: "data", symmetric: false, color: calm, thickness: 1.4, width: 5 },
          ...{ array: points.map((p) => bound(p.p99_ms, "high")), arrayminus: points.map((p) => bound(p.p99_ms, "low")) },
        },
        hovertemplate: "%{y:,.3~g} ms with %{x} readers<extra></extra>",
      },
    ];
    const widest = Math.max(1, ...x);
    if (axis.budget) traces.push(level([-widest, 2 * widest], shown.budget_ms, "budget", limit, "dot"));
    const bars = points.some((p) => p.p99_ms.low !== null);
    T.text(T.byId("experiment-dose-note"), bars ? "bars: 95 % confidence; dots: blocks" : "dots: blocks; line: their means");
    const layout = {
      hovermode: "closest",
      xaxis: { ...T.plotAxis(), range: [-0.06 * widest, 1.06 * widest], title: { text: "clients that read; 0 is A", standoff: 6 }, tickmode: "array", tickvals: ticks(x) },
      yaxis: { ...T.plotAxis(), ...axis.axis, title: { text: "commit p99, ms" } },
    };
    return { traces, layout };
  }

  /**
   * Numbers that would overlap are left out.
   * @param {number[]} x
   */
  function ticks(x) {
    const widest = Math.max(1, ...x);
    return x.filter((value, i) => i === 0 || i === x.length - 1 || (value - x[i - 1] > 0.04 * widest && x[x.length - 1] - value > 0.04 * widest));
  }

  /**
   * While it runs there are means, and no intervals yet.
   * @param {{readers: number, p99_ms: number}[]} blocks
   * @param {number[]} doses
   * @returns {{readers: number, p99_ms: Mean}[]}
   */
  function means(blocks, doses) {
    return doses.flatMap((readers) => {
      const values = blocks.filter((b) => b.readers === readers).map((b) => b.p99_ms);
      return values.length ? [{ readers, p99_ms: { value: T.geometricMean(values), low: null, high: null } }] : [];
    });
  }

  /** @param {number[]} values */
  function middle(values) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted.length ? (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2 : null;
  }
})(window.triggerlog);

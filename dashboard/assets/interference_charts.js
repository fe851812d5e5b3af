/* An experiment drawn: panels on one axis of time with bands where readers read, and p99 against readers. */
(function (T) {
  "use strict";

  const CALM = "#9cc3e6";
  const GREY = "#8b98a8";
  const LIMIT = "#d98a86";
  const CHOSEN = "#ffd479";
  const RULE = "#222b35";
  const INK = "#c9d3de";
  const HEIGHT = 430;
  const LOG_FROM = 12; // values that vary by more are drawn on a logarithmic axis
  const NAMED = 14; // bands that have room for words above them
  const TOP = 0.9; // of the drawing: above it stand the words of the bands
  const FONT = { family: "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif", size: 11, color: GREY };
  const CONFIG = { displayModeBar: false, displaylogo: false, scrollZoom: false, responsive: true };
  let chosen = null; // the number of readers whose bands and point are marked
  const drawn = {};

  const readersIn = (n) => T.count(n) + (n === 1 ? " reader" : " readers");

  T.choseDose = () => chosen;

  function choose(dose) {
    chosen = chosen === dose ? null : dose;
    T.schedule();
  }

  T.drawExperimentCharts = function (told) {
    const doses = told === null ? [] : [...new Set(told.blocks.filter((b) => b.kind === "B").map((b) => b.readers))].sort((a, b) => a - b);
    if (chosen !== null && chosen !== 0 && !doses.includes(chosen)) chosen = null;
    const stamp = told === null ? "" : [told.id, told.samples.length, told.blocks.length, told.result !== null, chosen].join("|");
    for (const name of ["time", "dose"]) {
      const place = document.getElementById("experiment-" + name);
      place.closest("figure").hidden = told === null || told.samples.length === 0;
      if (stamp === drawn[name] || place.closest("figure").hidden) continue;
      drawn[name] = stamp;
      const { traces, layout } = name === "time" ? timeChart(told) : doseChart(told, doses);
      window.Plotly.react(place, traces, layout, CONFIG);
      if (!place.dataset.listens) listen(place, name);
    }
    keys(doses);
  };

  let latest = null;
  function listen(place, name) {
    place.dataset.listens = "true";
    place.on("plotly_click", (event) => {
      const x = event.points[0].x;
      if (name === "dose") return choose(Math.round(x));
      const block = latest.blocks.find((b) => b.begin_s <= x && x < b.end_s);
      if (block) choose(block.readers);
    });
  }

  /* What a click on a point does, for the keyboard. */
  function keys(doses) {
    const place = document.getElementById("experiment-dose-keys");
    const wanted = doses.length ? JSON.stringify([doses, chosen]) : "";
    if (place.dataset.drawn === wanted) return;
    place.dataset.drawn = wanted;
    const group = T.make("div", "segments");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Mark the blocks with so many readers");
    for (const dose of [0, ...doses]) {
      const button = T.make("button", "", dose === 0 ? "A" : T.count(dose));
      button.title = dose === 0 ? "blocks without readers" : "blocks with " + readersIn(dose);
      button.setAttribute("aria-pressed", String(chosen === dose));
      button.addEventListener("click", () => {
        choose(dose);
        const again = () => place.querySelectorAll("button")[[0, ...doses].indexOf(dose)];
        requestAnimationFrame(() => requestAnimationFrame(() => again() && again().focus()));
      });
      group.append(button);
    }
    place.replaceChildren(...(doses.length ? [group] : []));
  }

  // --- over time -----------------------------------------------------------------------------------------------------

  function timeChart(told) {
    latest = told;
    const x = told.samples.map((sample) => sample.t_s);
    const p99 = told.samples.map((sample) => sample.p99_ms);
    const median = middle(told.blocks.filter((b) => b.kind === "A" && b.whole && b.p99_ms).map((b) => b.p99_ms));
    const until = Math.max(x[x.length - 1] || 0, ...told.blocks.map((b) => b.end_s));
    const axis = latencyAxis(p99, told.budget_ms);
    const rates = smoothed(told.samples.map((sample) => sample.rate));
    const most = Math.max(1, ...told.samples.map((sample) => sample.readers));
    const traces = [
      line(x, p99, "p99", "y", CALM, "%{y:,.3~g} ms p99 of the half second"),
      line(x, rates, "rate", "y2", CALM, "%{y:,.4~g} triggers/s committed"),
      { ...line(x, told.samples.map((s) => s.readers), "readers", "y3", GREY, "%{y} readers"), fill: "tozeroy", fillcolor: "rgba(118,131,154,0.25)" },
    ];
    traces[2].line.shape = "hv";
    if (median !== null) traces.push(level([0, until], median, "A, median " + T.number(median) + " ms", INK, "dash", "y"));
    if (axis.budget) traces.push(level([0, until], told.budget_ms, "budget " + T.number(told.budget_ms) + " ms", LIMIT, "dot", "y"));
    const bands = told.blocks.concat(underWay(told, until));
    const layout = {
      ...common(),
      margin: { l: 56, r: 12, t: 8, b: 40 },
      hovermode: "x unified",
      shapes: bands.flatMap(band),
      annotations: names(told, bands),
      xaxis: { ...plain(), range: [0, Math.max(until, 1)], anchor: "y3", title: { text: "elapsed, s", standoff: 6 }, hoverformat: ".1f" },
      yaxis: { ...plain(), ...axis.axis, domain: [0.47, TOP], title: { text: "commit p99, ms" } },
      yaxis2: { ...plain(), range: around(rates), domain: [0.2, 0.41], title: { text: "commits/s" }, nticks: 4 },
      yaxis3: { ...plain(), range: [0, most * 1.15], domain: [0, 0.14], title: { text: "readers" }, nticks: 3 },
    };
    const note = (median === null ? "" : "dashed: median of the blocks without readers") + (axis.budget ? "; dotted: budget" : "");
    T.text(document.getElementById("experiment-time-note"), note);
    return { traces, layout };
  }

  const line = (x, y, name, yaxis, color, hover) => ({
    type: "scatter", mode: "lines", x, y, name, yaxis, connectgaps: false, line: { color, width: 1.4 }, hovertemplate: hover + "<extra></extra>",
  });

  const level = (x, y, name, color, dash, yaxis) => ({
    type: "scatter", mode: "lines", x, y: [y, y], name, yaxis, line: { color, width: 1, dash }, hoverinfo: "skip",
  });

  /* The block that is not over yet is not told of: its readers are. */
  function underWay(told, until) {
    if (told.record !== null || !told.samples.length) return [];
    const from = told.blocks.length ? told.blocks[told.blocks.length - 1].end_s : 0;
    const readers = told.samples[told.samples.length - 1].readers;
    return readers && until > from ? [{ kind: "B", readers, begin_s: from, from_s: from, end_s: until, whole: false }] : [];
  }

  function band(block) {
    const marked = chosen !== null && block.readers === chosen;
    const rect = (x0, x1, fillcolor) => ({
      type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: TOP, fillcolor, line: { width: 0 }, layer: "below",
    });
    const shapes = [];
    if (block.kind === "B" || marked) {
      const strength = marked ? 0.3 : chosen === null ? 0.13 : 0.06;
      shapes.push(rect(block.begin_s, block.end_s, "rgba(" + (marked ? "255,212,121" : "156,195,230") + "," + strength + ")"));
    }
    /* What is cut off as warm-up is paler. */
    shapes.push(rect(block.begin_s, block.from_s, "rgba(11,15,20,0.4)"));
    return shapes;
  }

  function names(told, bands) {
    const read = bands.filter((block) => block.kind === "B");
    if (read.length > NAMED) return [];
    return read.map((block) => {
      const ratio = byNeighbours(told.blocks, block, "p99_ms");
      const words = read.length > 8 ? T.count(block.readers) : readersIn(block.readers);
      return {
        text: "<b>" + words + "</b>" + (ratio === null ? "" : "<br>" + (read.length > 8 ? "" : "p99 ") + "×" + T.factor(ratio)),
        x: (block.begin_s + block.end_s) / 2,
        y: TOP, xref: "x", yref: "paper", yanchor: "bottom", showarrow: false,
        font: { size: 11, color: chosen === block.readers ? CHOSEN : INK },
      };
    });
  }

  /* A block of B by the geometric mean of the blocks of A beside it, as the report has it. */
  function byNeighbours(blocks, block, figure) {
    const beside = blocks.filter((b) => Math.abs(b.number - block.number) === 1 && b.whole && b[figure]).map((b) => b[figure]);
    return beside.length < 2 || !block.whole || !block[figure] ? null : block[figure] / Math.sqrt(beside[0] * beside[1]);
  }
  T.byNeighbours = byNeighbours;

  T.factor = (value) => T.number(value, value >= 10 ? 0 : value >= 2 ? 1 : value >= 0.95 && value <= 1.05 ? 3 : 2);

  function smoothed(rates) {
    return rates.map((_, i) => {
      const part = rates.slice(Math.max(0, i - 3), i + 1);
      return i < 3 && rates.length > 3 ? null : part.reduce((sum, rate) => sum + rate, 0) / part.length;
    });
  }

  /* Not from zero: what reading takes off the rate is a few percent for the most part. */
  function around(values) {
    const known = values.filter((value) => value !== null);
    if (!known.length) return [0, 1];
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const span = Math.max(high - low, high * 0.04, 0.1);
    return [Math.max(-0.02 * span, (low + high) / 2 - 0.65 * span), (low + high) / 2 + 0.65 * span];
  }

  function latencyAxis(values, budget) {
    const known = values.filter((value) => value > 0);
    const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [1, 1];
    const near = budget && budget < 1.5 * high;
    if (high / low > LOG_FROM) {
      const top = near ? Math.max(high, budget) : high;
      return { budget: near, axis: { type: "log", range: [Math.log10(low / 1.2), Math.log10(top * 1.3)], ...steps(low, top) } };
    }
    return { budget: near, axis: { type: "linear", range: [0, 1.12 * (near ? Math.max(high, budget) : high)] } };
  }

  /* 1, 2, 5, 10, ... written out: plotly.js shortens those between two powers of ten to their first digit. */
  function steps(low, high) {
    const tickvals = [];
    for (let power = Math.floor(Math.log10(low / 1.2)); 10 ** power <= high * 1.3; power++) {
      for (const digit of high / low > 500 ? [1] : [1, 2, 5]) tickvals.push(digit * 10 ** power);
    }
    return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => Number(value.toPrecision(1)).toLocaleString("en-US")) };
  }

  // --- against the number of readers -----------------------------------------------------------------------------------

  function doseChart(told, doses) {
    const blocks = told.blocks.filter((block) => block.whole && block.p99_ms);
    const points = told.result && told.result.doses.length ? told.result.doses : means(blocks, [0, ...doses]);
    const values = blocks.map((b) => b.p99_ms).concat(points.flatMap((p) => [p.p99_ms.value, p.p99_ms.high || 0]));
    const axis = latencyAxis(values, told.budget_ms);
    const mark = (dose, usual) => (chosen === dose ? CHOSEN : usual);
    const x = points.map((p) => p.readers);
    const bound = (p, side) => (p.p99_ms[side] === null || p.p99_ms[side] === undefined ? 0 : Math.abs(p.p99_ms[side] - p.p99_ms.value));
    const traces = [
      {
        type: "scatter", mode: "markers", name: "blocks", x: blocks.map((b) => b.readers), y: blocks.map((b) => b.p99_ms),
        marker: { size: 5, color: blocks.map((b) => mark(b.readers, "rgba(139,152,168,0.55)")) },
        hovertemplate: "%{y:,.3~g} ms in one block with %{x} readers<extra></extra>",
      },
      {
        type: "scatter", mode: "lines+markers", name: "mean", x, y: points.map((p) => p.p99_ms.value),
        line: { color: CALM, width: 1.6 },
        marker: { size: points.map((p) => (chosen === p.readers ? 13 : 9)), color: points.map((p) => mark(p.readers, CALM)) },
        error_y: { type: "data", symmetric: false, array: points.map((p) => bound(p, "high")), arrayminus: points.map((p) => bound(p, "low")), color: CALM, thickness: 1.4, width: 5 },
        hovertemplate: "%{y:,.3~g} ms with %{x} readers<extra></extra>",
      },
    ];
    const widest = Math.max(1, ...x);
    if (axis.budget) traces.push(level([-widest, 2 * widest], told.budget_ms, "budget", LIMIT, "dot", "y"));
    const bars = points.some((p) => p.p99_ms.low !== null && p.p99_ms.low !== undefined);
    T.text(document.getElementById("experiment-dose-note"), bars ? "bars: 95 % confidence; dots: blocks" : "dots: blocks; line: their means");
    const layout = {
      ...common(),
      margin: { l: 56, r: 12, t: 8, b: 40 },
      hovermode: "closest",
      xaxis: { ...plain(), range: [-0.06 * widest, 1.06 * widest], title: { text: "clients that read; 0 is A", standoff: 6 }, tickmode: "array", tickvals: ticks(x) },
      yaxis: { ...plain(), ...axis.axis, title: { text: "commit p99, ms" } },
    };
    return { traces, layout };
  }

  /* Numbers that would stand on each other are left out. */
  function ticks(x) {
    const widest = Math.max(1, ...x);
    return x.filter((value, i) => i === 0 || i === x.length - 1 || (value - x[i - 1] > 0.04 * widest && x[x.length - 1] - value > 0.04 * widest));
  }

  /* While it runs there are means, and no intervals yet. */
  function means(blocks, doses) {
    return doses
      .map((dose) => [dose, blocks.filter((b) => b.readers === dose).map((b) => b.p99_ms)])
      .filter(([, values]) => values.length)
      .map(([readers, values]) => ({
        readers,
        p99_ms: { value: Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length), low: null, high: null },
      }));
  }

  function middle(values) {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted.length ? (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2 : null;
  }

  const common = () => ({
    height: HEIGHT, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: FONT, showlegend: false,
    dragmode: false, hoverlabel: { bgcolor: "#0b0f14", bordercolor: RULE, font: { ...FONT, color: INK } },
  });

  const plain = () => ({ fixedrange: true, gridcolor: RULE, zeroline: false, nticks: 6 });
})((window.triggerlog = window.triggerlog || {}));

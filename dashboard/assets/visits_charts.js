/* A run of visits drawn: seconds against visit with fitted lines, boxes by bin, the steps of a visit, what is over. */
(function (T) {
  "use strict";

  const { calm, grey, limit, ink } = T.settings.colours;
  const SAND = "#c3b596";
  const TALL = 400;
  const LOW = 230;
  const FEW = 250; // points that have room to be larger
  const NEAR = 3; // a line that far above the points would flatten them: it is drawn on the logarithmic axis alone
  const SERIES = /** @type {const} */ ([["visit_s", "total", calm], ["select_s", "select", grey], ["store_s", "store", SAND]]);
  const STEPS = [
    ["select_object_s", "select object", "#5f87ad"],
    ["select_source_s", "select source", "#7fa8cf"],
    ["select_forced_s", "select forced", "#a9cbea"],
    ["store_last_s", "store last", "#6f675a"],
    ["store_object_s", "store object", "#8d8371"],
    ["store_source_s", "store source", "#aa9f8a"],
    ["store_forced_s", "store forced", "#c6baa3"],
    ["commit_s", "commit", "#e2d7c2"],
  ];
  const SCALES = [
    ["linear", "Linear", "from zero to the longest visit"],
    ["log", "Logarithmic", "with the paper’s line and the limit, however far"],
  ];
  const plotElement = (/** @type {string} */ id) => /** @type {PlotElement} */ (T.byId(id));
  let scale = "linear";
  let drawn = ""; // run, axis and stamp of what is drawn
  let points = 0; // that the chart of seconds holds

  T.drawVisitsCharts = function (id, figures) {
    scaleButtons();
    const wanted = id + "|" + scale + "|" + figures.stamp;
    if (wanted === drawn) return;
    const continues = drawn.startsWith(id + "|" + scale + "|") && figures.from > 0 && figures.from === points;
    const grows = continues && points < FEW === figures.columns.visit.length < FEW;
    const same = drawn.startsWith(id + "|") && drawn.endsWith("|" + figures.stamp); // the axis alone is another
    drawn = wanted;
    time(figures, grows);
    if (same) return;
    boxes(figures);
    steps(figures);
    over(figures);
  };

  function scaleButtons() {
    const place = T.byId("visits-axis");
    if (!place.firstChild) {
      const group = T.make("div", "segments", undefined, { role: "group", "aria-label": "Axis of the seconds" });
      for (const [name, label, title] of SCALES) {
        const button = T.button("", label, () => {
          scale = name;
          T.schedule();
        });
        button.title = title;
        button.dataset.axis = name;
        group.append(button);
      }
      place.append(group);
    }
    for (const button of place.querySelectorAll("button")) T.attribute(button, "aria-pressed", String(button.dataset.axis === scale));
  }

  // --- seconds against visit ---------------------------------------------------------------------------------------------

  /** @param {VisitFigures} figures @param {boolean} grows */
  function time(figures, grows) {
    const { columns } = figures;
    const reach = reachOf(figures);
    const lines = linesOf(figures, reach);
    const margin = 0.01 * Math.max(1, reach.to - reach.from);
    const xaxis = { ...T.plotAxis(), range: [reach.from - margin, reach.to + margin], title: { text: "visit", standoff: 6 }, hoverformat: ",d" };
    const yaxis = { ...T.plotAxis(), title: { text: "seconds" }, ...(scale === "log" ? logarithmic(figures, reach.highest) : { range: [0, 1.06 * reach.highest] }) };
    const plot = plotElement("visits-time");
    if (grows) {
      lines.forEach((line, i) => Object.assign(plot.data[SERIES.length + i], { x: line.x, y: line.y }));
      Object.assign(plot.layout.xaxis, { range: xaxis.range });
      Object.assign(plot.layout.yaxis, { range: yaxis.range });
      const tail = (/** @type {number[]} */ column) => column.slice(points);
      const added = { x: SERIES.map(() => tail(columns.visit)), y: SERIES.map(([name]) => tail(columns[name])) };
      window.Plotly.extendTraces(plot, added, SERIES.map((_, i) => i));
    } else {
      const dots = SERIES.map(([name, label, color]) => ({
        type: "scatter",
        mode: "markers",
        name: label,
        x: [...columns.visit],
        y: [...columns[name]],
        marker: { size: columns.visit.length < FEW ? 5 : 3.5, color, opacity: 0.55 },
        hovertemplate: "%{y:.3~g} s " + label + "<extra></extra>",
      }));
      window.Plotly.react(plot, [...dots, ...lines], { ...layout(TALL), hovermode: "x unified", xaxis, yaxis }, T.settings.graph);
    }
    points = columns.visit.length;
    note(figures, reach);
  }

  /**
   * From which visit to which, up to how many seconds; the paper's line and the limit, where they are not too far up.
   * @param {VisitFigures} figures
   */
  function reachOf({ columns, paper, limit_s }) {
    const from = columns.visit.length ? columns.visit[0] : 0;
    const to = T.lastOf(columns.visit) ?? 1;
    const most = Math.max(1e-6, ...columns.visit_s);
    const paperEnd = paper === null ? null : lineAt(paper, to);
    const shown = (/** @type {number | null} */ value) => (value !== null && (scale === "log" || value <= NEAR * most) ? value : null);
    const highest = Math.max(most, shown(paperEnd) || 0, shown(limit_s) || 0);
    return { from, to, highest, paperEnd, withPaper: shown(paperEnd) !== null, withLimit: shown(limit_s) !== null };
  }

  /** @param {{intercept: number, slope_per_1000: number}} line @param {number} visit */
  const lineAt = (line, visit) => line.intercept + (line.slope_per_1000 * visit) / 1000;

  /** @param {VisitFigures} figures @param {ReturnType<typeof reachOf>} reach */
  function linesOf({ fits, paper, limit_s }, { from, to, withPaper, withLimit }) {
    /** @param {string} name @param {[number, number] | null} ends @param {string} color @param {string} dash @param {number} width */
    const straight = (name, ends, color, dash, width) => ({
      type: "scatter",
      mode: "lines",
      name,
      x: [from, to],
      y: (ends || [null, null]).map((value) => (scale === "log" && value !== null && value <= 0 ? null : value)),
      line: { color, width, dash },
      hoverinfo: "skip",
    });
    /** @param {{intercept: number, slope_per_1000: number} | null} line @returns {[number, number] | null} */
    const ends = (line) => line && [lineAt(line, from), lineAt(line, to)];
    return [
      ...SERIES.map(([name, label, color]) => straight(label + ", line", ends(fits[name]), color, "solid", 2)),
      straight("paper", withPaper ? ends(paper) : null, ink, "dot", 1.4),
      straight("limit", withLimit ? [limit_s, limit_s] : null, limit, "dash", 1.4),
    ];
  }

  /** @param {VisitFigures} figures @param {ReturnType<typeof reachOf>} reach */
  function note(figures, { withPaper, withLimit, paperEnd }) {
    const fit = figures.fits.visit_s;
    const parts = [];
    if (fit) parts.push("total grows by " + T.signed(fit.slope_per_1000) + " s in 1,000 visits");
    const far = [];
    if (paperEnd !== null && !withPaper) far.push("the paper’s line (" + T.seconds(paperEnd) + " s)");
    if (!withLimit) far.push("the limit of " + T.plain(figures.limit_s) + " s");
    if (far.length) parts.push(far.join(" and ") + (far.length > 1 ? " are above" : " is above"));
    if (figures.visits && figures.visits > points) parts.push(T.count(points) + " of " + T.count(figures.visits) + " visits, the extremes included");
    const words = parts.join(" · ");
    T.text(T.byId("visits-time-note"), words);
    const paper = figures.paper ? "; the paper’s line: " + figures.paper.label : "";
    label("visits-time", "Seconds per visit against visit: " + points + " points; " + words + paper);
  }

  /**
   * Steps of 1, 2 and 5, and no more decades than there are.
   * @param {VisitFigures} figures
   * @param {number} highest
   */
  function logarithmic({ columns }, highest) {
    const low = Math.min(...SERIES.flatMap(([name]) => columns[name]).filter((value) => value > 0), highest);
    return { ...logAxis(low, highest, 10 ** 2.5), range: [Math.log10(low) - 0.1, Math.log10(highest) + 0.1] };
  }

  // --- by bin ----------------------------------------------------------------------------------------------------------

  /** @param {{first: number, last: number}[]} bins */
  const middles = (bins) => bins.map(({ first, last }) => (first + last) / 2);
  /** @param {{first: number, last: number}} bin */
  const span = ({ first, last }) => T.count(first) + "–" + T.count(last);

  /** @param {VisitFigures} figures */
  function binned({ boxes, bin }) {
    const begin = boxes.length ? boxes[0].first : 0;
    const end = boxes.length ? Math.max(boxes[boxes.length - 1].last, begin + bin) : 1;
    const margin = 0.03 * (end - begin);
    return { ...T.plotAxis(), range: [begin - margin, end + margin], title: { text: "visit", standoff: 6 } };
  }

  /** @param {VisitFigures} figures */
  function boxes(figures) {
    const { boxes: bins, bin } = figures;
    const x = middles(bins);
    const highest = Math.max(1e-6, ...bins.map((box) => box.high));
    const words = bins.map((box) => {
      const quartiles = [box.q1, box.median, box.q3].map(T.seconds).join(", ");
      const range = T.seconds(box.low) + " to " + T.seconds(box.high);
      return "visits " + span(box) + "<br>" + range + " s<br>quartiles " + quartiles + " s<br>mean " + T.seconds(box.mean) + " s";
    });
    const traces = [
      {
        ...{ type: "box", name: "visits", x, q1: bins.map((box) => box.q1), median: bins.map((box) => box.median), q3: bins.map((box) => box.q3) },
        ...{ lowerfence: bins.map((box) => box.low), upperfence: bins.map((box) => box.high), width: 0.6 * bin, whiskerwidth: 0.5 },
        ...{ line: { color: calm, width: 1.2 }, fillcolor: "rgba(156,195,230,0.18)", hoverinfo: "skip" },
      },
      {
        ...{ type: "scatter", mode: "markers", name: "mean", x, y: bins.map((box) => box.mean), text: words, hovertemplate: "%{text}<extra></extra>" },
        marker: { symbol: "diamond", size: 7, color: ink, line: { color: "#0b0f14", width: 1 } },
      },
    ];
    const yaxis = { ...T.plotAxis(), range: [0, 1.06 * highest], title: { text: "seconds" } };
    draw("visits-boxes", traces, { hovermode: "x", hoverdistance: -1, xaxis: binned(figures), yaxis });
    T.text(T.byId("visits-boxes-note"), "quartiles, the whole range, ◆ mean · " + T.count(bin) + " visits per bin");
    const ends = bins.length ? "median " + T.seconds(bins[0].median) + " s in the first, " + T.seconds(bins[bins.length - 1].median) + " s in the last" : "none yet";
    label("visits-boxes", "Boxes of the seconds per visit, " + T.count(bin) + " visits per bin: " + ends);
  }

  /** @param {VisitFigures} figures */
  function steps(figures) {
    const used = STEPS.filter(([name]) => (figures.parts[name] || []).some((value) => value > 0));
    const traces = used.map(([name, label, color]) => ({
      ...bars(figures, label, figures.parts[name], color),
      hovertemplate: "%{y:.3~g} s " + label + "<extra></extra>",
    }));
    const xaxis = { ...binned(figures), hoverformat: ",d" };
    const yaxis = { ...T.plotAxis(), rangemode: "tozero", title: { text: "seconds, mean" } };
    draw("visits-parts", traces, { barmode: "stack", hovermode: "x unified", xaxis, yaxis });
    legend(used, figures.bin);
    const last = used.map(([name, label]) => label + " " + T.seconds(T.lastOf(figures.parts[name])) + " s").join(", ");
    label("visits-parts", "Mean seconds per visit by step; in the last bin: " + last);
  }

  /** @param {VisitFigures} figures @param {string} name @param {number[]} y @param {string} color */
  const bars = (figures, name, y, color) => ({ type: "bar", name, x: middles(figures.boxes), y, width: 0.86 * figures.bin, marker: { color, line: { width: 0 } } });

  /** @param {string[][]} used @param {number} bin */
  function legend(used, bin) {
    const place = T.byId("visits-parts-note");
    if (!T.differs(place, used.map(([name]) => name).join("|"))) return;
    place.classList.add("keys");
    place.replaceChildren(
      ...used.map(([, label, color]) => {
        const key = T.make("span", "key");
        const swatch = T.make("i", "block");
        swatch.style.background = color;
        key.append(swatch, label);
        return key;
      })
    );
    T.attribute(place, "title", "mean seconds of the visits of a bin of " + T.count(bin));
  }

  /** @param {VisitFigures} figures */
  function over(figures) {
    const shares = figures.over.map(({ fraction }) => 100 * fraction);
    const trace = {
      ...bars(figures, "over", shares, limit),
      ...{ x: middles(figures.over), text: figures.over.map(span), textposition: "none", hovertemplate: "%{y:.3~g} % of visits %{text}<extra></extra>" },
    };
    const highest = Math.max(0, ...shares);
    const yaxis = { ...T.plotAxis(), range: [0, [5, 20, 100].find((top) => highest <= top)], ticksuffix: " %" };
    draw("visits-over", [trace], { hovermode: "x", hoverdistance: -1, xaxis: binned(figures), yaxis });
    const words = (highest > 0 ? "took" : "none took") + " longer than " + T.plain(figures.limit_s) + " s";
    T.text(T.byId("visits-over-note"), words);
    label("visits-over", "Visits over the limit by bin: " + (highest > 0 ? T.number(T.lastOf(shares), 0) + " % of the last bin " : "") + words);
  }

  /** @param {string} id @param {object[]} traces @param {object} further */
  function draw(id, traces, further) {
    window.Plotly.react(plotElement(id), traces, { ...layout(LOW), ...further }, T.settings.graph);
  }

  const layout = (/** @type {number} */ height) => ({ ...T.plotLayout(height), margin: { l: 52, r: 12, t: 8, b: 38 } });

  /** @param {string} name @param {string} words */
  function label(name, words) {
    const place = T.byId(name);
    T.attribute(place, "role", "img");
    T.attribute(place, "aria-label", words);
  }

  /* 1, 2, 5, 10, ... written out: plotly.js shortens those between two powers of ten to their first digit. */
  /** @param {number} low @param {number} high @param {number} wide */
  function logAxis(low, high, wide) {
    const tickvals = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high * 1.3; power++) {
      for (const digit of high / low > wide ? [1] : [1, 2, 5]) tickvals.push(digit * 10 ** power);
    }
    const ticktext = tickvals.map((value) => Number(value.toPrecision(1)).toLocaleString("en-US", { maximumFractionDigits: 12 }));
    return { type: "log", tickmode: "array", tickvals, ticktext };
  }
})(window.triggerlog);

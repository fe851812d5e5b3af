/* A run of visits drawn: seconds against visit with their lines, boxes by bin, what the seconds go into, what is over. */
(function (T) {
  "use strict";

  const CALM = "#9cc3e6";
  const GREY = "#76839a";
  const SAND = "#c3b596";
  const LIMIT = "#d98a86";
  const RULE = "#222b35";
  const INK = "#c9d3de";
  const FONT = { family: "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif", size: 11, color: "#8b98a8" };
  const CONFIG = { displayModeBar: false, displaylogo: false, scrollZoom: false, responsive: true };
  const TALL = 400;
  const LOW = 230;
  const FEW = 250; // points that have room to be larger
  const NEAR = 3; // a line that far above the points would flatten them: it is drawn on the logarithmic axis alone
  const SERIES = [["visit_s", "total", CALM], ["select_s", "select", GREY], ["store_s", "store", SAND]];
  const PARTS = [
    ["select_object_s", "select object", "#5f87ad"], ["select_source_s", "select source", "#7fa8cf"], ["select_forced_s", "select forced", "#a9cbea"],
    ["store_last_s", "store last", "#6f675a"], ["store_object_s", "store object", "#8d8371"], ["store_source_s", "store source", "#aa9f8a"],
    ["store_forced_s", "store forced", "#c6baa3"], ["commit_s", "commit", "#e2d7c2"],
  ];
  const $ = (id) => document.getElementById(id);
  const seconds = T.visitSeconds || ((value) => T.number(value));
  const finite = (value) => value !== null && value !== undefined && Number.isFinite(value);
  let scale = "linear";
  let drawn = ""; // run, axis and stamp of what is drawn
  let points = 0; // that the chart of seconds holds

  T.drawVisitsCharts = function (id, told) {
    axisKeys();
    const wanted = id + "|" + scale + "|" + told.stamp;
    if (wanted === drawn) return;
    const grows = drawn.startsWith(id + "|" + scale + "|") && told.from > 0 && told.from === points && points < FEW === told.columns.visit.length < FEW;
    const same = drawn.startsWith(id + "|") && drawn.endsWith("|" + told.stamp); // the axis alone is another
    drawn = wanted;
    time(told, grows);
    if (same) return;
    boxes(told);
    parts(told);
    over(told);
  };

  function axisKeys() {
    const place = $("visits-axis");
    if (!place.firstChild) {
      const group = T.make("div", "segments");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", "Axis of the seconds");
      for (const [name, label, title] of [["linear", "Linear", "from zero to the longest visit"], ["log", "Logarithmic", "with the paper’s line and the limit, however far"]]) {
        const button = T.make("button", "", label);
        button.type = "button";
        button.title = title;
        button.dataset.axis = name;
        button.addEventListener("click", () => {
          scale = name;
          T.schedule();
        });
        group.append(button);
      }
      place.append(group);
    }
    for (const button of place.querySelectorAll("button")) T.attribute(button, "aria-pressed", String(button.dataset.axis === scale));
  }

  // --- seconds against visit ---------------------------------------------------------------------------------------------

  function time(told, grows) {
    const { columns } = told;
    const to = columns.visit.length ? columns.visit[columns.visit.length - 1] : 1;
    const from = columns.visit.length ? columns.visit[0] : 0;
    const most = Math.max(1e-6, ...columns.visit_s.filter(finite));
    const paper = told.paper ? (visit) => told.paper.intercept + (told.paper.slope_per_1000 * visit) / 1000 : null;
    const shows = (value) => scale === "log" || value <= NEAR * most;
    const withPaper = paper !== null && shows(paper(to));
    const withLimit = shows(told.limit_s);
    const highest = Math.max(most, withPaper ? paper(to) : 0, withLimit ? told.limit_s : 0);
    const lines = SERIES.map(([name, label, color]) => {
      const fit = told.fits[name];
      return straight(label + ", line", fit ? [fit.intercept + (fit.slope_per_1000 * from) / 1000, fit.intercept + (fit.slope_per_1000 * to) / 1000] : [null, null], color, "solid", 2);
    });
    function straight(name, y, color, dash, width) {
      return { type: "scatter", mode: "lines", name, x: [from, to], y: y.map((value) => (scale === "log" && value <= 0 ? null : value)), line: { color, width, dash }, hoverinfo: "skip" };
    }
    const further = [
      straight("paper", withPaper ? [paper(from), paper(to)] : [null, null], INK, "dot", 1.4),
      straight("limit", withLimit ? [told.limit_s, told.limit_s] : [null, null], LIMIT, "dash", 1.4),
    ];
    const width = Math.max(1, to - from);
    const xaxis = { ...plain(), range: [from - 0.01 * width, to + 0.01 * width], title: { text: "visit", standoff: 6 }, hoverformat: ",d" };
    const yaxis = { ...plain(), title: { text: "seconds" }, ...(scale === "log" ? logarithmic(columns, highest) : { range: [0, 1.06 * highest] }) };
    const place = $("visits-time");
    if (grows) {
      const tail = (name) => columns[name].slice(points);
      for (const [i, line] of [...lines, ...further].entries()) Object.assign(place.data[SERIES.length + i], { x: line.x, y: line.y });
      Object.assign(place.layout.xaxis, { range: xaxis.range });
      Object.assign(place.layout.yaxis, { range: yaxis.range });
      window.Plotly.extendTraces(place, { x: SERIES.map(() => tail("visit")), y: SERIES.map(([name]) => tail(name)) }, SERIES.map((_, i) => i));
    } else {
      const dots = SERIES.map(([name, label, color]) => ({
        type: "scatter", mode: "markers", name: label, x: [...columns.visit], y: [...columns[name]],
        marker: { size: columns.visit.length < FEW ? 5 : 3.5, color, opacity: 0.55 }, hovertemplate: "%{y:.3~g} s " + label + "<extra></extra>",
      }));
      const layout = { ...common(TALL), hovermode: "x unified", xaxis, yaxis };
      window.Plotly.react(place, [...dots, ...lines, ...further], layout, CONFIG);
    }
    points = columns.visit.length;
    note(told, { withPaper, withLimit, paper, to });
  }

  function note(told, { withPaper, withLimit, paper, to }) {
    const fit = told.fits.visit_s;
    const parts = [];
    if (fit) parts.push("total grows by " + signed(fit.slope_per_1000) + " s in 1,000 visits");
    const far = [];
    if (paper !== null && !withPaper) far.push("the paper’s line (" + seconds(paper(to)) + " s)");
    if (!withLimit) far.push("the limit of " + T.plain(told.limit_s) + " s");
    if (far.length) parts.push(far.join(" and ") + (far.length > 1 ? " lie above" : " lies above"));
    if (told.visits && told.visits > points) parts.push(T.count(points) + " of " + T.count(told.visits) + " visits, the extremes among them");
    const words = parts.join(" · ");
    T.text($("visits-time-note"), words);
    const text = told.columns.visit.length + " points; " + words + (told.paper ? "; the paper’s line: " + told.paper.label : "");
    label("visits-time", "Seconds a visit against visit: " + text);
  }

  const signed = (value) => (value < 0 ? "−" : "") + String(Number(Math.abs(value).toPrecision(3)));

  /* Steps of 1, 2 and 5, and no more decades than there are. */
  function logarithmic(columns, highest) {
    const low = Math.min(...SERIES.flatMap(([name]) => columns[name]).filter((value) => finite(value) && value > 0), highest);
    const decades = Math.log10(highest / low);
    const tickvals = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= highest * 1.3; power++) {
      for (const digit of decades > 2.5 ? [1] : [1, 2, 5]) tickvals.push(digit * 10 ** power);
    }
    const ticktext = tickvals.map((value) => String(Number(value.toPrecision(1))));
    return { type: "log", range: [Math.log10(low) - 0.1, Math.log10(highest) + 0.1], tickmode: "array", tickvals, ticktext };
  }

  // --- by bin ----------------------------------------------------------------------------------------------------------

  const middles = (bins) => bins.map(({ first, last }) => (first + last) / 2);
  const spans = (bins) => bins.map(({ first, last }) => T.count(first) + "–" + T.count(last));

  function binned(told) {
    const bins = told.boxes;
    const begin = bins.length ? bins[0].first : 0;
    const end = bins.length ? Math.max(bins[bins.length - 1].last, bins[0].first + told.bin) : 1;
    return { ...plain(), range: [begin - 0.03 * (end - begin), end + 0.03 * (end - begin)], title: { text: "visit", standoff: 6 } };
  }

  function boxes(told) {
    const { boxes: bins, bin } = told;
    const pick = (name) => bins.map((box) => box[name]);
    const x = middles(bins);
    const highest = Math.max(1e-6, ...pick("high"));
    const said = bins.map((b, i) => "visits " + spans(bins)[i] + "<br>" + seconds(b.low) + " to " + seconds(b.high) + " s<br>quartiles " + seconds(b.q1) + ", " + seconds(b.median) + ", " + seconds(b.q3) + " s<br>mean " + seconds(b.mean) + " s");
    const traces = [
      {
        type: "box", name: "visits", x, q1: pick("q1"), median: pick("median"), q3: pick("q3"), lowerfence: pick("low"), upperfence: pick("high"),
        width: 0.6 * bin, whiskerwidth: 0.5, line: { color: CALM, width: 1.2 }, fillcolor: "rgba(156,195,230,0.18)", hoverinfo: "skip",
      },
      {
        type: "scatter", mode: "markers", name: "mean", x, y: pick("mean"), text: said, hovertemplate: "%{text}<extra></extra>",
        marker: { symbol: "diamond", size: 7, color: INK, line: { color: "#0b0f14", width: 1 } },
      },
    ];
    const layout = { ...common(LOW), hovermode: "x", hoverdistance: -1, xaxis: binned(told), yaxis: { ...plain(), range: [0, 1.06 * highest], title: { text: "seconds" } } };
    window.Plotly.react($("visits-boxes"), traces, layout, CONFIG);
    T.text($("visits-boxes-note"), "quartiles, the whole range, ◆ mean · " + T.count(bin) + " visits a bin");
    label("visits-boxes", "Boxes of the seconds a visit, " + T.count(bin) + " visits a bin: " + (bins.length ? "median " + seconds(bins[0].median) + " s in the first, " + seconds(bins[bins.length - 1].median) + " s in the last" : "none yet"));
  }

  function parts(told) {
    const bins = told.boxes;
    const there = PARTS.filter(([name]) => (told.parts[name] || []).some((value) => value > 0));
    const traces = there.map(([name, label, color]) => ({
      type: "bar", name: label, x: middles(bins), y: told.parts[name], width: 0.86 * told.bin, marker: { color, line: { width: 0 } },
      hovertemplate: "%{y:.3~g} s " + label + "<extra></extra>",
    }));
    const layout = { ...common(LOW), barmode: "stack", hovermode: "x unified", xaxis: { ...binned(told), hoverformat: ",d" }, yaxis: { ...plain(), rangemode: "tozero", title: { text: "seconds, mean" } } };
    window.Plotly.react($("visits-parts"), traces, layout, CONFIG);
    legend(there, told);
    const last = there.map(([name, label]) => label + " " + seconds(told.parts[name][told.parts[name].length - 1]) + " s").join(", ");
    label("visits-parts", "Mean seconds a visit by what they go into; in the last bin: " + last);
  }

  /* From the top of the stack down, as the eye finds them. */
  function legend(there, told) {
    const place = $("visits-parts-note");
    const wanted = there.map(([name]) => name).join("|");
    if (place.dataset.drawn === wanted) return;
    place.dataset.drawn = wanted;
    place.classList.add("keys");
    place.replaceChildren(
      ...there.map(([, label, color]) => {
        const key = T.make("span", "key");
        const swatch = T.make("i", "block");
        swatch.style.background = color;
        key.append(swatch, label);
        return key;
      })
    );
    T.attribute(place, "title", "mean seconds of the visits of a bin of " + T.count(told.bin));
  }

  function over(told) {
    const bins = told.over;
    const shares = bins.map(({ fraction }) => 100 * fraction);
    const traces = [
      {
        type: "bar", name: "over", x: middles(bins), y: shares, width: 0.86 * told.bin, marker: { color: LIMIT, line: { width: 0 } },
        text: spans(bins), textposition: "none", hovertemplate: "%{y:.3~g} % of visits %{text}<extra></extra>",
      },
    ];
    const highest = Math.max(0, ...shares);
    const yaxis = { ...plain(), range: [0, [5, 20, 100].find((top) => highest <= top)], ticksuffix: " %" };
    window.Plotly.react($("visits-over"), traces, { ...common(LOW), hovermode: "x", hoverdistance: -1, xaxis: binned(told), yaxis }, CONFIG);
    const any = shares.some((share) => share > 0);
    const words = any ? "took longer than " + T.plain(told.limit_s) + " s" : "none took longer than " + T.plain(told.limit_s) + " s";
    T.text($("visits-over-note"), words);
    label("visits-over", "Visits over the limit by bin: " + (any ? T.number(shares[shares.length - 1], 0) + " % of the last bin " : "") + words);
  }

  function label(name, words) {
    const place = $(name);
    T.attribute(place, "role", "img");
    T.attribute(place, "aria-label", words);
  }

  const common = (height) => ({
    height, autosize: true, margin: { l: 52, r: 12, t: 8, b: 38 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: FONT,
    showlegend: false, dragmode: false, hoverlabel: { bgcolor: "#0b0f14", bordercolor: RULE, font: { ...FONT, color: INK } },
  });

  const plain = () => ({ fixedrange: true, gridcolor: RULE, zeroline: false, nticks: 6 });
})((window.triggerlog = window.triggerlog || {}));

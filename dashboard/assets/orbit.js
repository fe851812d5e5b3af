/* The orbit: the newest trigger's values against the instruments, each second while it is seen. */
(function (T) {
  "use strict";

  const EVERY_MS = 1000;
  const OLD_S = 5;
  const INK = "#8b98a8";
  const RULE = "#222b35";
  const LINE = "#9cc3e6";
  const RED = "#ff8178";
  const STEPS = [1, 2, 5, 10];
  const $ = (id) => document.getElementById(id);

  let asking = false;
  let askedAt = 0;
  let asked = "";
  let shown = null; // the answer that is drawn
  let spans = {}; // plot -> range of its axis
  let ready = false;

  T.onTab("instruments", (liveness) => {
    if (!ready) listen();
    const wanted = T.view.group + " " + (T.view.channel || "");
    const due = wanted !== asked || performance.now() - askedAt > EVERY_MS;
    if (due && !asking && liveness !== "none" && T.view.pausedAt === null) ask(wanted);
    note(liveness);
  });

  function listen() {
    ready = true;
    $("orbit-choice").addEventListener("change", () => T.choose({ channel: $("orbit-choice").value }));
  }

  async function ask(wanted) {
    asking = true;
    if (wanted !== asked) spans = {};
    asked = wanted;
    askedAt = performance.now();
    const choice = T.view.channel === null ? "" : "?choice=" + encodeURIComponent(T.view.channel);
    const answer = await T.told("groups/" + T.view.group + "/orbit" + choice);
    asking = false;
    if (answer.told) draw((shown = Object.assign(answer.told, { group: wanted.split(" ")[0] })));
    else if (shown) shown.problem = answer.problem;
    else T.text($("orbit-note"), answer.problem);
  }

  function note(liveness) {
    if (!shown) return;
    if (shown.trigger === null) {
      T.text($("orbit-note"), "no trigger is stored yet");
      return;
    }
    const age = seconds();
    const old = age > OLD_S || liveness === "none" || shown.problem;
    const when = old ? "of " + T.time(shown.time_ms) + " UTC, about " + T.about(age) + " ago" : T.time(shown.time_ms) + " UTC";
    const rms = shown.plots.map((plot) => plot.name + " rms " + T.number(plot.rms) + " " + plot.unit).join(", ");
    T.text($("orbit-note"), "trigger " + T.count(shown.trigger) + " · " + when + " · " + rms + (shown.problem ? " · " + shown.problem : ""));
    T.attribute($("orbit-note"), "data-old", old ? "true" : null);
  }

  /* How old it is: by the triggers since, while there are any, for the clock of an instrument may be off. */
  function seconds() {
    const newest = (T.section("totals", shown.group) || {}).newest;
    const rate = T.latest(shown.group, "received");
    if (rate > 0 && newest != null && newest >= shown.trigger) return (newest - shown.trigger) / rate;
    return (T.now() - shown.time_ms) / 1e3;
  }

  function draw(told) {
    T.setOptions($("orbit-choice"), told.choices.map((name) => [name, name]));
    $("orbit-choice").value = told.choice;
    missing(told);
    const gd = $("orbit").querySelector(".js-plotly-plot");
    if (!gd) return;
    const names = told.plots.map((_, i) => "y" + (i ? i + 1 : ""));
    const traces = told.plots.flatMap((plot, i) => [values(plot, names[i], told.group), gone(told, plot, names[i])]);
    window.Plotly.react(gd, traces, layout(gd, told));
    if (!gd.dataset.listens) {
      gd.dataset.listens = "true";
      gd.on("plotly_click", (event) => T.pick(shown.group, event.points[0].x));
    }
  }

  function values(plot, yaxis, group) {
    return {
      x: plot.values.map((_, i) => i),
      y: plot.values,
      yaxis,
      name: plot.name,
      mode: plot.values.length > 400 ? "lines" : "lines+markers",
      connectgaps: false,
      line: { color: LINE, width: 1 },
      marker: { size: 4 },
      text: plot.values.map((_, i) => T.instrumentName(group, i)),
      hovertemplate: "%{text}: %{y:.4~g} " + plot.unit + "<extra></extra>",
    };
  }

  /* Who is missing stands on the lower edge: a gap in a line of points is not seen. */
  function gone(told, plot, yaxis) {
    return {
      x: told.missing,
      y: told.missing.map(() => span(plot)[0]),
      yaxis,
      mode: "markers",
      cliponaxis: false,
      marker: { symbol: "x", size: 7, color: RED },
      text: told.missing.map((i) => T.instrumentName(told.group, i)),
      hovertemplate: "%{text}: missing<extra></extra>",
    };
  }

  function layout(gd, told) {
    const made = {
      height: gd.layout.height || 330,
      autosize: true,
      margin: { l: 56, r: 10, t: 8, b: 34 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { size: 11, color: INK },
      showlegend: false,
      hovermode: "closest",
      dragmode: false,
      xaxis: { range: [-1, told.plots[0].values.length], fixedrange: true, gridcolor: RULE, zeroline: false, title: { text: "instrument", standoff: 6 } },
    };
    const n = told.plots.length;
    told.plots.forEach((plot, i) => {
      const top = 1 - i / n;
      made["yaxis" + (i ? i + 1 : "")] = {
        domain: [top - 1 / n + (i < n - 1 ? 0.06 : 0), top],
        range: span(plot),
        fixedrange: true,
        gridcolor: RULE,
        zerolinecolor: "#3a4654",
        nticks: 5,
        title: { text: plot.name + (plot.unit ? " (" + plot.unit + ")" : ""), standoff: 4 },
      };
    });
    if (n > 1) made.xaxis.anchor = "y" + n;
    return made;
  }

  /* An axis that fits and stays: it grows when something leaves it, and shrinks when half of it lies empty. */
  function span(plot) {
    const known = plot.values.filter((value) => value !== null);
    let low = Math.min(...known);
    let high = Math.max(...known);
    if (!known.length) return [-1, 1];
    const before = spans[plot.name];
    const size = Math.max(high - low, Math.abs(high) * 0.01) || 1;
    if (before && low >= before[0] && high <= before[1] && size > (before[1] - before[0]) / 3) return before;
    const step = nice(size / 4);
    low = Math.floor((low - size * 0.1) / step) * step;
    high = Math.ceil((high + size * 0.1) / step) * step;
    return (spans[plot.name] = [low, high]);
  }

  function nice(value) {
    const power = Math.pow(10, Math.floor(Math.log10(value)));
    return power * STEPS.find((step) => value <= step * power * 1.000001);
  }

  function missing(told) {
    const names = told.missing.slice(0, 12).map((number) => T.instrumentName(told.group, number));
    const more = told.missing.length > 12 ? " and " + (told.missing.length - 12) + " more" : "";
    const words = told.missing.length ? "✕ Missing from this trigger: " + names.join(", ") + more + "." : "";
    T.text($("orbit-missing"), words);
  }
})((window.triggerlog = window.triggerlog || {}));

/* The orbit: the newest trigger's values against the instruments, each second while it is visible. */
(function (T) {
  "use strict";

  const EVERY_MS = 1000;
  const OLD_S = 5;
  const NAMED = 12; // missing instruments that are named
  const STEPS = [1, 2, 5, 10];
  const { calm, rule, red } = T.settings.colours;
  const $ = T.byId;

  let asking = false;
  let askedAt = 0;
  let asked = "";
  /** @type {(Orbit & {group: string, problem?: string}) | null} */
  let shown = null; // the answer that is drawn
  /** @type {Record<string, [number, number]>} */
  let spans = {}; // plot -> range of its axis
  let ready = false;

  T.onTab("instruments", (liveness) => {
    if (!ready) listen();
    const wanted = T.view.group + " " + (T.view.channel || "");
    const due = wanted !== asked || performance.now() - askedAt > EVERY_MS;
    if (due && !asking && liveness !== "none" && T.view.pausedAt === null) ask(wanted);
    note(liveness);
  });

  const choice = () => /** @type {HTMLSelectElement} */ ($("orbit-choice"));

  function listen() {
    ready = true;
    choice().addEventListener("change", () => T.choose({ channel: choice().value }));
  }

  /** @param {string} wanted */
  async function ask(wanted) {
    asking = true;
    if (wanted !== asked) spans = {};
    asked = wanted;
    askedAt = performance.now();
    const group = T.view.group;
    const chosen = T.view.channel === null ? "" : "?choice=" + encodeURIComponent(T.view.channel);
    const { answer, problem } = await T.ask(`groups/${group}/orbit${chosen}`);
    asking = false;
    if (answer) draw((shown = { ...answer, group }));
    else if (shown) shown.problem = problem;
    else T.text($("orbit-note"), problem);
  }

  /** @param {Liveness} liveness */
  function note(liveness) {
    if (!shown) return;
    if (shown.trigger === null || shown.time_ms === null) {
      T.text($("orbit-note"), "no trigger is stored yet");
      return;
    }
    const age = seconds(shown.group, shown.trigger, shown.time_ms);
    const old = age > OLD_S || liveness === "none" || shown.problem !== undefined;
    const when = T.time(shown.time_ms) + " UTC";
    const rms = shown.plots.map((plot) => plot.name + " rms " + T.number(plot.rms) + " " + plot.unit).join(", ");
    const parts = ["trigger " + T.count(shown.trigger), old ? "of " + when + ", about " + T.about(age) + " ago" : when, rms];
    if (shown.problem) parts.push(shown.problem);
    T.text($("orbit-note"), parts.join(" · "));
    T.attribute($("orbit-note"), "data-old", old ? "true" : null);
  }

  /**
   * How old a trigger is: by the triggers since, while there are any, for the clock of an instrument may be off.
   * @param {string} group
   * @param {number} trigger
   * @param {number} time_ms
   */
  function seconds(group, trigger, time_ms) {
    const newest = T.section(`totals/${group}`)?.newest ?? null;
    const rate = T.latest(group, "received");
    if (rate !== null && rate > 0 && newest !== null && newest >= trigger) return (newest - trigger) / rate;
    return (T.now() - time_ms) / 1e3;
  }

  /** @param {Orbit & {group: string}} orbit */
  function draw(orbit) {
    T.setOptions(choice(), orbit.choices.map((name) => [name, name]));
    choice().value = orbit.choice;
    missing(orbit);
    const plot = T.plotOf($("orbit"));
    if (!plot) return;
    const traces = orbit.plots.flatMap((each, i) => [values(each, axisName(i), orbit.group), gone(orbit, each, axisName(i))]);
    window.Plotly.react(plot, traces, layout(plot, orbit));
    if (!plot.dataset.listens) {
      plot.dataset.listens = "true";
      plot.on("plotly_click", (event) => shown && T.pick(shown.group, event.points[0].x));
    }
  }

  const axisName = (/** @type {number} */ i) => "y" + (i ? i + 1 : "");

  /** @param {OrbitPlot} plot @param {string} yaxis @param {string} group */
  function values(plot, yaxis, group) {
    return {
      x: plot.values.map((_, i) => i),
      y: plot.values,
      yaxis,
      name: plot.name,
      mode: plot.values.length > 400 ? "lines" : "lines+markers",
      connectgaps: false,
      line: { color: calm, width: 1 },
      marker: { size: 4 },
      text: plot.values.map((_, i) => T.instrumentName(group, i)),
      hovertemplate: "%{text}: %{y:.4~g} " + plot.unit + "<extra></extra>",
    };
  }

  /**
   * Missing instruments are marked on the lower edge: a gap in a line of points is not visible.
   * @param {Orbit & {group: string}} orbit
   * @param {OrbitPlot} plot
   * @param {string} yaxis
   */
  function gone(orbit, plot, yaxis) {
    return {
      x: orbit.missing,
      y: orbit.missing.map(() => span(plot)[0]),
      yaxis,
      mode: "markers",
      cliponaxis: false,
      marker: { symbol: "x", size: 7, color: red },
      text: orbit.missing.map((i) => T.instrumentName(orbit.group, i)),
      hovertemplate: "%{text}: missing<extra></extra>",
    };
  }

  /** @param {PlotElement} plot @param {Orbit} orbit */
  function layout(plot, orbit) {
    const n = orbit.plots.length;
    const xaxis = { range: [-1, orbit.plots[0].values.length], fixedrange: true, gridcolor: rule, zeroline: false, title: { text: "instrument", standoff: 6 } };
    const axes = orbit.plots.map((each, i) => {
      const top = 1 - i / n;
      return {
        domain: [top - 1 / n + (i < n - 1 ? 0.06 : 0), top],
        range: span(each),
        fixedrange: true,
        gridcolor: rule,
        zerolinecolor: "#3a4654",
        nticks: 5,
        title: { text: each.name + (each.unit ? " (" + each.unit + ")" : ""), standoff: 4 },
      };
    });
    return {
      ...T.plotLayout(plot.layout.height || 330),
      margin: { l: 56, r: 10, t: 8, b: 34 },
      hovermode: "closest",
      xaxis: n > 1 ? { ...xaxis, anchor: "y" + n } : xaxis,
      ...Object.fromEntries(axes.map((axis, i) => ["yaxis" + (i ? i + 1 : ""), axis])),
    };
  }

  /**
   * An axis that fits and stays: it grows when something leaves it, and shrinks when half of it is empty.
   * @param {OrbitPlot} plot
   * @returns {[number, number]}
   */
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

  /** @param {number} value */
  function nice(value) {
    const power = Math.pow(10, Math.floor(Math.log10(value)));
    return power * (STEPS.find((step) => value <= step * power * 1.000001) || 10);
  }

  /** @param {Orbit & {group: string}} orbit */
  function missing({ missing, group }) {
    const names = missing.slice(0, NAMED).map((number) => T.instrumentName(group, number));
    const more = missing.length > NAMED ? " and " + (missing.length - NAMED) + " more" : "";
    T.text($("orbit-missing"), missing.length ? "✕ Missing from this trigger: " + names.join(", ") + more + "." : "");
  }
})(window.triggerlog);

/* The tab Visits: what is known of the run that is shown, fetched while it is visible, and which run that is. */
(function (T) {
  "use strict";

  const AGAIN_MS = { active: 3000, over: 8000 };
  const KEPT = 4; // runs whose figures are held here
  const $ = T.byId;
  /** @type {Map<string, VisitFigures>} */
  const figures = new Map(); // id -> figures, the one used last at the end
  /** @type {PastVisits[] | null} */
  let past = null;
  /** @type {VisitSettings | null} */
  let settings = null;
  let version = 0;
  let problem = "";
  let unknown = ""; // why the run that the address names cannot be had
  let askedAt = -Infinity;
  /** @type {string | null} */
  let askedFor = null;
  let asking = false;

  T.onTab("visits", (liveness) => {
    const status = T.section("visits") || null;
    const id = wanted(status);
    const active = status !== null && status.active;
    const due = performance.now() - askedAt >= (active ? AGAIN_MS.active : AGAIN_MS.over) || askedFor !== id;
    if (!asking && due) ask(id);
    T.problem($("visits-problem"), problem || unknown);
    const live = status !== null && status.id === id ? status : null;
    const kept = (past || []).find((one) => one.id === id) || null;
    const known = figures.get(id) || null;
    T.visitsForm(active, settings);
    T.drawVisitsRun({ id, live, kept, figures: known, listed: past !== null }, liveness);
    T.drawVisitsPast(past || [], id);
    $("visits-shown").hidden = id === "" || (live === null && known === null);
    if ($("visits-shown").hidden) return;
    T.drawVisitsTiles(live, known, liveness);
    T.drawVisitsSky(id, known, live);
    if (known === null) return;
    T.drawVisitsCharts(id, known);
    T.drawVisitsTables(known);
  });

  /**
   * The one that the address names; without one what runs now or ran last.
   * @param {VisitsSection | null} status
   */
  const wanted = (status) => T.view.visits || (status ? status.id : past && past.length ? past[0].id : "");

  T.askVisits = function () {
    askedAt = -Infinity;
    T.schedule();
  };

  T.chooseVisits = function (id) {
    unknown = "";
    T.choose({ visits: id }, true);
    $("visits-run").scrollIntoView({ block: "nearest" });
  };

  /** @param {string} id */
  async function ask(id) {
    asking = true;
    askedAt = performance.now();
    askedFor = id;
    const known = figures.get(id);
    const question = new URLSearchParams({ run: id, stamp: String(known ? known.stamp : 0), version: String(version) });
    const found = await T.ask(`visits?${question}`);
    asking = false;
    problem = found.problem && "Visits are unknown: " + found.problem + ".";
    if (found.answer) take(found.answer);
    T.schedule();
  }

  /** @param {VisitsAnswer} answer */
  function take(answer) {
    version = answer.version;
    if (answer.past !== null) {
      past = answer.past;
      settings = answer.settings;
    }
    const { run, figures: sent } = answer;
    unknown = answer.problem && T.view.visits === run ? "The run " + run + " cannot be shown: " + answer.problem + "." : "";
    if (sent === null || run === null) return;
    const kept = figures.get(run);
    figures.delete(run);
    if ("columns" in sent) figures.set(run, joined(kept, sent));
    else if (kept) figures.set(run, kept);
    const oldest = [...figures.keys()][0];
    if (figures.size > KEPT) figures.delete(oldest);
  }

  /**
   * Of a run that grows the answer holds the points that came since.
   * @param {VisitFigures | undefined} kept
   * @param {VisitFigures} sent
   */
  function joined(kept, sent) {
    const columns = { ...sent.columns };
    for (const name of T.keys(columns)) {
      if (sent.from && kept) columns[name] = kept.columns[name].slice(0, sent.from).concat(sent.columns[name]);
    }
    return { ...sent, columns, from: kept ? sent.from : 0 };
  }
})(window.triggerlog);

/* The tab Visits: what is known of the run that is shown, asked for while it is seen, and which run that is. */
(function (T) {
  "use strict";

  const AGAIN_MS = { going: 3000, over: 8000 };
  const KEPT = 4; // runs whose figures are kept here
  const GOING = ["starting", "running", "stopping"];
  const $ = (id) => document.getElementById(id);
  const figures = new Map(); // id -> figures, the one used last at the end
  let past = null;
  let settings = null;
  let version = 0;
  let problem = "";
  let unknown = ""; // why the run that the address names cannot be had
  let askedAt = -Infinity;
  let askedFor = null;
  let asking = false;

  T.onTab("visits", (liveness) => {
    const status = T.section("visits") || null;
    const id = wanted(status);
    const going = status !== null && GOING.includes(status.state);
    const due = performance.now() - askedAt >= (going ? AGAIN_MS.going : AGAIN_MS.over) || askedFor !== id;
    if (!asking && due) ask(id);
    const place = $("visits-problem");
    T.text(place, problem || unknown);
    place.hidden = place.textContent === "";
    T.attribute(place, "data-level", "wrong");
    const live = status !== null && status.id === id ? status : null;
    const kept = (past || []).find((one) => one.id === id) || null;
    const told = figures.get(id) || null;
    T.visitsForm(going, settings);
    T.drawVisitsRun({ id, live, kept, told, going, known: past !== null }, liveness);
    T.drawVisitsPast(past || [], id);
    $("visits-shown").hidden = id === "" || (live === null && told === null);
    if ($("visits-shown").hidden) return;
    T.drawVisitsTiles(live, told, liveness);
    T.drawVisitsSky(id, told, live);
    if (told === null) return;
    T.drawVisitsCharts(id, told);
    T.drawVisitsTables(told);
  });

  /* The one that the address names; without one what runs now or ran last. */
  const wanted = (status) => T.view.visits || (status ? status.id : past && past.length ? past[0].id : "");

  /* Starts to be asked at once, e.g. after an order. */
  T.askVisits = function () {
    askedAt = -Infinity;
    T.schedule();
  };

  T.chooseVisits = function (id) {
    unknown = "";
    T.choose({ visits: id }, true);
    $("visits-run").scrollIntoView({ block: "nearest" });
  };

  async function ask(id) {
    asking = true;
    askedAt = performance.now();
    askedFor = id;
    const known = figures.get(id);
    const { told, problem: why } = await T.told("visits?" + new URLSearchParams({ run: id, stamp: known ? known.stamp : 0, version }));
    asking = false;
    problem = why && "Visits are not known now: " + why + ".";
    if (told !== null) take(told);
    T.schedule();
  }

  function take(told) {
    version = told.version;
    if (told.past !== null) {
      past = told.past;
      settings = told.settings;
    }
    unknown = told.problem && T.view.visits === told.run ? "The run " + told.run + " cannot be shown: " + told.problem + "." : "";
    if (told.figures === null || told.run === null) return;
    const kept = figures.get(told.run);
    figures.delete(told.run);
    figures.set(told.run, kept && kept.stamp === told.figures.stamp ? kept : joined(kept, told.figures));
    if (figures.size > KEPT) figures.delete(figures.keys().next().value);
  }

  /* A run that grows sends the points that came since. */
  function joined(kept, told) {
    const columns = {};
    for (const [name, tail] of Object.entries(told.columns)) {
      columns[name] = told.from && kept ? kept.columns[name].slice(0, told.from).concat(tail) : tail;
    }
    return { ...told, columns, from: kept ? told.from : 0 };
  }
})((window.triggerlog = window.triggerlog || {}));

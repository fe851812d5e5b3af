/* The tab Interference: what runs and what was, asked for while it is seen, and which of them is shown. */
(function (T) {
  "use strict";

  const AGAIN_MS = { running: 1000, idle: 2500 };
  const KEPT = 6; // records that are kept here; each is some 100 kB
  const $ = (id) => document.getElementById(id);
  const records = new Map(); // id -> record, the one used last at the end
  const missing = new Map(); // id -> why it cannot be had
  let running = null;
  let live = null;
  let past = [];
  let version = 0;
  let problem = "";
  let askedAt = -Infinity;
  let asking = false;

  T.onTab("interference", (liveness) => {
    T.experimentForm();
    if (!asking && performance.now() - askedAt >= (running ? AGAIN_MS.running : AGAIN_MS.idle)) ask();
    const chosen = shown();
    const why = problem || (chosen === null && T.view.experiment !== null && missing.get(T.view.experiment)) || "";
    const place = $("experiment-problem");
    place.hidden = why === "";
    T.text(place, why);
    T.attribute(place, "data-level", "wrong");
    T.drawExperiment(chosen, running, liveness);
    T.drawPast(past, chosen);
  });

  /* Starts to be asked at once, e.g. after an order. */
  T.askExperiments = function () {
    askedAt = -Infinity;
    T.schedule();
  };

  async function ask() {
    asking = true;
    askedAt = performance.now();
    const known = { experiment: live ? live.id : "", samples: live ? live.samples.length : 0, blocks: live ? live.blocks.length : 0 };
    try {
      const answer = await fetch("/told/interference?" + new URLSearchParams({ ...known, version }));
      const told = await answer.json();
      if (answer.ok) take(told);
      problem = answer.ok ? "" : "Experiments are not known now: " + told.detail + ".";
    } catch {
      problem = "Experiments are not known now: this page has lost its server.";
    }
    asking = false;
    T.schedule();
  }

  function take(told) {
    running = told.running;
    version = told.version;
    if (told.past !== null) past = told.past;
    if (told.live === null) {
      live = null;
      return;
    }
    const kept = live !== null && live.id === told.live.id ? live : { samples: [], blocks: [] };
    live = {
      id: told.live.id,
      settings: told.live.settings,
      planned: told.live.planned,
      budget_ms: told.live.budget_ms,
      samples: kept.samples.slice(0, told.live.from).concat(told.live.samples),
      blocks: kept.blocks.slice(0, told.live.blocks_from).concat(told.live.blocks),
      result: null,
      record: null,
    };
  }

  /* The one that the address names; without one what runs now, or else what ran last. */
  function shown() {
    const wanted = T.view.experiment || (live ? live.id : running ? running.id : past.length ? past[0].id : null);
    if (wanted === null) return null;
    if (live !== null && live.id === wanted) return live;
    if (records.has(wanted)) return records.get(wanted);
    if (running === null || running.id !== wanted) fetchRecord(wanted);
    return null;
  }

  async function fetchRecord(id) {
    if (missing.has(id)) return;
    missing.set(id, "");
    try {
      const answer = await fetch("/told/interference/" + encodeURIComponent(id));
      const told = await answer.json();
      if (answer.ok) keep(id, told);
      else missing.set(id, "The experiment " + id + " cannot be shown: " + told.detail + ".");
    } catch {
      missing.delete(id); // the page's server is away: it is asked again when that is back
    }
    T.schedule();
  }

  function keep(id, record) {
    missing.delete(id);
    records.set(id, {
      id,
      settings: record.settings,
      planned: record.planned,
      budget_ms: record.conditions.budget_ms,
      samples: record.timeline,
      blocks: record.blocks,
      result: record.result,
      record,
    });
    if (records.size > KEPT) records.delete(records.keys().next().value);
  }

  T.chooseExperiment = function (id) {
    missing.delete(id);
    T.choose({ experiment: id }, true);
    $("experiment").scrollIntoView({ block: "nearest" });
  };
})((window.triggerlog = window.triggerlog || {}));

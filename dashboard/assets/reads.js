/* The tab Reads: workloads with their figures, the governor, and the forms that change either. */
(function (T) {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const STATES = { starting: "◔", running: "●", stopping: "◑", failed: "✕" };

  /* What a kind asks, in words; what it takes beside the common fields; and how it is asked unless one says otherwise. */
  T.KINDS = {
    newest: { words: "the newest complete trigger, all instruments", period_s: 1, deadline_s: 1 },
    trend: { words: "the last readings of an instrument, another one each time", period_s: 1, deadline_s: 1, readings: 1000 },
    history: { words: "a stretch of the group as means by instrument", period_s: 10, deadline_s: 10, stretch_s: 1800, step_s: 60 },
    snapshot: { words: "every instrument’s value at a random moment", period_s: 5, deadline_s: 5, stretch_s: 3600 },
    window: { words: "all readings of a stretch of time", period_s: 2, deadline_s: 2, stretch_s: 10 },
    scan: { words: "an aggregate over everything that is stored", period_s: 60, deadline_s: 60 },
    random: { words: "the readings of random triggers", period_s: 10, deadline_s: 10, triggers: 10000 },
    light_curve: { words: "all sources of a random object of the visits", period_s: 1, deadline_s: 1, visits: true },
    cone: { words: "the visits’ objects around a random position", period_s: 1, deadline_s: 1, radius_deg: 0.1, visits: true },
  };
  const OWN = ["readings", "stretch_s", "step_s", "triggers", "radius_deg"];
  const CEILINGS = ["commit_p99_ms", "backlog_triggers"];
  let forms = null;

  T.onTab("reads", (liveness) => {
    forms = forms || { reader: readerForm(), governor: governorForm() };
    T.offerGroups(forms.reader);
    workloads(liveness);
    governor();
  });

  T.notes["read-p99"] = () => "from when a question was due";
  T.notes.readers = () => "";

  // --- the table ---------------------------------------------------------------------------------------------------

  const COLUMNS = [
    { name: "name", label: "Workload" },
    { name: "asks", label: "Asks", words: true },
    { name: "state", label: "State", words: true },
    { name: "clients", label: "Clients", title: "that may ask now, of all" },
    { name: "rate", label: "Answers/s" },
    { name: "rows", label: "Rows/s" },
    { name: "p50", label: "p50 ms" },
    { name: "p99", label: "p99 ms" },
    { name: "max", label: "Max ms" },
    { name: "deadline", label: "Deadline ms" },
    { name: "efficiency", label: "In time", title: "answered within the deadline, of all questions since the start" },
    { name: "slipped", label: "Slipped", title: "by how much late answers moved the questions after them, in all" },
    { name: "failed", label: "Failed", title: "questions without an answer" },
    { name: "since", label: "Since" },
    { name: "stop", label: "", make: stopButton },
  ];

  function workloads(liveness) {
    const all = Object.entries(T.section("readers") || {});
    const running = all.filter(([, one]) => one.state !== "failed");
    T.text($("readers-note"), all.length ? T.count(running.length) + " running" : "");
    const rows = all.map(([name, one]) => ({ key: name, cells: cells(name, one, liveness) }));
    T.drawTable($("readers"), "Reader workloads", COLUMNS, rows, "Nobody reads through triggerlog now.");
  }

  function cells(name, one, liveness) {
    const latency = one.latency_ms;
    const late = latency.p99 !== null && latency.p99 > one.deadline_ms;
    const rate = (value) => (liveness === "none" ? "–" : T.number(value));
    const ms = (value, level) => ({ text: liveness === "none" ? "–" : T.number(value), level });
    return {
      name,
      asks: one.kind + " of " + one.group,
      state: {
        text: (STATES[one.state] || "○") + " " + one.state + (one.problem ? ": " + one.problem : ""),
        level: one.state === "failed" || one.problem ? "over" : null,
      },
      clients: { text: T.count(one.admitted) + " of " + T.count(one.clients), level: one.admitted < one.clients ? "over" : null },
      rate: rate(one.rate),
      rows: rate(one.row_rate),
      p50: ms(latency.p50),
      p99: ms(latency.p99, late ? "over" : null),
      max: ms(latency.max),
      deadline: T.number(one.deadline_ms, 0),
      efficiency: one.efficiency === null ? "–" : (100 * one.efficiency).toFixed(one.efficiency < 1 ? 1 : 0) + " %",
      slipped: one.slipped_s ? T.lasted(one.slipped_s) : "–",
      failed: { text: T.count(one.failed), level: one.failed ? "over" : null },
      since: T.time(one.since_ns / 1e6),
    };
  }

  function stopButton(row) {
    const button = T.make("button", "plain", "Stop");
    button.type = "button";
    button.setAttribute("aria-label", "Stop " + row.key);
    button.addEventListener("click", () =>
      T.giving(button, $("readers-said"), async () => {
        const answer = await T.order("readers/stop", { name: row.key }, "Stop the workload " + row.key);
        return answer.ok ? { ok: true, line: row.key + " was told to stop." } : answer;
      })
    );
    return button;
  }

  // --- the forms ---------------------------------------------------------------------------------------------------

  /* The fields of a workload; `named` leaves out what an experiment decides by itself. */
  T.workloadFields = () => [
    { name: "kind", label: "Asks for", kind: "select", options: Object.entries(T.KINDS).map(([kind]) => [kind, kind]) },
    { name: "group", label: "Group", kind: "select", options: [] },
    { name: "clients", label: "Clients", kind: "number", value: 1, min: 1, max: 256, step: 1, needed: true },
    { name: "period_s", label: "Period, s", kind: "number", min: 0, max: 86400, needed: true },
    { name: "offset_s", label: "Between clients, s", kind: "number", value: 0, min: 0, max: 3600, needed: true },
    { name: "deadline_s", label: "Deadline, s", kind: "number", min: 0.001, max: 86400, needed: true },
    { name: "readings", label: "Readings", kind: "number", min: 1, max: 1000000, step: 1, needed: true },
    { name: "triggers", label: "Triggers", kind: "number", min: 1, max: 1000000, step: 1, needed: true },
    { name: "stretch_s", label: "Stretch of time, s", kind: "number", min: 0.001, max: 31622400, needed: true },
    { name: "step_s", label: "Step of the means, s", kind: "number", min: 0.001, max: 86400, needed: true },
    { name: "radius_deg", label: "Radius, degrees", kind: "number", min: 0.001, max: 20, needed: true },
  ];

  /* The groups that a workload may read, where there is a choice and its kind reads one. */
  T.offerGroups = function (form) {
    const select = form.querySelector("[name=group]");
    T.setOptions(select, T.groups().map((name) => [name, name]));
    select.closest(".field").hidden = T.groups().length < 2 || T.KINDS[form.querySelector("[name=kind]").value].visits === true;
  };

  /* A kind brings its own defaults, and shows the fields that it takes. */
  T.followKind = function (form, note) {
    const kind = form.querySelector("[name=kind]");
    const follow = () => {
      const told = T.KINDS[kind.value];
      T.offerGroups(form);
      T.text(note, kind.value + ": " + told.words);
      for (const name of ["period_s", "deadline_s", ...OWN]) {
        const input = form.querySelector("[name=" + name + "]");
        if (told[name] !== undefined) input.value = told[name];
        if (OWN.includes(name)) input.closest(".field").hidden = input.disabled = told[name] === undefined;
      }
    };
    kind.addEventListener("change", follow);
    follow();
  };

  function readerForm() {
    const name = {
      name: "name",
      label: "Name",
      needed: true,
      value: "operators",
      pattern: "[a-z][a-z0-9_]{0,31}",
      title: "1 to 32 lower-case letters, digits and underscores, a letter first",
    };
    const form = T.orderForm($("reader-form"), {
      prefix: "reader",
      fields: [name, ...T.workloadFields()],
      button: "Start it",
      order: async (values) => {
        const answer = await T.order("readers/start", values, "Start the workload " + values.name);
        return answer.ok ? { ok: true, line: values.name + " was started." } : answer;
      },
    });
    T.followKind(form, $("reader-kind-note"));
    return form;
  }

  function governorForm() {
    const form = T.orderForm($("governor-form"), {
      prefix: "governor",
      fields: [
        { name: "commit_p99_ms", label: "Commit p99 at most, ms", kind: "number", min: 0.001, max: 600000 },
        { name: "backlog_triggers", label: "Backlog at most, triggers", kind: "number", min: 1, max: 1e9, step: 1 },
      ],
      button: "Set these ceilings",
      order: (values) => ruled(Object.fromEntries(CEILINGS.map((name) => [name, values[name] ?? null]))),
    });
    const off = T.make("button", "plain", "Turn it off");
    off.type = "button";
    off.id = "governor-off";
    const said = form.querySelector(".said");
    off.addEventListener("click", () =>
      T.giving(off, said, () => ruled(Object.fromEntries(CEILINGS.map((name) => [name, null]))))
    );
    said.before(off);
    return form;
  }

  async function ruled(ceilings) {
    const answer = await T.order("governor", ceilings, "Change what the governor keeps to");
    if (!answer.ok) return answer;
    const on = Object.values(ceilings).some((ceiling) => ceiling !== null);
    return { ok: true, line: on ? "The governor keeps to these ceilings." : "The governor is off." };
  }

  /* The ceilings in force stand in the form until somebody types there. */
  function prefill(name, value) {
    const input = forms.governor.querySelector("[name=" + name + "]");
    const wanted = value === null ? "" : String(value);
    if (input.dataset.prefilled === wanted || input === document.activeElement) return;
    input.dataset.prefilled = input.value = wanted;
  }

  function governor() {
    const told = T.section("governor");
    const on = told && told.state !== "off";
    const parts = [];
    if (on && told.commit_p99_ms !== null) parts.push("commit p99 below " + T.number(told.commit_p99_ms) + " ms");
    if (on && told.backlog_triggers !== null) parts.push("backlog below " + T.count(told.backlog_triggers) + " triggers");
    T.text($("governor-state"), on ? "● on: " + parts.join(", ") : "○ off");
    T.text($("governor-reason"), on ? told.state + ": " + told.reason : "No ceiling is set: every reader may ask.");
    $("governor-off").hidden = !on;
    for (const name of CEILINGS) prefill(name, on ? told[name] : null);
  }
})((window.triggerlog = window.triggerlog || {}));

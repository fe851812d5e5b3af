/* The tab Reads: workloads with their figures, the governor, and the forms that change either. */
(function (T) {
  "use strict";

  const $ = T.byId;
  /** @type {Record<string, string>} */
  const STATES = { starting: "◔", running: "●", stopping: "◑", failed: "✕" };
  const OWN = [...new Set(Object.values(T.settings.kinds).flatMap(({ values }) => Object.keys(values)))].filter(
    (name) => name !== "period_s" && name !== "deadline_s"
  );
  const CEILINGS = /** @type {const} */ (["commit_p99_ms", "backlog_triggers"]);
  /** @type {{reader: HTMLFormElement, governor: HTMLFormElement} | null} */
  let forms = null;

  T.onTab("reads", (liveness) => {
    forms = forms || { reader: readerForm(), governor: governorForm() };
    T.offerGroups(forms.reader);
    workloads(liveness);
    governor(forms.governor);
  });

  // --- the table ---------------------------------------------------------------------------------------------------

  /** @type {Column<Row>[]} */
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
    { name: "slipped", label: "Slipped", title: "by how much late answers delayed the questions after them, in total" },
    { name: "failed", label: "Failed", title: "questions without an answer" },
    { name: "since", label: "Since" },
    { name: "stop", label: "", make: stopButton },
  ];

  /** @param {Liveness} liveness */
  function workloads(liveness) {
    const all = Object.entries(T.section("readers") || {});
    const running = all.filter(([, one]) => one.state !== "failed");
    T.text($("readers-note"), all.length ? T.count(running.length) + " running" : "");
    const rows = all.map(([name, one]) => ({ key: name, cells: cells(name, one, liveness) }));
    T.drawTable($("readers"), "Reader workloads", COLUMNS, rows, "No reader workload is running.");
  }

  /** @param {string} name @param {ReaderSection} one @param {Liveness} liveness */
  function cells(name, one, liveness) {
    const latency = one.latency_ms;
    const late = latency.p99 !== null && latency.p99 > one.deadline_ms;
    const rate = (/** @type {Value} */ value) => (liveness === "none" ? "–" : T.number(value));
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
      p50: rate(latency.p50),
      p99: { text: rate(latency.p99), level: late ? "over" : null },
      max: rate(latency.max),
      deadline: T.number(one.deadline_ms, 0),
      efficiency: one.efficiency === null ? "–" : (100 * one.efficiency).toFixed(one.efficiency < 1 ? 1 : 0) + " %",
      slipped: one.slipped_s ? T.lasted(one.slipped_s) : "–",
      failed: { text: T.count(one.failed), level: one.failed ? "over" : null },
      since: T.time(one.since_ns / 1e6),
    };
  }

  /** @param {Row} row */
  function stopButton(row) {
    const stop = async () => {
      const outcome = await T.order("readers/stop", { name: row.key }, "Stop the workload " + row.key);
      return outcome.ok ? { ok: true, line: row.key + " is being stopped." } : outcome;
    };
    const button = T.button("plain", "Stop", () => T.submit(button, $("readers-outcome"), stop));
    button.setAttribute("aria-label", "Stop " + row.key);
    return button;
  }

  // --- the forms ---------------------------------------------------------------------------------------------------

  /** @type {[string, string][]} */
  const FIELDS = [
    ["kind", "Asks for"],
    ["group", "Group"],
    ["clients", "Clients"],
    ["period_s", "Period, s"],
    ["offset_s", "Between clients, s"],
    ["deadline_s", "Deadline, s"],
    ["readings", "Readings"],
    ["triggers", "Triggers"],
    ["stretch_s", "Time range, s"],
    ["step_s", "Step of the means, s"],
    ["radius_deg", "Radius, degrees"],
  ];

  T.workloadFields = () =>
    FIELDS.map(([name, label]) => {
      const described = { ...T.settings.workload[name], name, label };
      return name === "group" ? { ...described, kind: "select", options: [] } : { ...described, needed: true };
    });

  T.offerGroups = function (form) {
    const select = /** @type {HTMLSelectElement} */ (T.input(form, "group"));
    T.setOptions(select, T.groups().map((name) => [name, name]));
    T.show(select, T.groups().length > 1 && !T.settings.kinds[T.input(form, "kind").value].visits);
  };

  T.followKind = function (form, note, change) {
    const kind = T.input(form, "kind");
    const follow = () => {
      const { words, values } = T.settings.kinds[kind.value];
      T.offerGroups(form);
      T.text(note, kind.value + ": " + words);
      for (const name of OWN) T.show(T.input(form, name), name in values);
      for (const [name, value] of Object.entries({ ...values, ...change(kind.value) })) T.input(form, name).value = String(value);
    };
    kind.addEventListener("change", follow);
    follow();
  };

  function readerForm() {
    const form = T.orderForm($("reader-form"), {
      prefix: "reader",
      fields: [{ ...T.settings.workload.name, name: "name", label: "Name", value: "operators" }, ...T.workloadFields()],
      button: "Start",
      order: async (values) => {
        const outcome = await T.order("readers/start", values, "Start the workload " + values.name);
        return outcome.ok ? { ok: true, line: values.name + " was started." } : outcome;
      },
    });
    T.followKind(form, $("reader-kind-note"), () => ({}));
    return form;
  }

  function governorForm() {
    const labels = { commit_p99_ms: "Commit p99 at most, ms", backlog_triggers: "Backlog at most, triggers" };
    const form = T.orderForm($("governor-form"), {
      prefix: "governor",
      fields: CEILINGS.map((name) => ({ ...T.settings.governor[name], name, label: labels[name] })),
      button: "Set these ceilings",
      order: (values) => govern(Object.fromEntries(CEILINGS.map((name) => [name, values[name] ?? null]))),
    });
    const outcome = T.find(form, ".outcome");
    const none = Object.fromEntries(CEILINGS.map((name) => [name, null]));
    const off = T.button("plain", "Turn off", () => T.submit(off, outcome, () => govern(none)));
    off.id = "governor-off";
    outcome.before(off);
    return form;
  }

  /** @param {Record<string, string | number | null>} ceilings @returns {Promise<Outcome>} */
  async function govern(ceilings) {
    const outcome = await T.order("governor", ceilings, "Change the ceilings of the governor");
    if (!outcome.ok) return outcome;
    const on = Object.values(ceilings).some((ceiling) => ceiling !== null);
    return { ok: true, line: on ? "The governor keeps to these ceilings." : "The governor is off." };
  }

  /**
   * The ceilings in force are shown in the form until somebody types there.
   * @param {Input} input
   * @param {number | null} value
   */
  function prefill(input, value) {
    const wanted = value === null ? "" : String(value);
    if (input === document.activeElement || !T.differs(input, wanted)) return;
    input.value = wanted;
  }

  /** @param {HTMLFormElement} form */
  function governor(form) {
    const section = T.section("governor");
    const on = section && section.state !== "off" ? section : null;
    const parts = [];
    if (on && on.commit_p99_ms !== null) parts.push("commit p99 below " + T.number(on.commit_p99_ms) + " ms");
    if (on && on.backlog_triggers !== null) parts.push("backlog below " + T.count(on.backlog_triggers) + " triggers");
    T.text($("governor-state"), on ? "● on: " + parts.join(", ") : "○ off");
    T.text($("governor-reason"), on ? on.state + ": " + on.reason : "No ceiling is set: every reader may ask.");
    $("governor-off").hidden = !on;
    for (const name of CEILINGS) prefill(T.input(form, name), on ? on[name] : null);
  }
})(window.triggerlog);

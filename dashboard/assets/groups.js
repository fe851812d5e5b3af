/* The table of groups: what each does now, drawn from the stream while all groups together are shown. */
(function (T) {
  "use strict";

  const EVERY_MS = 1000;
  let wanted = false;
  let drawnAt = -Infinity;

  /** @param {string} text @param {number | string | null} by @param {boolean} [over] */
  const cell = (text, by, over) => ({ text, by, over: Boolean(over) });

  /** @param {string} group @param {Value} limit */
  function row(group, limit) {
    const [p99, waiting, absent] = ["p99", "waiting", "absent"].map((column) => T.latest(group, column));
    const { trouble = 0, state = "" } = T.section(`words/${group}`) || {};
    const rate = T.latest(group, "committed");
    return {
      key: group,
      name: { text: group, by: group },
      state: cell((trouble ? "▲ " : "") + state, trouble, trouble > 0),
      rate: cell(T.number(rate), rate),
      p99: cell(T.number(p99), p99, limit !== null && Number(p99) > limit),
      waiting: cell(T.count(waiting), waiting, T.section(`group/${group}`)?.backpressure),
      missing: cell(T.count(absent), absent, Number(absent) > 0),
      minute: { text: "committed", by: 0 },
    };
  }

  async function open() {
    wanted = true;
    await T.load(T.byId("groups-open").dataset.needs || "");
    window.dash_clientside.set_props("groups-open-data", { data: true });
  }

  T.onTab("live", () => {
    const groups = T.groups();
    if (groups.length < 2 || T.view.group !== "" || performance.now() - drawnAt < EVERY_MS) return;
    if (!wanted) open();
    if (!document.getElementById("groups-table")) return;
    drawnAt = performance.now();
    const limit = T.section("limits")?.commit_p99_ms ?? null;
    window.dash_clientside.set_props("groups-table", { rowData: groups.map((group) => row(group, limit)) });
  });
})(window.triggerlog);

/* The form of the tab Interference: who reads in the blocks of B, how many blocks of what length, and how long that takes. */
(function (T) {
  "use strict";

  const fields = T.settings.experiment;
  const MOST = fields.workloads.maxLength || Infinity;
  /** @type {HTMLFormElement | null} */
  let form = null;
  let made = 0;

  T.experimentForm = function () {
    const shown = (form = form || build(T.byId("experiment-form")));
    T.find(shown, ".governed").hidden = (T.section("governor")?.state || "off") === "off";
    for (const set of workloadsOf(shown)) T.offerGroups(set);
    T.text(T.byId("experiment-lasts"), lasts(shown));
  };

  const workloadsOf = (/** @type {HTMLElement} */ place) => /** @type {HTMLElement[]} */ ([...place.querySelectorAll("fieldset.workload")]);

  /** @param {HTMLElement} place */
  function build(place) {
    const workloads = T.make("div", "stack workloads");
    const more = T.button("plain", "Add a workload", () => {
      if (workloads.children.length < MOST) T.find(add(workloads, "scan"), "select").focus();
    });
    const built = T.orderForm(place, {
      prefix: "experiment",
      fields: [
        { ...fields.pairs, name: "pairs", label: "Pairs of blocks" },
        { ...fields.block_s, name: "block_s", label: "Block length, s" },
        { ...fields.warm_up_s, name: "warm_up_s", label: "Warm-up, s" },
        {
          name: "doses",
          label: "Doses (clients)",
          pattern: "\\s*\\d+(\\s*[,\\s]\\s*\\d+)*\\s*",
          title: "numbers of clients, separated by commas, e.g. 1, 2, 4, 8",
          hint: "e.g. 1, 2, 4, 8; empty: clients as above",
        },
      ],
      button: "Start the experiment",
      order: () => start(built),
    });
    const governed = T.make("label", "governed");
    governed.append(T.make("input", "", undefined, { type: "checkbox" }), " run it although the governor is on, which may admit fewer readers than a block asks for");
    built.prepend(workloads, more);
    T.find(built, ".order-row").before(governed);
    add(workloads, "scan");
    add(workloads, "history");
    return built;
  }

  /** @param {HTMLElement} workloads @param {string} kind */
  function add(workloads, kind) {
    const set = T.make("fieldset", "workload");
    const note = T.make("span");
    const legend = T.make("legend");
    legend.append(note);
    const grid = T.make("div", "fields");
    made += 1;
    grid.append(...T.workloadFields().map((described) => T.field("experiment-" + made, described)));
    const remove = T.button("plain", "Remove", () => {
      if (workloads.children.length > 1) set.remove();
    });
    set.append(legend, grid, remove);
    workloads.append(set);
    T.input(set, "kind").value = kind;
    T.followKind(set, note, (chosen) => ({ period_s: T.settings.kinds[chosen].experiment_period_s }));
    return set;
  }

  /** @param {HTMLFormElement} shown */
  const common = (shown) => T.values(T.find(shown, ":scope > .fields"));
  /** @param {HTMLFormElement} shown */
  const doses = (shown) => (T.input(shown, "doses").value.match(/\d+/g) || []).map(Number);

  /** @param {HTMLFormElement} shown */
  function lasts(shown) {
    const { pairs, block_s } = common(shown);
    if (!pairs || !block_s) return "";
    const blocks = 1 + 2 * Number(pairs) * Math.max(1, doses(shown).length);
    return T.count(blocks) + " blocks, " + T.lasted(blocks * Number(block_s));
  }

  /** @param {HTMLFormElement} shown @returns {Promise<Outcome>} */
  async function start(shown) {
    const { pairs, block_s, warm_up_s } = common(shown);
    const names = new Map();
    const workloads = workloadsOf(shown).map((set) => {
      const values = T.values(set);
      const count = (names.get(values.kind) || 0) + 1;
      names.set(values.kind, count);
      return { ...values, name: count === 1 ? values.kind : values.kind + "_" + count };
    });
    const governed = T.find(shown, ".governed");
    const further = governed.hidden ? {} : { governed: T.find(governed, "input").checked };
    const settings = { workloads, pairs, block_s, warm_up_s, doses: doses(shown), ...further };
    const outcome = await T.order("interference/start", settings, "Start an interference experiment");
    if (!outcome.ok) return outcome;
    T.choose({ experiment: null });
    T.askExperiments();
    return { ok: true, line: "The experiment was started; it is shown above." };
  }
})(window.triggerlog);

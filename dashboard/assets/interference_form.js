/* The form of the tab Interference: who reads in the blocks of B, how many blocks of what length, and how long that takes. */
(function (T) {
  "use strict";

  const MOST = 16;
  /* In an experiment a client asks again as soon as it has its answer, unless one says otherwise: that is the load. */
  const PERIODS = {
    ...{ trend: 0.5, history: 0, snapshot: 1, window: 0.5, scan: 0, random: 0, newest: 0.1 },
    ...{ light_curve: 0, cone: 0 },
  };
  let form = null;
  let made = 0;

  T.experimentForm = function () {
    const place = document.getElementById("experiment-form");
    form = form || build(place);
    form.querySelector(".governed").hidden = ((T.section("governor") || {}).state || "off") === "off";
    for (const set of form.querySelectorAll("fieldset.workload")) T.offerGroups(set);
    T.text(document.getElementById("experiment-lasts"), lasts());
  };

  function build(place) {
    const workloads = T.make("div", "stack workloads");
    const more = T.make("button", "plain", "Add a workload");
    more.type = "button";
    more.addEventListener("click", () => {
      if (workloads.children.length < MOST) add(workloads).querySelector("select").focus();
    });
    const built = T.orderForm(place, {
      prefix: "experiment",
      fields: [
        { name: "pairs", label: "Pairs of blocks", kind: "number", value: 6, min: 1, max: 100, step: 1, needed: true },
        { name: "block_s", label: "A block, s", kind: "number", value: 20, min: 0.1, max: 3600, needed: true },
        { name: "warm_up_s", label: "Of it cut off first, s", kind: "number", value: 3, min: 0, max: 600, needed: true },
        {
          name: "doses",
          label: "Doses (clients)",
          pattern: "\\s*\\d+(\\s*[,\\s]\\s*\\d+)*\\s*",
          title: "numbers of clients with commas between, e.g. 1, 2, 4, 8",
          hint: "e.g. 1, 2, 4, 8; empty: clients as above",
        },
      ],
      button: "Start the experiment",
      order: start,
    });
    const governed = T.make("label", "governed");
    const tick = T.make("input");
    tick.type = "checkbox";
    governed.append(tick, " run it although the governor is on, which may let in fewer readers than a block asks for");
    built.prepend(workloads, more);
    built.querySelector(".order-row").before(governed);
    form = built;
    add(workloads).querySelector("[name=kind]").value = "scan";
    add(workloads).querySelector("[name=kind]").value = "history";
    for (const kind of workloads.querySelectorAll("[name=kind]")) kind.dispatchEvent(new Event("change"));
    return built;
  }

  function add(workloads) {
    const set = T.make("fieldset", "workload");
    const legend = T.make("legend");
    const note = T.make("span");
    const away = T.make("button", "plain", "Remove");
    away.type = "button";
    away.addEventListener("click", () => {
      if (workloads.children.length > 1) set.remove();
    });
    legend.append(note);
    const grid = T.make("div", "fields");
    made += 1;
    grid.append(...T.workloadFields().map((told) => T.field("experiment-" + made, told)));
    set.append(legend, grid, away);
    workloads.append(set);
    T.followKind(set, note);
    const kind = set.querySelector("[name=kind]");
    kind.addEventListener("change", () => (set.querySelector("[name=period_s]").value = PERIODS[kind.value]));
    kind.dispatchEvent(new Event("change"));
    return set;
  }

  const doses = () => (form.querySelector("[name=doses]").value.match(/\d+/g) || []).map(Number);

  function lasts() {
    const { pairs, block_s } = T.values(form.querySelector(":scope > .fields"));
    if (!pairs || !block_s) return "";
    const blocks = 1 + 2 * pairs * Math.max(1, doses().length);
    return T.count(blocks) + " blocks, " + T.lasted(blocks * block_s);
  }

  async function start() {
    const { pairs, block_s, warm_up_s } = T.values(form.querySelector(":scope > .fields"));
    const sets = [...form.querySelectorAll("fieldset.workload")].map((set) => T.values(set));
    const names = new Map();
    const workloads = sets.map((values) => {
      const count = (names.get(values.kind) || 0) + 1;
      names.set(values.kind, count);
      return { ...values, name: count === 1 ? values.kind : values.kind + "_" + count };
    });
    const settings = { workloads, pairs, block_s, warm_up_s, doses: doses() };
    const governed = form.querySelector(".governed");
    if (!governed.hidden) settings.governed = governed.querySelector("input").checked;
    const answer = await T.order("interference/start", settings, "Start an interference experiment");
    if (!answer.ok) return answer;
    T.choose({ experiment: null });
    T.askExperiments();
    return { ok: true, line: "It was started, and is shown above." };
  }
})((window.triggerlog = window.triggerlog || {}));

/* The form of the tab Visits: the settings of the next run; it begins with those of the configuration. */
(function (T) {
  "use strict";

  const $ = T.byId;
  /** @type {HTMLFormElement | null} */
  let form = null;
  let configured = ""; // what the form was filled with

  /* Name in the configuration, label, and for which choice of another field it counts at all. */
  /** @type {VisitField[]} */
  const FIRST = [
    { name: "index_mode", label: "Index mode" },
    { name: "last_columns", label: "Last table’s columns", of: ["index_mode", "last_object_table"] },
    { name: "last_update", label: "Last table’s update", of: ["index_mode", "last_object_table"] },
    { name: "visits", label: "Total visits" },
    { name: "survey.scale", label: "Scale of the sky", title: "above 0, up to 1: density, area and visits per night", hint: "1 is the paper’s sky" },
    { name: "cadence", label: "Cadence", hint: "fast: as soon as possible" },
    { name: "tiles", label: "Tiles per side" },
    { name: "workers", label: "Workers", title: "one process; a process per tile and visit (fork); or processes that stay and share the tiles (persistent)" },
    { name: "processes", label: "Processes", of: ["workers", "persistent"] },
    { name: "history_days", label: "History, days" },
  ];
  /** @type {VisitField[]} */
  const MORE = [
    { name: "connections", label: "Connections" },
    { name: "transactions", label: "Transactions per tile" },
    { name: "durability", label: "Durability" },
    { name: "limit_s", label: "Time limit per visit, s" },
    { name: "pixel_level", label: "Pixel level", of: ["index_mode", "partitioned"] },
    { name: "period_days", label: "Period, days", of: ["index_mode", "partitioned"] },
    { name: "htm_ranges", label: "HTM ranges" },
    { name: "id_chunk", label: "Ids per chunk" },
    { name: "survey.seed", label: "Seed" },
    { name: "schema", label: "Schema" },
  ];

  T.visitsForm = function (active, settings) {
    const shown = (form = form || build($("visits-form")));
    const wanted = JSON.stringify(settings);
    if (settings && wanted !== configured) fill(shown, settings);
    configured = wanted;
    T.text($("visits-form-note"), active ? "a run is active; stop it first" : "continues with the visits already in the schema");
  };

  /** @param {VisitField} given @returns {Field} */
  function described(given) {
    const field = { ...T.settings.visits[given.name], ...given };
    return field.options && !field.needed ? { ...field, options: [["", "best for the database"], ...field.options] } : field;
  }

  /** @param {HTMLElement} place */
  function build(place) {
    const made = T.orderForm(place, { prefix: "visits-field", fields: FIRST.map(described), button: "Start the run", order: start });
    const more = T.make("details", "more");
    const grid = T.make("div", "fields");
    grid.append(...MORE.map((given) => T.field("visits-field", described(given))));
    more.append(T.make("summary", "", "More settings"), grid);
    T.find(made, ".order-row").before(more);
    for (const { of } of [...FIRST, ...MORE]) if (of) T.input(made, of[0]).addEventListener("change", () => follow(made));
    follow(made);
    return made;
  }

  /** @param {HTMLFormElement} place @param {VisitSettings} settings */
  function fill(place, settings) {
    const flat = { ...settings, ...Object.fromEntries(Object.entries(settings.survey).map(([key, value]) => ["survey." + key, value])) };
    for (const [name, value] of Object.entries(flat)) {
      if ([...FIRST, ...MORE].some((field) => field.name === name)) T.input(place, name).value = value === null ? "" : String(value);
    }
    follow(place);
  }

  /** @param {HTMLFormElement} place */
  function follow(place) {
    for (const { name, of } of [...FIRST, ...MORE]) if (of) T.show(T.input(place, name), T.input(place, of[0]).value === of[1]);
  }

  /** @param {Record<string, string | number>} values @returns {Promise<Outcome>} */
  async function start(values) {
    const survey = Object.entries(values).filter(([name]) => name.startsWith("survey."));
    const settings = {
      ...Object.fromEntries(Object.entries(values).filter(([name]) => !name.includes("."))),
      survey: Object.fromEntries(survey.map(([name, value]) => [name.slice("survey.".length), value])),
    };
    const outcome = await T.order("visits/start", settings, "Start a run of visits");
    if (!outcome.ok) return outcome;
    T.choose({ visits: null });
    T.askVisits();
    return { ok: true, line: "The run was started; it is shown above." };
  }
})(window.triggerlog);

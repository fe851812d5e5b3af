/* The form of the tab Visits: what the next run is to be; it begins with what the configuration says. */
(function (T) {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const each = (...names) => names.map((name) => [name, name.replaceAll("_", " ")]);
  let form = null;
  let configured = null; // what the form was filled with

  /* Name in the configuration, and how it is asked for; `of` says for which choices it counts at all. */
  const number = (name, label, further) => ({ name, label, kind: "number", needed: true, ...further });
  const FIRST = [
    { name: "index_mode", label: "Index mode", kind: "select", options: each("partitioned", "last_object_table", "pix_id_iov", "baseline") },
    { name: "last_columns", label: "Last table’s columns", kind: "select", options: each("narrow", "wide"), of: ["index_mode", "last_object_table"] },
    { name: "last_update", label: "Last table’s update", kind: "select", options: [["", "as the database does best"], ...each("upsert", "replace", "delete_insert")], of: ["index_mode", "last_object_table"] },
    number("visits", "Visits in all", { min: 1, max: 1e8, step: 1 }),
    number("survey.scale", "Scale of the sky", { min: 0.0001, max: 1, title: "above 0, up to 1: density, area and visits a night", hint: "1 is the paper’s sky" }),
    { name: "cadence", label: "Cadence", kind: "select", hint: "fast: as soon as possible", options: [["real", "real time"], ["fast", "fast"]] },
    number("tiles", "Tiles, squared", { min: 1, max: 32, step: 1 }),
    { name: "workers", label: "Workers", kind: "select", options: [["one", "one process"], ["fork", "a process a tile"], ["persistent", "processes that stay"]] },
    number("processes", "Processes", { min: 1, max: 256, step: 1, of: ["workers", "persistent"] }),
    number("history_days", "History, days", { min: 0.001 }),
  ];
  const MORE = [
    { name: "connections", label: "Connections", kind: "select", options: each("permanent", "per_visit") },
    { name: "transactions", label: "Transactions a tile", kind: "select", options: each("three", "one") },
    { name: "durability", label: "Durability", kind: "select", options: each("sync", "async") },
    number("limit_s", "Limit of a visit, s", { min: 0.001 }),
    number("pixel_level", "Level of the pixels", { min: 0, max: 14, step: 1, of: ["index_mode", "partitioned"] }),
    number("period_days", "Period, days", { min: 0.001, max: 3660, of: ["index_mode", "partitioned"] }),
    number("htm_ranges", "HTM ranges", { min: 1, max: 4096, step: 1 }),
    number("id_chunk", "Ids a chunk", { min: 1, max: 100000, step: 1 }),
    number("survey.seed", "Seed", { min: 0, max: 4294967295, step: 1 }),
    { name: "schema", label: "Schema", pattern: "[a-z][a-z0-9_]{0,62}", title: "lower-case letters, digits and underscores, a letter first", needed: true },
  ];

  T.visitsForm = function (going, settings) {
    const place = $("visits-form");
    form = form || build(place);
    const wanted = JSON.stringify(settings || JSON.parse(place.dataset.usual));
    if (wanted !== configured) fill(JSON.parse((configured = wanted)));
    T.text($("visits-form-note"), going ? "one runs; stop it first" : "goes on with the visits that the schema has");
  };

  const input = (name) => form.elements[name];

  function build(place) {
    form = T.orderForm(place, { prefix: "visits-field", fields: FIRST, button: "Start the run", order: start });
    const more = T.make("details", "more");
    const grid = T.make("div", "fields");
    grid.append(...MORE.map((told) => T.field("visits-field", told)));
    more.append(T.make("summary", "", "More settings"), grid);
    form.querySelector(".order-row").before(more);
    for (const { of } of [...FIRST, ...MORE]) if (of) input(of[0]).addEventListener("change", follow);
    return form;
  }

  function fill(settings) {
    for (const { name } of [...FIRST, ...MORE]) {
      const value = name.split(".").reduce((part, key) => (part === null || part === undefined ? part : part[key]), settings);
      if (value !== undefined) input(name).value = value === null ? "" : String(value);
    }
    follow();
  }

  function follow() {
    for (const { name, of } of [...FIRST, ...MORE]) if (of) input(name).closest(".field").hidden = input(name).disabled = input(of[0]).value !== of[1];
  }

  async function start(values) {
    const settings = {};
    for (const [name, value] of Object.entries(values)) {
      const [part, key] = name.split(".");
      if (key === undefined) settings[name] = value;
      else settings[part] = { ...settings[part], [key]: value };
    }
    const answer = await T.order("visits/start", settings, "Start a run of visits");
    if (!answer.ok) return answer;
    T.choose({ visits: null });
    T.askVisits();
    return { ok: true, line: "It was started, and is shown above." };
  }
})((window.triggerlog = window.triggerlog || {}));

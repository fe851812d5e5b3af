/* Forms: labelled fields from a short description, their values, and a line with the outcome of an order. */
(function (T) {
  "use strict";

  T.field = function (prefix, described) {
    const box = T.make("div", "field", undefined, { "data-field": described.name });
    const id = prefix + "-" + described.name;
    const label = T.make("label", "", described.label, { for: id });
    const input = described.kind === "select" ? select(described.options || []) : text(described);
    input.id = id;
    input.name = described.name;
    input.required = described.needed === true;
    input.autocomplete = "off";
    if (described.title) input.title = described.title;
    if (described.value !== undefined) input.value = String(described.value);
    box.append(label, input);
    if (described.hint) {
      box.append(T.make("span", "hint", described.hint, { id: id + "-hint" }));
      input.setAttribute("aria-describedby", id + "-hint");
    }
    return box;
  };

  /** @param {[string, string][]} options */
  function select(options) {
    const input = T.make("select");
    T.setOptions(input, options);
    return input;
  }

  /** @param {Field} described */
  function text(described) {
    const input = T.make("input");
    input.type = described.kind || "text";
    if (described.kind === "number") {
      input.step = String(described.step || "any");
      input.inputMode = "decimal";
    }
    if (described.min !== undefined) input.min = String(described.min);
    if (described.max !== undefined) input.max = String(described.max);
    if (described.pattern !== undefined) input.pattern = described.pattern;
    if (described.maxLength !== undefined) input.maxLength = described.maxLength;
    return input;
  }

  T.setOptions = function (select, options) {
    if (!T.differs(select, JSON.stringify(options))) return;
    const chosen = select.value;
    select.replaceChildren(...options.map(([value, words]) => new Option(words, value)));
    if (options.some(([value]) => value === chosen)) select.value = chosen;
  };

  T.input = (place, name) => T.find(place, `[name="${name}"]`);

  T.show = function (input, shown) {
    const box = /** @type {HTMLElement | null} */ (input.closest(".field"));
    if (box) box.hidden = !shown;
    input.disabled = !shown;
  };

  T.values = function (form) {
    /** @type {Record<string, string | number>} */
    const values = {};
    for (const input of T.inputs(form)) {
      if (input.closest("[hidden]") || input.value === "") continue;
      values[input.name] = input.type === "number" ? Number(input.value) : input.value.trim();
    }
    return values;
  };

  T.inputs = (form) => [...form.querySelectorAll("input[name], select[name]")].map((input) => /** @type {Input} */ (input));

  T.orderForm = function (place, { prefix, fields, button, order }) {
    const form = T.make("form", "order");
    const grid = T.make("div", "fields");
    grid.append(...fields.map((described) => T.field(prefix, described)));
    const row = T.make("div", "order-row");
    const press = T.make("button", "primary", button, { type: "submit" });
    const outcome = T.make("span", "outcome", "", { role: "status" });
    row.append(press, outcome);
    form.append(grid, row);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await T.submit(press, outcome, () => order(T.values(form)));
    });
    place.append(form);
    return form;
  };

  /* Its button is disabled meanwhile, so that nobody sends an order twice. */
  T.submit = async function (button, place, order) {
    button.disabled = true;
    T.text(place, "…");
    T.attribute(place, "data-level", null);
    const outcome = await order();
    button.disabled = false;
    T.text(place, outcome.line);
    T.attribute(place, "data-level", outcome.ok ? null : "wrong");
  };
})(window.triggerlog);

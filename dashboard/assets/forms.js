/* Forms: labelled fields from a short description, their values, and a line that says what became of an order. */
(function (T) {
  "use strict";

  /* A field: {name, label, kind: text | number | select, value, min, max, step, options: [[value, words]], hint,
     needed}. Its element has a dataset `field` with its name. */
  T.field = function (prefix, told) {
    const box = T.make("div", "field");
    box.dataset.field = told.name;
    const id = prefix + "-" + told.name;
    const label = T.make("label", "", told.label);
    label.htmlFor = id;
    const input = told.kind === "select" ? T.make("select") : T.make("input");
    input.id = id;
    input.name = told.name;
    if (told.kind === "select") T.setOptions(input, told.options);
    else input.type = told.kind || "text";
    if (told.kind === "number") {
      input.step = told.step || "any";
      input.inputMode = "decimal";
    }
    for (const name of ["min", "max", "pattern", "title"]) if (told[name] !== undefined) input[name] = told[name];
    input.required = told.needed === true;
    input.autocomplete = "off";
    if (told.value !== undefined) input.value = told.value;
    box.append(label, input);
    if (told.hint) {
      const hint = T.make("span", "hint", told.hint);
      hint.id = id + "-hint";
      input.setAttribute("aria-describedby", hint.id);
      box.append(hint);
    }
    return box;
  };

  T.setOptions = function (select, options) {
    const wanted = JSON.stringify(options);
    if (select.dataset.options === wanted) return;
    select.dataset.options = wanted;
    const chosen = select.value;
    select.replaceChildren(...options.map(([value, words]) => new Option(words, value)));
    if (options.some(([value]) => value === chosen)) select.value = chosen;
  };

  /* What a form holds, by name: numbers as such, nothing of what is empty or hidden. */
  T.values = function (form) {
    const values = {};
    for (const input of form.querySelectorAll("input[name], select[name]")) {
      if (input.closest("[hidden]") || input.value === "") continue;
      values[input.name] = input.type === "number" ? Number(input.value) : input.value.trim();
    }
    return values;
  };

  /* A form whose submission is an order; `order(values)` resolves to what T.order does, with `line` said to the person. */
  T.orderForm = function (place, { prefix, fields, button, order }) {
    const form = T.make("form", "order");
    const grid = T.make("div", "fields");
    grid.append(...fields.map((told) => T.field(prefix, told)));
    const row = T.make("div", "order-row");
    const press = T.make("button", "primary", button);
    press.type = "submit";
    const said = T.make("span", "said");
    said.setAttribute("role", "status");
    row.append(press, said);
    form.append(grid, row);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await T.giving(press, said, () => order(T.values(form), event.submitter));
    });
    place.append(form);
    return form;
  };

  /* Gives an order with its button held, so that nobody gives it twice, and says what became of it. */
  T.giving = async function (button, said, order) {
    button.disabled = true;
    T.text(said, "…");
    T.attribute(said, "data-level", null);
    const answer = await order();
    button.disabled = false;
    T.text(said, answer.line);
    T.attribute(said, "data-level", answer.ok ? null : "wrong");
  };
})((window.triggerlog = window.triggerlog || {}));

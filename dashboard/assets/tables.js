/* Tables whose rows keep their place, and of which only what differs is written. */
(function (T) {
  "use strict";

  T.drawTable = function (place, caption, columns, rows, empty) {
    const table = place.querySelector("table") || build(place, caption, columns, empty);
    const body = table.tBodies[0];
    const kept = new Map([...body.rows].map((row) => [row.dataset.key, row]));
    const wanted = rows.map((row) => kept.get(row.key) || line(columns, row));
    if (wanted.length !== body.rows.length || wanted.some((row, i) => row !== body.rows[i])) body.replaceChildren(...wanted);
    rows.forEach((row, i) => fill(wanted[i], columns, row));
    T.find(place, "div.scrolls").hidden = rows.length === 0;
    const nothing = T.find(place, "p.nothing");
    nothing.hidden = rows.length > 0;
    T.text(nothing, empty);
  };

  /** @template {Row} R @param {HTMLElement} place @param {string} caption @param {Column<R>[]} columns @param {string} empty */
  function build(place, caption, columns, empty) {
    /* On a narrow screen the table scrolls by itself, and by the arrow keys once it has the focus. */
    const box = T.make("div", "scrolls", undefined, { role: "region", "aria-label": caption, tabindex: "0" });
    const table = T.make("table", "figures");
    const head = table.createTHead().insertRow();
    for (const column of columns) {
      const cell = T.make("th", column.words ? "words" : "", column.sort ? undefined : column.label, { scope: "col" });
      if (column.sort) {
        cell.append(T.button("sort", column.label, column.sort));
        cell.dataset.column = column.name;
      }
      if (column.title) cell.title = column.title;
      head.append(cell);
    }
    table.createTBody();
    box.append(table);
    place.append(box, T.make("p", "nothing", empty));
    return table;
  }

  T.markSorted = function (place, name, direction) {
    for (const cell of place.querySelectorAll("thead th[data-column]")) {
      T.attribute(cell, "aria-sort", cell.getAttribute("data-column") === name ? direction : null);
    }
  };

  /** @template {Row} R @param {Column<R>[]} columns @param {R} row */
  function line(columns, row) {
    const made = T.make("tr", "", undefined, { "data-key": row.key });
    columns.forEach((column, i) => {
      const cell = T.make(i ? "td" : "th", column.words ? "words" : "", undefined, { "data-column": column.name });
      if (!i) cell.setAttribute("scope", "row");
      if (column.make) cell.append(column.make(row));
      made.append(cell);
    });
    return made;
  }

  /** @template {Row} R @param {HTMLTableRowElement} element @param {Column<R>[]} columns @param {R} row */
  function fill(element, columns, row) {
    columns.forEach((column, i) => {
      const cell = element.cells[i];
      if (column.make) {
        if (column.update && cell.firstElementChild) column.update(cell.firstElementChild, row);
        return;
      }
      const given = row.cells[column.name];
      const { text, level = null, title = null } = typeof given === "object" ? given : { text: given === undefined ? "" : given };
      T.text(cell, text);
      T.attribute(cell, "data-level", level);
      T.attribute(cell, "title", title);
    });
  }
})(window.triggerlog);

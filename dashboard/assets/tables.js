/* Tables whose rows keep their place, and of which only what differs is written. */
(function (T) {
  "use strict";

  /* columns: [{name, label, words: true for text, make: (row) => element, once, in place of text}].
     rows: [{key, cells: {name: text or {text, level, title}}, level}]; the first column heads its row. */
  T.drawTable = function (place, caption, columns, rows, nothing) {
    const table = place.querySelector("table") || build(place, caption, columns, nothing);
    const body = table.tBodies[0];
    const kept = new Map([...body.rows].map((row) => [row.dataset.key, row]));
    const wanted = rows.map((row) => kept.get(row.key) || line(columns, row));
    if (wanted.length !== body.rows.length || wanted.some((row, i) => row !== body.rows[i])) body.replaceChildren(...wanted);
    rows.forEach((row, i) => fill(wanted[i], columns, row));
    table.parentElement.hidden = rows.length === 0;
    const empty = place.querySelector(".nothing");
    empty.hidden = rows.length > 0;
    T.text(empty, nothing);
  };

  function build(place, caption, columns, nothing) {
    /* On a narrow screen the table is moved by itself, and by the arrow keys once it has the focus. */
    const box = T.make("div", "scrolls");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", caption);
    const table = T.make("table", "figures");
    const head = table.createTHead().insertRow();
    for (const column of columns) {
      const cell = T.make("th", column.words ? "words" : "", column.sort ? undefined : column.label);
      if (column.sort) {
        const button = T.make("button", "sort", column.label);
        button.type = "button";
        button.addEventListener("click", column.sort);
        cell.append(button);
        cell.dataset.column = column.name;
      }
      cell.scope = "col";
      if (column.title) cell.title = column.title;
      head.append(cell);
    }
    table.createTBody();
    box.append(table);
    place.append(box, T.make("p", "nothing", nothing));
    return table;
  }

  /* Which column a table is sorted by: direction is ascending or descending. */
  T.markSorted = function (place, name, direction) {
    for (const cell of place.querySelectorAll("thead th[data-column]")) {
      T.attribute(cell, "aria-sort", cell.dataset.column === name ? direction : null);
    }
  };

  function line(columns, row) {
    const made = T.make("tr");
    made.dataset.key = row.key;
    columns.forEach((column, i) => {
      const cell = T.make(i ? "td" : "th", column.words ? "words" : "");
      if (!i) cell.scope = "row";
      cell.dataset.column = column.name;
      if (column.make) cell.append(column.make(row));
      made.append(cell);
    });
    return made;
  }

  function fill(element, columns, row) {
    T.attribute(element, "data-level", row.level || null);
    columns.forEach((column, i) => {
      const told = row.cells[column.name];
      if (column.make) {
        if (column.update) column.update(element.cells[i].firstChild, row);
        return;
      }
      const cell = element.cells[i];
      T.text(cell, told !== null && typeof told === "object" ? told.text : told === undefined ? "" : told);
      T.attribute(cell, "data-level", (told && told.level) || null);
      T.attribute(cell, "title", (told && told.title) || null);
    });
  }
})((window.triggerlog = window.triggerlog || {}));

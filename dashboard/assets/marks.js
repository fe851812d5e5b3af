/* Marks: events that people noted, drawn on every time axis. */
(function (T) {
  "use strict";

  const NAMED = 8; // the newest of a chart have room for their words
  const LETTERS = 32;
  const LINES = 4; // words of marks close to each other are below each other
  const LINE_PX = 12;
  const LATE = 0.7; // of the axis: from there on words stand to the left of their line

  const plain = (/** @type {string} */ text) => text.replace(/[<>&]/g, (sign) => "&#" + sign.charCodeAt(0) + ";");

  /* For the layout of a chart that shows the times from `from` to `to` (ms); `place` gives the x of a time. */
  T.marks = function (from, to, place) {
    const { chosen, ink } = T.settings.colours;
    const marks = (T.section("marks")?.all || []).filter((m) => m.t <= to && (m.until ?? m.t) >= from && (!T.view.group || (m.group ?? T.view.group) === T.view.group));
    const shapes = marks.map((mark) => ({
      ...{ type: mark.until === null ? "line" : "rect", xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below" },
      ...{ x0: place(Math.max(mark.t, from)), x1: place(Math.min(mark.until ?? mark.t, to)) },
      ...{ fillcolor: chosen + "1c", line: { color: chosen, width: mark.until === null ? 1 : 0, dash: "dot" } },
    }));
    const annotations = marks.slice(-NAMED).map((mark, i) => ({
      ...{ x: place(Math.max(mark.t, from)), y: 1, xref: "x", yref: "paper", yanchor: "top", yshift: -LINE_PX * (i % LINES), showarrow: false },
      xanchor: mark.t > from + LATE * (to - from) ? "right" : "left",
      text: plain(mark.text.length > LETTERS ? mark.text.slice(0, LETTERS) + "…" : mark.text),
      hovertext: plain(mark.words),
      font: { size: 10, color: ink },
    }));
    return { shapes, annotations };
  };

  /* A time that is filled in by half has the value of an empty one, which means another time: it is not sent. */
  document.addEventListener("click", (event) => {
    const form = event.target instanceof Element && event.target.closest("[role=form] .primary")?.closest("[role=form]");
    for (const input of form ? form.querySelectorAll("input") : []) {
      if (!input.validity.badInput) continue;
      event.stopPropagation();
      window.dash_clientside.set_props(JSON.parse(input.id), { error: input.validationMessage });
    }
  }, true);
})(window.triggerlog);

/* Single keys for frequent actions; never while somebody types, and they can be turned off (WCAG 2.1.4). */
(function (T) {
  "use strict";

  const OFF = "triggerlog.keys-off";
  const KEYS = () => [
    ["1 … " + T.tabNames().length, "open a tab"],
    ["p", "pause the charts, or resume them"],
    ["[ and ]", "a shorter or longer time range"],
    ["?", "this list"],
    ["Escape", "close the open dialog or drawer"],
  ];
  /** @type {HTMLDialogElement | null} */
  let dialog = null;

  const isOff = () => localStorage.getItem(OFF) === "1";

  /** @param {EventTarget | null} target */
  function isTyping(target) {
    const typed = "input, textarea, select, dialog, [contenteditable], [role=combobox], [role=listbox]";
    return target instanceof Element && target.closest(typed) !== null;
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || isTyping(event.target)) return;
    if (event.key === "?") show();
    else if (isOff()) return;
    else if (event.key === "p") T.pause();
    else if (event.key === "[") T.stepRange(-1);
    else if (event.key === "]") T.stepRange(1);
    else if (T.tabNames()[Number(event.key) - 1]) T.openTab(T.tabNames()[Number(event.key) - 1]);
    else return;
    event.preventDefault();
  }

  function show() {
    if (!dialog) T.byId("page").append((dialog = build()));
    dialog.showModal();
  }

  function build() {
    const made = T.make("dialog", "keys-dialog", undefined, { "aria-labelledby": "keys-title" });
    const list = T.make("dl");
    for (const [keys, what] of KEYS()) {
      const term = T.make("dt");
      term.append(T.make("kbd", "", keys));
      list.append(term, T.make("dd", "", what));
    }
    const label = T.make("label");
    const box = T.make("input");
    box.type = "checkbox";
    box.checked = !isOff();
    box.addEventListener("change", () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
    label.append(box, " use single-key shortcuts (saved in this browser)");
    made.append(T.make("h2", "", "Keys", { id: "keys-title" }), list, label, T.button("", "Close", () => made.close()));
    return made;
  }

  document.addEventListener("keydown", press);
})(window.triggerlog);

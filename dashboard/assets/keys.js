/* Single keys for what a shift does most; never while somebody types, and to be turned off (WCAG 2.1.4). */
(function (T) {
  "use strict";

  const OFF = "triggerlog.keys-off";
  const KEYS = [
    ["1 … 6", "open a tab"],
    ["p", "pause the charts, or let them go on"],
    ["[ and ]", "a shorter or a longer stretch of time"],
    ["?", "this list"],
    ["Escape", "close what lies open"],
  ];
  let dialog = null;

  const isOff = () => localStorage.getItem(OFF) === "1";

  function isTyping(target) {
    return target.closest("input, textarea, select, dialog, [contenteditable], [role=combobox], [role=listbox]") !== null;
  }

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
    if (!dialog) document.getElementById("page").append((dialog = build()));
    dialog.showModal();
  }

  function build() {
    const made = T.make("dialog", "keys-dialog");
    made.setAttribute("aria-labelledby", "keys-title");
    const title = T.make("h2", "", "Keys");
    title.id = "keys-title";
    const list = T.make("dl");
    for (const [keys, what] of KEYS) {
      const term = T.make("dt");
      term.append(T.make("kbd", "", keys));
      list.append(term, T.make("dd", "", what));
    }
    const label = T.make("label");
    const box = T.make("input");
    box.type = "checkbox";
    box.checked = !isOff();
    box.addEventListener("change", () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
    label.append(box, " single keys act (kept in this browser)");
    const close = T.make("button", "", "Close");
    close.addEventListener("click", () => made.close());
    made.append(title, list, label, close);
    return made;
  }

  T.showKeys = show;
  document.addEventListener("keydown", press);
})((window.triggerlog = window.triggerlog || {}));

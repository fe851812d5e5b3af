/* Single keys for frequent actions; never while somebody types, and they can be turned off (WCAG 2.1.4). */
(function (T) {
  "use strict";

  const OFF = "triggerlog.keys-off";
  const dialog = () => /** @type {HTMLDialogElement} */ (T.byId("keys-dialog"));

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
    const box = /** @type {HTMLInputElement} */ (T.byId("keys-on"));
    box.checked = !isOff();
    box.onchange = () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1"));
    T.byId("keys-close").onclick = () => dialog().close();
    dialog().showModal();
  }

  document.addEventListener("keydown", press);
})(window.triggerlog);

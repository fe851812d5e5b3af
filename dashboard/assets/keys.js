/* Single keys for frequent actions; never while somebody types, and they can be turned off (WCAG 2.1.4). */
(function (T) {
  "use strict";

  /** @param {EventTarget | null} target */
  function isTyping(target) {
    const typed = "input, textarea, select, .mantine-Modal-content, [contenteditable], [role=combobox], [role=listbox]";
    return target instanceof Element && target.closest(typed) !== null;
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || isTyping(event.target)) return;
    if (event.key === "?") window.dash_clientside.set_props("keys-dialog", { opened: true });
    else if (document.body.dataset.keys !== "on") return; // also until Dash says what was chosen
    else if (event.key === "p") T.pause();
    else if (event.key === "[") T.stepRange(-1);
    else if (event.key === "]") T.stepRange(1);
    else if (T.tabNames()[Number(event.key) - 1]) T.openTab(T.tabNames()[Number(event.key) - 1]);
    else return;
    event.preventDefault();
  }

  document.addEventListener("keydown", press);
})(window.triggerlog);

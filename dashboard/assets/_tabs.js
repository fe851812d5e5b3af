/* Tabs: one panel is seen at a time, and only that one is drawn. Loaded first, for the other scripts register here. */
(function (T) {
  "use strict";

  const drawn = {}; // tab -> what draws it
  const all = () => [...document.querySelectorAll("#tabs [role=tab]")];
  let listening = false;

  /* A script that fills a tab says so here: `draw(liveness)` is called at most once per animation frame, while it is
     seen and the daemon has told of a group. */
  T.onTab = (tab, draw) => (drawn[tab] = drawn[tab] || []).push(draw);

  T.drawTab = function (liveness) {
    for (const draw of drawn[T.view.tab] || []) draw(liveness);
  };

  T.openTab = function (tab) {
    if (tab === T.view.tab) return;
    T.view.tab = tab;
    T.choose({ tab }, true);
    T.showTab();
  };

  T.tabNames = () => all().map((button) => button.dataset.tab);

  T.showTab = function () {
    for (const button of all()) {
      const chosen = button.dataset.tab === T.view.tab;
      T.attribute(button, "aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      document.getElementById("panel-" + button.dataset.tab).hidden = !chosen;
    }
    if (!listening) listen();
    T.redraw();
  };

  function listen() {
    listening = true;
    const list = document.getElementById("tabs");
    list.addEventListener("click", (event) => {
      const button = event.target.closest("[role=tab]");
      if (button) T.openTab(button.dataset.tab);
    });
    list.addEventListener("keydown", (event) => {
      const buttons = all();
      const at = buttons.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      const button = buttons[(to + buttons.length) % buttons.length];
      T.openTab(button.dataset.tab);
      button.focus();
    });
  }
})((window.triggerlog = window.triggerlog || {}));

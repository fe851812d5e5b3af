/* Tabs: one panel is visible at a time, and only that one is drawn. Its contents are asked for when it is first opened. */
(function (T) {
  "use strict";

  const all = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#tabs [role=tab]")]);
  const nameOf = (/** @type {HTMLElement} */ button) => button.dataset.tab || "";
  /** @type {Record<string, number>} */
  const asked = {}; // tab -> when its contents were asked for
  const AGAIN_MS = 15000; // longer than any layout takes: the process of the page has ended before it answered
  /** @type {Record<string, Draw[]>} */
  const drawn = {}; // tab -> what draws it
  let listening = false;

  /* A script that draws in a tab registers here: `draw(liveness)` is called at most once per animation frame, while the
     tab is visible and the daemon has sent a group. */
  T.onTab = (tab, draw) => (drawn[tab] = drawn[tab] || []).push(draw);

  T.drawTab = function (liveness) {
    if (!T.byId("fill-" + T.view.tab).childElementCount) return;
    for (const draw of drawn[T.view.tab] || []) draw(liveness);
  };

  T.openTab = function (tab) {
    if (tab === T.view.tab) return;
    T.view.tab = tab;
    T.choose({ tab }, true);
    T.showTab();
  };

  T.tabNames = () => all().map(nameOf);

  T.showTab = function () {
    for (const button of all()) {
      const chosen = nameOf(button) === T.view.tab;
      T.attribute(button, "aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      T.byId("panel-" + nameOf(button)).hidden = !chosen;
    }
    if (!listening) listen();
    T.redraw();
  };

  /* After the first figures are there: what a tab needs must not keep them waiting. */
  T.fillTab = async function () {
    const tab = T.view.tab;
    if (T.byId("fill-" + tab).childElementCount || Date.now() - (asked[tab] || 0) < AGAIN_MS) return;
    asked[tab] = Date.now();
    for (const script of (T.byId("panel-" + tab).dataset.needs || "").split(" ")) if (script) await T.load(script);
    window.dash_clientside.set_props("open-" + tab, { data: asked[tab] });
  };

  /** @type {Record<string, Promise<void>>} */
  const loading = {};

  T.load = function (src) {
    return (loading[src] = loading[src] || new Promise((done) => {
      const script = T.make("script");
      script.src = src;
      script.onload = () => done();
      script.onerror = () => {
        delete loading[src];
        done();
      };
      document.head.append(script);
    }));
  };

  function listen() {
    listening = true;
    const list = T.byId("tabs");
    list.addEventListener("click", (event) => {
      const button = all().find((one) => event.target instanceof Node && one.contains(event.target));
      if (button) T.openTab(nameOf(button));
    });
    list.addEventListener("keydown", (event) => {
      const buttons = all();
      const at = buttons.findIndex((button) => button === document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (to === undefined || at < 0) return;
      event.preventDefault();
      const button = buttons[(to + buttons.length) % buttons.length];
      T.openTab(nameOf(button));
      button.focus();
    });
  }
})(window.triggerlog);

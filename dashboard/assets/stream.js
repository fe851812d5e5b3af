/* The stream: connect, reconnect for ever, show how old the data is, draw once per animation frame. */
(function (T) {
  "use strict";

  const DELAYED_MS = 1500;
  const NO_DATA_MS = 4000;
  const QUIET_MS = 350; // a frame draws the page; where none comes, its age is still updated
  const SILENCE_MS = 4000; // the page sends 4 frames a second, or a heartbeat each second when the daemon is gone
  const RECONNECT_MOST_MS = 2000;

  /** @type {WebSocket | null} */
  let socket = null;
  let pause = 100;
  let heard = performance.now(); // last message of any kind
  /** @type {number | null} */
  let fresh = null; // when the newest data was as old as `lag`
  let lag = 0;
  let lostSince = Date.now();
  let scheduled = false;

  T.pageProcess = { up: false };

  function connect() {
    const scheme = location.protocol === "https:" ? "wss://" : "ws://";
    const { epoch, sequence } = T.state;
    const resume = epoch === null ? "" : "?epoch=" + epoch + "&sequence=" + sequence;
    const opened = (socket = new WebSocket(scheme + location.host + "/ws" + resume));
    heard = performance.now();
    opened.onmessage = (event) => receive(JSON.parse(event.data));
    opened.onclose = (event) => {
      if (event.code === T.settings.session_ended) location.reload(); // which leads to the log-in
      if (opened !== socket) return;
      checkSession();
      socket = null;
      T.pageProcess.up = false;
      pause = Math.min(RECONNECT_MOST_MS, pause * 2);
      setTimeout(connect, pause * (0.5 + Math.random() / 2));
      schedule();
    };
  }

  /* A browser does not learn why a stream was refused: a page that was restarted knows no earlier session. */
  function checkSession() {
    fetch("/healthz", { headers: { accept: "application/json" }, redirect: "error" })
      .then((response) => response.json())
      .then((health) => {
        if (!("daemon" in health)) location.reload();
      })
      .catch(() => {}); // nobody answers: the banner says so
  }

  /** @param {Message} message */
  function receive(message) {
    heard = performance.now();
    pause = 100;
    T.pageProcess.up = true;
    T.apply(message);
    if (T.state.build && T.state.build !== T.byId("page").dataset.build) location.reload();
    if (message.kind === "frame" || (message.kind === "snapshot" && message.link.up)) {
      fresh = heard;
      lag = message.lag;
    }
    schedule();
  }

  T.age = () => (fresh === null ? Infinity : performance.now() - fresh + lag);

  /* live, delayed or none: nothing that is not live may look it. */
  T.liveness = function () {
    const age = T.age();
    if (fresh !== null) lostSince = Date.now() - (performance.now() - fresh);
    if (!T.pageProcess.up || !T.state.link.up || age >= NO_DATA_MS) return "none";
    return age >= DELAYED_MS ? "delayed" : "live";
  };

  T.lostSince = () => (T.pageProcess.up && T.state.link.since ? T.state.link.since : lostSince);

  /* By the daemon's clock, which all times on the page are of. */
  T.now = function () {
    return fresh === null || T.state.newest === null ? Date.now() : T.state.newest + (performance.now() - fresh) + lag;
  };

  function schedule() {
    if (document.hidden) {
      badge(T.liveness()); // a tab in the background still has a title
      return;
    }
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      draw();
    });
  }
  T.schedule = schedule;

  /** @param {Liveness} now */
  function badge(now) {
    const { glyph, word, title } = T.settings.badge[now];
    for (const place of [T.byId("page"), T.byId("badge"), document.documentElement]) T.attribute(place, "data-link", now);
    T.text(T.byId("badge-glyph"), glyph);
    T.text(T.byId("badge-text"), word);
    T.text(T.find(document.head, "title"), (now === "live" && T.section("alarm_count")?.title) || title);
  }

  function draw() {
    const now = T.liveness();
    badge(now);
    const known = T.section("head") !== undefined; // before the database has answered once it has no group
    if (known) T.drawView();
    T.drawLive(now);
    if (!known) return;
    T.fillTab();
    T.drawCharts();
    T.drawTab(now);
  }

  function watch() {
    const quiet = performance.now() - heard > QUIET_MS; // before a stuck stream is opened anew
    if (socket && performance.now() - heard > SILENCE_MS) {
      const stuck = socket;
      socket = null;
      T.pageProcess.up = false;
      stuck.onclose = null;
      stuck.onmessage = null;
      stuck.close();
      connect();
    }
    if (quiet) schedule();
  }

  function start() {
    T.readView();
    connect();
    setInterval(watch, 250);
    document.addEventListener("visibilitychange", schedule);
  }

  /* Dash builds the page after its scripts are loaded. Its charts come later: the numbers do not wait for them. */
  const built = new MutationObserver(() => {
    if (document.getElementById("footer") === null) return;
    built.disconnect();
    start();
  });
  built.observe(document.documentElement, { childList: true, subtree: true });
})(window.triggerlog);

/* The alarm strip: new alarms in full, the rest behind a line; acknowledging and shelving hold for all browsers. */
(function (T) {
  "use strict";

  const GLYPH = { critical: "■", warning: "▲", note: "●" };
  const $ = T.byId;
  let known = new Set();

  T.drawAlarms = function () {
    const list = T.section("alarms") || [];
    if (T.differs($("alarms"), JSON.stringify(list))) {
      lines(list);
      announce(list);
    }
    count(list);
    for (const line of allLines()) {
      const since = Number(line.dataset.since);
      const lasted = T.lasted((T.now() - since) / 1e3);
      T.text(T.find(line, ".since"), "since " + T.time(since) + " · " + lasted + attention(line.dataset));
    }
  };

  const allLines = () => /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#alarms .alarm"));

  /** @param {DOMStringMap} dataset */
  function attention({ attention, at }) {
    if (attention === "acknowledged") return " · acknowledged at " + T.time(Number(at));
    return attention === "shelved" ? " · shelved until " + T.time(Number(at)) : "";
  }

  /**
   * Lines are found again by their cause: a button that somebody is about to press must not be another one.
   * @param {AlarmSection[]} list
   */
  function lines(list) {
    const kept = new Map([...allLines()].map((line) => [line.dataset.key, line]));
    const drawn = (/** @type {AlarmSection} */ alarm) => update(kept.get(alarm.key) || make(alarm.key), alarm);
    const fresh = list.filter((alarm) => alarm.attention === "new").map(drawn);
    const quiet = list.filter((alarm) => alarm.attention !== "new").map(drawn);
    const place = $("alarms");
    const below = document.getElementById("alarms-quiet") || behind();
    const acknowledged = list.filter((alarm) => alarm.attention === "acknowledged").length;
    const parts = [];
    if (acknowledged) parts.push(acknowledged + " acknowledged");
    if (quiet.length > acknowledged) parts.push(quiet.length - acknowledged + " shelved");
    const summary = T.find(below, "summary");
    T.text(summary, parts.join(", "));
    arrange(below, [summary, ...quiet]);
    arrange(place, quiet.length ? [...fresh, below] : fresh);
  }

  /**
   * Moving what stays would take the focus from it.
   * @param {HTMLElement} place
   * @param {HTMLElement[]} wanted
   */
  function arrange(place, wanted) {
    if (place.childElementCount === wanted.length && wanted.every((line, i) => place.children[i] === line)) return;
    const focused = document.activeElement;
    place.replaceChildren(...wanted);
    if (focused instanceof HTMLElement && place.contains(focused)) focused.focus();
  }

  function behind() {
    const below = T.make("details", "", undefined, { id: "alarms-quiet" });
    below.append(T.make("summary"));
    return below;
  }

  /** @param {HTMLElement} line @param {AlarmSection} alarm */
  function update(line, alarm) {
    line.dataset.severity = alarm.severity;
    line.dataset.since = String(alarm.since_ms);
    line.dataset.attention = alarm.attention;
    line.dataset.at = String(alarm.at_ms || alarm.until_ms || "");
    T.text(T.find(line, ".glyph"), GLYPH[alarm.severity]);
    T.text(T.find(line, ".word"), alarm.severity);
    T.text(T.find(line, "strong"), alarm.text);
    T.prose(T.find(line, ".action"), alarm.action);
    const fresh = alarm.attention === "new";
    T.find(line, ".acknowledge").hidden = T.find(line, ".shelve").hidden = !fresh;
    T.find(line, ".recall").hidden = fresh;
    return line;
  }

  /** @param {string} key */
  function make(key) {
    const line = T.make("div", "alarm", undefined, { "data-key": key });
    const words = T.make("div", "words");
    words.append(T.make("span", "word"), " ", T.make("strong"), " ", T.make("span", "since"), " ", T.make("span", "action"));
    const refused = T.make("span", "refused");
    const send = async (/** @type {string} */ what, /** @type {object} */ body) => T.text(refused, await post(what, body));
    const shelve = T.make("details", "shelve");
    shelve.append(T.make("summary", "", "Shelve"));
    for (const minutes of T.settings.shelves_min) {
      const label = "for " + (minutes < 60 ? minutes + " min" : minutes / 60 + " h");
      const act = () => {
        send("shelve", { key, minutes });
        shelve.open = false;
      };
      shelve.append(T.button("", label, act));
    }
    const answers = T.make("div", "answers");
    const acknowledge = T.button("acknowledge", "Acknowledge", () => send("acknowledge", { key }));
    const recall = T.button("recall", "Reactivate", () => send("recall", { key }));
    answers.append(refused, acknowledge, shelve, recall);
    line.append(T.make("span", "glyph", "", { "aria-hidden": "true" }), words, answers);
    return line;
  }

  /** @param {string} what @param {object} body */
  async function post(what, body) {
    const headers = { "content-type": "application/json" };
    try {
      const response = await fetch("/alarms/" + what, { method: "POST", headers, body: JSON.stringify(body) });
      if (response.ok) return "";
      const { detail } = await response.json();
      return "Not done: " + (typeof detail === "string" ? detail : "the page's server does not know this") + ".";
    } catch {
      return "Not done: this page has lost the connection to its server.";
    }
  }

  /**
   * For screen readers, once per cause: its text changes with every figure in it.
   * @param {AlarmSection[]} list
   */
  function announce(list) {
    const fresh = list.filter((alarm) => alarm.attention === "new");
    const news = fresh.filter((alarm) => !known.has(alarm.key)).map((alarm) => alarm.severity + ": " + alarm.text);
    known = new Set(fresh.map((alarm) => alarm.key));
    if (news.length) T.text($("alarm-news"), news.join(". "));
  }

  T.newAlarms = () => (T.section("alarms") || []).filter((alarm) => alarm.attention === "new");

  /** @param {AlarmSection[]} list */
  function count(list) {
    const place = $("alarm-count");
    const heard = T.state.newest !== null && T.liveness() !== "none";
    const gravest = T.newAlarms()[0];
    const fresh = T.newAlarms().length;
    const rest = list.length - fresh;
    const words = fresh + (fresh === 1 ? " alarm" : " alarms") + (rest ? ", " + rest + " handled" : "");
    T.attribute(place, "data-severity", heard && gravest ? gravest.severity : "none");
    T.text(place, heard ? (gravest ? GLYPH[gravest.severity] + " " : "") + words : "alarms unknown");
  }
})(window.triggerlog);

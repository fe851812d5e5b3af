/* The alarm strip: what nobody has seen to yet in full, the rest behind a line; what people say of it goes to all. */
(function (T) {
  "use strict";

  const GLYPH = { critical: "■", warning: "▲", note: "●" };
  const SHELVES = [
    [15, "15 min"],
    [60, "1 h"],
    [480, "8 h"],
  ];
  const $ = (id) => document.getElementById(id);
  let drawn = null;
  let known = new Set();

  T.drawAlarms = function () {
    const list = T.section("alarms") || [];
    const wanted = JSON.stringify(list);
    if (wanted !== drawn) {
      drawn = wanted;
      lines(list);
      news(list);
    }
    count(list);
    for (const line of $("alarms").querySelectorAll(".alarm")) {
      const since = Number(line.dataset.since);
      const lasted = T.lasted((T.now() - since) / 1e3);
      T.text(line.querySelector(".since"), "since " + T.time(since) + " · " + lasted + said(line.dataset));
    }
  };

  function said({ attention, at }) {
    if (attention === "acknowledged") return " · acknowledged at " + T.time(Number(at));
    return attention === "shelved" ? " · shelved until " + T.time(Number(at)) : "";
  }

  /* Lines are kept by their cause: a button that somebody is about to press must not be another one. */
  function lines(list) {
    const kept = new Map([...document.querySelectorAll("#alarms .alarm")].map((line) => [line.dataset.key, line]));
    const fresh = list.filter((alarm) => alarm.attention === "new").map((alarm) => update(kept.get(alarm.key), alarm));
    const quiet = list.filter((alarm) => alarm.attention !== "new").map((alarm) => update(kept.get(alarm.key), alarm));
    const place = $("alarms");
    const below = place.querySelector("#alarms-quiet") || behind();
    const acknowledged = list.filter((alarm) => alarm.attention === "acknowledged").length;
    const parts = [];
    if (acknowledged) parts.push(acknowledged + " acknowledged");
    if (quiet.length > acknowledged) parts.push(quiet.length - acknowledged + " shelved");
    T.text(below.querySelector("summary"), parts.join(", "));
    arrange(below, [below.firstChild, ...quiet]);
    arrange(place, quiet.length ? [...fresh, below] : fresh);
  }

  /* Moving what stays would take the focus from it. */
  function arrange(place, wanted) {
    if (place.childElementCount === wanted.length && wanted.every((line, i) => place.children[i] === line)) return;
    const focused = document.activeElement;
    place.replaceChildren(...wanted);
    if (focused && place.contains(focused)) focused.focus();
  }

  function behind() {
    const below = T.make("details");
    below.id = "alarms-quiet";
    below.append(T.make("summary"));
    return below;
  }

  function update(kept, alarm) {
    const line = kept || make(alarm.key);
    line.dataset.severity = alarm.severity;
    line.dataset.since = alarm.since_ms;
    line.dataset.attention = alarm.attention;
    line.dataset.at = alarm.at_ms || alarm.until_ms || "";
    T.text(line.querySelector(".glyph"), GLYPH[alarm.severity]);
    T.text(line.querySelector(".word"), alarm.severity);
    T.text(line.querySelector("strong"), alarm.text);
    T.prose(line.querySelector(".action"), alarm.action);
    const fresh = alarm.attention === "new";
    line.querySelector(".acknowledge").hidden = line.querySelector(".shelve").hidden = !fresh;
    line.querySelector(".recall").hidden = fresh;
    return line;
  }

  function make(key) {
    const line = T.make("div", "alarm");
    line.dataset.key = key;
    const glyph = T.make("span", "glyph");
    glyph.setAttribute("aria-hidden", "true");
    const words = T.make("div", "words");
    words.append(T.make("span", "word"), " ", T.make("strong"), " ", T.make("span", "since"), " ", T.make("span", "action"));
    const shelve = T.make("details", "shelve");
    shelve.append(T.make("summary", "", "Shelve"));
    for (const [minutes, label] of SHELVES) {
      shelve.append(button("", "for " + label, () => say("shelve", { key, minutes }, () => (shelve.open = false))));
    }
    const answers = T.make("div", "answers");
    answers.append(
      T.make("span", "refused"),
      button("acknowledge", "Acknowledge", () => say("acknowledge", { key })),
      shelve,
      button("recall", "Call back", () => say("recall", { key }))
    );
    line.append(glyph, words, answers);
    return line;

    function say(what, body, then) {
      tell(what, body).then((problem) => T.text(line.querySelector(".refused"), problem));
      if (then) then();
    }
  }

  function button(name, label, act) {
    const made = T.make("button", name, label);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  async function tell(what, body) {
    const headers = { "content-type": "application/json" };
    try {
      const answer = await fetch("/alarms/" + what, { method: "POST", headers, body: JSON.stringify(body) });
      if (answer.ok) return "";
      const { detail } = await answer.json();
      return "Not done: " + (typeof detail === "string" ? detail : "the page's server does not know this") + ".";
    } catch {
      return "Not done: this page has lost its server.";
    }
  }

  /* Said aloud once, by its cause: its text changes with every figure in it. */
  function news(list) {
    const fresh = list.filter((alarm) => alarm.attention === "new");
    const told = fresh.filter((alarm) => !known.has(alarm.key)).map((alarm) => alarm.severity + ": " + alarm.text);
    known = new Set(fresh.map((alarm) => alarm.key));
    if (told.length) T.text($("alarm-news"), told.join(". "));
  }

  T.newAlarms = () => (T.section("alarms") || []).filter((alarm) => alarm.attention === "new");

  function count(list) {
    const place = $("alarm-count");
    const heard = T.state.newest !== null && T.liveness() !== "none";
    const gravest = list.length && list[0].attention === "new" ? list[0].severity : "none";
    const fresh = T.newAlarms().length;
    const rest = list.length - fresh;
    const words = fresh + (fresh === 1 ? " alarm" : " alarms") + (rest ? ", " + rest + " seen to" : "");
    T.attribute(place, "data-severity", heard ? gravest : "none");
    T.text(place, heard ? (fresh ? GLYPH[gravest] + " " : "") + words : "alarms not known");
  }
})((window.triggerlog = window.triggerlog || {}));

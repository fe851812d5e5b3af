/* Header, badge, banner, alarm strip, events: what is told in words. */
(function (T) {
  "use strict";

  const BADGE = { live: ["●", "LIVE"], delayed: ["◐", "DELAYED"], none: ["○", "NO DATA"] };
  const GLYPH = { critical: "■", warning: "▲", note: "●" };
  const BACKENDS = {
    postgresql: "PostgreSQL",
    mysql: "MySQL",
    mariadb: "MariaDB",
    mongodb: "MongoDB",
    ferretdb: "FerretDB",
    memory: "memory",
  };
  const $ = (id) => document.getElementById(id);
  let alarmsDrawn = null;
  let eventsDrawn = null;

  T.drawHeader = function (liveness) {
    const page = $("page");
    T.attribute(page, "data-link", liveness);
    T.attribute(document.documentElement, "data-link", liveness); // the drawer lies outside the page's root
    const [glyph, word] = BADGE[liveness];
    T.attribute($("badge"), "data-link", liveness);
    T.text($("badge-glyph"), glyph);
    T.text($("badge-text"), word);
    T.text($("badge-age"), age(liveness));
    const now = T.now();
    T.text($("clock"), T.day(now) + " " + T.time(now) + " UTC");
    document.title = (liveness === "live" ? "" : word + " · ") + "triggerlog";
    banner(liveness);
    who();
    store();
    disk();
  };

  function age(liveness) {
    if (liveness === "none") return "since " + T.time(T.lostSince()) + " UTC";
    return (T.age() / 1e3).toFixed(1) + " s";
  }

  function who() {
    const head = T.section("head");
    if (!head) return;
    const group = T.section("group", T.view.group);
    facts($("who"), [["logger", head.logger], ["run", group ? String(group.run) : "–"], ["", head.state.replace("_", " ")]]);
    T.text(
      $("footer"),
      "triggerlog " + head.version + " · daemon up since " + T.day(head.started_ms) + " " + T.time(head.started_ms) + " UTC"
    );
  }

  function store() {
    const told = T.section("store");
    if (!told) return;
    const version = (BACKENDS[told.backend] || told.backend) + " " + told.version;
    facts($("store"), [["", version + (told.embedded ? ", embedded" : "")], ["durability", told.durability]]);
    const settings = Object.entries(told.settings).map(([name, value]) => name + " = " + value);
    T.attribute($("store"), "title", [told.target, ...settings].join("\n"));
  }

  /* Of the disk that the journal lies on. */
  function disk() {
    const told = T.section("disk");
    if (!told) return;
    const used = Math.round(100 * (1 - told.free_gib / told.total_gib));
    facts($("disk"), [["disk", used + " % used, " + T.number(told.free_gib) + " GiB free"]]);
  }

  function facts(place, pairs) {
    const wanted = pairs.map((pair) => pair.join(" ")).join("|");
    if (place.dataset.drawn === wanted) return;
    place.dataset.drawn = wanted;
    place.replaceChildren(
      ...pairs.map(([name, value]) => {
        const fact = T.make("span", "fact");
        if (name) fact.append(T.make("span", "name", name + " "));
        fact.append(T.make("b", "", value));
        return fact;
      })
    );
  }

  function banner(liveness) {
    const place = $("banner");
    if (liveness !== "none") {
      place.hidden = true;
      return;
    }
    const since = T.time(T.lostSince()) + " UTC, " + T.lasted((Date.now() - T.lostSince()) / 1e3) + " ago";
    const [what, action] = T.pageProcess.up ? daemonGone() : pageGone();
    place.hidden = false;
    if (!place.firstChild) place.append(T.make("strong"), T.make("span", "since"), T.make("span", "action"));
    T.text(place.children[0], what);
    T.text(place.children[1], " Since " + since + ". ");
    T.prose(place.children[2], action);
  }

  function daemonGone() {
    const link = T.state.link;
    return [
      "NO DATA: the daemon at " + link.daemon + " is not heard (" + link.problem + ").",
      "Instruments may not be recorded. Look at `systemctl status triggerlog`, or start it with `triggerlog run FILE`. " +
        "This page comes back by itself.",
    ];
  }

  function pageGone() {
    return [
      "NO DATA: this page has lost its server at " + location.host + ".",
      "The daemon may well go on: ask `triggerlog status`. Look at `systemctl status triggerlog-dashboard`, or start it " +
        "with `triggerlog dashboard`. This page comes back by itself.",
    ];
  }

  T.drawAlarms = function () {
    alarms(T.section("alarms") || []);
    events(T.section("events") || []);
  };

  function alarms(list) {
    const wanted = JSON.stringify(list);
    const place = $("alarms");
    if (wanted !== alarmsDrawn) {
      alarmsDrawn = wanted;
      /* Lines are kept by their cause, so that a screen reader is told of a new one only. */
      const lines = new Map([...place.children].map((line) => [line.dataset.key, line]));
      place.replaceChildren(...list.map((alarm) => line(lines.get(alarm.key), alarm)));
    }
    for (const lineDrawn of place.children) {
      const since = Number(lineDrawn.dataset.since);
      T.text(lineDrawn.querySelector(".since"), "since " + T.time(since) + " · " + T.lasted((T.state.newest - since) / 1e3));
    }
  }

  function line(kept, alarm) {
    const element = kept || T.make("div", "alarm");
    if (!kept) {
      const glyph = T.make("span", "glyph");
      glyph.setAttribute("aria-hidden", "true");
      const since = T.make("span", "since");
      since.setAttribute("aria-hidden", "true");
      element.append(glyph, T.make("strong"), since, T.make("span", "action"));
      element.dataset.key = alarm.key;
    }
    element.dataset.severity = alarm.severity;
    element.dataset.since = alarm.since_ms;
    T.text(element.querySelector(".glyph"), GLYPH[alarm.severity]);
    T.text(element.querySelector("strong"), alarm.text);
    T.prose(element.querySelector(".action"), alarm.action);
    return element;
  }

  function events(list) {
    const wanted = JSON.stringify(list);
    if (wanted === eventsDrawn) return;
    eventsDrawn = wanted;
    const lines = list.map((event) => {
      const item = T.make("li");
      item.dataset.severity = event.severity;
      item.append(T.make("time", "", T.day(event.t) + " " + T.time(event.t)), T.make("span", "severity", event.severity));
      item.append(T.make("span", "words", event.text));
      return item;
    });
    $("events").replaceChildren(...(lines.length ? lines : [T.make("li", "nothing", "Nothing to tell since the start.")]));
  }
})((window.triggerlog = window.triggerlog || {}));

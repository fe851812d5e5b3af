/* Header, badge, banner, events: what is told in words. */
(function (T) {
  "use strict";

  const BADGE = { live: ["●", "LIVE"], delayed: ["◐", "DELAYED"], none: ["○", "NO DATA"] };
  const BACKENDS = {
    postgresql: "PostgreSQL",
    mysql: "MySQL",
    mariadb: "MariaDB",
    mongodb: "MongoDB",
    ferretdb: "FerretDB",
    memory: "memory",
  };
  const $ = (id) => document.getElementById(id);
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
    const alarms = T.newAlarms().length;
    const title = (liveness === "live" ? (alarms ? "(" + alarms + ") " : "") : word + " · ") + "triggerlog";
    if (document.title !== title) document.title = title;
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
    facts($("disk"), [["disk", used + " % used"]]);
    const free = T.number(told.free_gib) + " of " + T.number(told.total_gib) + " GiB";
    T.attribute($("disk"), "title", "The disk of the state folder: " + free + " are free");
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

  T.onTab("live", () => events(T.section("events") || []));

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

/* Header, badge, banner, events: what is shown in words. */
(function (T) {
  "use strict";

  const BADGE = { live: ["●", "LIVE"], delayed: ["◐", "DELAYED"], none: ["○", "NO DATA"] };
  const $ = T.byId;

  T.drawHeader = function (liveness) {
    T.attribute($("page"), "data-link", liveness);
    T.attribute(document.documentElement, "data-link", liveness); // the drawer is outside the page's root
    const [glyph, word] = BADGE[liveness];
    T.attribute($("badge"), "data-link", liveness);
    T.text($("badge-glyph"), glyph);
    T.text($("badge-text"), word);
    T.text($("badge-age"), age(liveness));
    T.text($("clock"), T.moment(T.now()) + " UTC");
    const alarms = T.newAlarms().length;
    const title = (liveness === "live" ? (alarms ? "(" + alarms + ") " : "") : word + " · ") + "triggerlog";
    if (document.title !== title) document.title = title;
    banner(liveness);
    who();
    store();
    disk();
  };

  /** @param {Liveness} liveness */
  function age(liveness) {
    if (liveness === "none") return "since " + T.time(T.lostSince()) + " UTC";
    return (T.age() / 1e3).toFixed(1) + " s";
  }

  function who() {
    const head = T.section("head");
    if (!head) return;
    const group = T.section(`group/${T.view.group}`);
    facts($("who"), [["logger", head.logger], ["run", group ? String(group.run) : "–"], ["", head.state.replace("_", " ")]]);
    T.text($("footer"), "triggerlog " + head.version + " · daemon up since " + T.moment(head.started_ms) + " UTC");
  }

  function store() {
    const known = T.section("store");
    if (!known) return;
    facts($("store"), [["", known.product + " " + known.version + (known.embedded ? ", embedded" : "")], ["durability", known.durability]]);
    const settings = Object.entries(known.settings).map(([name, value]) => name + " = " + value);
    T.attribute($("store"), "title", [known.target, ...settings].join("\n"));
  }

  /* Of the disk that holds the journal. */
  function disk() {
    const known = T.section("disk");
    if (!known) return;
    const used = Math.round(100 * (1 - known.free_gib / known.total_gib));
    facts($("disk"), [["disk", used + " % used"]]);
    const free = T.number(known.free_gib) + " of " + T.number(known.total_gib) + " GiB";
    T.attribute($("disk"), "title", "Disk of the state folder: " + free + " free");
  }

  /** @param {HTMLElement} place @param {[string, string][]} pairs */
  function facts(place, pairs) {
    if (!T.differs(place, pairs.map((pair) => pair.join(" ")).join("|"))) return;
    place.replaceChildren(
      ...pairs.map(([name, value]) => {
        const fact = T.make("span", "fact");
        if (name) fact.append(T.make("span", "name", name + " "));
        fact.append(T.make("b", "", value));
        return fact;
      })
    );
  }

  /** @param {Liveness} liveness */
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
    T.prose(T.find(place, "span.action"), action);
  }

  function daemonGone() {
    const link = T.state.link;
    return [
      "NO DATA: the daemon at " + link.daemon + " does not answer (" + link.problem + ").",
      "Instruments may not be recorded. Look at `systemctl status triggerlog`, or start it with `triggerlog run FILE`. " +
        "This page reconnects by itself.",
    ];
  }

  function pageGone() {
    return [
      "NO DATA: this page has lost the connection to its server at " + location.host + ".",
      "The daemon may still be running: check with `triggerlog status`. Look at `systemctl status triggerlog-dashboard`, " +
        "or start it with `triggerlog dashboard`. This page reconnects by itself.",
    ];
  }

  T.onTab("live", () => events(T.section("events") || []));

  /** @param {EventLine[]} list */
  function events(list) {
    const place = $("events");
    if (!T.differs(place, JSON.stringify(list))) return;
    const lines = list.map((event) => {
      const item = T.make("li", "", undefined, { "data-severity": event.severity });
      item.append(T.make("time", "", T.moment(event.t)), T.make("span", "severity", event.severity));
      item.append(T.make("span", "words", event.text));
      return item;
    });
    place.replaceChildren(...(lines.length ? lines : [T.make("li", "nothing", "No events since the start.")]));
  }
})(window.triggerlog);

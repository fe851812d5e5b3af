/* The binding of elements to figures: what an element shows of the stream is declared in Python, in its attributes.

   docs/live-elements.md has the list of them. Whatever is in the frame of the page, or in the tab that is seen, follows at most
   once per animation frame. */
(function (T) {
  "use strict";

  const BOUND = "[data-live], [data-if], [data-over], [data-spark], [data-set], [data-title]";
  const DEAD = "–";
  const ANSWER_MS = 10e3; // that a tick waits longer while a callback is not answered
  const SPARK_MS = 60e3;
  const SPARK_EVERY_MS = 500; // in which it moves by a pixel or two
  const W = 120;
  const H = 26;
  const SVG = "http://www.w3.org/2000/svg";

  /** @type {Record<string, (value: any) => string>} */
  const FORMATS = {
    number: T.number,
    count: T.count,
    plain: (value) => (value === null ? DEAD : T.plain(value)),
    seconds: T.seconds,
    about: (value) => (value === null ? DEAD : T.about(value)),
    lasted: (value) => (value === null ? DEAD : T.lasted(value)),
    ago: (value) => (value === null ? DEAD : T.lasted((T.now() - value) / 1e3)),
    age: (value) => (value === null ? DEAD : (value / 1e3).toFixed(1) + " s"),
    bytes: T.bytes,
    percent: (value) => (value === null ? DEAD : T.number(100 * value)),
    time: (value) => (value === null ? DEAD : T.time(value)),
    moment: (value) => (value === null ? DEAD : T.moment(value)),
    text: (value) => (value === null ? "" : String(value)),
  };

  const section = (/** @type {string} */ key) => /** @type {Record<string, any>} */ (T.state.sections)[key];

  /** @param {any} value @param {string[]} path */
  const walk = (value, path) => path.reduce((inner, name) => inner?.[name], value) ?? null;

  /* What the page knows of itself, beside the sections of the stream. */
  /** @type {Record<string, () => any>} */
  const OWN = {
    view: () => T.view,
    link: () => T.state.link,
    page: () => ({ host: location.host, dead: T.liveness() === "none", up: T.pageProcess.up }),
    clock: () => ({ now: T.now(), age: T.age() === Infinity ? null : T.age(), lost: T.lostSince() }),
  };

  T.figure = function (path) {
    const [root, ...rest] = path.split(".");
    if (root === "group") return ofGroup(T.view.group, rest);
    if (root === "groups") return ofGroup(rest[0], rest.slice(1));
    return walk(root in OWN ? OWN[root]() : section(root), rest);
  };

  /** @param {string} group @param {string[]} path */
  function ofGroup(group, path) {
    const named = path.join(".");
    const column = T.settings.paths[named] || named;
    if (T.state.columns.includes(column)) return T.latest(group, column);
    const own = section(path[0] + "/" + group);
    return own === undefined ? walk(section("group/" + group), path) : walk(own, path.slice(1));
  }

  /* A sign before the path turns it round: !group.backpressure. */
  const holds = (/** @type {string} */ path) => (path[0] === "!" ? !get(path.slice(1)) : Boolean(get(path)));

  /** @type {Item | null} */
  let item = null; // of a list, while its line is bound

  /* .text is of the line of a list that the element is in. */
  const get = (/** @type {string} */ path) => (path[0] === "." ? walk(item, path.slice(1).split(".")) : T.figure(path));

  /** @param {HTMLElement} element @param {boolean} dead */
  function bind(element, dead) {
    const { live, format, over, limit, spark, set, title } = element.dataset;
    if (element.dataset.if !== undefined) element.hidden = !element.dataset.if.split(" ").every(holds);
    if (element.hidden) return;
    if (format === "prose") T.prose(element, String(get(live || "")));
    else if (live !== undefined) T.text(element, dead && element.dataset.dead !== "keep" ? (element.dataset.dead ?? DEAD) : FORMATS[format || "number"](get(live)));
    if (over !== undefined) T.attribute(element, "data-level", !dead && isOver(over, limit) ? "over" : null);
    if (set !== undefined) attributes(element, set);
    if (title !== undefined) T.attribute(element, "title", get(title));
    if (spark !== undefined && sparks) draw(element, spark, element.dataset.group ?? T.view.group);
  }

  /**
   * Whether a figure is over its limit: a number, or another figure; without a limit whether it is anything at all.
   * @param {string} path
   * @param {string | undefined} limit
   */
  function isOver(path, limit) {
    const value = get(path);
    if (limit === undefined) return Boolean(value);
    const most = Number.isNaN(Number(limit)) ? T.figure(limit) : Number(limit);
    return value !== null && most !== null && value > most;
  }

  /**
   * data-set="severity=alarms.severity adds=group.words.adds": attributes `data-severity` and `data-adds`.
   * @param {HTMLElement} element
   * @param {string} set
   */
  function attributes(element, set) {
    for (const pair of set.split(" ")) {
      const [name, path] = pair.split("=");
      const value = get(path);
      T.attribute(element, "data-" + name, value === null ? null : String(value));
    }
  }

  // --- lists -------------------------------------------------------------------------------------------------------------

  /** @type {WeakMap<HTMLElement, Map<string, {line: HTMLElement, item: Item}>>} */
  const lists = new WeakMap();

  /**
   * data-each="alarms" data-by="key" data-where="new": a line for each item of a section, made of the <template> that is
   * the first child. A line is found again by its key: a button that somebody is about to press must not be another one.
   * data-news="ID": what the items that are new say as their `news` is put there, for screen readers.
   * @param {HTMLElement} place
   * @param {boolean} dead
   */
  function each(place, dead) {
    const { each: path = "", by = "", where, news } = place.dataset;
    const before = lists.get(place) || new Map();
    /** @type {Item[]} */
    const items = (T.figure(path) || []).filter((/** @type {Item} */ one) => where === undefined || one[where]);
    const template = /** @type {HTMLTemplateElement} */ (place.firstElementChild);
    if (template.children.length) template.content.append(...template.children); // what React made is no line
    const now = new Map(items.map((one) => {
      const key = by.split(" ").map((name) => one[name]).join(" ");
      return [key, { line: before.get(key)?.line || fresh(template), item: one }];
    }));
    lists.set(place, now);
    arrange(place, [template, ...[...now.values()].map(({ line }) => line)]);
    const said = [...now].filter(([key, { item: one }]) => !before.has(key) && one.news).map(([, { item: one }]) => one.news);
    if (news !== undefined && said.length) T.text(T.byId(news), said.join(" "));
    for (const { line, item: one } of now.values()) {
      item = one;
      for (const element of [line, ...line.querySelectorAll(BOUND)]) bind(/** @type {HTMLElement} */ (element), dead);
    }
    item = null;
  }

  /** @param {HTMLTemplateElement} template */
  function fresh(template) {
    const line = /** @type {HTMLElement} */ (template.content.children[0].cloneNode(true));
    line.addEventListener("click", order);
    return line;
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

  /**
   * data-order="ID" data-body='{"for_s": 900}' on a button of a line: sets the data of the dcc.Store ID, on which a callback
   * gives an order, to that with the line's key. Where no callback can be reached, its element .refused says so.
   * @param {MouseEvent} event
   */
  function order(event) {
    const button = event.target instanceof Element && /** @type {HTMLElement | null} */ (event.target.closest("[data-order]"));
    const line = /** @type {HTMLElement} */ (event.currentTarget);
    if (!button) return;
    button.closest("details.shelve")?.removeAttribute("open");
    const refused = T.find(line, ".refused");
    T.text(refused, T.pageProcess.up ? "" : refused.dataset.lost || "");
    if (!T.pageProcess.up) return;
    const data = { key: line.dataset.key, ...JSON.parse(button.dataset.body || "{}"), pressed: performance.now() };
    window.dash_clientside.set_props(button.dataset.order || "", { data });
  }

  // --- sparklines ------------------------------------------------------------------------------------------------------

  let sparks = false; // whether they are drawn this time
  let sparked = { group: "", at: -Infinity };

  function areSparksDue() {
    const at = performance.now();
    if (sparked.group === T.view.group && at - sparked.at < SPARK_EVERY_MS) return false;
    sparked = { group: T.view.group, at };
    return true;
  }

  /** @param {HTMLElement} place @param {string} column @param {string} group */
  function draw(place, column, group) {
    const to = T.state.newest;
    if (to === null) return;
    if (!place.firstChild) {
      const svg = document.createElementNS(SVG, "svg");
      svg.setAttribute("viewBox", "0 0 " + W + " " + H);
      svg.setAttribute("preserveAspectRatio", "none");
      svg.append(document.createElementNS(SVG, "path"));
      place.append(svg);
    }
    T.find(place, "path").setAttribute("d", line(T.window(group, column, to - SPARK_MS, to, W), to));
  }

  /** @param {Points} points @param {number} to */
  function line({ x, y }, to) {
    const known = y.filter((value) => value !== null);
    const low = Math.min(...known);
    const high = Math.max(...known);
    const span = Math.max(high - low, Math.abs(high) * 0.04, 1e-9);
    const middle = (high + low) / 2;
    let path = "";
    let pen = "M";
    x.forEach((time, i) => {
      const value = y[i];
      if (value === null) {
        pen = "M";
        return;
      }
      const px = Math.max(0, (1 - (to - time) / SPARK_MS) * W);
      const py = H / 2 - ((value - middle) / span) * (H - 4);
      path += pen + px.toFixed(1) + " " + py.toFixed(1);
      pen = "L";
    });
    return path;
  }

  // --- what Python draws -------------------------------------------------------------------------------------------------

  /** @type {WeakMap<HTMLElement, {at: number, seen: unknown[]}>} */
  const ticked = new WeakMap();

  /**
   * data-tick="ID" data-of="experiment totals/{group}" data-every="1000": sets the data of the dcc.Store ID, on which a
   * callback draws, when one of these sections, or the view, has changed, and so often at most; without sections just so
   * often. Not while Dash waits for an answer: it drops that one when its callback is asked again, and where answers take
   * longer than a tick nothing would ever be drawn.
   * @param {HTMLElement} element
   * @param {Liveness} liveness
   * @param {boolean} waits
   */
  function tick(element, liveness, waits) {
    const { tick: id = "", of, every = "0" } = element.dataset;
    const before = ticked.get(element);
    const view = { ...T.view, group: T.view.group || T.groups()[0] || "", whole: !T.view.group }; // of all together the first
    /** @type {unknown[]} */
    const seen = [JSON.stringify(view), liveness === "none"];
    for (const key of of ? of.split(" ") : []) seen.push(section(key.replace("{group}", view.group)));
    const isNew = !before || before.seen.some((one, i) => one !== seen[i]);
    const isDue = !before || performance.now() - before.at >= Number(every) + (waits ? ANSWER_MS : 0);
    const isTurned = before && before.seen[0] !== seen[0]; // a person does not wait
    if (!isTurned && !(isDue && (isNew || of === undefined))) return;
    ticked.set(element, { at: performance.now(), seen });
    window.dash_clientside.set_props(id, { data: { view, dead: liveness === "none", at: T.state.newest } });
  }

  T.drawLive = function (liveness) {
    const dead = liveness === "none";
    sparks = areSparksDue();
    const waits = document.querySelector("._dash-loading-callback") !== null;
    const places = [...document.querySelectorAll("[data-frame]"), T.byId("panel-" + T.view.tab)];
    for (const place of places) {
      for (const list of place.querySelectorAll("[data-each]")) each(/** @type {HTMLElement} */ (list), dead);
      for (const element of place.querySelectorAll(BOUND)) {
        if (!element.closest("[data-each]")) bind(/** @type {HTMLElement} */ (element), dead);
      }
      if (!T.pageProcess.up || T.section("head") === undefined) continue;
      for (const element of place.querySelectorAll("[data-tick]")) tick(/** @type {HTMLElement} */ (element), liveness, waits);
    }
  };
})(window.triggerlog);

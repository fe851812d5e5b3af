/* What this browser knows: sections as last told, and the points of a group: an hour as they came, then thinned. */
(function (T) {
  "use strict";

  const KEPT_MS = 3600e3;
  const LONG_MS = 120e3; // width of a stretch of which the least and the greatest are kept
  const RUN_MS = 2 * 86400e3;
  const GAP_MS = 3000;

  T.state = {
    build: null,
    epoch: null,
    sequence: null,
    columns: [],
    sections: {},
    series: {}, // group -> {t: [ms], values: [one array a column]}
    newest: null, // time of the newest frame, by the daemon's clock
    link: { up: false, since: null, problem: "connecting", daemon: "" },
  };

  T.groups = function () {
    return Object.keys(T.state.sections)
      .filter((key) => key.startsWith("group/"))
      .map((key) => key.slice(6))
      .sort();
  };

  T.section = function (kind, group) {
    return T.state.sections[group === undefined ? kind : kind + "/" + group];
  };

  T.apply = function (message) {
    if (message.kind === "snapshot") snapshot(message);
    else if (message.kind === "frame") frame(message);
    else if (message.kind === "sections") Object.assign(T.state.sections, message.changed);
    else if (message.kind === "link") T.state.link = message.link;
  };

  function snapshot(message) {
    const state = T.state;
    state.build = message.build;
    state.columns = message.columns;
    state.sections = message.sections;
    state.link = message.link;
    const series = Object.assign({}, state.series);
    for (const group of Object.keys(message.history)) {
      const [t, ...values] = message.history[group];
      series[group] = joined(state.series[group], { t, values });
    }
    state.series = series;
    state.epoch = message.epoch;
    state.sequence = message.sequence;
    state.newest = message.t;
  }

  /* A page process that was restarted remembers less than this browser does. */
  function joined(known, told) {
    const keep = known && told.t.length ? first(known.t, told.t[0]) : 0;
    if (!keep) return told.t.length || !known ? told : known;
    const far = told.t[0] - known.t[keep - 1] > GAP_MS;
    const t = known.t.slice(0, keep).concat(far ? [known.t[keep - 1] + 1] : [], told.t);
    const values = told.values.map((column, i) => known.values[i].slice(0, keep).concat(far ? [null] : [], column));
    return { t, values };
  }

  function frame(message) {
    const state = T.state;
    state.link = { up: true, since: null, problem: null, daemon: state.link.daemon };
    for (const key of Object.keys(message.changed)) {
      if (message.changed[key] === null) delete state.sections[key];
      else state.sections[key] = message.changed[key];
    }
    for (const group of Object.keys(message.points)) add(group, message.t, message.points[group]);
    state.epoch = message.epoch;
    state.sequence = message.sequence;
    state.newest = message.t;
  }

  function add(group, t, point) {
    const series = (T.state.series[group] = T.state.series[group] || { t: [], values: point.map(() => []) });
    let last = series.t[series.t.length - 1];
    if (last !== undefined && t < last - GAP_MS) {
      /* The daemon's clock was set back. */
      series.t = [];
      series.values = point.map(() => []);
      last = undefined;
    }
    if (last !== undefined && t <= last) return;
    if (last !== undefined && t - last > GAP_MS) {
      series.t.push(last + 1);
      series.values.forEach((column) => column.push(null));
    }
    series.t.push(t);
    series.values.forEach((column, i) => column.push(point[i]));
    /* Seldom and much: shifting all arrays four times a second would copy an hour each time. */
    if (t - (series.tidied || 0) > LONG_MS) tidy(series, t);
  }

  /* What is older than an hour is thinned once. What a snapshot brought is thin where it is old. */
  function tidy(series, now) {
    const old = first(series.t, now - KEPT_MS);
    const drop = first(series.t, now - RUN_MS);
    const from = Math.max(series.thin === undefined ? old : series.thin, drop);
    const thinned = stretches(series, from, old);
    const join = (column, made) => column.slice(drop, from).concat(made, column.slice(old));
    series.t = join(series.t, thinned.t);
    series.values = series.values.map((column, i) => join(column, thinned.values[i]));
    series.thin = from - drop + thinned.t.length;
    series.tidied = now;
  }

  /* Two points a stretch, as the page's server does it: the least and the greatest of each column, in their order. */
  function stretches(series, from, to) {
    const made = { t: [], values: series.values.map(() => []) };
    const gap = (i) => series.values.every((column) => column[i] === null);
    for (let at = from, next; at < to; at = next) {
      next = at + 1;
      if (!gap(at)) while (next < to && series.t[next] - series.t[at] < LONG_MS && !gap(next)) next++;
      made.t.push(series.t[at]);
      if (next - at > 1) made.t.push(series.t[next - 1]);
      series.values.forEach((column, i) => made.values[i].push(...ends(column, at, next)));
    }
    return made;
  }

  function ends(column, from, to) {
    if (to - from === 1) return [column[from]];
    let low = -1;
    let high = -1;
    for (let i = from; i < to; i++) {
      if (column[i] === null) continue;
      if (low < 0 || column[i] < column[low]) low = i;
      if (high < 0 || column[i] > column[high]) high = i;
    }
    return low < 0 ? [null, null] : [column[Math.min(low, high)], column[Math.max(low, high)]];
  }

  /* The first place whose time is not before `from`. */
  function first(t, from) {
    let low = 0;
    let high = t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (t[middle] < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* Points of one column between two times; more than `most` are thinned to the least and greatest of each stretch. */
  T.window = function (group, column, from, to, most) {
    const series = T.state.series[group];
    const place = T.state.columns.indexOf(column);
    if (!series || place < 0) return { x: [], y: [] };
    const start = Math.max(0, first(series.t, from) - 1);
    const end = first(series.t, to + 1);
    const x = series.t.slice(start, end);
    const y = series.values[place].slice(start, end);
    return x.length > most ? thin(x, y, (to - from) / (most >> 1)) : { x, y };
  };

  /* Stretches lie where they lie in time, not in the chart: a line that moves on keeps its shape. */
  function thin(x, y, width) {
    const thinned = { x: [], y: [] };
    let at = 0;
    while (at < x.length) {
      const stretch = Math.floor(x[at] / width);
      let low = at;
      let high = at;
      let next = at;
      for (; next < x.length && Math.floor(x[next] / width) === stretch; next++) {
        if (y[next] === null) break;
        if (y[next] < y[low]) low = next;
        if (y[next] > y[high]) high = next;
      }
      if (next === at) {
        thinned.x.push(x[at]);
        thinned.y.push(null);
        at += 1;
        continue;
      }
      for (const place of low === high ? [low] : [Math.min(low, high), Math.max(low, high)]) {
        thinned.x.push(x[place]);
        thinned.y.push(y[place]);
      }
      at = next;
    }
    return thinned;
  }

  /* Since when what is shown as the run is known. */
  T.began = function (group) {
    const series = T.state.series[group];
    const told = (T.section("group", group) || {}).run_since_ms || 0;
    return series && series.t.length ? Math.max(series.t[0], told) : T.state.newest;
  };

  T.latest = function (group, column) {
    const series = T.state.series[group];
    const place = T.state.columns.indexOf(column);
    if (!series || place < 0 || !series.t.length) return null;
    return series.values[place][series.t.length - 1];
  };
})((window.triggerlog = window.triggerlog || {}));

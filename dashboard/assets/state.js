/* What this browser knows: the newest sections, and the points of each group: an hour as they came, then thinned. */
(function (T) {
  "use strict";

  const { hour_s, bucket_s, kept_s, gap_s } = T.settings.history;
  const HOUR_MS = hour_s * 1e3;
  const BUCKET_MS = bucket_s * 1e3;
  const KEPT_MS = kept_s * 1e3;
  const GAP_MS = gap_s * 1e3;
  const AGAIN_MS = 5000;

  T.state = {
    build: null,
    epoch: null,
    sequence: null,
    columns: [],
    brief: new Set(),
    sections: {},
    series: Object.create(null), // a group may be named `constructor`
    newest: null,
    link: { up: false, since: null, problem: "connecting", daemon: "" },
  };

  /* Of many groups a snapshot has the newest points alone: the rest is asked for when somebody opens one. */
  T.complete = async function (group) {
    const { brief } = T.state;
    if (!brief.delete(group)) return;
    const answer = await fetch("/history/" + encodeURIComponent(group)).catch(() => null);
    if (!answer?.ok) return void setTimeout(() => brief.add(group), AGAIN_MS);
    const [t, ...values] = (await answer.json()).history;
    const now = T.state.series[group];
    const from = now && t.length ? first(now.t, t[t.length - 1] + 1) : 0;
    T.state.series[group] = now
      ? { t: t.concat(now.t.slice(from)), values: values.map((/** @type {Value[]} */ column, /** @type {number} */ i) => column.concat(now.values[i].slice(from))) }
      : { t, values };
    T.redraw();
  };

  T.groups = () => T.section("head")?.groups || [];

  T.section = (key) => T.state.sections[key];

  T.apply = function (message) {
    if (message.kind === "snapshot") snapshot(message);
    else if (message.kind === "frame") frame(message);
    else T.state.link = message.link;
  };

  /** @param {Snapshot} message */
  function snapshot(message) {
    const state = T.state;
    state.build = message.build;
    state.columns = message.columns;
    state.sections = message.sections;
    state.link = message.link;
    state.brief = new Set(message.brief);
    const series = Object.assign(Object.create(null), state.series);
    for (const [group, [t, ...values]] of Object.entries(message.history)) {
      series[group] = joined(state.series[group], { t, values });
    }
    state.series = series;
    state.epoch = message.epoch;
    state.sequence = message.sequence;
    state.newest = message.t;
  }

  /**
   * A page process that was restarted remembers less than this browser does.
   * @param {Series | undefined} known
   * @param {Series} sent
   */
  function joined(known, sent) {
    const keep = known && sent.t.length ? first(known.t, sent.t[0]) : 0;
    if (!known || !keep) return sent.t.length || !known ? sent : known;
    const far = sent.t[0] - known.t[keep - 1] > GAP_MS;
    const t = known.t.slice(0, keep).concat(far ? [known.t[keep - 1] + 1] : [], sent.t);
    const values = sent.values.map((column, i) => known.values[i].slice(0, keep).concat(far ? [null] : [], column));
    return { t, values };
  }

  /** @param {Frame} message */
  function frame(message) {
    const state = T.state;
    state.link = { up: true, since: null, problem: null, daemon: state.link.daemon };
    Object.assign(state.sections, message.changed);
    for (const [key, section] of Object.entries(message.changed)) {
      if (section === null) Reflect.deleteProperty(state.sections, key);
    }
    for (const [group, point] of Object.entries(message.points)) add(group, message.t, point);
    state.epoch = message.epoch;
    state.sequence = message.sequence;
    state.newest = message.t;
  }

  /** @param {string} group @param {number} t @param {Value[]} point */
  function add(group, t, point) {
    const series = (T.state.series[group] = T.state.series[group] || { t: [], values: point.map(() => []) });
    let last = series.t.at(-1);
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
    if (t - (series.tidied || 0) > BUCKET_MS) tidy(series, t);
  }

  /**
   * What is older than an hour is thinned once. What a snapshot brought is thin where it is old.
   * @param {Series} series
   * @param {number} now
   */
  function tidy(series, now) {
    const old = first(series.t, now - HOUR_MS);
    const drop = first(series.t, now - KEPT_MS);
    const from = Math.max(series.thin === undefined ? old : series.thin, drop);
    const thinned = buckets(series, from, old);
    series.t = series.t.slice(drop, from).concat(thinned.t, series.t.slice(old));
    series.values = series.values.map((column, i) => column.slice(drop, from).concat(thinned.values[i], column.slice(old)));
    series.thin = from - drop + thinned.t.length;
    series.tidied = now;
  }

  /**
   * Two points per bucket, as in dashboard/history.py: the least and the greatest of each column, in their order.
   * @param {Series} series
   * @param {number} from
   * @param {number} to
   */
  function buckets(series, from, to) {
    /** @type {Series} */
    const made = { t: [], values: series.values.map(() => []) };
    const gap = (/** @type {number} */ i) => series.values.every((column) => column[i] === null);
    for (let at = from, next; at < to; at = next) {
      next = at + 1;
      if (!gap(at)) while (next < to && series.t[next] - series.t[at] < BUCKET_MS && !gap(next)) next++;
      made.t.push(series.t[at]);
      if (next - at > 1) made.t.push(series.t[next - 1]);
      const end = next;
      series.values.forEach((column, i) => made.values[i].push(...ends(column, at, end)));
    }
    return made;
  }

  /** @param {Value[]} column @param {number} from @param {number} to */
  function ends(column, from, to) {
    if (to - from === 1) return [column[from]];
    const places = extremes(column, from, to);
    return places.length ? places.map((i) => column[i]) : [null, null];
  }

  /**
   * Where a column has its least and its greatest value, in their order; nowhere where it has none.
   * @param {Value[]} column
   * @param {number} from
   * @param {number} to
   */
  function extremes(column, from, to) {
    let low = -1;
    let high = -1;
    for (let i = from; i < to; i++) {
      const value = column[i];
      if (value === null) continue;
      if (low < 0 || value < Number(column[low])) low = i;
      if (high < 0 || value > Number(column[high])) high = i;
    }
    return low < 0 ? [] : [Math.min(low, high), Math.max(low, high)];
  }

  /**
   * The first place whose time is not before `from`.
   * @param {number[]} t
   * @param {number} from
   */
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

  /* Points of one column between two times; more than `most` are thinned to the least and greatest of each bucket. */
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

  /**
   * Buckets are fixed in time, not in the chart: a line that moves on keeps its shape.
   * @param {number[]} x
   * @param {Value[]} y
   * @param {number} width
   */
  function thin(x, y, width) {
    /** @type {Points} */
    const thinned = { x: [], y: [] };
    let at = 0;
    while (at < x.length) {
      const bucket = Math.floor(x[at] / width);
      let next = at + 1;
      if (y[at] !== null) while (next < x.length && y[next] !== null && Math.floor(x[next] / width) === bucket) next++;
      for (const place of new Set(y[at] === null ? [at] : extremes(y, at, next))) {
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
    const since = T.section(`group/${group}`)?.run_since_ms || 0;
    return series && series.t.length ? Math.max(series.t[0], since) : T.state.newest;
  };

  T.latest = function (group, column) {
    const series = T.state.series[group];
    const place = T.state.columns.indexOf(column);
    if (!series || place < 0 || !series.t.length) return null;
    return series.values[place][series.t.length - 1];
  };
})(window.triggerlog);

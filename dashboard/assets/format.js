/* Numbers and times as a person reads them. */
(function (T) {
  "use strict";

  const NONE = "–";
  /** @type {Record<number, Intl.NumberFormat>} */
  const formats = {}; // decimals -> how a number is written; to make one is expensive

  /* Three or four significant digits (two of 0.1 to 1); thousands apart. */
  T.number = function (value, digits) {
    if (value === null || value === undefined || Number.isNaN(value)) return NONE;
    const size = Math.abs(value);
    if (digits === undefined && size > 0 && size < 0.1) return value.toPrecision(3);
    const places = digits !== undefined ? digits : size >= 100 ? 0 : size >= 10 ? 1 : size === 0 ? 0 : 2;
    return written(value, places);
  };

  /** @param {number} value @param {number} places */
  function written(value, places) {
    const options = { minimumFractionDigits: places, maximumFractionDigits: places };
    return (formats[places] = formats[places] || new Intl.NumberFormat("en-US", options)).format(value);
  }

  /* What somebody asked for: 20 and not 20.0. */
  T.plain = (value) => String(Number(value.toPrecision(4)));

  T.seconds = (value) => (value === null || value === undefined ? NONE : T.number(value, value >= 10 ? 1 : value >= 1 ? 2 : 3));

  T.count = (value) => (value === null || value === undefined ? NONE : written(value, 0));

  /** @type {Intl.DateTimeFormat | undefined} */
  let clock;
  /** @type {Record<number, number>} */
  const offsets = {}; // by quarter of an hour, at which all zones change

  /* How far the zone of the page is ahead of UTC at a moment, in ms; what plotly.js shows is moved by it. */
  T.offset = function (ms) {
    clock ??= new Intl.DateTimeFormat("sv-SE", { timeZone: T.settings.time_zone, dateStyle: "short", timeStyle: "medium" });
    const at = Math.floor(ms / 900e3) * 900e3;
    return (offsets[at] ??= Date.parse(clock.format(at).replace(" ", "T") + "Z") - at);
  };

  T.moment = (ms) => new Date(ms + T.offset(ms)).toISOString().slice(0, 19).replace("T", " ");

  T.time = (ms) => T.moment(ms).slice(11);

  /* How long something has lasted, in at most two units. */
  T.lasted = function (seconds) {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  };

  /* About how long: one unit, at most two digits; more would suggest a precision that nobody has. */
  T.about = function (seconds) {
    if (seconds < 100) return Math.round(seconds) + " s";
    if (seconds < 6000) return Math.round(seconds / 60) + " min";
    if (seconds < 172800) return Math.round(seconds / 3600) + " h";
    return T.count(seconds / 86400) + " d";
  };

  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  T.bytes = function (bytes) {
    if (bytes === null || bytes === undefined) return NONE;
    let size = Math.abs(bytes);
    let unit = 0;
    while (size >= 1024 && unit < UNITS.length - 1) {
      size /= 1024;
      unit += 1;
    }
    return (bytes < 0 ? "−" : "") + T.number(size, unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + " " + UNITS[unit];
  };
})(window.triggerlog);

/* Numbers and times as a person reads them. */
(function (T) {
  "use strict";

  const NONE = "–";
  const formats = {}; // places -> how a number is written; to make one is dear

  /* Three or four digits that matter; thousands apart. */
  T.number = function (value, digits) {
    if (value === null || value === undefined || Number.isNaN(value)) return NONE;
    const size = Math.abs(value);
    const places = digits !== undefined ? digits : size >= 100 ? 0 : size >= 10 ? 1 : size === 0 ? 0 : 2;
    return written(value, places);
  };

  function written(value, places) {
    const made = { minimumFractionDigits: places, maximumFractionDigits: places };
    return (formats[places] = formats[places] || new Intl.NumberFormat("en-US", made)).format(value);
  }

  /* What somebody asked for: 20 and not 20.0. */
  T.plain = (value) => String(Number(value.toPrecision(4)));

  T.count = function (value) {
    return value === null || value === undefined ? NONE : written(value, 0);
  };

  T.time = function (ms) {
    return new Date(ms).toISOString().slice(11, 19);
  };

  T.day = function (ms) {
    return new Date(ms).toISOString().slice(0, 10);
  };

  /* How long something has lasted, in at most two units. */
  T.lasted = function (seconds) {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  };

  /* About how long: one unit, of two digits at most; more would promise what nobody knows. */
  T.about = function (seconds) {
    if (seconds < 100) return Math.round(seconds) + " s";
    if (seconds < 6000) return Math.round(seconds / 60) + " min";
    if (seconds < 172800) return Math.round(seconds / 3600) + " h";
    return T.count(seconds / 86400) + " d";
  };

  /* Text is set only where it differs: writing the same text again makes the browser lay out again. */
  T.text = function (element, text) {
    if (element && element.textContent !== text) element.textContent = text;
  };

  /* Text with commands between backticks. */
  T.prose = function (element, text) {
    if (element.dataset.prose === text) return;
    element.dataset.prose = text;
    element.replaceChildren(...text.split("`").map((part, i) => (i % 2 ? T.make("code", "", part) : part)));
  };

  T.attribute = function (element, name, value) {
    if (!element || element.getAttribute(name) === value) return;
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, value);
  };

  /* What the page's server tells: {told}, or {problem} in one line. */
  T.told = async function (path) {
    try {
      const answer = await fetch("/told/" + path);
      const told = await answer.json();
      if (answer.ok) return { told, problem: "" };
      return { told: null, problem: typeof told.detail === "string" ? told.detail : "the page does not know this" };
    } catch {
      return { told: null, problem: "this page has lost its server" };
    }
  };

  T.make = function (tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
})((window.triggerlog = window.triggerlog || {}));

/* Loaded first: helpers for the document, and the settings that Python wrote into it. While a script is loaded it may
   use only what this file and _tabs.js define; everything else is there once the page is built. */
window.triggerlog = /** @type {Triggerlog} */ ({});

(function (T) {
  "use strict";

  /* An element that the page always has: its absence is a defect, and is reported as one. */
  T.byId = function (id) {
    const element = document.getElementById(id);
    if (element === null) throw new Error("the page has no element " + id);
    return element;
  };

  /**
   * @template {string} S
   * @param {Element} place
   * @param {S} selector
   * @returns {Selected<S>}
   */
  T.find = function (place, selector) {
    const element = place.querySelector(selector);
    if (element === null) throw new Error("there is no element " + selector);
    return /** @type {Selected<S>} */ (/** @type {unknown} */ (element));
  };

  T.settings = JSON.parse(T.byId("settings").textContent || "");

  /**
   * @template {keyof HTMLElementTagNameMap} K
   * @param {K} tag
   * @param {string} [className]
   * @param {string} [text]
   * @param {Record<string, string>} [attributes]
   */
  T.make = function (tag, className, text, attributes) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  };

  T.button = function (className, label, act) {
    const button = T.make("button", className, label);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  };

  /* Text is set only where it differs: writing the same text again makes the browser lay out again. */
  T.text = function (element, text) {
    if (element.textContent !== text) element.textContent = text;
  };

  /* Text with commands between backticks. */
  T.prose = function (element, text) {
    if (!T.differs(element, text)) return;
    element.replaceChildren(...text.split("`").map((part, i) => (i % 2 ? T.make("code", "", part) : part)));
  };

  T.attribute = function (element, name, value) {
    if (element.getAttribute(name) === value) return;
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, value);
  };

  /* Whether an element shows something else than what this stands for; from now on it shows this. */
  T.differs = function (element, stamp) {
    if (element.dataset.drawn === stamp) return false;
    element.dataset.drawn = stamp;
    return true;
  };
})(window.triggerlog);

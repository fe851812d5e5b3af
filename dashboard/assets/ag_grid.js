/* What ag-grid asks of the page: how the cells of dashboard/tabs/tables.py are sorted, a button and links in a cell. */
(function () {
  "use strict";

  /** @typedef {{by: number | string | null} | undefined} Cell */
  const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  const components = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});

  functions.byCell = function (/** @type {Cell} */ one, /** @type {Cell} */ other) {
    const [a, b] = [one?.by ?? "", other?.by ?? ""];
    if (typeof a !== typeof b) return typeof a === "number" ? 1 : -1;
    return a < b ? -1 : Number(a > b);
  };

  components.Bar = function (/** @type {{value: {by: number}}} */ { value }) {
    return window.React.createElement("i", { className: "share", style: { width: value.by + "%" } });
  };

  /* The last minute of a column of the group that the row is of, which live.js draws. */
  components.Spark = function (/** @type {{data: {key: string}, value: {text: string}}} */ { data, value }) {
    return window.React.createElement("div", { className: "spark", "data-spark": value.text, "data-group": data.key, "aria-hidden": true });
  };

  /* What is typed into the field NAME-search filters the rows of NAME-table. */
  document.addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLInputElement) || !target.id.endsWith("-search")) return;
    window.dash_ag_grid.getApi(target.id.replace(/search$/, "table")).setGridOption("quickFilterText", target.value);
  });

  /** @typedef {{data: {key: string}, value?: {text: string, label?: string, chosen?: boolean}, setData: (key: string) => void}} PressProps */
  components.Press = function (/** @type {PressProps} */ { data, value, setData }) {
    const said = { "aria-label": value?.label, "aria-pressed": value?.chosen };
    const onClick = (/** @type {MouseEvent} */ { detail }) => detail < 2 && setData(data.key); // once of a double click
    return window.React.createElement("button", { className: "plain", ...said, onClick }, value?.text);
  };

  /** @typedef {{text: string, href: string, label: string}} Link */
  components.Links = function (/** @type {{value?: {links: Link[]}}} */ { value }) {
    const link = (/** @type {Link} */ { text, href, label }) =>
      window.React.createElement("a", { key: href, href, target: "_blank", rel: "noopener", "aria-label": label }, text);
    return window.React.createElement("span", { className: "links" }, value?.links.map(link));
  };
})();

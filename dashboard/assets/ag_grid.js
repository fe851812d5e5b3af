/* What ag-grid asks of the page: how the cells of dashboard/tabs/tables.py are sorted, and a button in a cell. */
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
    return window.React.createElement("i", { className: "bar", style: { width: value.by + "%" } });
  };

  components.Press = function (/** @type {{words: string, data: {key: string}, setData: (key: string) => void}} */ props) {
    const { words, data, setData } = props;
    const label = words + " " + data.key;
    return window.React.createElement("button", { className: "plain", "aria-label": label, onClick: () => setData(data.key) }, words);
  };
})();

/* Questions to the page's server: for what is not in the stream. */
(function (T) {
  "use strict";

  T.ask = async function (path) {
    try {
      const response = await fetch("/answers/" + path);
      const body = await response.json();
      if (response.ok) return { answer: body, problem: "", lost: false };
      const problem = typeof body.detail === "string" ? body.detail : "the page's server does not know this";
      return { answer: null, problem, lost: false };
    } catch {
      return { answer: null, problem: "this page has lost the connection to its server", lost: true };
    }
  };
})(window.triggerlog);

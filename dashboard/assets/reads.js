/* The tab Reads: which workloads run. */
(function (T) {
  "use strict";

  let drawn = null;

  T.onTab("reads", () => {
    const lines = Object.entries(T.section("readers") || {}).map(
      ([name, reader]) => name + ": " + reader.kind + " of " + reader.group + ", " + reader.state
    );
    const wanted = lines.length ? lines : ["No workload reads."];
    if (wanted.join("\n") === drawn) return;
    drawn = wanted.join("\n");
    document.getElementById("readers").replaceChildren(...wanted.map((line) => T.make("li", "", line)));
  });
})((window.triggerlog = window.triggerlog || {}));

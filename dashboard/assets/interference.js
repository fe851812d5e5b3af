/* The tab Interference: the experiment that runs. */
(function (T) {
  "use strict";

  T.onTab("interference", () => {
    const told = T.section("experiment");
    const line = told ? told.phase + ", block " + told.block + " of " + told.blocks : "No experiment runs.";
    T.text(document.getElementById("experiment"), line);
  });
})((window.triggerlog = window.triggerlog || {}));

/* The tab Storage: the database. */
(function (T) {
  "use strict";

  T.onTab("storage", () => {
    const told = T.section("store");
    if (told) T.text(document.getElementById("storage"), told.target + ", durability " + told.durability);
  });
})((window.triggerlog = window.triggerlog || {}));

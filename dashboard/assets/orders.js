/* Orders: what changes something in the daemon asks the person for the API's token, once if it is to be remembered. */
(function (T) {
  "use strict";

  const STORED = "triggerlog.token";
  /** @type {HTMLDialogElement | null} */
  let dialog = null;

  T.order = async function (order, body, what) {
    let problem = "";
    for (;;) {
      const token = sessionStorage.getItem(STORED) || (await ask(what, problem));
      if (token === null) return { ok: false, line: "Not done: no token was given." };
      const outcome = await send(order, body, token);
      if (!outcome.refused) return outcome;
      sessionStorage.removeItem(STORED);
      problem = outcome.line;
    }
  };

  /** @param {string} order @param {object} body @param {string} token @returns {Promise<Outcome & {refused?: boolean}>} */
  async function send(order, body, token) {
    const headers = { "content-type": "application/json", authorization: "Bearer " + token };
    let response;
    try {
      response = await fetch("/orders/" + order, { method: "POST", headers, body: JSON.stringify(body) });
    } catch {
      return { ok: false, line: "This page has lost the connection to its server; the order may not have reached the daemon." };
    }
    const answer = await response.json();
    if (response.ok) return { ok: true, line: "" };
    const refused = response.status === 401;
    /* The page's own log-in is over: it sends no challenge, for no token would help. */
    if (refused && !response.headers.has("www-authenticate")) location.reload();
    return { ok: false, refused, line: answer.detail };
  }

  /** @param {string} what @param {string} problem @returns {Promise<string | null>} */
  function ask(what, problem) {
    const opened = (dialog = dialog || build());
    const field = T.find(opened, "input.token");
    const alert = T.find(opened, "p.alert");
    T.text(T.find(opened, "h2"), what);
    alert.hidden = problem === "";
    T.text(alert, problem && "The daemon refused it: " + problem + ".");
    field.value = "";
    return new Promise((resolve) => {
      opened.onclose = () => {
        const token = opened.returnValue === "send" && isToken(field.value) ? field.value.trim() : null;
        if (token !== null && T.find(opened, "input.remember").checked) sessionStorage.setItem(STORED, token);
        field.value = "";
        resolve(token);
        T.schedule();
      };
      opened.returnValue = "";
      opened.showModal();
      field.focus();
    });
  }

  /* A header holds letters of ASCII; anything else is no token of ours, and fetch would refuse it with an error. */
  const isToken = (/** @type {string} */ text) => /^[\x21-\x7e]+$/.test(text.trim());

  function build() {
    const made = T.make("dialog", "token", undefined, { "aria-labelledby": "token-title" });
    made.innerHTML =
      '<form method="dialog"><h2 id="token-title"></h2><p class="alert" role="alert" hidden></p>' +
      '<label for="token-field">Token of the daemon’s API</label>' +
      '<input id="token-field" class="token" type="password" autocomplete="off" required ' +
      'pattern="\\s*[\\x21-\\x7e]+\\s*" title="letters, digits and signs without spaces" aria-describedby="token-where">' +
      '<p id="token-where">It is in <code>api-token</code> in the daemon’s state_dir, or where token_file or token_env ' +
      "in [api] says.</p>" +
      '<label class="tick"><input class="remember" type="checkbox"> Remember it in this browser tab until it is closed</label>' +
      '<menu><button type="submit" value="send" class="primary">Send</button>' +
      '<button type="button" class="cancel">Cancel</button></menu></form>';
    T.find(made, "button.cancel").addEventListener("click", () => made.close(""));
    document.body.append(made);
    return made;
  }
})(window.triggerlog);

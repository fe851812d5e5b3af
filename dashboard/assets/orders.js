/* Orders: what changes something in the daemon asks the person for the API's token, once if it is to be kept. */
(function (T) {
  "use strict";

  const KEPT = "triggerlog.token";
  let dialog = null;

  T.keepsToken = () => sessionStorage.getItem(KEPT) !== null;

  T.forgetToken = function () {
    sessionStorage.removeItem(KEPT);
    T.schedule();
  };

  /* Gives an order. Resolves to {ok, line, answer}: `line` says why not, in words of the daemon. `what` names it. */
  T.order = async function (order, body, what) {
    let problem = "";
    for (;;) {
      const token = sessionStorage.getItem(KEPT) || (await ask(what, problem));
      if (token === null) return { ok: false, line: "Not done: no token was given." };
      const answer = await send(order, body, token);
      if (!answer.refused) return answer;
      T.forgetToken();
      problem = answer.line;
    }
  };

  async function send(order, body, token) {
    const headers = { "content-type": "application/json", authorization: "Bearer " + token };
    let answer;
    try {
      answer = await fetch("/orders/" + order, { method: "POST", headers, body: JSON.stringify(body) });
    } catch {
      return { ok: false, line: "This page has lost its server; nothing was told to the daemon as far as it knows." };
    }
    const told = await answer.json();
    if (answer.ok) return { ok: true, line: "", answer: told.answer };
    const refused = answer.status === 401;
    /* The page's own log-in is over: it sends no challenge, for no token would help. */
    if (refused && !answer.headers.has("www-authenticate")) location.reload();
    return { ok: false, refused, line: told.detail };
  }

  function ask(what, problem) {
    dialog = dialog || build();
    const field = dialog.querySelector("input[type=password]");
    const alert = dialog.querySelector("[role=alert]");
    T.text(dialog.querySelector("h2"), what);
    alert.hidden = problem === "";
    T.text(alert, problem && "The daemon refused it: " + problem + ".");
    field.value = "";
    return new Promise((resolve) => {
      dialog.onclose = () => {
        const token = dialog.returnValue === "give" && header(field.value) ? field.value.trim() : null;
        if (token !== null && dialog.querySelector("input[type=checkbox]").checked) sessionStorage.setItem(KEPT, token);
        field.value = "";
        resolve(token);
        T.schedule();
      };
      dialog.returnValue = "";
      dialog.showModal();
      field.focus();
    });
  }

  /* A header holds letters of ASCII; anything else is no token of ours, and fetch would refuse it with an error. */
  const header = (text) => /^[\x21-\x7e]+$/.test(text.trim());

  function build() {
    const made = T.make("dialog", "token");
    made.setAttribute("aria-labelledby", "token-title");
    made.innerHTML =
      '<form method="dialog"><h2 id="token-title"></h2><p role="alert" hidden></p>' +
      '<label for="token-field">Token of the daemon’s API</label>' +
      '<input id="token-field" type="password" autocomplete="off" required pattern="\\s*[\\x21-\\x7e]+\\s*" ' +
      'title="letters, digits and signs without spaces" aria-describedby="token-where">' +
      '<p id="token-where">It is in <code>api-token</code> in the daemon’s state_dir, or where token_file or token_env ' +
      "in [api] says.</p>" +
      '<label class="tick"><input type="checkbox"> Keep it for this browser tab until it is closed</label>' +
      '<menu><button type="submit" value="give" class="primary">Give the order</button>' +
      '<button type="button" class="cancel">Cancel</button></menu></form>';
    made.querySelector(".cancel").addEventListener("click", () => made.close(""));
    document.body.append(made);
    return made;
  }
})((window.triggerlog = window.triggerlog || {}));

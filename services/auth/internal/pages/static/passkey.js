// Passkeys (WebAuthn). A page offers one with
//
//   <button type="button" hidden data-passkey="login|second|reauth|register|join"
//     data-options="URL" data-finish="URL" data-return="PATH" data-csrf="TOKEN"
//     data-failed="TEXT" data-exists="TEXT">
//
// which is shown where the browser has passkeys; elsewhere what has data-no-passkeys is. A press asks options of
// one URL, lets the browser answer them, posts the answer to the other URL and goes to PATH. When that fails the
// text is shown after the button. A form with data-kept, which holds what was typed before, is sent instead of
// going to PATH: the server then shows it again. data-csrf is for pages with a session, and data-reauth where they
// lead when the server asks who it is. "register" sends the field "name" of its form, "join" its other fields but
// the password, of which the server says what is wrong, "login" the box "remember", "reauth" the field
// "user_code". With "login", and a field whose autocomplete has "webauthn", the browser offers passkeys in that
// field too.
"use strict";

(() => {
  const supported = window.isSecureContext && window.PublicKeyCredential && navigator.credentials;
  if (!supported) {
    for (const text of document.querySelectorAll("[data-no-passkeys]")) text.hidden = false;
    return;
  }

  // Options last five minutes on the server.
  const renewal = 4 * 60 * 1000;

  const decode = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const encode = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const decodeIDs = (list) => (list || []).map((c) => ({ ...c, id: decode(c.id) }));

  function creation(options) {
    if (PublicKeyCredential.parseCreationOptionsFromJSON) return PublicKeyCredential.parseCreationOptionsFromJSON(options);
    return {
      ...options, challenge: decode(options.challenge), user: { ...options.user, id: decode(options.user.id) },
      excludeCredentials: decodeIDs(options.excludeCredentials),
    };
  }

  function request(options) {
    if (PublicKeyCredential.parseRequestOptionsFromJSON) return PublicKeyCredential.parseRequestOptionsFromJSON(options);
    return { ...options, challenge: decode(options.challenge), allowCredentials: decodeIDs(options.allowCredentials) };
  }

  // Some password managers return objects without toJSON, or with one that fails.
  function serialize(credential) {
    try {
      if (credential.toJSON) return credential.toJSON();
    } catch { /* by hand */ }
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = encode(credential.response[name]);
    }
    if (credential.response.getTransports) response.transports = credential.response.getTransports();
    return {
      id: credential.id, rawId: encode(credential.rawId), type: credential.type, response,
      authenticatorAttachment: credential.authenticatorAttachment || undefined,
      clientExtensionResults: credential.getClientExtensionResults(),
    };
  }

  async function post(button, url, body) {
    const headers = { "Content-Type": "application/json", Accept: "application/json" };
    if (button.dataset.csrf) headers["X-CSRF-Token"] = button.dataset.csrf;
    const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw Object.assign(new Error(`${url}: ${answer.status}`), { status: answer.status, reason: (await answer.json()).reason });
    return answer.json();
  }

  function fields(form) {
    const typed = Object.fromEntries(new FormData(form));
    return { token: typed.t, household: typed.household, username: typed.username, display_name: typed.display_name };
  }

  // whole reports whether all fields are filled in that a passkey does not replace, and shows the first that is not.
  const whole = (form) =>
    [...form.elements].every((e) => e.type === "password" || !e.reportValidity || e.reportValidity());

  // explain has the server show the form with what is wrong in it.
  function explain(form) {
    const how = document.createElement("input");
    how.type = "hidden";
    how.name = "do";
    how.value = "passkey";
    form.append(how);
    form.submit();
  }

  async function run(button, how) {
    const join = button.dataset.passkey === "join";
    const register = join || button.dataset.passkey === "register";
    const typed = join ? fields(button.form) : {};
    const { publicKey } = await post(button, button.dataset.options, typed);
    const credential = register
      ? await navigator.credentials.create({ ...how, publicKey: creation(publicKey) })
      : await navigator.credentials.get({ ...how, publicKey: request(publicKey) });
    const body = { credential: serialize(credential) };
    if (join) body.token = typed.token;
    const name = register && button.form && button.form.elements.namedItem("name");
    if (name) body.name = name.value;
    const remember = button.form && button.form.elements.namedItem("remember");
    if (remember) body.remember = remember.checked;
    const code = button.form && button.form.elements.namedItem("user_code");
    if (code) body.user_code = code.value;
    await post(button, button.dataset.finish, body);
    const kept = document.querySelector("form[data-kept]");
    if (kept) return kept.submit();
    const target = new URL(button.dataset.return || "/", location.href);
    if (target.origin === location.origin) location.assign(target);
  }

  function show(button, error) {
    const exists = error.name === "InvalidStateError" || error.reason === "passkey_exists";
    let text = button.nextElementSibling;
    if (!text || !text.matches("[data-passkey-error]")) {
      text = document.createElement("p");
      text.dataset.passkeyError = "";
      text.className = "error";
      text.setAttribute("role", "alert");
      button.after(text);
    }
    text.textContent = (exists && button.dataset.exists) || button.dataset.failed || "";
  }

  // offered is the request in a field that waits for the user; a browser has one at a time.
  let offered = new AbortController();

  async function offer(button) {
    const { signal } = (offered = new AbortController());
    const renew = setTimeout(() => { offered.abort(); offer(button); }, renewal);
    try {
      await run(button, { mediation: "conditional", signal });
    } catch (error) {
      if (!signal.aborted && error.reason === "passkey_failed") {
        show(button, error);
        offer(button);
      }
    }
    clearTimeout(renew);
  }

  async function press(button) {
    if (button.dataset.passkey === "register" && button.form && !button.form.reportValidity()) return;
    if (button.dataset.passkey === "join" && !whole(button.form)) return;
    offered.abort();
    button.disabled = true;
    try {
      await run(button, {});
    } catch (error) {
      if (error.reason === "reauth_required" && button.dataset.reauth) return location.assign(button.dataset.reauth);
      if (error.status && button.dataset.passkey === "join" && error.reason !== "passkey_failed") return explain(button.form);
      show(button, error);
      if (button.dataset.passkey === "login") start(button);
    }
    button.disabled = false;
  }

  async function start(button) {
    const conditional = PublicKeyCredential.isConditionalMediationAvailable;
    if (document.querySelector("input[autocomplete~=webauthn]") && conditional && await PublicKeyCredential.isConditionalMediationAvailable()) offer(button);
  }

  for (const button of document.querySelectorAll("button[data-passkey]")) {
    button.hidden = false;
    button.addEventListener("click", () => press(button));
    if (button.dataset.passkey === "login") start(button);
  }
})();

// Anna adds a passkey, logs in with it, makes it the second step of a login by password,
// and confirms an act with it. Nothing that the authenticator once answered counts again.
import { want } from "../journey.mjs";

const api = "/api/v1/auth";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const device = await j.open({ name: "laptop", lang: j.other });
  const authenticator = await device.authenticator();
  // sent are the last requests to paths, with the cookies that the browser sent.
  const sent = new Map(), byID = new Map(), devtools = await device.page.createCDPSession();
  await devtools.send("Network.enable");
  devtools.on("Network.requestWillBeSent", ({ requestId, request }) => {
    if (request.method === "POST") {
      byID.set(requestId, { ...byID.get(requestId), url: request.url, body: request.postData, headers: request.headers });
      sent.set(new URL(request.url).pathname, requestId);
    }
  });
  devtools.on("Network.requestWillBeSentExtraInfo", ({ requestId, headers }) => {
    byID.set(requestId, { ...byID.get(requestId), cookie: headers.Cookie ?? headers.cookie });
  });
  // again sends an answer of the authenticator to a path once more, with the ceremony of
  // then and all that the browser has now, and returns the answer's status.
  const again = async (path) => {
    const { url, body, headers, cookie } = byID.get(sent.get(path));
    const cookies = { ...Object.fromEntries(cookie.split("; ").map((c) => c.split(/=(.*)/s))), ...await device.cookies() };
    const now = { ...headers, "X-CSRF-Token": cookies["csrf-token"] ?? "", Origin: j.origin, Cookie: Object.entries(cookies).map((c) => c.join("=")).join("; ") };
    return (await fetch(url, { method: "POST", headers: now, body })).status;
  };
  // logout ends on an empty page: the login page that follows a logout asks the authenticator
  // by itself, and would log in again when somebody is present before the next page is opened.
  const logout = async () => {
    await device.visit("/pforte/logout");
    await device.send("/pforte/logout");
    await device.page.goto("about:blank");
  };
  // by presses a button of passkeys, with the presence of the person, and waits for the page
  // that it leads to. What an authenticator was asked while nobody was present stays
  // unanswered.
  const by = async (kind) => {
    const done = device.page.waitForNavigation();
    await authenticator.present(true);
    await device.press(`button[data-passkey=${kind}]`, null);
    await done;
    await authenticator.present(false);
    await device.look(200);
  };

  await device.visit("/pforte/account/security");
  await device.send("/pforte/login", { username, password });
  await device.does("add a passkey", () => by("register"));
  await device.shows(j.other === "en" ? "Chrome on Linux" : "Chrome auf Linux", "main .list"); // the name that was proposed
  want("the passkeys of the authenticator", (await authenticator.credentials()).length, 1);
  await device.press("li summary", null);
  await device.send("li form", { name: "Annas Laptop" }, { button: "[value=rename]" });
  await device.shows("Annas Laptop", "main");

  await logout();
  // The field of the login page offers passkeys by itself, and somebody is present.
  await authenticator.present(true);
  await device.page.goto(`${j.origin}/pforte/login?return=/pforte/account/security`);
  await device.page.waitForFunction(() => location.pathname === "/pforte/account/security" && document.readyState === "complete");
  await authenticator.present(false);
  await device.look(200);
  want("a login that is sent again", await again(`${api}/passkeys/login`), 401);

  await device.visit("/pforte/account/security");
  await device.send("form:has([value=enable-passkey])");
  want("the number of recovery codes", (await device.page.$$("main ol li")).length, 10);
  await logout();
  await device.login(username, password);
  want("the page after the password", new URL(device.page.url()).pathname, "/pforte/second");
  await by("second");
  device.at("/pforte/");
  want("a second step that is sent again", await again(`${api}/2fa/passkey`), 401);

  await device.visit("/pforte/reauth?return=/pforte/account/security");
  const before = (await device.cookies())["svc.sid"];
  await by("reauth");
  device.at("/pforte/account/security");
  want("whether the session is another", (await device.cookies())["svc.sid"] !== before, true);
  want("a confirmation that is sent again", await again(`${api}/reauth/passkey`), 401);

  // An authenticator that does not ask who is there is no passkey.
  await logout();
  await authenticator.verifiesUser(false);
  await authenticator.present(true);
  await device.visit("/pforte/login");
  await device.press("button[data-passkey=login]", null);
  await device.page.waitForSelector("[data-passkey-error]:not(:empty)");
  want("the session without user verification", (await device.cookies())["svc.sid"], undefined);

  // A browser without passkeys, as programs that show a link inside themselves have, says so where one is offered.
  const without = await j.open({ name: "browser without passkeys", lang: j.other });
  await without.page.evaluateOnNewDocument(() => { delete window.PublicKeyCredential; });
  const missing = j.other === "en" ? "This browser has no passkeys." : "Dieser Browser kann keine Passkeys.";
  await device.hides(missing);
  await without.visit("/pforte/login");
  await without.shows(missing);
};

// Anna adds a passkey, logs in with it, makes it the second step of a login by password,
// and confirms an act with it. Nothing that the authenticator once answered counts again.
import { journey, origin, want } from "../journey.mjs";

const { USERNAME: username, PASSWORD: password } = process.env;
const api = "/api/v1/auth";

journey(async (open) => {
  const device = await open({ name: "laptop", lang: "en" });
  const authenticator = await device.authenticator();
  const sent = new Map(); // the body and the cookies of the last request to a path
  device.page.on("request", (request) => {
    if (request.method() === "POST") sent.set(new URL(request.url()).pathname, request);
  });
  // again sends a request to a path again and returns the answer's status.
  const again = async (path) => {
    const request = sent.get(path);
    const headers = { ...request.headers(), origin, cookie: cookies };
    return (await fetch(request.url(), { method: "POST", headers, body: request.postData() })).status;
  };
  let cookies = "";
  const remember = async () => { cookies = Object.entries(await device.cookies()).map(([name, value]) => `${name}=${value}`).join("; "); };
  const logout = async () => {
    await device.visit("/pforte/logout");
    await device.send("/pforte/logout");
  };
  // by presses a button of passkeys, with the presence of the person, and waits for the page
  // that it leads to.
  const by = async (kind) => {
    const done = device.page.waitForNavigation();
    await authenticator.present(true);
    // On the login page the field offers passkeys before a button is pressed.
    if (kind !== "login") await device.press(`button[data-passkey=${kind}]`, null);
    await device.page.waitForRequest((r) => r.method() === "POST" && r.url().includes("passkey") && !r.url().includes("options"));
    await remember();
    await done;
    await authenticator.present(false);
    await device.look(200);
  };

  await device.visit("/pforte/account/passkeys");
  await device.send("/pforte/login", { username, password });
  await device.fill("form:has([data-passkey])", { name: "Laptop" });
  await by("register");
  await device.shows("Laptop", "main");
  want("the passkeys of the authenticator", (await authenticator.credentials()).length, 1);
  await device.press("li summary", null);
  await device.send("li form", { name: "Annas Laptop" }, { button: "[value=rename]" });
  await device.shows("Annas Laptop", "main");

  await logout();
  await device.visit("/pforte/login?return=/pforte/account/passkeys");
  await by("login");
  device.at("/pforte/account/passkeys");
  want("a login that is sent again", await again(`${api}/passkeys/login`), 401);

  await device.visit("/pforte/account/second-factor");
  await device.send("form:has([value=enable-passkey])");
  want("the number of recovery codes", (await device.page.$$("main ol li")).length, 10);
  await logout();
  await device.send("/pforte/login", { username, password });
  want("the page after the password", new URL(device.page.url()).pathname, "/pforte/second");
  await by("second");
  device.at("/pforte/");
  want("a second step that is sent again", await again(`${api}/2fa/passkey`), 401);

  await device.visit("/pforte/reauth?return=/pforte/account/passkeys");
  const before = (await device.cookies())["svc.sid"];
  await by("reauth");
  device.at("/pforte/account/passkeys");
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
});

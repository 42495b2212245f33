// An admin adds Grafana from its recipe, enters in it what the page shows once, and tries it. Lotte signs in there, sees
// what it learns and disconnects it. It comes from an address that is not entered, and the admin takes it over. Then only
// admins may use it, and Lotte is led back.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member, MEMBER_PASSWORD: secret, NAME: name, SLUG: slug, GRAFANA: grafana } = j.env;
  const words = {
    de: { once: `Diese Angaben jetzt in ${name} eintragen`, trial: "Es klappt.", login: `Weiter zu ${name}`, first: `Erste Anmeldung bei ${name}`, learns: "Erfährt: Name, Benutzername, E-Mail, Gruppen", none: "Noch keine.", address: "nicht eingetragen ist", refused: "unbekannte Adresse", unknown: "Diesen Code zeigt gerade kein Gerät", knows: "Name, Benutzername", signed: "Das Gerät ist angemeldet", denied: `${name}: kein Zugang`, removed: "Das Anmelden mit dem Haushalt ist beendet." },
    en: { once: `Enter these values in ${name} now`, trial: "It works.", login: `Continue to ${name}`, first: `First sign-in to ${name}`, learns: "Learns: name, username, e-mail, groups", none: "None yet.", address: "that is not entered", refused: "unknown address", unknown: "No device shows this code right now", knows: "name, username", signed: "The device is signed in", denied: `${name}: no access`, removed: "Signing in with the household has ended." },
  }[j.lang];
  const page = `/pforte/admin/sign-in/${slug}`;
  const admin = await j.open({ name: "admin" }), lotte = await j.open({ name: "lotte" });
  const open = async (device, address) => {
    await device.page.goto(address);
    device.faults.length = 0; // of a page that is not auth's
  };
  const signsIn = async (device, address) => {
    await open(device, address);
    await device.shows(`Grafana: ${member}`);
  };
  await admin.login(username, password);

  let settings = {}; // of Grafana
  await admin.does("have an application ask who signs in", async () => {
    await admin.press("main a[href='/pforte/admin/apps/new']");
    await admin.press("main a[href='/pforte/admin/sign-in/new/grafana']");
    await admin.send("/pforte/admin/sign-in/new/grafana", { name, url: grafana });
    await admin.shows(words.once);
    const shown = admin.page.url(), config = await admin.page.$eval("#config", (e) => e.value);
    await admin.visit(shown);
    want("what is shown after loading the page again", await admin.page.$eval("#config", (e) => e.value), config);
    settings = Object.fromEntries([...config.matchAll(/^(\w+) = (.*)$/gm)].map(([, key, value]) => [key, value]));
    const entered = await fetch(`${j.env.CONFIGURE}/configure`, { method: "POST", body: config });
    want("the status of entering it", entered.status, 200);
    await admin.press(`main a[href='/pforte/admin/sign-in/trial/${slug}']`);
  });
  for (const text of [words.trial, username]) await admin.shows(text);

  await open(lotte, grafana);
  await lotte.look(200);
  await lotte.shows(words.login);
  await lotte.does("sign in to an application the first time", async () => {
    await lotte.fill("main", { username: member, password: secret });
    await Promise.all([lotte.page.waitForNavigation(), lotte.click("main form button:not([type=button])")]);
  });
  lotte.faults.length = 0;
  await lotte.shows(`Grafana: ${member}`);
  await lotte.visit("/pforte/");
  await lotte.shows(words.first);
  await lotte.visit("/pforte/account/connections");
  for (const text of [name, words.learns]) await lotte.shows(text);
  await lotte.does("disconnect an application", async () => {
    await lotte.press("main .list summary", null);
    await lotte.press("main [value=disconnect]");
  });
  await lotte.shows(words.none);

  await open(lotte, `${grafana}/?slash`);
  await lotte.shows(words.address);
  for (let tries = 0; tries < 20; tries++) {
    await admin.visit(page);
    if ((await admin.text()).includes(words.refused)) break;
  }
  await admin.does("take over an address that was refused", () => admin.press("main [value=take]"));
  await signsIn(lotte, `${grafana}/?slash`);

  // A program without a browser shows a code, which Lotte types.
  await admin.visit(page);
  await admin.send("form:has([name=redirects])", { device: true }, { button: "[value=change]" });
  const ask = async (path, fields) => {
    const body = new URLSearchParams({ client_id: settings.client_id, client_secret: settings.client_secret, ...fields });
    return (await fetch(`${j.origin}/pforte/oidc/${path}`, { method: "POST", body })).json();
  };
  const polled = (begun) => ask("token", { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code: begun.device_code });
  const begun = await ask("device", { scope: "openid profile" });
  await lotte.visit("/pforte/device");
  await lotte.send("/pforte/device", { user_code: "BCDF GHJK" }, { status: 400 });
  await lotte.shows(words.unknown);
  want("what a program is told before the answer", (await polled(begun)).error, "authorization_pending");
  await lotte.does("sign in a program that shows a code", async () => {
    await lotte.send("/pforte/device", { user_code: begun.user_code.toLowerCase().replace("-", " ") });
    for (const text of [begun.user_code, name, words.knows]) await lotte.shows(text);
    await lotte.press("main [value=yes]");
  });
  await lotte.shows(words.signed);
  const claims = JSON.parse(Buffer.from((await polled(begun)).id_token.split(".")[1], "base64url"));
  want("who the program signed in", claims.preferred_username, member);
  const declined = await ask("device", { scope: "openid" });
  await lotte.visit(declined.verification_uri_complete.replace(/^https?:\/\/[^/]+/, ""));
  await lotte.press("main [value=no]");
  want("what a program is told that was declined", (await polled(declined)).error, "access_denied");

  await admin.visit(`/pforte/admin/apps/${slug}`);
  await admin.send(`form:has([name=was_rule])`, { rule: "admin" }, { button: "[value=change]" });
  await lotte.page.goto(grafana);
  await lotte.look(403);
  await lotte.shows(words.denied);
  await Promise.all([lotte.page.waitForNavigation(), lotte.click(`main a[href^="${grafana}"]`)]);
  lotte.faults.length = 0;
  await lotte.shows("Grafana: access_denied");

  await admin.visit(`${page}?user=${member}`);
  await admin.press("main details.card summary", null);
  await admin.press("main [value=remove]");
  await admin.shows(words.removed);
};

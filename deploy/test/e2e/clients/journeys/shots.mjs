// Shows every page in a language and a theme, at the widths of a phone and a laptop, checks
// each one, at 320 pixels too, and writes pictures into the folder SHOTS. The environment
// has LANGUAGE ("de" or "en"), THEME ("light" or "dark") and, if only some pages are wanted,
// ONLY, a regular expression of their names. Nobody has set the household up yet.
import { mkdirSync } from "node:fs";
import { laptop, phone } from "../browser.mjs";
import { App } from "../journey.mjs";

const password = "korrekt pferd batterie";
const people = [["paul", "Paul", "#34C759"], ["mia", "Mia", "#FF9500"], ["friedrich", "Großvater Friedrich-Wilhelm", "#5856D6"]];
// households are the groups, with their members, and the applications, with the arguments of
// the command that adds them.
const households = {
  de: {
    groups: [["eltern", "Eltern", "anna", "paul"], ["kinder", "Kinder und Jugendliche", "mia"]],
    apps: [
      ["fotos", "https://fotos.example.org", "--name", "Fotos", "--description", "Alben der Familie", "--rule", "group:eltern", "--color", "#FF9500", "--second-factor"],
      ["kalender", "/kalender/", "--name", "Kalender", "--description", "Termine und Geburtstage", "--color", "#007AFF", "--tokens", "--position", "1"],
      ["dateien", "https://dateien.example.org", "--name", "Dateien und gemeinsame Unterlagen", "--description", "Alles, was alle brauchen, von der Anleitung der Waschmaschine bis zum Mietvertrag", "--color", "#34C759", "--tokens", "--position", "2"],
      ["sicherung", "/sicherung/", "--name", "Sicherung", "--rule", "admin", "--color", "#5856D6", "--position", "3"],
    ],
    device: "Kalender auf dem Telefon",
  },
  en: {
    groups: [["parents", "Parents", "anna", "paul"], ["children", "Children", "mia"]],
    apps: [
      ["photos", "https://photos.example.org", "--name", "Photos", "--description", "The family’s albums", "--rule", "group:parents", "--color", "#FF9500", "--second-factor"],
      ["calendar", "/calendar/", "--name", "Calendar", "--description", "Dates and birthdays", "--color", "#007AFF", "--tokens", "--position", "1"],
      ["files", "https://files.example.org", "--name", "Files", "--description", "What everybody needs", "--color", "#34C759", "--tokens", "--position", "2"],
    ],
    device: "Calendar on the phone",
  },
};
const submit = "main form button.button:not([type=button])";

export default async (j) => {
  const { SHOTS: folder, LANGUAGE: lang, THEME: theme, ONLY: only } = j.env, faults = [];
  const { groups, apps, device: named } = households[lang];
  mkdirSync(folder, { recursive: true });
  // What is wrong with a page is reported at the end, so that one run shows all of it.
  const picture = async (device, name, status = 200) => {
    if (only && !new RegExp(only).test(name)) return;
    const { page, view } = device;
    try {
      await device.look(status);
      await page.setViewport({ ...view, width: 320 });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - 320);
      if (wide > 0) throw new Error(`at 320 pixels it is ${wide} pixels too wide`);
    } catch (error) {
      faults.push(`${name}, ${lang}, ${theme}, ${view.width}: ${error.message}`);
    }
    await page.setViewport(view);
    await page.screenshot({ path: `${folder}/${name}-${lang}-${theme}-${view.width}.png`, fullPage: true });
  };
  const show = async (device, path, name, status) => {
    await device.page.goto(new URL(path, j.origin).href);
    await picture(device, name, status);
  };
  // send sends a form as it is filled in, also where the browser would refuse it.
  const send = async (device, fields, button = submit) => {
    await device.page.$$eval("form", (forms) => forms.forEach((form) => { form.noValidate = true; }));
    await device.fill("main", fields);
    await Promise.all([device.page.waitForNavigation(), device.page.$eval(button, (b) => b.click())]);
  };
  const login = async (device, username) => {
    await device.page.goto(`${j.origin}/pforte/login`);
    await send(device, { username, password });
  };
  const both = async (steps) => {
    for (const view of [phone, laptop]) {
      const device = await j.open({ name: `${view.width}`, lang, dark: theme === "dark", view });
      await steps(device, view);
      await device.close();
    }
  };

  const setup = (await j.auth(["setup-link"])).match(/\/pforte\/setup\?t=[\w-]+/)[0];
  await both((device) => show(device, "/pforte/login", "setup-needed"));
  await both((device) => show(device, setup, "setup"));
  await j.auth(["user", "add", "--admin", "--display-name", "Anna Kern", "--color", "#AF52DE", "anna"], password);
  for (const [name, display, color] of people) await j.auth(["user", "add", "--display-name", display, "--color", color, name], password);

  await both(async (device) => {
    await login(device, "anna");
    await show(device, "/pforte/admin/apps", "apps-none");
    await device.page.goto(`${j.origin}/pforte/admin/apps/new`);
    await send(device, { name: "", url: "nas" }, "button[value=add]");
    await picture(device, "apps-wrong", 400);
    await show(device, "/pforte/admin/groups", "groups-none");
    await show(device, "/pforte/account/tokens", "tokens-none");
    await device.page.goto(`${j.origin}/pforte/`);
    if (await device.page.$("input[name=up_to]")) await send(device, {}, "form:has([name=up_to]) button");
  });
  for (const [slug, name, ...members] of groups) {
    await j.auth(["group", "add", slug, "--name", name]);
    for (const member of members) await j.auth(["group", "members", slug, "--add", member]);
  }
  for (const app of apps) await j.auth(["app", "add", ...app]);
  const client = apps[2][0], callback = "http://127.0.0.1:9/callback";
  await j.auth(["oidc", "add", client, "--public", "--device", "--redirect", callback]);
  // asks sends what an application sends by itself.
  const asks = async (path, fields) => (await fetch(`${j.origin}/pforte/oidc/${path}`, { method: "POST", body: new URLSearchParams({ client_id: client, ...fields }) })).json();
  const authorize = (to) => `/pforte/oidc/authorize?${new URLSearchParams({ client_id: client, redirect_uri: to, response_type: "code", scope: "openid profile", code_challenge: "x".repeat(43), code_challenge_method: "S256" })}`;

  await both(async (device) => {
    await show(device, "/pforte/login", "login");
    await send(device, { username: "paul", password: "falsch" });
    await picture(device, "login-wrong", 401);
    await show(device, "/pforte/forgot", "forgot");
    await show(device, "/pforte/forgot?done=forgot", "forgot-sent");
    await show(device, "/pforte/nothing", "not-found", 404);
    await show(device, "/pforte/join?t=none", "link-invalid", 400);
  });

  // A person for each width sets the second factor and a passkey up.
  await both(async (device, view) => {
    const username = view === phone ? "mia" : "paul";
    const authenticator = await device.authenticator();
    await login(device, username);
    await device.page.goto(`${j.origin}/pforte/account/tokens`);
    await send(device, { name: named, [`app.${apps[1][0]}`]: true }, "button[value=create]");
    await show(device, "/pforte/account/security", "security-weak");
    await authenticator.present(true);
    await Promise.all([device.page.waitForNavigation(), device.page.$eval("[data-passkey=register]", (b) => b.click())]);
    await authenticator.present(false);
    await picture(device, "security-passkey");
    if ((await authenticator.credentials()).length !== 1) faults.push("there is no passkey");
    await device.page.goto(`${j.origin}/pforte/account/security`);
    await send(device, {}, "button[value=setup]");
    await picture(device, "second-factor-setup");
    const secret = await device.text(".secret");
    await send(device, { code: "000000" }, "button[value=enable]");
    await picture(device, "second-factor-wrong", 400);
    const app = new App(secret);
    await send(device, { code: await app.code() }, "button[value=enable]");
    await picture(device, "codes");
    await show(device, "/pforte/account/security", "security");
    await show(device, "/pforte/reauth", "reauth");
    await device.page.goto(`${j.origin}/pforte/logout`);
    await send(device, {});
    await login(device, username);
    await picture(device, "second");
    await send(device, { code: "000000" }, "button[value=verify]");
    await picture(device, "second-wrong", 401);
  });

  const invites = new Map();
  await both(async (device, view) => {
    await login(device, "anna");
    await show(device, "/pforte/", "start");
    await show(device, `/pforte/go?app=${apps[0][0]}&return=/`, "refused-second-factor", 403);
    await show(device, "/pforte/go?app=none&return=/", "refused-unknown", 403);
    await show(device, "/pforte/enter?code=none&return=/", "refused-cookies", 403);
    await show(device, "/pforte/logout", "logout");
    await show(device, "/pforte/duty?return=/pforte/", "duty");
    await show(device, "/pforte/account", "account");
    await send(device, { color: "own", hex: "grün" });
    await picture(device, "account-wrong", 400);
    await show(device, "/pforte/account/tokens", "tokens-first");
    await send(device, { name: "" }, "button[value=create]");
    await picture(device, "tokens-wrong", 400);
    await send(device, { name: named, [`app.${apps[1][0]}`]: true, [`app.${apps[2][0]}`]: true, read_only: true }, "button[value=create]");
    await picture(device, "token");
    await show(device, "/pforte/account/tokens", "tokens");
    await show(device, "/pforte/account/security?open=password", "security-password");
    await show(device, "/pforte/admin/members", "members");
    await show(device, "/pforte/admin/members/2", "member");
    await send(device, {}, "button[value=reset-link]");
    await picture(device, "reset-link");
    const reset = await device.attribute(".secret a", "href");
    await show(device, "/pforte/admin/invites", "invites-none");
    await send(device, { display_name: "Lotte" }, "button[value=invite]");
    await picture(device, "invite-link");
    invites.set(view, await device.attribute(".secret a", "href"));
    await show(device, "/pforte/admin/invites", "invites");
    await show(device, "/pforte/admin/groups", "groups");
    await show(device, `/pforte/admin/groups/${groups[0][0]}`, "group");
    await show(device, `/pforte/admin/groups/${groups[1][0]}?done=group-added`, "group-added");
    await show(device, "/pforte/admin/apps", "apps");
    await show(device, "/pforte/admin/apps/new", "app-new");
    await show(device, `/pforte/admin/apps/${apps[0][0]}?done=app-new`, "app");
    await send(device, { position: "vorn" }, "button[value=change]");
    await picture(device, "app-wrong", 400);
    await show(device, "/pforte/admin/sign-in/new/grafana", "sign-in-new");
    await show(device, `/pforte/admin/sign-in/${client}`, "sign-in");
    await show(device, `/pforte/admin/sign-in/trial/${client}`, "sign-in-trial");
    await show(device, "/pforte/admin/keys", "keys");
    await device.page.goto(j.origin + authorize(callback));
    await send(device, { password }); // an application is below the household's address
    await picture(device, "sign-in-question");
    await show(device, authorize("https://evil.example/"), "sign-in-refused", 400);
    await show(device, "/pforte/oidc/end-session", "end-session");
    await show(device, "/pforte/device", "device");
    await show(device, "/pforte/device?user_code=BCDF-GHJK", "device-wrong", 400);
    const begun = await asks("device", { scope: "openid profile email groups" });
    await device.page.goto(`${j.origin}/pforte/device?user_code=${begun.user_code}`);
    await send(device, { password });
    await picture(device, "device-question");
    await send(device, {}, "main [value=yes]");
    await picture(device, "device-signed-in");
    await asks("token", { grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code: begun.device_code });
    await show(device, "/pforte/account/connections", "connections");
    await show(device, "/pforte/admin/security", "security");
    await send(device, { required: "yes" });
    await picture(device, "security-changed");
    await send(device, { required: "no" });
    await show(device, "/pforte/admin/audit", "audit");
    await device.page.goto(`${j.origin}/pforte/logout`);
    await send(device, {});
    await show(device, reset, "reset");
  });
  await both(async (device, view) => {
    await show(device, invites.get(view), "join");
    await send(device, { username: "x", password: "kurz" });
    await picture(device, "join-wrong", 400);
  });
  await both(async (device) => {
    await login(device, "friedrich");
    await picture(device, "start-member");
    await show(device, `/pforte/go?app=${apps[0][0]}&return=/`, "refused", 403);
    await show(device, "/pforte/admin/members", "forbidden", 403);
  });
  if (faults.length > 0) throw new Error([...new Set(faults)].join("\n"));
};

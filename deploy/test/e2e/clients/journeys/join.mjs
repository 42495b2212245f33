// An admin invites Paul and passes the link on, who joins; somebody for some days; and Ida, who joins by a passkey alone and then has a password, too.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member } = j.env;
  const admin = await j.open({ name: "admin" });
  // Chromium here has no apps to share with.
  if (j.scripts) await admin.page.evaluateOnNewDocument(() => { navigator.share = async (what) => { window.shared = what; }; });
  await admin.login(username, password);
  const words = (household, link) => ({
    de: { title: "Link zum Weitergeben", text: `Einladung in den Haushalt „${household}“: ${link}` },
    en: { title: "Link to share", text: `Invitation to the household “${household}”: ${link}` },
  })[j.lang];
  await admin.does("invite", async () => {
    await admin.press("main button[value=invite]");
    if (j.scripts) await admin.press("button[data-share]", null);
  });
  const linkShown = () => admin.attribute("main a[href*='/pforte/join?t=']", "href");
  if (j.scripts) {
    const shared = await admin.page.evaluate(() => window.shared), household = await admin.text("header .brand bdi");
    want("what is shared", JSON.stringify(shared), JSON.stringify(words(household, await linkShown())));
  }
  const invite = async (name) => {
    await admin.visit("/pforte/admin/invites");
    await admin.send("form:has([name=role])", { display_name: name });
    return linkShown();
  };
  const link = await invite(`Paul ${member}`);

  const paul = await j.open({ name: "paul" });
  await paul.visit(link);
  await paul.shows(`Paul ${member}`, "h1");
  await paul.does("join", () => paul.send("/pforte/join", { username: `paul-${member}`, password: "a phone in my pocket" }));
  paul.at("/pforte/?done=joined");

  await admin.visit("/pforte/admin/invites");
  await admin.press("form:has([name=role]) summary", null);
  const tomorrow = new Date(Date.now() + 864e5).toISOString().slice(0, 10);
  await admin.page.$eval("[name=last_day]", (e, day) => { e.value = day; }, tomorrow);
  await admin.send("form:has([name=role])", { display_name: `Gast ${member}` });
  await admin.visit("/pforte/admin/invites");
  await admin.shows(j.lang === "de" ? "Gast bis" : "Guest until", "main");

  if (!j.scripts) {
    const plain = await j.open({ name: "ida" });
    await plain.visit(await invite(`Ida ${member}`));
    want("buttons of passkeys", (await plain.page.$$("[data-passkey]:not([hidden])")).length, 0);
    await plain.find("[name=password]");
    return;
  }
  const other = await invite(`Ida ${member}`);
  const ida = await j.open({ name: "ida", lang: j.other });
  const authenticator = await ida.authenticator();
  await ida.visit(other);
  await authenticator.present(true);
  await ida.fill("form", { username: "root" });
  await Promise.all([ida.page.waitForNavigation(), ida.click("button[data-passkey=join]")]);
  ida.faults.splice(0); // the answer to the script
  await ida.look(400); // the page says what is wrong at its field
  await ida.find("[name=username][aria-invalid]");
  want("passkeys of a name that is refused", (await authenticator.credentials()).length, 0);
  await ida.does("join", async () => {
    await ida.fill("form", { username: `ines-${member}` });
    await ida.press("button[data-passkey=join]");
  });
  ida.at("/pforte/?done=joined");
  await authenticator.present(false);

  const security = "/pforte/account/security", by = async (kind, status = 200) => {
    await authenticator.present(true);
    await ida.press(`button[data-passkey=${kind}]`, status);
    await authenticator.present(false);
  };
  await ida.visit(security);
  await ida.find(".protection.good");
  want("fields for a former password", (await ida.page.$$("[name=current]")).length, 0);
  const remove = async (status) => {
    await ida.press("details:has([value=remove]) > summary", null);
    await ida.press("details details:has([value=remove]) > summary", null);
    await ida.press("[value=remove]", status);
  };
  await remove(409);
  await ida.shows(j.other === "de" ? "dein letzter Passkey" : "your last passkey", "main");

  await ida.visit("/pforte/logout");
  await ida.send("/pforte/logout");
  await ida.send("/pforte/login", { username: `ines-${member}`, password: "!" }, { status: 401 });
  await ida.page.goto("about:blank");
  await authenticator.present(true); // the field of the login page offers passkeys by itself
  await ida.page.goto(`${j.origin}/pforte/login`);
  await ida.page.waitForFunction(() => location.pathname === "/pforte/" && document.readyState === "complete");
  await authenticator.present(false);
  await ida.visit("/pforte/reauth?return=/pforte/account/security");
  want("fields for a password", (await ida.page.$$("main [type=password]")).length, 0);
  await by("reauth");
  await ida.press("details:has([value=first-password]) > summary", null);
  await ida.send("form:has([value=first-password])", { password: "a passphrase at last" });
  await remove(200);
  await ida.visit("/pforte/logout");
  await ida.send("/pforte/logout");
  await ida.send("/pforte/login", { username: `ines-${member}`, password: "a passphrase at last" });
};

// Paul has lost the phone with the codes and forgot the password. An admin makes a link, the
// operator resets the factor, and the audit log tells it all.
import { App, auth, journey, phone, want } from "../journey.mjs";

const { USERNAME: username, PASSWORD: password, MEMBER: member, MEMBER_PASSWORD: memberPassword } = process.env;

journey(async (open) => {
  const before = await open({ name: "phone", view: phone });
  await before.visit("/pforte/account/second-factor");
  await before.send("/pforte/login", { username: member, password: memberPassword });
  await before.send("form:has([value=setup])");
  const app = new App(await before.text(".secret"));
  await before.send("form:has([value=enable])", { code: await app.code() }, { button: "[value=enable]" });

  const paul = await open({ name: "borrowed laptop", lang: "en", scripts: false });
  await paul.visit("/pforte/login");
  await paul.press("a[href='/pforte/forgot']");
  await paul.send("/pforte/forgot", { username: "nobody-of-here" });
  const unknown = await paul.text("main");
  await paul.visit("/pforte/forgot");
  await paul.send("/pforte/forgot", { username: member });
  want("the answer to a name of the household", await paul.text("main"), unknown);

  const admin = await open({ name: "admin" });
  await admin.visit("/pforte/");
  await admin.send("/pforte/login", { username, password });
  await admin.press("main a[href='/pforte/admin/members']");
  await admin.press("li:has(.badge.bad) a");
  await admin.send("form:has([value=reset-link])");
  const link = await admin.attribute("main a[href*='/pforte/reset?t=']", "href");
  auth("user", "reset-factor", member);

  await before.visit("/pforte/"); // leads to the login
  want("the page of the lost phone", new URL(before.page.url()).pathname, "/pforte/login");
  await paul.visit(link);
  await paul.send("/pforte/reset", { password: "kurz", again: "kurz" }, { status: 400 });
  const replacement = "ein neuer Anfang mit Umläuten";
  await paul.send("/pforte/reset", { password: replacement, again: replacement });
  want("the page after the new password", new URL(paul.page.url()).pathname, "/pforte/login");
  await paul.visit(link, 400);
  await paul.visit("/pforte/login");
  await paul.send("/pforte/login", { username: member, password: replacement });
  paul.at("/pforte/");
  await paul.find("section[aria-labelledby=news] li");

  await admin.visit("/pforte/admin/audit");
  want("rows of the audit log", (await admin.page.$$("ol.log li")).length >= 5, true);
  const told = auth("audit");
  for (const event of ["reset_asked", "reset_made", "second_factor_reset", "reset_used", "login"]) {
    want(`whether the command audit shows ${event}`, told.includes(event), true);
  }
  want("whether the audit log has the token", told.includes(new URL(link).searchParams.get("t")), false);
});

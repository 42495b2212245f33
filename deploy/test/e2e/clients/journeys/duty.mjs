// The household requires a second factor: it keeps nobody out, and whoever has one keeps it.
import { App, phone, want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member, MEMBER_PASSWORD: memberPassword } = j.env;
  const admin = await j.open({ name: "admin", dark: true });
  await admin.visit("/pforte/admin/security");
  await admin.send("/pforte/login", { username, password });
  await admin.send("form:has([name=required])", { required: "yes" });
  await admin.find(`section[aria-labelledby=without] li`);

  const paul = await j.open({ name: "phone", lang: j.other, view: phone });
  await paul.visit("/pforte/login?return=/pforte/account/security");
  await paul.send("/pforte/login", { username: member, password: memberPassword });
  want("the page after the login", new URL(paul.page.url()).pathname, "/pforte/duty");
  await paul.press("main a.quiet"); // later
  paul.at("/pforte/account/security");
  await paul.send("form:has([value=setup])");
  const app = new App(await paul.text(".secret"));
  await paul.send("form:has([value=enable])", { code: await app.code() }, { button: "[value=enable]" });
  await paul.visit("/pforte/account/security?open=renew"); // the code that switched it on is a proof: nobody asks again
  want("ways to switch it off", (await paul.page.$$("[value=disable]")).length, 0);
  await paul.page.$eval("[value=renew]", (button) => { button.value = "disable"; });
  await paul.send("form:has([value=disable])", { code: await app.code() }, { status: 403 });

  await admin.visit("/pforte/logout");
  await admin.send("/pforte/logout");
  await admin.send("/pforte/login", { username, password });
  want("the page after the admin's login", new URL(admin.page.url()).pathname, "/pforte/duty");
  await admin.visit("/pforte/");
};

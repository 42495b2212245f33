// Paul has lost the phone with the codes and forgot the password. An admin makes a link, the
// operator resets the factor, and the audit log tells it all.
import { App, phone, want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member, MEMBER_PASSWORD: memberPassword } = j.env;
  const before = await j.open({ name: "phone", view: phone });
  await before.visit("/pforte/account/security");
  await before.send("/pforte/login", { username: member, password: memberPassword });
  await before.send("form:has([value=setup])");
  const app = new App(await before.text(".secret"));
  await before.send("form:has([value=enable])", { code: await app.code() }, { button: "[value=enable]" });

  const paul = await j.open({ name: "borrowed laptop", lang: j.other, scripts: false });
  await paul.visit("/pforte/login");
  await paul.press("a[href='/pforte/forgot']");
  await paul.send("/pforte/forgot", { username: "nobody-of-here" });
  const unknown = await paul.text("main");
  await paul.visit("/pforte/forgot");
  await paul.send("/pforte/forgot", { username: member });
  want("the answer to a name of the household", await paul.text("main"), unknown);

  const admin = await j.open({ name: "admin" });
  await admin.visit("/pforte/");
  await admin.send("/pforte/login", { username, password });
  await admin.does("help with a forgotten password", () => admin.press(`.warning button[aria-label$='${member}']`));
  const page = new URL(admin.page.url()).pathname; // of the member
  const link = await admin.attribute("main a[href*='/pforte/reset?t=']", "href");
  await j.auth(["user", "reset-factor", member]);

  await before.visit("/pforte/"); // leads to the login
  want("the page of the lost phone", new URL(before.page.url()).pathname, "/pforte/login");
  await paul.visit(link);
  await paul.send("/pforte/reset", { password: "kurz" }, { status: 400 });
  const replacement = "ein neuer Anfang mit Umläuten";
  await paul.send("/pforte/reset", { password: replacement });
  paul.at("/pforte/?done=reset");
  const stranger = await j.open({ name: "stranger" });
  await stranger.visit(link, 400);
  await paul.find("section[aria-labelledby=news] li");

  // The audit log tells the story in five lines, to the admin and as a file, and none is the
  // token of the link.
  const story = ["reset_asked", "reset_made", "second_factor_reset", "reset_used", "login"];
  await admin.visit("/pforte/admin/audit");
  await admin.send("form[method=get]", { user: page.split("/").pop() });
  const shown = await admin.page.$$eval("ol.log li", (items) => items.map((item) => item.innerText));
  want("whether the audit log shows the operator", shown.some((line) => line.includes(j.lang === "de" ? "Server (Befehlszeile)" : "Server (command line)")), true);
  const file = await admin.page.$eval("a[href*='audit.csv']", async (link) => (await fetch(link.href)).text());
  const [columns, ...rows] = file.trim().split("\r\n").map((line) => line.split(","));
  const events = rows.filter((row) => row[columns.indexOf("event")] !== "device_new").slice(0, story.length).reverse();
  const column = (name) => events.map((row) => row[columns.indexOf(name)]);
  want("the events in the file", column("event").join(), story.join());
  want("who did it", column("actor_kind").join(), "anonymous,user,operator,anonymous,user");
  want("whose account it is", column("subject_name").join(), story.map(() => member).join());
  const told = await j.auth(["audit"]), token = new URL(link).searchParams.get("t");
  for (const event of story) want(`whether the command audit shows ${event}`, told.includes(event), true);
  want("whether the token is told", told.includes(token) || file.includes(token), false);
};

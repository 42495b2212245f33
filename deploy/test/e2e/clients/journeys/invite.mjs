// An admin invites Paul into a group, who joins on a phone and sees the group's application
// and that of all members, but not the administrators'. Who may not open one is led on: to another account, or to its
// rule.
import { phone, want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member } = j.env;
  const group = `kids-${member}`, own = [`all-${member}`, group];
  await j.auth(["group", "add", group]);
  await j.auth(["app", "add", own[0], `/${own[0]}/`]);
  await j.auth(["app", "add", group, `/${group}/`, "--rule", `group:${group}`]);
  await j.auth(["app", "add", `ops-${member}`, `/ops-${member}/`, "--rule", "admin"]);
  const admin = await j.open({ name: "admin", dark: true });
  await admin.login(username, password);
  await admin.press("main a[href='/pforte/admin/invites']");
  await admin.send("form:has([name=role])", { display_name: `Paul ${member}`, role: "member", [`group.${group}`]: true });
  await admin.find("main svg.qr");
  want("whether it offers to share where the browser cannot", await admin.page.$eval("[data-share]", (e) => e.hidden), true);
  await admin.press("[data-copy=url]", null);
  await admin.page.waitForFunction(() => document.querySelector("[data-copy=url]").innerText === document.querySelector("[data-copy=url]").dataset.done);
  const link = new URL(await admin.attribute("main a[href*='/pforte/join?t=']", "href"), j.origin);
  want("the path of a page that shows a secret", admin.path().split("?once=")[0].replace(/\d+$/, "ID"), "/pforte/admin/invites/ID");

  const paul = await j.open({ name: "phone", lang: j.other, view: phone });
  await paul.visit(link.href);
  const join = { username: member, password: "a phone in my pocket" };
  const refused = username === "admin" ? 400 : 409; // that name is reserved, another one only taken
  await paul.send("/pforte/join", { ...join, username: username.toUpperCase() }, { status: refused });
  want("the username after a failure", await paul.attribute("[name=username]", "value"), username.toUpperCase());
  await paul.does("join", () => paul.send("/pforte/join", join));
  paul.at("/pforte/?done=joined");
  await admin.page.waitForSelector(".state.joined");
  await admin.shows(`✓ Paul ${member}`, ".state.joined");
  await paul.visit("/pforte/");
  await paul.shows(`Paul ${member}`);
  const applications = await paul.page.$$eval("main a.tile", (tiles) => tiles.map((tile) => tile.getAttribute("href")));
  want("the applications", applications.filter((path) => path.endsWith(`-${member}/`)).join(" "), own.map((slug) => `/${slug}/`).join(" "));
  await paul.press(".menu summary", null);
  await paul.press(".menu a[href='/pforte/account']");
  await paul.send("/pforte/account", { color: "#AF52DE" });
  want("the colour", await paul.attribute("header .avatar circle", "fill"), "#AF52DE");
  want("links to the administration", (await paul.page.$$("a[href^='/pforte/admin']")).length, 0);
  await paul.visit("/pforte/admin/members", 403);

  await paul.visit(`/pforte/go?app=ops-${member}&return=/`, 403);
  await paul.press(`main a::-p-text(${{ de: "Anderes Konto", en: "Another account" }[j.other]})`);
  await paul.send("/pforte/logout");
  await paul.send("/pforte/login", join);
  await admin.visit(`/pforte/go?app=${group}&return=/`, 403);
  await admin.press(`main a::-p-text(${{ de: "Regel ansehen", en: "See the rule" }[j.lang]})`);
  admin.at(`/pforte/admin/apps/${group}`);
  want("the rule", await admin.page.$eval("[name=rule]", (e) => e.value), `group:${group}`);

  const other = await j.open({ name: "another browser" });
  await other.visit(link.href, 400); // it is used up
  await admin.visit("/pforte/admin/members");
  await admin.shows(`Paul ${member}`, "main");
  await admin.visit("/pforte/admin/invites");
  await admin.hides(`Paul ${member}`, "main");
};

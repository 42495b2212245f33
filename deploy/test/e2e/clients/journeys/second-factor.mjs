// Paul turns on codes by the keyboard, logs in with one on a phone, ends the session of the
// laptop from there, and comes back with a recovery code.
import { App, phone, want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const laptop = await j.open({ name: "laptop" });
  await laptop.visit("/pforte/account/security");
  await laptop.send("/pforte/login", { username, password });
  laptop.at("/pforte/account/security");
  await laptop.tab("button[value=setup]");
  await laptop.enter();
  const app = new App(await laptop.text(".secret"));
  await laptop.tab("[name=code]");
  await laptop.type("000000");
  await laptop.enter(400);
  want("the secret after a wrong code", new App(await laptop.text(".secret")).at(1), app.at(1));
  await laptop.tab("[name=code]");
  await laptop.type(await app.code());
  await laptop.enter();
  const codes = await laptop.page.$$eval("main ol li", (items) => items.map((item) => item.innerText.trim()));
  want("the number of recovery codes", codes.length, 10);
  await laptop.visit("/pforte/account/security");
  await laptop.hides(codes[0]);

  const paul = await j.open({ name: "phone", lang: j.other, view: phone });
  await paul.visit("/pforte/login?return=/pforte/account/security");
  await paul.send("/pforte/login", { username, password });
  want("the page after the password", new URL(paul.page.url()).pathname, "/pforte/second");
  want("a session before the code", (await paul.cookies())["svc.sid"], undefined);
  await paul.visit("/pforte/"); // leads to the login
  want("the page without the code", new URL(paul.page.url()).pathname, "/pforte/login");
  await paul.visit("/pforte/second?return=/pforte/account/security");
  await paul.send("/pforte/second", { code: app.again() }, { status: 401, button: "[value=verify]" });
  await paul.send("/pforte/second", { code: await app.code() }, { button: "[value=verify]" });
  paul.at("/pforte/account/security");

  await laptop.visit("/pforte/");
  await laptop.find("section[aria-labelledby=news] li");
  await laptop.send("/pforte/");
  want("notices after they were read", (await laptop.page.$$("section[aria-labelledby=news]")).length, 0);

  const others = "li:not(:has(.badge)) form:has([value=end])";
  want("sessions besides the phone's", (await paul.page.$$(others)).length, 1);
  await paul.send(others);
  await laptop.press("main a[href='/pforte/account/security']"); // leads to the login
  laptop.at("/pforte/login?return=%2Fpforte%2Faccount%2Fsecurity");

  await laptop.send("/pforte/login", { username, password });
  await laptop.press("main details summary", null);
  await laptop.send("details form", { code: codes[3].toLowerCase() });
  laptop.at("/pforte/account/security");
  await laptop.visit("/pforte/logout");
  await laptop.send("/pforte/logout");
  await laptop.send("/pforte/login", { username, password });
  await laptop.press("main details summary", null);
  await laptop.send("details form", { code: codes[3] }, { status: 401 });
  await laptop.send("/pforte/second", {}, { button: "[value=cancel]" });
  laptop.at("/pforte/login");
};

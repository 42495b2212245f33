// A member sets codes from an app up on the device that has the app, keeps the recovery codes over a reload, and logs in
// by password and code.
import { App, want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const device = await j.open({ name: "member" });
  await device.login(username, password);
  let app;
  await device.does("set up codes from an app", async () => {
    await device.press("main button[value=setup]");
    // Chromium here has no app that takes the link.
    const link = await device.attribute("a[href^='otpauth://totp/']", "href");
    device.clicks++;
    app = new App(new URL(link).searchParams.get("secret"));
    await device.send("form:has([value=enable])", { code: await app.code() }, { button: "[value=enable]" });
  });
  const codes = () => device.page.$$eval("main ol li", (items) => items.map((item) => item.innerText.trim()));
  const first = await codes();
  want("the number of recovery codes", first.length, 10);
  await device.page.reload();
  await device.look(200);
  want("the codes after a reload", (await codes()).join(), first.join());
  const file = decodeURIComponent((await device.attribute("a[download]", "href")).split(",")[1]);
  want("the codes in the file", file.trim().split("\r\n").join(), first.join());
  await device.visit("/pforte/account/security");
  await device.find(".protection.good");

  await device.visit("/pforte/logout");
  await device.send("/pforte/logout");
  await device.does("log in by password and code", async () => {
    await device.send("/pforte/login", { username, password });
    await device.send("/pforte/second", { code: await app.code() }, { button: "[value=verify]" });
  });
  device.at("/pforte/");
};

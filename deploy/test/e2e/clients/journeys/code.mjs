// A member logs in on a new device by password and a code from an app, and is where they wanted to be. Without the code
// there is no session; a wrong one, or one that was used, leads no further.
import { App, want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const before = await j.open({ name: "device with codes" });
  await before.visit("/pforte/login?return=/pforte/account/security");
  await before.send("/pforte/login", { username, password });
  await before.press("button[value=setup]");
  const app = new App(await before.text(".secret"));
  await before.send("form:has([value=enable])", { code: await app.code() }, { button: "[value=enable]" });

  const device = await j.open({ name: "new device" });
  const session = async () => (await device.cookies())["svc.sid"];
  await device.visit("/pforte/");
  device.at("/pforte/login?return=%2Fpforte%2F");
  await device.does("log in by password and code", async () => {
    await device.send("/pforte/login", { username, password });
    want("the page after the password", new URL(device.page.url()).pathname, "/pforte/second");
    want("the session before the code", await session(), undefined);
    await device.send("/pforte/second", { code: await app.code() }, { button: "[value=verify]" });
  });
  device.at("/pforte/");
  want("whether there is a session", (await session()) !== undefined, true);
  await device.shows(username, "header");

  await device.visit("/pforte/logout");
  await device.send("/pforte/logout");
  await device.visit("/calendar/"); // leads to the login
  await device.does("log in by password and code", async () => {
    await device.send("/pforte/login", { username, password });
    const { clicks, fields } = device;
    for (const wrong of [app.again(), "12345"]) {
      await device.send("/pforte/second", { code: wrong }, { status: 401, button: "[value=verify]" });
      want("the field of a code", await device.attribute("[name=code]", "aria-invalid"), "true");
      want("the session after a wrong code", await session(), undefined);
    }
    Object.assign(device, { clicks, fields }); // what went wrong is no part of the task
    await device.fill("form[action='/pforte/second']", { code: await app.code() });
    await Promise.all([device.page.waitForNavigation(), device.click("form[action='/pforte/second'] [value=verify]")]);
  });
  await device.shows("Calendar", "h1");
  device.at("/calendar/");
};

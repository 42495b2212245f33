// A member adds a passkey, has it required beside the password, and logs in by it. Without JavaScript there are none.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const device = await j.open({ name: "member" });
  await device.login(username, password);
  if (!device.scripts) {
    await device.press("main a[href='/pforte/account/security']");
    await device.find("noscript");
    want("buttons of passkeys", (await device.page.$$("[data-passkey]:not([hidden])")).length, 0);
    return;
  }
  const authenticator = await device.authenticator();
  const by = async (kind) => {
    const done = device.page.waitForNavigation();
    await authenticator.present(true);
    await device.click(`button[data-passkey=${kind}]`);
    await done;
    await authenticator.present(false);
    await device.look(200);
  };
  await device.does("add a passkey", () => by("register"));
  want("whether the password alone is enough", (await device.page.$$(".protection.good")).length, 0);
  await device.press("[value=enable-passkey]");
  want("the number of recovery codes", (await device.page.$$("main ol li")).length, 10);
  await device.visit("/pforte/account/security");
  await device.find(".protection.good");
  await device.visit("/pforte/logout");
  await device.send("/pforte/logout");
  await device.page.goto("about:blank"); // the login page asks the authenticator by itself
  await device.does("log in by passkey", async () => {
    await authenticator.present(true); // the field of the login page offers passkeys by itself
    await device.page.goto(`${j.origin}/pforte/login`);
    await device.page.waitForFunction(() => location.pathname === "/pforte/" && document.readyState === "complete");
    await authenticator.present(false);
  });
  await device.look(200);
  device.at("/pforte/");
};

// A member ends the session on another device from the start page, and tells two devices of one name apart.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const lost = await j.open({ name: "lost device" });
  await lost.login(username, password);
  const device = await j.open({ name: "member" });
  await device.login(username, password);
  await device.does("end a session elsewhere", async () => {
    await device.press("main a[href='/pforte/account/security']");
    const names = await device.page.$$eval("li:has([value=end]) strong", (all) => all.map((e) => e.innerText));
    want("how many names the devices have", new Set(names).size, names.length);
    await device.press("li:not(:has(.badge)) button[value=end][aria-label*=Chrome]");
  });
  await lost.visit("/pforte/"); // leads to the login
  want("the page of the other device", new URL(lost.page.url()).pathname, "/pforte/login");
};

// Buttons that are pressed twice, at once and within a moment: what was done is shown, and it was done once.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const admin = await j.open({ name: "admin" });
  await admin.login(username, password);

  const twice = async (device, form, fields, wait, pressed = "button:not([type=button])") => {
    await device.fill(form, fields);
    const button = await device.find(`${form} ${pressed}`);
    await button.scrollIntoView();
    const { x, y, width, height } = await button.boundingBox();
    const done = device.page.waitForNavigation();
    const press = () => device.page.mouse.click(x + width / 2, y + height / 2);
    if (wait === 0) await device.page.mouse.click(x + width / 2, y + height / 2, { count: 2 });
    else {
      const first = press();
      await new Promise((resolve) => setTimeout(resolve, wait));
      await Promise.all([first, press().catch(() => {})]);
    }
    await done;
    for (let tries = 1; ; tries++) { // the second press may lead on while the page is looked at
      try {
        await device.page.waitForFunction(() => document.readyState === "complete");
        await device.look(200);
        want("errors", (await device.page.$$("main [role=alert]")).length, 0);
        return;
      } catch (error) {
        if (tries === 5 || !error.message.includes("context was destroyed")) throw error;
      }
    }
  };
  for (const wait of [0, 120, 250]) {
    const name = `${j.lang}-${j.scripts ? "js" : "no"}-${wait}`;
    await admin.visit("/pforte/admin/invites");
    await twice(admin, "form:has([name=role])", { display_name: `Zwick ${name}` }, wait);
    const link = await admin.attribute("main a[href*='/pforte/join?t=']", "href");
    await admin.visit("/pforte/admin/invites");
    want("invites", (await admin.page.$$eval("main li strong", (all, text) => all.filter((e) => e.innerText.includes(text)).length, `Zwick ${name}`)), 1);

    const device = await j.open({ name: "newcomer" });
    await device.visit(link);
    await twice(device, "form", { username: `zwick-${name}`, password: "a phone in my pocket" }, wait);
    device.at("/pforte/?done=joined");

    await admin.visit("/pforte/admin/apps/new");
    await twice(admin, "form:has([value=add])", { recipe: "radicale", name: `Zwick ${name}` }, wait, "[value=add]");
    await admin.visit("/pforte/admin/apps");
    want("applications", (await admin.page.$$eval("main li strong", (all, text) => all.filter((e) => e.innerText.includes(text)).length, `Zwick ${name}`)), 1);
  }
};

// An admin adds Radicale from its recipe, opens it at its own host as soon as the proxy leads there, finds it on the start
// page, and takes its internal address away again.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, NAME: name, SLUG: slug, UPSTREAM: upstream } = j.env;
  const host = new URL(j.origin).host, words = {
    de: { there: `${name} ist da.`, taken: "✓ Proxy hat es übernommen", answers: "✓ antwortet (200" },
    en: { there: `${name} has been added.`, taken: "✓ The proxy leads there", answers: "✓ answers (200" },
  }[j.lang];
  const device = await j.open({ name: "admin" });
  await device.login(username, password);
  await device.does("add an application", async () => {
    await device.press("main a[href='/pforte/admin/apps/new']");
    await device.send("/pforte/admin/apps/new", { recipe: "radicale", name, upstream }, { button: "[value=add]" });
  });
  for (const text of [words.there, words.answers]) await device.shows(text);
  await device.until(words.taken);
  await device.visit(`/pforte/admin/apps/${slug}?done=app-new`);
  const address = await device.attribute("main .notice a.button", "href");
  want("the address", address, `http://${slug}.${host}`);
  await Promise.all([device.page.waitForNavigation(), device.click("main .notice a.button")]);
  await device.until(`Radicale: ${username}`);
  want("where it is", new URL(device.page.url()).host, `${slug}.${host}`);

  await device.visit("/pforte/");
  await device.shows(name);
  await device.visit(`/pforte/admin/apps/${slug}`);
  await device.press("[value=unroute]");
  await new Promise((resolve) => setTimeout(resolve, 2500)); // until the proxy knows
  await device.page.goto(address);
  await device.hides("Radicale:");
  device.faults.length = 0; // of a page that is not auth's
};

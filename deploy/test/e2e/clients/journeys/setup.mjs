// The first admin sets up the household by the link of the command setup-link. Its name is long, and leaves the screens of
// phones to the pages.
import { phone, want } from "../journey.mjs";

const household = "Familie Müller-Lüdenscheidt & Freunde in der Wohngemeinschaft";

export default async (j) => {
  const setupLink = async () => (await j.auth(["setup-link"])).match(/\S*\/pforte\/setup\?t=[\w-]+/)[0];
  const first = await setupLink(), link = await setupLink();
  want("the origin of the link", new URL(link).origin, j.origin);

  const device = await j.open({ name: "admin", scripts: false });
  await device.visit(first, 400); // a newer link makes older ones void
  await device.visit(link);
  await device.visit(link); // showing it does not use it up
  const fields = { household, display_name: "Anna Müller", username: "anna", password: "kurz" };
  await device.send("/pforte/setup", fields, { status: 400 });
  want("the name of the household after a failure", await device.attribute("[name=household]", "value"), household);
  want("the password after a failure", await device.attribute("[name=password]", "value"), null);
  const password = "Grüße an alle im Haus";
  await device.send("/pforte/setup", { password });
  device.at("/pforte/");
  await device.shows("Anna Müller");
  await device.shows(household);
  await device.press("a[href='/pforte/admin/members']");
  await device.shows("Anna Müller", "main");
  await device.visit("/pforte/logout");
  await device.send("/pforte/logout");
  const another = await j.open({ name: "another" });
  await another.visit(link, 400);
  for (const width of [390, 320]) {
    const narrow = await j.open({ name: `phone of ${width} pixels`, view: { ...phone, width } });
    await narrow.login("anna", password);
    for (const path of ["account/security", "admin/members"]) await narrow.visit(`/pforte/${path}`);
  }
};

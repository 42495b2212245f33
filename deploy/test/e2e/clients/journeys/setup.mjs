// The first admin sets up the household by the link of the command setup-link.
import { want } from "../journey.mjs";

export default async (j) => {
  const setupLink = async () => (await j.auth(["setup-link"])).match(/\S*\/pforte\/setup\?t=[\w-]+/)[0];
  const first = await setupLink(), link = await setupLink();
  want("the origin of the link", new URL(link).origin, j.origin);

  const device = await j.open({ name: "admin", scripts: false });
  await device.visit(first, 400); // a newer link makes older ones void
  await device.visit(link);
  await device.visit(link); // showing it does not use it up
  const fields = { household: "Haus am See", display_name: "Anna Müller", username: "anna", password: "kurz" };
  await device.send("/pforte/setup", fields, { status: 400 });
  want("the name of the household after a failure", await device.attribute("[name=household]", "value"), "Haus am See");
  want("the password after a failure", await device.attribute("[name=password]", "value"), null);
  const password = "Grüße an alle im Haus";
  await device.send("/pforte/setup", { password });
  device.at("/pforte/");
  await device.shows("Anna Müller");
  await device.shows("Haus am See");
  await device.press("a[href='/pforte/admin/members']");
  await device.shows("Anna Müller", "main");
  await device.visit("/pforte/logout");
  await device.send("/pforte/logout");
  const another = await j.open({ name: "another" });
  await another.visit(link, 400);
};

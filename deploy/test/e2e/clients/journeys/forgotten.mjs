// A member has forgotten the password: an admin makes a link from the start page, and the member sets a new one.
export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member } = j.env;
  const device = await j.open({ name: "member" });
  await device.visit("/pforte/login");
  await device.press("a[href='/pforte/forgot']");
  await device.send("/pforte/forgot", { username: member });
  const admin = await j.open({ name: "admin" });
  await admin.login(username, password);
  await admin.does("help with a forgotten password", () => admin.press(`.warning button[aria-label$='${member}']`));
  await device.visit(await admin.attribute("main a[href*='/pforte/reset?t=']", "href"));
  await device.send("/pforte/reset", { password: "a passphrase that stays" });
  device.at("/pforte/?done=reset");
  await device.visit("/pforte/logout");
  await device.send("/pforte/logout");
  await device.send("/pforte/login", { username: member, password: "a passphrase that stays" });
  device.at("/pforte/");
};

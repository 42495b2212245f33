// A member opens an application from the start page.
export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const device = await j.open({ name: "member" });
  await device.login(username, password);
  await device.does("open an application", async () => {
    await Promise.all([device.page.waitForNavigation(), device.click("main a[href='/calendar/']")]);
  });
  await device.shows("Calendar", "h1");
};

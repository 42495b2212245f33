// Anna adds a passkey and logs out. She opens a page of the wiki, is led to the login, comes
// back with her passkey, and opens the other applications without a login. When she logs out,
// all of them are closed.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, WIKI: wiki, FILES: files, BOARD: board } = j.env;
  const device = await j.open({ name: "laptop" }), { page } = device;
  const authenticator = await device.authenticator();
  // open opens a page of an application, and returns its text and where it is.
  const open = async (address) => {
    await page.goto(address);
    return { text: await device.text(), at: page.url() };
  };
  // fetched is the status of a request by a script of the page that is shown.
  const fetched = (path, init) => page.evaluate(async (p, i) => (await fetch(p, i)).status, path, init);
  const logout = async () => {
    device.faults.length = 0; // those of pages that are not ours
    await page.bringToFront();
    await device.visit("/pforte/logout");
    await device.send("/pforte/logout");
    await page.goto("about:blank");
  };

  await device.visit("/pforte/account/security");
  await device.send("/pforte/login", { username, password });
  const added = page.waitForNavigation();
  await authenticator.present(true);
  await device.press("button[data-passkey=register]", null);
  await added;
  await authenticator.present(false);
  await logout();

  await page.goto(`${wiki}/status?x=1`);
  await device.look(200);
  want("where the wiki leads", new URL(page.url()).origin + new URL(page.url()).pathname, `${j.origin}/pforte/login`);
  const arrived = page.waitForFunction((address) => location.href === address, {}, `${wiki}/status?x=1`);
  await authenticator.present(true);
  await device.press("button[data-passkey=login]", null).catch(() => {}); // the field may be quicker than the button
  await arrived;
  await authenticator.present(false);
  want("the user of the wiki", JSON.parse(await device.text()).username, username);

  await open(`${wiki}/`);
  await page.waitForSelector(".tc-page-container");
  const note = { method: "PUT", headers: { "X-Requested-With": "TiddlyWiki", "Content-Type": "application/json" }, body: JSON.stringify({ title: username, text: "Milch" }) };
  want("the status of a note that is saved", await fetched(`/recipes/default/tiddlers/${username}`, note), 204);

  const folder = await open(`${files}/letters/`);
  want("the address of the files", folder.at, `${files}/letters/`);
  want("whether the files are listed", folder.text.includes("letter.txt"), true);

  await open(`${board}/`);
  await page.waitForFunction(() => document.title === "Tafel, bereit");
  want("the status of the manifest, which comes without cookies", await fetched("/manifest.webmanifest", { credentials: "omit" }), 200);
  want("the status of a page without cookies", await fetched("/index.html", { credentials: "omit", redirect: "manual" }), 401);
  await page.setOfflineMode(true);
  await page.reload();
  await device.shows("Tafel");
  await page.setOfflineMode(false);

  // A second page keeps the wiki open while Anna logs out.
  const left = await device.context.newPage();
  await left.goto(`${wiki}/status`);
  await logout();
  want("a request of a page that was left open", await left.evaluate(async () => (await fetch("/status")).status), 401);
  for (const address of [`${wiki}/status`, `${files}/letters/`, `${board}/`]) {
    await page.goto(address);
    await page.waitForFunction(() => document.readyState === "complete");
    want(`where ${address} leads after the logout`, new URL(page.url()).origin + new URL(page.url()).pathname, `${j.origin}/pforte/login`);
  }
  device.faults.length = 0; // a worker's request is refused before its page is led to the login
};

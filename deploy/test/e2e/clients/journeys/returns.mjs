// No address that somebody sends to a person leads their browser off the household's hosts.
import { want } from "../journey.mjs";

// hostile are addresses to return to, of another host for a server or a browser that reads
// them otherwise.
const hostile = [
  "https://evil.test/", "//evil.test", "///evil.test", "/\\evil.test", "\\/evil.test", "\\\\evil.test", "/\t/evil.test", "/\n/evil.test", "/%09/evil.test", "/%2f%2fevil.test", "/%5cevil.test", "/x//evil.test",
  "/.//evil.test", "/..//evil.test", "/../evil.test", "@evil.test", ".evil.test", ":80@evil.test", "https:evil.test", "https:/\\evil.test", "javascript:location='http://evil.test'", "data:text/html,x", "//evil.test/%2e%2e", "/..;//evil.test",
];

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const portal = new URL(j.origin), photos = `${portal.protocol}//photos.test:${portal.port}`;
  await j.auth(["app", "add", "returns", photos]);
  const hosts = new Set();
  const open = async () => {
    const device = await j.open({ name: "person", faults: false });
    device.page.on("request", (request) => hosts.add(new URL(request.url()).host));
    return device;
  };
  const login = async (device, to) => {
    await device.page.goto(`${j.origin}/pforte/login?return=${encodeURIComponent(to)}`);
    await Promise.all([device.page.waitForNavigation(), device.fill("form", { username, password }).then(() => device.page.keyboard.press("Enter"))]);
  };
  for (const to of hostile.slice(0, 4)) { // with a form
    const device = await open();
    await login(device, to);
    device.at("/pforte/");
  }
  const device = await open(), { page } = device;
  await login(device, "/pforte/account");
  device.at("/pforte/account");
  const value = encodeURIComponent;
  for (const to of hostile) {
    await page.goto(`${j.origin}/pforte/login?return=${value(to)}`);
    device.at("/pforte/");
    await page.goto(`${j.origin}/pforte/reauth?return=${value(to)}`);
    want(`where the form of a confirmation leads for ${to}`, await page.$eval("input[name=return]", (e) => e.value), "/pforte/");
    await page.goto(`${j.origin}/pforte/duty?return=${value(to)}`);
    want(`where the reminder leads for ${to}`, await page.$eval("a.quiet", (e) => e.href), `${j.origin}/pforte/`);
    const went = await page.goto(`${j.origin}/pforte/go?app=returns&return=${value(to)}`);
    want(`where the portal leads for ${to}`, went.request().redirectChain()[1].url(), `${photos}/`); // which nobody guards here, and leads on
    await page.goto(`${j.origin}/pforte/go?app=${value(to)}&return=/`);
    want(`the page for the application ${to}`, page.url().startsWith(`${j.origin}/pforte/go?`), true);
    await page.goto(`${photos}/pforte/enter?code=x&return=${value(to)}`);
    want(`where the refusal leads for ${to}`, await page.$eval("a.button", (e) => e.href), `${photos}/`);
    await page.goto(`${photos}//evil.test/pforte/login`).catch(() => {});
  }
  want("the hosts that were asked", [...hosts].sort().join(" "), [portal.host, new URL(photos).host].sort().join(" "));
};

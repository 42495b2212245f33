// Opens two pages with many pictures in turn, each in a browser that has never seen it (cold), and
// then once more (warm). Each line of the output says in JSON how many milliseconds each took.
// Its environment: ORIGIN, the pages' paths PAGES, how many pictures each has (ASSETS), a login's
// USERNAME and PASSWORD, and how many TURNS to take after a first one that does not count.
import { launch } from "./browser.mjs";

const { CHROMIUM, ORIGIN, PAGES, ASSETS, USERNAME, PASSWORD, TURNS } = process.env;
// HTTP/3 is off, so that all of it is HTTP/2; the certificate is of the proxy's own authority.
const browser = await launch(CHROMIUM, "--ignore-certificate-errors", "--disable-quic");

async function open() {
  const context = await browser.createBrowserContext();
  return { context, page: await context.newPage() };
}

// loaded returns how long the page that is there took, and refuses one that lacks a picture.
function loaded(page) {
  return page.evaluate((assets) => {
    const pictures = [...document.images].filter((image) => image.naturalWidth > 0).length;
    const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const others = entries.filter((entry) => entry.nextHopProtocol !== "h2");
    if (pictures !== assets || others.length > 0) throw new Error(`${pictures} pictures, ${others.length} answers not by HTTP/2`);
    return performance.getEntriesByType("navigation")[0].loadEventEnd;
  }, Number(ASSETS));
}

const { context, page } = await open();
await page.goto(`${ORIGIN}${PAGES.split(" ")[1]}`);
const status = await page.evaluate(async (username, password) => (await fetch("/api/v1/auth/login", {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ username, password }),
})).status, USERNAME, PASSWORD);
if (status !== 200) throw new Error(`login: ${status}`);
const cookies = await context.cookies();
await context.close();

for (let turn = 0; turn <= TURNS; turn++) {
  for (const path of PAGES.split(" ")) {
    const { context, page } = await open();
    await context.setCookie(...cookies);
    await page.goto(ORIGIN + path, { waitUntil: "load" });
    const cold = await loaded(page);
    await page.reload({ waitUntil: "load" });
    const warm = await loaded(page);
    await context.close();
    if (turn > 0) console.log(JSON.stringify({ path, cold, warm }));
  }
}
await browser.close();

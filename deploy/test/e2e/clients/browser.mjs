// Drives Chromium as people use the pages of auth. Whatever a page does wrong by itself
// is a fault: findings of axe, violations of the Content-Security-Policy, errors on the
// console, requests that fail, a page that scrolls sideways or is too heavy, and navigation
// that takes the screen of a phone or breaks its words.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";
import { tasks } from "./tasks.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wcag = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

export const phone = { width: 390, height: 844, hasTouch: true, isMobile: true };
export const laptop = { width: 1280, height: 800 };

// hidden are the features for which Chromium loads two hidden pages in each window.
const hidden = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup"];

// launch starts Chromium, which finds every host of the domain "test" on this machine, with more arguments.
export function launch(path, ...more) {
  return puppeteer.launch({
    executablePath: path,
    env: { ...process.env, LC_ALL: "C.UTF-8" }, // else it may not find files with names that are not ASCII
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
      "--host-resolver-rules=MAP *.test 127.0.0.1", `--disable-features=${hidden}`, ...more,
    ],
  });
}

// heaviest is how many bytes a page may have with its styles and scripts, before compression. What
// people uploaded is left out.
const heaviest = 40 * 1024;

// lowest is how many pixels below the top the navigation of a page may end on a phone.
const lowest = 120;

// checked are hashes of the pages that axe has seen.
const checked = new Set();

// Device is a browser of its own: with cookies, a language and a size.
export class Device {
  // open opens a device. Options: name, origin; lang ("de" or "en"), view (phone or laptop),
  // address, dark, zone (of time), scripts (false: without JavaScript), faults (false: pages
  // that are not ours), most (bytes of a page).
  static async open(browser, { name = "browser", origin, address, lang = "de", view = laptop, dark = false, zone, scripts = true, faults = true, most = heaviest }) {
    const context = await browser.createBrowserContext();
    const device = new Device();
    Object.assign(device, { name, origin, lang, view, scripts, most, context, clicks: 0, fields: 0, faults: [], kind: `${lang} ${view.width} ${dark}` });
    const page = device.page = await context.newPage();
    page.setDefaultTimeout(20_000);
    await page.setViewport(view);
    await page.setExtraHTTPHeaders({ "Accept-Language": lang, "X-Forwarded-For": address });
    if (zone) await page.emulateTimezone(zone);
    await page.emulateMediaFeatures([
      { name: "prefers-color-scheme", value: dark ? "dark" : "light" }, { name: "prefers-reduced-motion", value: "reduce" },
    ]);
    await page.setJavaScriptEnabled(scripts);
    if (faults) device.#listen();
    return device;
  }

  #listen() {
    this.page.on("pageerror", (error) => this.faults.push(`error of a script: ${error.message}`));
    this.page.on("console", (message) => {
      // Chromium reports each answer of 400 and above there too; see "response". And it
      // reports that over plain http it leaves out what needs https.
      const expected = /^Failed to load resource|^The Cross-Origin-Opener-Policy header has been ignored/;
      if (["error", "warn"].includes(message.type()) && !expected.test(message.text())) this.faults.push(`console: ${message.text()}`);
    });
    this.page.on("requestfailed", (request) => {
      // A navigation ends the requests of the page before it.
      if (request.failure().errorText !== "net::ERR_ABORTED") this.faults.push(`${request.method()} ${request.url()}: ${request.failure().errorText}`);
    });
    this.page.on("response", (response) => {
      const main = response.request().isNavigationRequest();
      if (main && response.status() < 300 | response.status() >= 400) this.status = response.status();
      if (!main && response.status() >= 400) this.faults.push(`${response.url()}: ${response.status()}`);
    });
  }

  // visit opens a path, or a whole link.
  async visit(path, status = 200) {
    await this.page.goto(new URL(path, this.origin).href);
    await this.look(status);
  }

  // press presses what leads to another page, a link or a button; with the status null, what
  // does not.
  async press(selector, status = 200) {
    if (status === null) return this.click(selector);
    await Promise.all([this.page.waitForNavigation(), this.click(selector)]);
    await this.look(status);
  }

  // click presses an element, whatever follows.
  async click(selector) {
    const element = await this.find(selector);
    this.clicks++;
    await this.#activate(element);
  }

  // send fills in a form, named by its action or a selector, and sends it. Options: status,
  // the answer's; button, a selector inside the form.
  async send(form, fields = {}, { status = 200, button = "button:not([type=button])" } = {}) {
    if (form.startsWith("/")) form = `form[action="${form}"]`;
    await this.fill(form, fields);
    await this.press(`${form} ${button}`, status);
  }

  // login logs in by password.
  async login(username, password) {
    await this.visit("/pforte/login");
    await this.send("/pforte/login", { username, password });
  }

  // fill types into a form as the person does. A value may be true or false for a box to
  // check, or an option of a list.
  async fill(form, fields) {
    for (const [name, value] of Object.entries(fields)) {
      this.fields++;
      const named = `${form} [name="${name}"]`, label = `${form} label:has([name="${name}"]`;
      const { tag, type, checked } = await this.page.$eval(named, (e) => ({ tag: e.tagName, type: e.type, checked: e.checked }));
      if (type === "checkbox") {
        if (checked !== value) await this.#activate(await this.find(`${label})`));
      } else if (type === "radio") {
        await this.#activate(await this.find(`${label}[value="${value}"])`));
      } else if (tag === "SELECT") {
        await this.page.select(named, value);
      } else {
        const field = await this.find(named);
        await field.evaluate((e) => { e.value = ""; e.focus(); });
        await this.type(value);
      }
    }
  }

  // find returns the one visible element of a selector.
  async find(selector) {
    const all = await this.page.$$(selector);
    const visible = [];
    for (const element of all) {
      if (await element.isVisible()) visible.push(element);
    }
    if (visible.length === 0) throw new Error(`${selector}: none is visible of ${all.length}`);
    return visible[0];
  }

  #activate(element) { return this.view.hasTouch ? element.tap() : element.click(); }

  // look checks the page that is shown.
  async look(status) {
    if (this.status !== status) throw new Error(`the answer has the status ${this.status}, not ${status}`);
    const page = await this.#steady(() => this.page.evaluate(() => ({
      lang: document.documentElement.lang, title: document.title, headings: document.querySelectorAll("h1").length,
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth, structure: document.documentElement.outerHTML,
      loaded: [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((e) => e.initiatorType !== "img")]
        .reduce((sum, e) => sum + e.decodedBodySize, 0),
      broken: [...document.querySelectorAll("nav.main a")].filter((e) => {
        const words = document.createRange();
        words.selectNodeContents(e);
        return words.getClientRects().length > 1;
      }).length,
      low: Math.max(0, ...[...document.querySelectorAll("header, nav.side")].map((e) => e.getBoundingClientRect().bottom + scrollY)),
    })));
    if (page.lang !== this.lang) this.faults.push(`the page is in ${page.lang}`);
    if (page.headings !== 1) this.faults.push(`the page has ${page.headings} headings of the first level`);
    if (page.wide > 0) this.faults.push(`the page is ${page.wide} pixels too wide`);
    if (page.loaded > this.most) this.faults.push(`the page has ${page.loaded} bytes`);
    if (page.broken > 0) this.faults.push(`${page.broken} links of the main navigation take more than one line`);
    if (this.view.isMobile && page.low > lowest) this.faults.push(`the navigation ends ${page.low} pixels below the top`);
    if (!this.scripts) return this.blame(); // axe waits for promises of the page
    // The same page needs no second look.
    const hash = createHash("sha256").update(this.kind).update(page.structure.replace(/value="[^"]*"|data-\w+="[^"]*"|<time.*?<\/time>/g, "")).digest("hex");
    if (!checked.has(hash)) {
      checked.add(hash);
      await this.#steady(() => this.#accessible());
    }
    this.blame();
  }

  async #accessible() {
    await this.page.evaluate(axe);
    const violations = await this.page.evaluate(async (tags) => {
      const { violations } = await window.axe.run({ runOnly: tags, resultTypes: ["violations"] });
      return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).join(" | ")}`);
    }, wcag);
    for (const violation of violations) this.faults.push(`axe: ${violation}`);
  }

  // blame fails when something was wrong since the last time.
  blame() {
    if (this.faults.length > 0) throw new Error(this.faults.splice(0).join("\n"));
  }

  // path is the path and query of the page that is shown.
  path() {
    const { pathname, search } = new URL(this.page.url());
    return pathname + search;
  }

  // at fails unless the page has a path.
  at(path) {
    if (this.path() !== path) throw new Error(`the page is ${this.path()}, not ${path}`);
  }

  // text is the visible text of the page, or of an element.
  text(selector = "body") { return this.#steady(() => this.page.$eval(selector, (e) => e.innerText)); }

  // #steady reads the page, again where it was just loaded anew: by itself, or by a button that was pressed twice.
  async #steady(read) {
    for (let tries = 0; ; tries++) {
      try {
        return await read();
      } catch (e) {
        if (tries === 40 || !/context was destroyed|detached|failed to find element/.test(e.message)) throw e;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  // shows fails unless the page, or an element, has a text.
  async shows(text, selector = "body") {
    const shown = await this.text(selector);
    if (!shown.includes(text)) throw new Error(`the page does not show ${JSON.stringify(text)}:\n${shown}`);
  }

  // until waits until a page that is loaded again by itself shows a text.
  async until(text) {
    for (let tries = 0; tries < 40; tries++) {
      if ((await this.text().catch(() => "")).includes(text)) return;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    await this.shows(text);
  }

  async hides(text, selector = "body") {
    const shown = await this.text(selector);
    if (shown.includes(text)) throw new Error(`the page shows ${JSON.stringify(text)}:\n${shown}`);
  }

  // attribute is an attribute of the first element of a selector.
  attribute(selector, name) { return this.page.$eval(selector, (e, n) => e.getAttribute(n), name); }

  // cookies are the names of the cookies for the portal, with their values.
  async cookies() {
    const { cookies } = await (await this.page.createCDPSession()).send("Network.getCookies", { urls: [this.origin] });
    return Object.fromEntries(cookies.map((c) => [c.name, c.value]));
  }

  // tab presses the tabulator until the element has the focus, and fails when the focus
  // cannot be seen.
  async tab(selector) {
    for (let presses = 0; presses < 80; presses++) {
      await this.page.keyboard.press("Tab");
      const focused = await this.page.evaluate((s) => {
        const e = document.activeElement;
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(e);
        return { found: e.matches(s), seen: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 || boxShadow !== "none" };
      }, selector);
      if (focused.found && !focused.seen) throw new Error(`${selector}: the focus cannot be seen`);
      if (focused.found) return;
    }
    throw new Error(`${selector} cannot be reached by the keyboard`);
  }

  // type types at the focus, all at once.
  async type(text) { await this.page.keyboard.sendCharacter(text); }

  // enter presses a key that leads to another page.
  async enter(status = 200) {
    this.clicks++;
    await Promise.all([this.page.waitForNavigation(), this.page.keyboard.press("Enter")]);
    await this.look(status);
  }

  // does fails when steps take more clicks, or more fields to fill in, than a task of tasks.mjs may.
  async does(task, steps) {
    const most = tasks[task], { clicks, fields } = this;
    if (!most) throw new Error(`there is no task ${JSON.stringify(task)}`);
    await steps();
    const took = { clicks: this.clicks - clicks, fields: this.fields - fields };
    if (took.clicks > most.clicks || took.fields > most.fields) {
      throw new Error(`${task}: takes ${JSON.stringify(took)}, at most ${JSON.stringify(most)} is meant`);
    }
  }

  // authenticator gives the device a virtual authenticator for passkeys, at which the person
  // is present, or not yet.
  async authenticator() {
    const devtools = await this.page.createCDPSession();
    await devtools.send("WebAuthn.enable");
    const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", {
      options: { protocol: "ctap2", ctap2Version: "ctap2_1", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: false },
    });
    return {
      credentials: async () => (await devtools.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
      present: (yes) => devtools.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled: yes }),
      verifiesUser: (yes) => devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: yes }),
    };
  }

  close() { return this.context.close(); }
}

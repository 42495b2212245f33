// Somebody got a receipt and checks it in the browser, on a laptop and on a phone, and then
// with the page as a file. Nothing but the page is asked for meanwhile. The environment has
// ANSWER and PROOF, files with a sold receipt and its proof in the log, and PAGE, the page as
// a file.
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { laptop, phone, want } from "../journey.mjs";

const words = {
  de: {
    valid: "Gültig", notValid: "Nicht gültig", undecided: "Noch nicht entschieden", none: "Kein Beleg", witnessed: "2 von 2 Zeugen", trusts: "vertraut dieser Adresse",
    word: "gibt an, das bei seinen Knoten geprüft zu haben", example: "er beweist nichts", unknown: "Das ist keiner der Texte", large: "ist zu groß",
  },
  en: {
    valid: "Valid", notValid: "Not valid", undecided: "Not decided yet", none: "No receipt", witnessed: "2 of the policy’s 2 witnesses", trusts: "trusts that address",
    word: "says that it checked this with its nodes", example: "it proves nothing", unknown: "This is none of the texts", large: "is too large",
  },
};

// ready waits until the page can check, in the device's language.
async function ready({ page, lang }) {
  await page.waitForSelector("html[data-ready]");
  if ((await page.$eval("html", (e) => e.lang)) !== lang) await page.click("#language");
}

// verdict waits until the page has judged so many texts, and returns how.
async function verdict({ page }, texts) {
  await page.waitForFunction((n) => document.querySelectorAll("#given li").length === n && document.querySelector("#result").getAttribute("aria-busy") === "false" && document.querySelector("#verdict h2"), {}, texts);
  return page.$eval("#verdict h2", (e) => e.textContent);
}

async function give({ page }, ...files) {
  await (await page.$("#files")).uploadFile(...files);
}

// alone fails when the page asked for anything but itself.
function alone(device, at) {
  const asked = [];
  device.page.on("request", (request) => {
    if (!/^(blob|data):/.test(request.url()) && request.url() !== at) asked.push(request.url());
  });
  return () => want("what else was asked for", asked.join(" "), "");
}

export default async (j) => {
  const { ANSWER: answer, PROOF: proof, PAGE: file } = j.env, folder = await mkdtemp(join(tmpdir(), "check-"));
  const put = async (name, text) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  try {
    for (const [view, dark, lang] of [[laptop, false, j.lang], [phone, true, j.other]]) {
      const device = await j.open({ name: `${view.width}`, lang, dark, view, most: 3 << 20 }), w = words[lang], { page } = device;
      const asked = alone(device, `${j.origin}/v1/check`);
      await page.goto(`${j.origin}/v1/check`);
      await ready(device);
      await device.look(200);

      await give(device, answer);
      want("the verdict without keys", await verdict(device, 1), w.undecided);
      await device.look(200);
      await device.press("#result .offer button.button:not(.quiet)", null);
      want("the verdict with the site's keys", await verdict(device, 2), w.valid);
      await device.shows(w.trusts);
      await device.shows(w.word);
      await device.look(200);
      const link = await page.$eval("#result a[download]", (e) => e.href);
      want("the proof behind the link", await (await fetch(link)).text(), readFileSync(proof, "utf8"));
      await give(device, proof);
      want("the verdict with a proof and no policy", await verdict(device, 3), w.valid);
      await device.press("#result .offer button.quiet:not(#take-checkpoint)", null);
      want("the verdict with proof and policy", await verdict(device, 4), w.valid);
      await device.shows(w.witnessed);
      await page.$$eval("details", (all) => all.forEach((e) => { e.open = true; }));
      await device.look(200);
      want("the cookies", Object.keys(await device.cookies()).join(" "), "");

      // What strangers wrote stays text.
      const text = readFileSync(answer, "utf8"), block = text.match(/"block":\{"hash":"0x[0-9a-f]{64}","number":"(\d+)"/);
      await give(device, await put("\u202elate.json", text.replace(/("timestamp":")\d+/, `$1${2n ** 64n - 1n}`)));
      want("the verdict of a receipt from beyond all dates", await verdict(device, 5), w.notValid);
      await device.shows("\ufffdlate.json");
      await give(device, await put("<img src=x onerror=alert(1)>.json", text.replace(block[0], block[0].replace(`"${block[1]}"`, `"${BigInt(block[1]) + 1n}"`))));
      want("the verdict of a changed receipt", await verdict(device, 6), w.notValid);
      await device.shows("<img src=x onerror=alert(1)>.json");
      await device.look(200);
      want("the pictures that a name of a file made", (await page.$$("img, iframe, object")).length, 0);
      await page.reload();
      await ready(device);
      await give(device, await put("hostile.json", `{"receipt":"<img src=x onerror=alert(1)>","signature":{}}`), await put("hostile.txt", "<script>alert(1)</script>"));
      want("the verdict of hostile texts", await verdict(device, 2), w.none);
      await device.shows(w.unknown);
      await device.look(200);
      await give(device, await put("large.json", Buffer.alloc(16 * 2 ** 20 + 1, 32)));
      await device.shows(w.large, "#fault");

      await page.reload();
      await ready(device);
      await device.press("#pasting summary", null);
      await page.focus("#text");
      await device.type(text);
      await device.press("#add", null);
      want("the verdict of a pasted receipt", await verdict(device, 1), w.undecided);
      asked();
      device.blame();
    }

    const offline = await j.open({ name: "from disk" }), w = words[j.lang], at = pathToFileURL(file).href;
    const asked = alone(offline, at);
    await offline.page.setOfflineMode(true);
    await offline.page.goto(at);
    await ready(offline);
    await give(offline, answer);
    want("the verdict from disk without keys", await verdict(offline, 1), w.undecided);
    want("what the file offers of a site", (await offline.page.$$("#result .offer button, #result a[download]")).length, 0);
    await offline.press("#show-example", null);
    want("the verdict of the example", await verdict(offline, 4), w.valid);
    await offline.shows(w.example);
    await give(offline, answer);
    want("the verdict after the example", await verdict(offline, 1), w.undecided);
    asked();
    offline.blame();
  } finally {
    await rm(folder, { recursive: true });
  }
};

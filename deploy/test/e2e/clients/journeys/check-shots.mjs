// Shows the page that checks receipts, in a language and a theme, at the widths of a phone
// and a laptop, checks each picture, at 320 pixels too, and writes it into the folder SHOTS.
// The environment has LANGUAGE, THEME and ONLY as in shots.mjs, PAGE, the page as a file, and
// SETS, JSON of names of pictures to the files that are given for them.
import { pathToFileURL } from "node:url";
import { laptop, phone } from "../browser.mjs";

export default async (j) => {
  const { SHOTS: folder, LANGUAGE: lang, THEME: theme, ONLY: only, PAGE: file, SETS: sets } = j.env, faults = [];
  for (const view of [phone, laptop]) {
    const device = await j.open({ name: `${view.width}`, lang, dark: theme === "dark", view, most: 3 << 20 }), { page } = device;
    for (const [name, files] of Object.entries(JSON.parse(sets))) {
      if (only && !new RegExp(only).test(name)) continue;
      await page.goto(pathToFileURL(file).href);
      await page.waitForSelector("html[data-ready]");
      if ((await page.$eval("html", (e) => e.lang)) !== lang) await page.click("#language");
      if (files.length > 0) {
        await (await page.$("#files")).uploadFile(...files);
        await page.waitForSelector("#verdict");
      }
      try {
        device.status = 200; // a file has none
        await device.look(200);
        await page.setViewport({ ...view, width: 320 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - 320);
        if (wide > 0) throw new Error(`at 320 pixels it is ${wide} pixels too wide`);
      } catch (error) {
        faults.push(`${name}, ${lang}, ${theme}, ${view.width}: ${error.message}`);
      }
      await page.setViewport(view);
      await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
      await page.screenshot({ path: `${folder}/${name}-${lang}-${theme}-${view.width}.png`, fullPage: true });
    }
    await device.close();
  }
  if (faults.length > 0) throw new Error([...new Set(faults)].join("\n"));
};

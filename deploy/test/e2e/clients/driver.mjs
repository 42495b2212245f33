// Runs journeys in one Chromium. Each line of the standard input asks for one, in JSON: its
// id, the name of its script, and its environment. Each line of the standard output answers:
// the id, and what went wrong, or "". The end of the input ends the program.
import { createInterface } from "node:readline";
import { launch } from "./browser.mjs";
import { Journey } from "./journey.mjs";

const browser = await launch(process.env.CHROMIUM);
for await (const line of createInterface({ input: process.stdin })) {
  const { id, script, env } = JSON.parse(line);
  import(`./journeys/${script}`)
    .then(({ default: steps }) => new Journey(browser, env).run(steps), (error) => error.stack)
    .then((fault) => console.log(JSON.stringify({ id, fault })));
}
await browser.close();

// What all journeys have in common.
//
// A journey is the default export of a script in journeys: a function of a Journey.
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { Device, laptop, phone } from "./browser.mjs";

export { laptop, phone } from "./browser.mjs";

let devices = 0;

// Journey has what a journey needs: env, the variables of its environment, which has ORIGIN,
// the portal's address as people type it, AUTH, the path of the program auth, and auth's
// settings; origin; lang and other, the languages of the persons who begin and who come later;
// and view and scripts, the size of the device of who begins and whether it runs JavaScript.
export class Journey {
  #browser;
  #devices = [];

  constructor(browser, env) {
    this.#browser = browser;
    Object.assign(this, { env, origin: env.ORIGIN, lang: env.LANGUAGE || "de", other: env.LANGUAGE === "en" ? "de" : "en" });
    Object.assign(this, { view: env.VIEW === "phone" ? phone : laptop, scripts: env.SCRIPTS !== "no" });
  }

  // open opens a device, with an address of its own (RFC 5737), because limits count by it.
  async open(options = {}) {
    const address = `198.51.100.${devices++ % 250 + 1}`;
    const device = await Device.open(this.#browser, { origin: this.origin, lang: this.lang, view: this.view, scripts: this.scripts, address, ...options });
    this.#devices.push(device);
    return device;
  }

  // auth runs a command of the program auth, as the operator does, with an input, and
  // returns what it prints.
  auth(args, input = "") {
    return new Promise((resolve, reject) => {
      const program = execFile(this.env.AUTH, args, { env: this.env }, (error, out, log) => (error ? reject(new Error(`${error.message}\n${log}`)) : resolve(out)));
      program.stdin.on("error", () => {}); // it ended without reading its input; how it ended is told above
      program.stdin.end(input);
    });
  }

  // run runs a journey and closes its devices. It returns what went wrong, or "".
  async run(steps) {
    try {
      await steps(this);
      for (const device of this.#devices) device.blame();
      return "";
    } catch (error) {
      let report = error.stack;
      for (const device of this.#devices.filter((d) => !d.page.isClosed())) {
        report += `\n--- ${device.name} shows ${device.page.url()}:\n${await device.text().catch((e) => e.message)}`;
      }
      return report;
    } finally {
      for (const device of this.#devices) await device.close().catch(() => {});
    }
  }
}

// want fails unless two values are the same.
export function want(what, got, expected) {
  if (got !== expected) throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(expected)}`);
}

// App is an authenticator app, which shows codes of six digits (RFC 6238). No code is
// shown twice, as the server takes each once.
export class App {
  #secret;
  #last = 0;

  // constructor takes the secret in base32, with or without spaces.
  constructor(secret) {
    let bits = "";
    for (const letter of secret.replace(/[\s=-]/g, "").toUpperCase()) {
      const value = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter);
      if (value < 0) throw new Error(`${secret} is not base32`);
      bits += value.toString(2).padStart(5, "0");
    }
    this.#secret = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  }

  // code returns a code that the server still takes. It takes those of the step before and
  // after the present one too, so that three in a row need no waiting.
  async code() {
    for (;;) {
      const now = Date.now() / 30_000, oldest = Math.floor(now - 0.8);
      const step = Math.max(this.#last + 1, oldest);
      if (step <= Math.floor(now) + 1) {
        this.#last = step;
        return this.at(step);
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  // again is the code that was shown last.
  again() { return this.at(this.#last); }

  at(step) {
    const counter = Buffer.alloc(8);
    counter.writeBigUInt64BE(BigInt(step));
    const sum = createHmac("sha1", this.#secret).update(counter).digest();
    return String((sum.readUInt32BE(sum[19] & 15) & 0x7fffffff) % 1e6).padStart(6, "0");
  }
}

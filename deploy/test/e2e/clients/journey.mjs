// What all journeys have in common. The environment has ORIGIN, the portal's address as
// people type it, AUTH, the path of the program auth, and auth's settings.
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { Device, launch } from "./browser.mjs";

export { laptop, phone } from "./browser.mjs";

export const origin = process.env.ORIGIN;

// journey runs steps, a function that gets open to open devices, and ends the program.
export async function journey(steps) {
  const devices = [], browser = await launch();
  const open = async (options = {}) => {
    const device = await Device.open(browser, { origin, ...options });
    devices.push(device);
    return device;
  };
  try {
    await steps(open);
    for (const device of devices) device.blame();
  } catch (error) {
    process.exitCode = 1;
    console.error(error.stack);
    for (const device of devices) {
      console.error(`--- ${device.name} shows ${device.page.url()}:\n${await device.text().catch((e) => e.message)}`);
      await device.screenshot(device.name).catch(() => {});
    }
  } finally {
    await browser.close();
  }
}

// auth runs a command of the program auth, as the operator does, and returns what it
// prints.
export const auth = (...args) => execFileSync(process.env.AUTH, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

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

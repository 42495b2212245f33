// A member logs in, changes the password and logs out, with the keyboard alone and
// without JavaScript.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const keyboard = await j.open({ name: "keyboard", zone: "America/New_York" });
  const loaded = [];
  keyboard.page.on("response", (response) => loaded.push(response));
  await keyboard.visit("/pforte/account/security");
  const sizes = await Promise.all(loaded.filter((r) => r.ok()).map(async (r) => (await r.buffer()).length));
  want(`whether the login page is under 30 KB in ${sizes.length} files: ${sizes}`, sizes.length >= 3 && sizes.reduce((a, b) => a + b) < 30 * 1024, true);
  keyboard.at("/pforte/login?return=%2Fpforte%2Faccount%2Fsecurity");
  await keyboard.tab("[name=username]");
  await keyboard.type(username);
  await keyboard.tab("[name=password]");
  await keyboard.type("wrong");
  await keyboard.enter(401);
  want("the name after a failure", await keyboard.page.$eval("[name=username]", (e) => e.value), username);
  want("the start of the title", (await keyboard.page.title()).split(" ")[0], j.lang === "en" ? "Error:" : "Fehler:");
  await keyboard.tab("[name=password]");
  await keyboard.type(password);
  await keyboard.tab("form[action='/pforte/login'] button");
  await keyboard.enter();
  keyboard.at("/pforte/account/security");
  await keyboard.tab("nav.side a[href='/pforte/account']");
  await keyboard.enter();
  // The server's times are in UTC; a script shows them in the reader's zone.
  const since = new Date(await keyboard.attribute("main time", "datetime"));
  const clock = since.toLocaleTimeString("en-GB", { timeZone: "America/New_York", hour: "2-digit", minute: "2-digit" });
  want("the time at the reader's", (await keyboard.text("main time")).split(", ")[1], clock);
  await keyboard.tab("header summary");
  await keyboard.page.keyboard.press("Enter"); // opens the menu
  await keyboard.tab("a[href='/pforte/logout']");
  await keyboard.enter();
  await keyboard.tab("form[action='/pforte/logout'] button");
  await keyboard.enter();
  want("the cookie of the session", (await keyboard.cookies())["svc.sid"], undefined);

  const plain = await j.open({ name: "without JavaScript", lang: j.other, scripts: false, dark: true });
  await plain.visit("/pforte/");
  plain.at("/pforte/login?return=%2Fpforte%2F");
  await plain.send("/pforte/login", { username, password });
  plain.at("/pforte/");
  await plain.visit("/pforte/account");
  want("the zone of a time without JavaScript", (await plain.text("main time")).slice(-4), " UTC");
  await plain.visit("/pforte/account/security?open=password");
  await plain.send("form:has([name=current])", { current: password, password: "ein neuer langer Satz", again: "ein neuer kurzer Satz" }, { status: 400 });
  await plain.send("form:has([name=current])", { current: password, password: "ein neuer langer Satz", again: "ein neuer langer Satz" });
  await plain.visit("/pforte/logout");
  await plain.send("/pforte/logout");
  await plain.send("/pforte/login", { username, password }, { status: 401 });
  await plain.send("/pforte/login", { username, password: "ein neuer langer Satz" });
  plain.at("/pforte/");
};

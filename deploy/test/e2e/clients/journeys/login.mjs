// A member logs in, changes the password and logs out, with the keyboard alone and
// without JavaScript.
import { journey, want } from "../journey.mjs";

const { USERNAME: username, PASSWORD: password } = process.env;

journey(async (open) => {
  const keyboard = await open({ name: "keyboard", lang: "en" });
  await keyboard.visit("/pforte/account/password");
  keyboard.at("/pforte/login?return=%2Fpforte%2Faccount%2Fpassword");
  await keyboard.tab("[name=username]");
  await keyboard.type(username);
  await keyboard.tab("[name=password]");
  await keyboard.type("wrong");
  await keyboard.enter(401);
  want("the name after a failure", await keyboard.page.$eval("[name=username]", (e) => e.value), username);
  want("the start of the title", (await keyboard.page.title()).split(" ")[0], "Error:");
  await keyboard.tab("[name=password]");
  await keyboard.type(password);
  await keyboard.tab("form[action='/pforte/login'] button");
  await keyboard.enter();
  keyboard.at("/pforte/account/password");
  await keyboard.tab("a[href='/pforte/logout']");
  await keyboard.enter();
  await keyboard.tab("form[action='/pforte/logout'] button");
  await keyboard.enter();
  want("the cookie of the session", (await keyboard.cookies())["svc.sid"], undefined);

  const plain = await open({ name: "without JavaScript", scripts: false, dark: true });
  await plain.visit("/pforte/");
  plain.at("/pforte/login?return=%2Fpforte%2F");
  await plain.send("/pforte/login", { username, password });
  plain.at("/pforte/");
  await plain.visit("/pforte/account/password");
  await plain.send("/pforte/account/password", { current: password, password: "ein neuer langer Satz", again: "ein neuer kurzer Satz" }, { status: 400 });
  await plain.send("/pforte/account/password", { current: password, password: "ein neuer langer Satz", again: "ein neuer langer Satz" });
  await plain.visit("/pforte/logout");
  await plain.send("/pforte/logout");
  await plain.send("/pforte/login", { username, password }, { status: 401 });
  await plain.send("/pforte/login", { username, password: "ein neuer langer Satz" });
  plain.at("/pforte/");
});

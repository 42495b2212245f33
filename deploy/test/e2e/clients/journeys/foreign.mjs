// Pages of other origins cannot use the forms of a person who is logged in, nor show the
// pages in a frame.
import { createServer } from "node:http";
import { want } from "../journey.mjs";

// shown is the page of another origin that sends a form of the portal by itself: plainly,
// hidden (without a referrer, so that the origin is null), or framed (in a frame with an origin
// of its own).
function shown(action, how, fields) {
  const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`).join("");
  const form = `<form method="post" action="${action}">${inputs}</form><script>document.forms[0].submit()</script>`;
  return how === "framed" ? `<iframe sandbox="allow-scripts allow-forms" srcdoc="${form.replaceAll('"', "&quot;")}"></iframe>` : form;
}

export default async (j) => {
  const { USERNAME: username, PASSWORD: secret } = j.env;
  const forms = {
    "/pforte/login": { username, password: secret },
    "/pforte/logout": {},
    "/pforte/account/security": { do: "password", current: secret, password: "ein fremdes Passwort", again: "ein fremdes Passwort" },
  };
  // attack serves /?action=PATH&how=HOW, and by /frame the login page in a frame.
  const attack = createServer((request, response) => {
    const query = new URL(request.url, "http://any").searchParams;
    const action = query.get("action"), how = query.get("how");
    response.setHeader("Content-Type", "text/html");
    if (how === "hidden") response.setHeader("Referrer-Policy", "no-referrer");
    response.end(request.url === "/frame" ? `<iframe src="${j.origin}/pforte/login"></iframe>` : shown(j.origin + action, how, forms[action] ?? {}));
  });
  await new Promise((resolve) => attack.listen(0, "127.0.0.1", resolve));
  const { port } = attack.address();
  const person = await j.open({ name: "person", faults: false });
  await person.page.goto(`${j.origin}/pforte/login`);
  await Promise.all([person.page.waitForNavigation(), person.fill("form", { username, password: secret }).then(() => person.page.keyboard.press("Enter"))]);
  person.at("/pforte/");
  const session = (await person.cookies())["svc.sid"];

  // Of one site are the host's other ports; the same origin they are not.
  const site = new URL(j.origin).hostname, password = "/pforte/account/security";
  for (const host of [site, "evil.test"]) {
    const attacks = Object.keys(forms).map((action) => [action, "plain"]);
    if (host === site) attacks.push([password, "hidden"], [password, "framed"]);
    for (const [action, how] of attacks) {
      const answer = person.page.waitForResponse((r) => r.request().method() === "POST");
      await person.page.goto(`http://${host}:${port}/?action=${action}&how=${how}`);
      want(`the answer to a form of ${host} to ${action}, ${how}`, (await answer).status(), 403);
    }
    await person.page.goto(`http://${host}:${port}/frame`);
    const [, frame] = person.page.frames();
    want("what a frame shows", (await frame.evaluate(() => location.href)).split(":")[0], "chrome-error");
  }
  await person.page.goto(`${j.origin}/pforte/`);
  person.at("/pforte/");
  want("the session afterwards", (await person.cookies())["svc.sid"], session);
  attack.close();
};

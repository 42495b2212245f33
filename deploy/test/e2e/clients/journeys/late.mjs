// Somebody writes a letter in an application and sends it when their login has ended. They read that it has not arrived,
// log in, and are back at the page with the form, from which the letter arrives. So it is below a path of the portal, on
// a host of its own, and on one of which a browser says less about its requests, because it is not localhost.
import { want } from "../journey.mjs";

export default async (j) => {
  const { USERNAME: username, PASSWORD: password } = j.env;
  const german = j.lang === "de", { port } = new URL(j.origin);
  for (const start of [`${j.origin}/letters/`, `http://near.localhost:${port}/`, `http://far.test:${port}/`]) {
    const person = await j.open({ name: start }), { page } = person;
    const login = async () => {
      want("the page that asks for the login", new URL(page.url()).pathname, "/pforte/login");
      await person.fill("form", { username, password });
      await Promise.all([page.waitForNavigation(), person.click("form button:not([type=button])")]);
    };
    const write = async (status) => {
      const [answer] = await Promise.all([page.waitForResponse((r) => r.request().method() === "POST"), page.waitForNavigation(), page.click("button")]);
      want(`the status of the letter from ${start}`, answer.status(), status);
      return answer;
    };
    const here = `${start}new?to=oma&x=%2F`;
    await page.goto(here);
    await login();
    want("where the login leads", page.url(), here);
    await write(200);
    await page.goto(here);
    await page.browserContext().deleteCookie(...await page.browserContext().cookies());

    const answer = await write(401);
    want("the address of the page", page.url(), `${start}send`);
    want("whether it may be framed or kept", [answer.headers()["x-frame-options"], answer.headers()["cache-control"]].join(), "DENY,no-store");
    await person.look(401);
    await person.shows(german ? "Was du gesendet hast, ist nicht angekommen." : "What you sent has not arrived.");
    await Promise.all([page.waitForNavigation(), person.click("main a.button:not(.quiet)")]);
    await login();
    want("where the page leads", page.url(), here);
    await write(200);
  }
};

// Anna adds Radicale from its recipe. Two seconds later Paul opens it at its own host, with a certificate for that host,
// and keeps a stream open. She moves it to another address: the stream goes on at the former one, and what Paul asks
// for from then on is at the new one. She removes it: the stream ends, and there is a page that says so.
import { readFileSync } from "node:fs";
import { connect } from "node:tls";
import { phone, want } from "../journey.mjs";

const follows = 2000, recheck = 5000; // ms: how long proxies may take, and GUARD_RECHECK

export default async (j) => {
  const { USERNAME: username, PASSWORD: password, MEMBER: member, MEMBER_PASSWORD: secret, NAME: name, SLUG: slug } = j.env;
  const host = `${slug}.${new URL(j.origin).hostname}`, port = new URL(j.origin).port, address = `https://${host}:${port}`;
  const words = {
    de: { there: `${name} ist da.`, taken: "✓ Proxy hat es übernommen", certified: "✓ Zertifikat da", answers: "✓ antwortet (", removed: "Die Anwendung ist entfernt." },
    en: { there: `${name} is there.`, taken: "✓ The proxy has taken it over", certified: "✓ Certificate is there", answers: "✓ answers (", removed: "The application has been removed." },
  }[j.lang];
  const nothing = { de: "Hier ist nichts.", en: "There is nothing here." }[j.other];
  const open = async (options) => {
    const device = await j.open(options);
    // The authority is the household's own; see trusted.
    await (await device.page.createCDPSession()).send("Security.setIgnoreCertificateErrors", { ignore: true });
    return device;
  };
  // trusted reports whether who trusts the household's authority gets a certificate for the host.
  const trusted = () => new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername: host, ca: readFileSync(j.env.ROOT) }, () => { resolve(socket.authorized); socket.destroy(); });
    socket.on("error", () => resolve(false));
  });
  // within waits for what holds at most some time after a moment.
  const within = async (what, most, since, holds) => {
    while (!await holds()) {
      if (Date.now() - since() > most) throw new Error(`${what} takes longer than ${most} ms`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const anna = await open({ name: "anna" });
  let sent = Infinity; // when her last form was answered
  anna.page.on("response", (response) => { if (response.request().method() === "POST") sent = Date.now(); });
  await anna.login(username, password);
  await j.auth(["user", "add", member], `${secret}\n`);
  const paul = await open({ name: "paul", lang: j.other, view: phone, scripts: true });
  await paul.login(member, secret);
  want("whether the host has a certificate before", await trusted(), false);

  await anna.does("add an application", async () => {
    await anna.press("main a[href='/pforte/admin/apps/new']");
    await anna.send("/pforte/admin/apps/new", { recipe: "radicale", name, upstream: j.env.FIRST }, { button: "[value=add]" });
  });
  for (const text of [words.there, words.answers]) await anna.shows(text);
  await new Promise((resolve) => setTimeout(resolve, sent + follows - Date.now()));
  await paul.visit("/pforte/");
  let page;
  await paul.does("open an application", async () => {
    [page] = await Promise.all([paul.page.waitForNavigation(), paul.click(`main a[href='${address}']`)]);
  });
  want("the status of Radicale", page.status(), 200);
  want("where it is", new URL(paul.page.url()).origin, address);
  want("the names in its certificate", page.securityDetails().subjectAlternativeNames().join(), host);
  want("whether the certificate is trusted", await trusted(), true);
  const ask = (path, method = "GET") => paul.page.evaluate(async (p, m) => (await fetch(p, { method: m })).text(), path, method);
  const found = await ask("/", "PROPFIND");
  if (!found.includes(`<href>/${member}/</href>`)) throw new Error(`Radicale does not know ${member}:\n${found}`);
  await anna.until(words.taken);
  await anna.visit(`/pforte/admin/apps/${slug}`); // which is not loaded again for the certificate alone
  await anna.shows(words.certified);

  await paul.page.evaluate(async () => {
    window.stream = { text: "", ended: false };
    const reader = (await fetch("/live")).body.pipeThrough(new TextDecoderStream()).getReader();
    const read = ({ done, value = "" }) => {
      window.stream.text += value;
      window.stream.ended ||= done;
      return done || reader.read().then(read);
    };
    reader.read().then(read).catch(() => { window.stream.ended = true; });
  });
  // streamed takes what the stream has brought since the last time.
  const streamed = () => paul.page.evaluate(() => { const { text, ended } = window.stream; window.stream.text = ""; return { text, ended }; });
  const moved = within("the move", follows, () => sent, async () => await ask("/at") === "second\n");
  sent = Infinity;
  await Promise.all([moved, anna.send("form#route", { upstream: j.env.SECOND }, { button: "[value=route]" })]);
  await anna.shows(words.answers);
  await anna.until(words.taken);
  await streamed();
  await new Promise((resolve) => setTimeout(resolve, recheck + 1000)); // the guard has been asked again
  const { text, ended } = await streamed();
  want("whether the stream has ended with the move", ended, false);
  want("where the stream comes from after the move", [...new Set(text.trim().split("\n"))].join(), "first");
  if (!(await ask("/", "PROPFIND")).includes(`<href>/${member}/</href>`)) throw new Error("Radicale is not at its new address");

  await anna.press("details:has([value=remove]) > summary", null);
  sent = Infinity;
  const over = Promise.all([
    within("the end of the stream", recheck + follows, () => sent, async () => (await streamed()).ended),
    within("the end of the certificate", follows, () => sent, async () => !await trusted()),
  ]);
  await Promise.all([over, anna.press("form:has([value=remove]) [value=remove]")]);
  await anna.shows(words.removed);
  paul.faults.length = 0; // of pages that are not ours, and the stream that ended
  await paul.visit(address, 404); // on the connection that is open
  await paul.shows(nothing);
  await paul.visit("/pforte/");
  await paul.hides(name);
};

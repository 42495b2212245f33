// The page: takes files and pasted texts, has them checked in a worker, and shows the
// report. Texts from outside become text nodes and nothing else.
(() => {
  const maxBytes = 16 * 2 ** 20, maxTexts = 32, patience = 60_000;
  const byId = (id) => document.getElementById(id);
  const narrow = matchMedia("(max-width: 46rem)");

  // example is a receipt with all that belongs to it. Checking it once while the page loads
  // also has the browser compile what a check needs.
  const example = JSON.parse(byId("example").textContent);
  // exampleKeys are the ids of its keys, which anybody can sign with.
  const exampleKeys = example.flatMap(({ name, text }) => (name === "receipt-signing-key.json" ? JSON.parse(text).keys : [])).map(({ keyId }) => keyId);

  let words = (navigator.languages || []).map((l) => l.slice(0, 2)).find((l) => l === "de" || l === "en") === "de" ? german : english;
  // site is what the server that serves the page publishes; null in the file.
  let site = null;
  // given are the texts: {name, text, from}, where from is "file", "paste" or "site".
  let given = [], report = null, took = 0, fault = "";

  // element makes an element with a class, attributes and children.
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick") made.addEventListener("click", value);
      else if (value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child instanceof Node || typeof child === "string" && child !== ""));
    return made;
  };
  const short = (text) => (text && text.length > 16 ? `${text.slice(0, text.startsWith("sha256:") ? 11 : 6)}…${text.slice(-4)}` : text || "");
  const number = (text) => { try { return new Intl.NumberFormat(words.lang).format(BigInt(text)); } catch { return text; } };
  // moment returns text where a date is beyond what JavaScript counts to.
  const moment = (date, text) => (Number.isNaN(date.valueOf()) ? text : new Intl.DateTimeFormat(words.lang, { dateStyle: "long", timeStyle: "long", timeZone: "UTC" }).format(date));
  // printable takes out what turns a sentence around or hides a part of it, such as marks
  // of another direction of writing.
  const printable = (text) => text.replace(/[^\P{C}\n\t]|[\p{Zl}\p{Zp}]/gu, "\ufffd");
  const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  // ---- the worker

  const policy = window.trustedTypes ? trustedTypes.createPolicy("checker", { createScriptURL: (url) => url }) : { createScriptURL: (url) => url };
  let worker = null, waiting = null, calls = 0;

  const start = () => {
    const code = URL.createObjectURL(new Blob([byId("worker").textContent], { type: "text/javascript" }));
    worker = new Worker(policy.createScriptURL(code));
    const ended = (why) => { stop(); fault = waiting ? words.crashed(why) : words.broken(why); waiting = null; show(); };
    worker.onerror = (event) => ended(event.message || "worker");
    worker.onmessage = ({ data }) => {
      if (data.ready) { document.documentElement.dataset.ready = ""; show(); }
      else if (data.error !== undefined) ended(data.error);
      else if (waiting && data.id === waiting.id) {
        clearTimeout(waiting.timer);
        waiting = null;
        const found = JSON.parse(data.report, (_, value) => (typeof value === "string" ? printable(value) : value));
        if (found.error) fault = words.crashed(found.error);
        else [report, took, fault] = [found, data.took, ""];
        show();
      }
    };
    worker.postMessage({ program: byId("program").textContent.trim(), texts: example.map(({ text }) => text) });
  };
  const stop = () => {
    if (waiting) clearTimeout(waiting.timer);
    worker?.terminate();
    worker = null;
  };

  const check = () => {
    if (waiting) { stop(); waiting = null; }
    report = null;
    if (given.length === 0) return show();
    try {
      if (!worker) start();
      const id = ++calls;
      waiting = { id, timer: setTimeout(() => { stop(); waiting = null; fault = words.slow; show(); }, patience) };
      worker.postMessage({ id, texts: given.map(({ text }) => text) });
    } catch (error) {
      waiting = null;
      fault = words.broken(String(error));
    }
    show();
  };

  // ---- what is given

  const add = (texts) => {
    fault = "";
    // What belongs to the example says nothing about another receipt.
    if (texts.some(({ from }) => from !== "example")) given = given.filter(({ from }) => from !== "example");
    if (given.length + texts.length > maxTexts) fault = words.tooMany;
    given = given.concat(texts).slice(0, maxTexts);
    const kept = fault;
    check();
    if (kept) { fault = kept; show(); }
  };
  const take = async (files) => {
    const texts = [], faults = [];
    for (const file of [...files].slice(0, maxTexts)) {
      if (file.size > maxBytes) { faults.push(words.tooLarge(printable(file.name))); continue; }
      try {
        texts.push({ name: printable(file.name), text: await file.text(), from: "file" });
      } catch { faults.push(words.unreadable(printable(file.name))); }
    }
    if (texts.length > 0) add(texts);
    if (faults.length > 0) { fault = faults.join(" "); show(); }
  };
  const paste = (text) => {
    if (text.trim() === "") return;
    if (text.length > maxBytes) { fault = words.tooLarge(words.pasted); show(); return; }
    add([{ name: "", text, from: "paste" }]);
  };
  const nameOf = ({ name, from }) => name || (from === "paste" ? words.pasted : "");
  // source is the given text of a kind that counts.
  const source = (...kinds) => given.find((_, i) => report?.texts[i]?.used && kinds.includes(report.texts[i].kind));

  // ---- what was found, as sentences

  // findings returns lists of {title, texts, error, offers} by state.
  const findings = () => {
    const r = report, found = { fails: [], proven: [], attested: [], absent: [] };
    const signed = r.signature.state === "holds";
    const put = (state, title, texts, part, offers = []) => found[state].push({ title, texts: texts.filter(Boolean), error: part?.error, offers: offers.filter(Boolean) });
    const shown = short(r.signature.keyId), key = r.signature.key;

    const s = words.signature, keys = source("keys");
    const origin = keys && (keys.from === "site" ? s.fromSite(site.name) : exampleKeys.includes(r.signature.keyId) ? s.fromExample : s.fromFile(nameOf(keys)));
    if (signed) put("proven", s.title, [s.holds(shown, words.keyStates[key.status]), r.signature.cutOff && s.cutOff(key.logged.before), origin]);
    else if (r.signature.state === "fails") {
      const why = s[r.signature.reason];
      put("fails", s.title, [typeof why === "function" ? why(shown) : why || s.other, r.signature.reason === "revokedKey" && key?.logged && r.log.state !== "holds" && s.revokedUnless(key.logged.before), origin], r.signature);
    } else put("absent", s.title, [s.noKey, site ? "" : s.noKeyHow]);

    const p = words.proof;
    if (r.proof.state === "holds") put("proven", p.title, [p.holds, r.receipt.transfer && p.transfer]);
    else if (r.proof.state === "fails") put("fails", p.title, [p.fails], r.proof);
    else put("attested", p.title, [p.absent]);

    const f = words.finality, final = r.finality.result, asked = r.finality.state === "unchecked";
    if (final) {
      const day = 86_400, days = Math.floor(final.ageSeconds / day), ago = Math.floor((Date.now() - Date.parse(final.checkpointTime)) / 1000 / day);
      const pinned = final.anchor === "pinned-block", network = source("network");
      put("proven", f.title, [
        f.holds(short(final.checkpoint), number(final.checkpointSlot), final.checkpointTime && moment(new Date(final.checkpointTime), final.checkpointTime)), pinned ? f.pinned : f.committee(Number(final.lastPeriod) - Number(final.firstPeriod) + 1, final.leastSigners, final.committeeSize),
        !final.numberShown ? f.unnumbered : final.link === "same" ? f.same(number(final.block.number)) : f.before(number(final.block.number), number(final.anchorBlock.number)),
        f.checkpointFrom(nameOf(source("checkpoint"))), network && f.networkFrom(nameOf(network)),
        !pinned && f.age(days < 1 ? f.lessThanADay : f.days(days)), !pinned && ago > 14 && f.old(f.days(ago)), !pinned && f.sample(final.network === "mainnet"),
      ]);
    } else if (r.finality.state === "fails") put("fails", f.title, [f[r.finality.reason] || f.other], r.finality, [r.finality.reason === "otherCheckpoint" && askFinality()]);
    else {
      const offered = site?.finality?.includes(r.receipt.chain.name), field = { field: f.checkpointLabel, hint: f.checkpointHint, text: f.checkpointAdd };
      put("attested", f.title, [r.finality.provable || offered || asked ? f.l1 : f.l2(r.receipt.chain.name), asked && f[r.finality.reason]], null,
        asked ? [r.finality.reason === "noCheckpoint" && field] : [offered && !source("checkpoint") ? field : askFinality()]);
    }
    const others = r.attested.map(({ field }) => words.otherNames[field]).filter(Boolean);
    if (others.length > 0 && r.proof.state === "holds") put("attested", words.others.title, [words.others.text(upper(new Intl.ListFormat(words.lang).format(others)))]);

    const l = words.log;
    if (r.log.state === "holds") {
      put("proven", l.title, [l.holds(number(r.log.index), r.log.origin, number(r.log.size)), !r.log.unwitnessed && l.kept, r.log.ownPolicy ? l.own(nameOf(source("logs"))) : l.policyFrom(nameOf(source("policy"))), l.says]);
      if (r.log.unwitnessed) put("attested", words.witnesses.title, [words.witnesses.none]);
      else put("proven", words.witnesses.title, [words.witnesses.holds(r.log.witnesses, r.log.of, moment(new Date(r.log.earliest), r.log.earliest))]);
    } else if (r.log.state === "fails") put("fails", r.log.reason === "quorum" ? words.witnesses.title : l.title, [l[r.log.reason] || l.other], r.log);
    else if (r.log.state === "unchecked") put("absent", l.title, [l.noPolicy, site?.policy ? "" : l.noPolicyHow], null, [site?.policy && { text: words.usePolicy(site.name), hint: words.usePolicyHint, action: takePolicy }]);
    else put("absent", l.title, [l.absent], null, [site?.log && { text: l.ask, hint: words.getHint(site.name), href: `${site.log}/proof/${r.log.leaf}`, save: "answer.tlog-proof" }]);
    return found;
  };

  // askFinality offers the site's proof from the given checkpoint.
  const askFinality = () => {
    const { chain, block } = report.receipt, root = report.finality.checkpoint;
    if (!site?.finality?.includes(chain.name)) return null;
    const from = root ? `?checkpoint=${root}` : "";
    return { text: words.finality.ask, hint: words.getHint(site.name), href: `/v1/finality/${chain.name}/${block.hash}${from}`, save: "answer.finality.json" };
  };
  const takeKeys = () => add([{ name: words.siteKeys(site.name), text: JSON.stringify(site.keys), from: "site" }]);
  const takePolicy = () => add([{ name: words.sitePolicy(site.name), text: site.policy, from: "site" }]);

  // chain returns the rows of the picture.
  const chain = () => {
    const r = report, signed = r.signature.state === "holds";
    const word = signed ? "attested" : "absent";
    const proof = { holds: "proven", fails: "fails" }[r.proof.state] || word;
    const quorum = r.log.state === "fails" && r.log.reason === "quorum";
    const logged = { holds: "proven", fails: quorum ? "absent" : "fails" }[r.log.state] || "absent";
    const final = { holds: "proven", fails: "fails" }[r.finality.state] || word;
    const seen = r.log.state === "holds" ? (r.log.unwitnessed ? "attested" : "proven") : quorum ? "fails" : "absent";
    const n = words.nodes, status = r.receipt.outcome.status || "none";
    return [
      {
        title: words.rows.chain, links: [proof, proof, final],
        nodes: [[n.transaction, short(r.receipt.transaction.hash)], [n.outcome, words.outcome[status]], [n.block, number(r.receipt.block.number)], [n.final, r.receipt.chain.id.length > 18 ? `${r.receipt.chain.id.slice(0, 17)}…` : r.receipt.chain.id]],
      },
      {
        title: words.rows.word, links: [{ holds: "proven", fails: "fails" }[r.signature.state] || "absent", logged, seen],
        nodes: [
          [n.key, short(r.signature.keyId)], [n.receipt, r.log.state === "holds" ? words.entry(number(r.log.index)) : words.receiptKind[r.receipt.transfer ? "transfer" : "transaction"]],
          [n.log, r.log.origin ? r.log.origin.split("/")[0].slice(0, 20) : "–"], [n.witnesses, r.log.state !== "holds" ? "–" : r.log.unwitnessed ? words.noWitness : words.ofWitnesses(r.log.witnesses, r.log.of)],
        ],
      },
    ];
  };

  // ---- the page

  const icon = (state) => {
    const [shape, attributes] = marks[state];
    return svgElement("svg", { viewBox: "-14 -14 28 28", class: `mark ${state}`, "aria-hidden": "true" }, svgElement("circle", { r: 13 }), svgElement(shape, attributes));
  };
  const definition = (term, value, plain) => element("div", {}, element("dt", {}, term), element("dd", plain ? {} : { class: "code" }, value));

  const verdictCard = () => {
    const [title, sentence] = words.verdicts[report.verdict];
    const state = { valid: "proven", notValid: "fails" }[report.verdict] || "absent";
    const keys = site && report.verdict === "undecided" && { text: words.useSite(site.name), hint: words.useSiteHint(site.name), action: takeKeys, strong: true };
    return element("section", { class: `verdict ${report.verdict}`, id: "verdict" }, icon(state), element("div", {},
      element("h2", { tabindex: "-1" }, title), element("p", {}, sentence),
      report.verdict === "valid" && exampleKeys.includes(report.signature.keyId) && element("p", { class: "warning" }, words.signature.fromExample), keys && offer(keys),
      element("p", { class: "soft" }, words.checked(new Intl.NumberFormat(words.lang, { maximumFractionDigits: took < 10 ? 1 : 0 }).format(took)))));
  };

  const claimCard = () => {
    const { receipt } = report, { transfer, block, chain: named, transaction } = receipt, f = words.fields;
    const name = `${named.name} (${named.id})`, status = receipt.outcome.status || "none";
    const sentence = words.claim[status](number(block.number), name);
    const list = transfer
      ? [definition(f.amount, number(transfer.amount)), transfer.token && definition(f.token, transfer.token), definition(f.from, transfer.from), definition(f.to, transfer.to)]
      : [definition(f.caller, transaction.from), transaction.to && definition(f.called, transaction.to), transaction.contractAddress && definition(f.created, transaction.contractAddress)];
    list.push(definition(f.transaction, transaction.hash), definition(f.chain, name, true), definition(f.block, number(block.number), true), definition(f.time, moment(new Date(Number(block.timestamp) * 1000), block.timestamp), true));
    return element("section", { class: "card" }, element("h2", {}, report.verdict === "valid" ? words.claimTitle : words.claimedTitle),
      element("p", { class: "claim" }, transfer ? words.claim[transfer.token ? "transfer" : "native"](number(transfer.amount)) : sentence), transfer && element("p", {}, sentence),
      element("dl", {}, ...list.filter(Boolean)),
      transfer?.token && element("p", { class: "soft" }, words.tokenNote), transfer && transfer.toOut !== "0" && transfer.toIn === transfer.toOut && element("p", { class: "warning" }, words.passedOn));
  };

  const chainCard = () => {
    const card = element("section", { class: "card", "aria-labelledby": "chain-heading" }, element("h2", { id: "chain-heading" }, words.chainTitle));
    card.append(drawChain(chain(), words, narrow.matches));
    return card;
  };

  const offer = ({ text, hint, action, href, save, strong, field }) => field ? typed(field, hint, text) : element("div", { class: "offer" },
    href ? element("a", { class: "button quiet", href, download: save }, text) : element("button", { type: "button", class: strong ? "button" : "button quiet", onclick: action }, text),
    element("p", { class: "soft" }, hint));

  // typed is a field for the checkpoint, which is given like any other text.
  const typed = (label, hint, text) => {
    const input = element("input", { type: "text", id: "checkpoint", name: "checkpoint", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": "checkpoint-hint" });
    const give = () => paste(input.value);
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") give(); });
    return element("div", { class: "offer field" }, element("label", { for: "checkpoint" }, label), input, element("p", { class: "soft", id: "checkpoint-hint" }, hint),
      element("div", { class: "actions" }, element("button", { type: "button", class: "button quiet", id: "take-checkpoint", onclick: give }, text)));
  };

  const group = (state, list) => {
    const name = state === "attested" && report.signature.state !== "holds" ? "claimed" : state;
    return element("section", { class: `card group ${state}` }, element("h2", {}, words.groups[name]), element("p", { class: "soft" }, words.groupWhat[name === "claimed" && report.signature.state === "fails" ? "void" : name]),
      element("ul", { class: "findings" }, ...list.map(({ title, texts, error, offers }) => element("li", {}, icon(state), element("div", {},
        element("h3", {}, title), ...texts.map((text) => element("p", {}, text)),
        error && element("details", {}, element("summary", {}, words.technical), element("p", { class: "code", lang: "en" }, error)), ...offers.map(offer))))));
  };

  const facts = (title, list) => element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, element("table", {}, element("caption", {}, title),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, words.fact), element("th", { scope: "col" }, words.value))),
    element("tbody", {}, ...list.map(({ field, value }) => element("tr", {}, element("th", { scope: "row", lang: "en" }, field), element("td", { class: "code" }, value))))));

  const detailsCard = () => {
    const card = element("details", { class: "card all" }, element("summary", {}, words.detailsTitle));
    if (report.proven.length > 0) card.append(facts(words.provenFacts, report.proven));
    card.append(facts(report.signature.state === "holds" ? words.attestedFacts : words.groups.claimed, report.attested));
    if (report.transfers.length > 0) card.append(facts(words.transfersTitle, report.transfers.map(({ token, from, to, value }) => ({ field: token, value: `${from} → ${to}: ${number(value)}` }))));
    return card;
  };

  const shownBefore = { verdict: null };
  // show draws the page. What cannot be drawn must not leave the answer about other texts.
  const show = () => {
    try {
      draw();
    } catch (error) {
      report = null;
      fault = words.crashed(String(error));
      draw();
    }
  };
  const draw = () => {
    document.documentElement.lang = words.lang;
    document.title = report && report.receipt ? `${words.verdicts[report.verdict][0]} – ${words.title} – Pforte` : `${words.title} – Pforte`;
    for (const e of document.querySelectorAll("[data-t]")) e.textContent = words[e.dataset.t];
    byId("language").textContent = words.other;
    byId("language").lang = words === german ? "en" : "de";
    byId("language").title = words.otherHint;
    byId("aboutList").replaceChildren(...words.about.map((text) => element("li", {}, text)));
    byId("foot").textContent = words.foot;
    byId("given").hidden = given.length === 0;
    byId("given").replaceChildren(...given.map((text, i) => {
      const what = report?.texts[i], name = nameOf(text);
      const state = !what ? "" : what.kind === "unknown" ? words.unknownText : what.error ? words.unread : what.used ? "" : words.replaced;
      return element("li", { class: what && (what.kind === "unknown" || what.error) ? "bad" : undefined },
        element("strong", {}, what ? upper(words.kinds[what.kind]) : "…"), element("span", { class: "name" }, name), state && element("span", { class: "why" }, state),
        what?.error && element("span", { class: "soft code", lang: "en" }, what.error),
        element("button", { type: "button", class: "remove", "aria-label": words.remove(name), onclick: () => { given.splice(i, 1); check(); byId("files").focus(); } }, "×"));
    }));
    byId("fault").hidden = fault === "";
    byId("fault").textContent = fault;
    byId("result").setAttribute("aria-busy", String(waiting !== null));
    if (waiting && !report) { byId("said").textContent = document.documentElement.dataset.ready === undefined ? words.loading : words.checking; return; }
    byId("result").hidden = !report;
    document.body.classList.toggle("done", Boolean(report?.receipt));
    if (!report) { byId("result").replaceChildren(); byId("said").textContent = ""; return; }
    const found = report.receipt ? findings() : {};
    byId("result").replaceChildren(verdictCard(), ...(report.receipt ? [
      claimCard(), chainCard(), ...["fails", "proven", "attested", "absent"].filter((state) => found[state].length > 0).map((state) => group(state, found[state])), detailsCard(),
    ] : []));
    byId("said").textContent = words.verdicts[report.verdict].join(". ");
    // The answer comes into view once; what is added later does not move the page.
    if (report.receipt && shownBefore.verdict !== report.verdict) byId("verdict").scrollIntoView({ block: "nearest" });
    shownBefore.verdict = report.verdict;
  };

  // ---- events

  byId("files").addEventListener("change", ({ target }) => { take(target.files).then(() => { target.value = ""; }); });
  byId("show-example").addEventListener("click", () => {
    given = [];
    add(example.map(({ name, text }) => ({ name: `${words.example}: ${name}`, text, from: "example" })));
  });
  byId("add").addEventListener("click", () => { paste(byId("text").value); byId("text").value = ""; });
  byId("language").addEventListener("click", () => { words = words === german ? english : german; show(); });
  document.addEventListener("paste", (event) => {
    if (event.target.closest?.("textarea, input")) return;
    const { files } = event.clipboardData;
    if (files.length > 0) take(files);
    else paste(event.clipboardData.getData("text/plain"));
  });
  for (const name of ["dragenter", "dragover"]) {
    addEventListener(name, (event) => { event.preventDefault(); byId("drop").classList.add("over"); });
  }
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) byId("drop").classList.remove("over"); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    byId("drop").classList.remove("over");
    if (event.dataTransfer.files.length > 0) take(event.dataTransfer.files);
    else paste(event.dataTransfer.getData("text/plain"));
  });
  narrow.addEventListener("change", show);

  show();
  addEventListener("DOMContentLoaded", () => {
    try { site = JSON.parse(byId("site").textContent); } catch { site = null; }
    start();
  });
})();

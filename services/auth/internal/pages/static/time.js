// Shows times in the reader's time zone, in the words of the server, where it is another than
// the server's.
"use strict";

(() => {
  const language = document.documentElement.lang === "en" ? "en-GB" : "de-DE";
  const two = (n) => String(n).padStart(2, "0");
  const date = (t) => `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
  const clock = (t) => `${two(t.getHours())}:${two(t.getMinutes())}`;
  const words = new Intl.RelativeTimeFormat(language, { numeric: "auto" }), whole = new Intl.DateTimeFormat(language, { dateStyle: "long" });

  for (const element of document.querySelectorAll("time")) {
    const at = new Date(element.dateTime), now = new Date();
    if (element.dateTime.startsWith(`${date(at)}T${clock(at)}`)) continue;
    const days = Math.round((new Date(date(at)) - new Date(date(now))) / 864e5);
    element.textContent = `${Math.abs(days) <= 1 ? words.format(days, "day") : whole.format(at)}, ${clock(at)}`;
  }
})();

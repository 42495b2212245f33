// Tells on the page of an invite when it is accepted. The page has
//
//   <p data-state="URL" role="status">…</p>
//
// The URL is asked every three seconds while the page is seen, until the invite is accepted or gone.
"use strict";

(() => {
  const line = document.querySelector("[data-state]");
  if (!line) return;
  const timer = setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(line.dataset.state, { redirect: "manual" }).catch(() => null);
    if (!answer) return; // offline
    if (!answer.ok) return clearInterval(timer); // gone, or logged out
    const { joined, text } = await answer.json();
    if (!joined) return;
    line.textContent = text;
    line.className = "state joined";
    clearInterval(timer);
  }, 3000);
})();

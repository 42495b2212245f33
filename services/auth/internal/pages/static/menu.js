// Closes the menu of the header when something else is pressed, and brings the current page of a row of links into view.
"use strict";

(() => {
  const menu = document.querySelector(".menu");
  document.addEventListener("pointerdown", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.querySelector(".side [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
})();

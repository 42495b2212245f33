// The form of an application: a recipe fills in its fields, the address follows the name, and the proxies try the
// internal address when it is left.
"use strict";

(() => {
  const form = document.querySelector("form[data-app]");
  const field = (name) => form.elements[name];
  const told = document.getElementById("trial");

  const label = (text) => text.toLowerCase().replace(/ä/g, "ae").replace(/ö/g, "oe").replace(/ü/g, "ue").replace(/ß/g, "ss")
    .normalize("NFD").replace(/[^a-z0-9]+/g, "-").slice(0, 28).replace(/^-+|-+$/g, "");
  const show = () => {
    for (const e of form.querySelectorAll("[data-label]")) e.textContent = field("url").value.replace(/^\/+|\/+$/g, "") || "…";
  };
  const place = (name) => {
    if (!field("url").dataset.typed) field("url").value = label(name);
    show();
  };

  async function probe() {
    const upstream = field("upstream").value.trim();
    if (!upstream) return;
    const body = new URLSearchParams({ csrf: field("csrf").value, upstream });
    try {
      const answer = await fetch(form.dataset.app, { method: "POST", body });
      const found = await answer.json();
      if (field("upstream").value.trim() !== upstream) return;
      told.textContent = (found.good ? "✓ " : "") + found.text;
      told.className = found.good ? "yes" : "no";
    } catch { /* the server tries it with the form */ }
  }
  field("upstream").addEventListener("change", probe);

  const recipe = field("recipe");
  if (!recipe || recipe.type === "hidden") return;
  if (field("url").value) field("url").dataset.typed = "1";
  field("name").addEventListener("input", () => place(field("name").value));
  field("url").addEventListener("input", () => { field("url").dataset.typed = field("url").value; show(); });
  recipe.addEventListener("change", () => {
    const chosen = recipe.selectedOptions[0].dataset;
    field("filled").value = recipe.value;
    if (!recipe.value) return;
    field("name").value = chosen.name;
    place(chosen.name);
    field("upstream").value = chosen.upstream;
    field("user_header").value = chosen.header;
    field("tokens").checked = chosen.tokens === "true";
    for (const e of form.querySelectorAll("p[data-guide]")) {
      e.hidden = false;
      e.firstElementChild.href = chosen.guide;
    }
    probe();
  });
  show();
})();

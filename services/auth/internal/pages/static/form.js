// Forms and secrets. A form is sent once: its buttons are off until the answer is there, and after
// the browser's Back it has a new id. A page offers
//
//   <button type="button" hidden data-copy="ID" data-done="TEXT">     copies the text of an element
//   <button type="button" hidden data-share="ID" data-title="TEXT">   hands it to the device's apps
//   <button type="button" hidden data-print>                          prints the page
//   <button type="button" hidden data-reveal="ID">                    shows the password of a field
//
// which are shown where the browser can. A box <input type="checkbox" data-keep="NAME"> is as it was left in this
// browser. Of a picture in <input type="file" data-shrink="SIDE"> a smaller copy is sent,
// since photos are larger than what is accepted.
"use strict";

(() => {
  const buttons = (form) => [...form.elements].filter((e) => e.matches("button:not([type=button])"));

  document.addEventListener("submit", (event) => {
    const form = event.target;
    // After the browser has read which button it was.
    setTimeout(() => { if (!event.defaultPrevented) for (const b of buttons(form)) b.disabled = true; });
  });

  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    const id = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))
      .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
    for (const input of document.querySelectorAll("input[name=form]")) input.value = id;
    for (const form of document.forms) for (const b of buttons(form)) b.disabled = false;
  });

  const textOf = (id) => {
    const e = document.getElementById(id);
    return "value" in e ? e.value : e.innerText.trim();
  };

  // Only pages of https or localhost have the clipboard; elsewhere a selection is copied.
  async function copy(text) {
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    if (!copied) throw new Error("copy");
  }

  for (const b of document.querySelectorAll("button[data-copy]")) {
    b.hidden = false;
    b.addEventListener("click", async () => {
      await copy(textOf(b.dataset.copy));
      b.textContent = b.dataset.done;
    });
  }
  for (const b of document.querySelectorAll("button[data-share]")) {
    if (!navigator.share) continue;
    b.hidden = false;
    b.addEventListener("click", () => {
      navigator.share({ title: b.dataset.title, text: textOf(b.dataset.share) }).catch(() => {});
    });
  }
  for (const b of document.querySelectorAll("button[data-reveal]")) {
    const input = document.getElementById(b.dataset.reveal);
    const show = (shown) => {
      input.type = shown ? "text" : "password";
      b.setAttribute("aria-pressed", shown);
    };
    b.hidden = false;
    b.addEventListener("click", () => show(input.type === "password"));
    input.form.addEventListener("submit", () => show(false)); // so that browsers offer to keep it
  }
  for (const box of document.querySelectorAll("input[data-keep]")) {
    try {
      box.checked ||= localStorage.getItem(box.dataset.keep) === "yes";
      box.addEventListener("change", () => localStorage.setItem(box.dataset.keep, box.checked ? "yes" : ""));
    } catch { /* the browser keeps nothing */ }
  }
  for (const input of document.querySelectorAll("input[data-shrink]")) {
    input.addEventListener("change", async () => {
      try {
        const file = input.files[0];
        const picture = await createImageBitmap(file);
        const scale = Math.min(1, Number(input.dataset.shrink) / Math.min(picture.width, picture.height));
        // A WebP above 256 KB is refused where it is lossless.
        if (scale === 1 && !(file.type === "image/webp" && file.size > 256 << 10)) return;
        const canvas = document.createElement("canvas");
        canvas.width = picture.width * scale;
        canvas.height = picture.height * scale;
        const context = canvas.getContext("2d");
        context.fillStyle = "#fff"; // JPEG is without transparency, and the only small format of every browser
        context.fillRect(0, 0, canvas.width, canvas.height);
        context.drawImage(picture, 0, 0, canvas.width, canvas.height);
        const blob = await new Promise((done) => { canvas.toBlob(done, "image/jpeg", .9); });
        const files = new DataTransfer();
        files.items.add(new File([blob], "picture", { type: blob.type }));
        input.files = files.files;
      } catch {
        // The file is sent as it is.
      }
    });
  }
  for (const b of document.querySelectorAll("button[data-print]")) {
    b.hidden = false;
    b.addEventListener("click", () => print());
  }
})();

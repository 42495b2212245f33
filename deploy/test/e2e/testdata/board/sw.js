// Pages come from the network first, so that the login is not covered by a stored page; what
// was loaded once is shown without a network.
self.addEventListener("install", (event) => event.waitUntil(caches.open("board").then((cache) => cache.add("/")).then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || new URL(event.request.url).pathname.startsWith("/pforte")) return;
  event.respondWith(fetch(event.request).catch(() => caches.match(event.request)));
});

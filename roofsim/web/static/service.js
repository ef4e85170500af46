// Keep the page, so that it works without a network after the first visit. `BUNDLE` is written before this when the page is built:
// {version, files: [{url, integrity?, optional?}]}. Another version is another cache, used once no page of the old one is open.

/* global BUNDLE */
const CACHE = `roofsim-${BUNDLE.version}`;
const KEPT = new Map(BUNDLE.files.map((file) => [new URL(file.url, self.location).href, file]));

self.addEventListener("install", (event) => {
  event.waitUntil(
    (async () => {
      const cache = await caches.open(CACHE);
      await Promise.all(
        [...KEPT].map(async ([url, file]) => {
          try {
            await keep(cache, url, file);
          } catch (error) {
            if (!file.optional) throw error;
          }
        }),
      );
    })(),
  );
});

async function keep(cache, url, { integrity }) {
  const known = integrity ? await held(url) : undefined; // pinned files of an older version are the same files
  if (known) return cache.put(url, known);
  const response = await fetch(url, integrity ? { integrity, mode: "cors" } : { cache: "no-cache" });
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return cache.put(url, response);
}

async function held(url) {
  for (const name of await caches.keys()) {
    if (!name.startsWith("roofsim-")) continue;
    const found = await (await caches.open(name)).match(url);
    if (found) return found;
  }
  return undefined;
}

self.addEventListener("activate", (event) => {
  event.waitUntil(
    (async () => {
      const names = await caches.keys();
      await Promise.all(names.filter((name) => name.startsWith("roofsim-") && name !== CACHE).map((name) => caches.delete(name)));
      await self.clients.claim();
    })(),
  );
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  url.hash = "";
  url.search = "";
  if (url.href === new URL("index.html", self.location).href) url.pathname = url.pathname.replace(/index\.html$/, "");
  if (event.request.method !== "GET" || !KEPT.has(url.href)) return;
  event.respondWith(
    (async () => {
      const found = await (await caches.open(CACHE)).match(url.href);
      return found || fetch(event.request);
    })(),
  );
});

// Run service.js under Node as a browser runs it, with a network and a cache that are tables: `node node_service.mjs SERVICE`.
//
// On standard input {network: {url: text}, kept: {cache: {url: text}}, events: ["install", "activate", ["fetch", method, url]]}; on
// standard output {kept, fetched, said: [what each event came to]}.

import fs from "node:fs";
import vm from "node:vm";

const { network, kept, events } = JSON.parse(fs.readFileSync(0, "utf-8"));
const held = new Map(Object.entries(kept).map(([name, files]) => [name, new Map(Object.entries(files))]));
const fetched = [], listeners = {};

const response = (text, status = 200) => ({ ok: status < 400, status, text });
const cacheOf = (files) => ({
  match: async (url) => (files.has(url) ? response(files.get(url)) : undefined),
  put: async (url, { text }) => void files.set(url, text),
});
const self = {
  location: new URL("https://host.example/app/service.js"),
  clients: { claim: async () => {} },
  addEventListener: (name, listener) => (listeners[name] = listener),
};
const world = {
  self,
  URL,
  Map,
  Promise,
  Error,
  caches: {
    keys: async () => [...held.keys()],
    open: async (name) => {
      if (!held.has(name)) held.set(name, new Map());
      return cacheOf(held.get(name));
    },
    delete: async (name) => held.delete(name),
  },
  fetch: async (asked, init = {}) => {
    const url = typeof asked === "string" ? asked : asked.url;
    fetched.push([url, init.integrity || ""]);
    if (network === null) throw new TypeError("no network here");
    return url in network ? response(network[url]) : response("", 404);
  },
};
vm.runInNewContext(fs.readFileSync(process.argv[2], "utf-8"), world);

async function happened(event) {
  const [name, method, url] = [event].flat();
  let awaited, answered;
  listeners[name]({
    request: { method, url },
    waitUntil: (promise) => (awaited = promise),
    respondWith: (promise) => (answered = promise),
  });
  try {
    await awaited;
    return name === "fetch" ? answered && (await answered).text : "done";
  } catch (error) {
    return `failed: ${error.message}`;
  }
}

const said = [];
for (const event of events) said.push((await happened(event)) ?? null);
console.log(JSON.stringify({ kept: Object.fromEntries([...held].map(([name, files]) => [name, Object.fromEntries(files)])), fetched, said }));

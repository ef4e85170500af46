// Run worker.js under Node as a browser runs it, ask it questions that stand on standard input, and print what it posts, line by line.
//
// node node_worker.mjs SITE LOADER: SITE is a folder that `python -m roofsim.web.bundle` wrote, LOADER what exports `loadPyodide`.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const site = path.resolve(process.argv[2]);
const base = pathToFileURL(`${site}/`).href;
const asked = JSON.parse(fs.readFileSync(0, "utf-8"));
const fetched = [];

const web = globalThis.fetch;
globalThis.self = globalThis;
globalThis.fetch = async (input, init) => {
  const url = new URL(input.url || input, base);
  fetched.push(url.href);
  if (url.protocol !== "file:") {
    if (asked.offline) throw new TypeError("no network here");
    return web(url, init);
  }
  return fs.existsSync(url) ? new Response(fs.readFileSync(url)) : new Response("", { status: 404 });
};

const manifest = JSON.parse(fs.readFileSync(path.join(site, "bundle.json"), "utf-8"));
manifest.pyodide.mjs.url = pathToFileURL(path.resolve(process.argv[3])).href; // a loader that takes addresses, or a stand-in
globalThis.indexOfSite = path.join(site, manifest.pyodide.index, "/");

let left = asked.questions.length;
globalThis.postMessage = (message) => {
  if (message.ready) message.began = (performance.now() - begun) / 1000;
  if (message.id) {
    message.since = (performance.now() - begun) / 1000;
    const { user, system } = process.cpuUsage();
    message.cpu = (user + system) / 1e6;
  }
  console.log(`POSTED ${JSON.stringify(message)}`);
  if (message.failed || (message.id && --left === 0)) {
    console.log(`POSTED ${JSON.stringify({ fetched })}`);
    process.stdout.write("", () => process.exit(message.failed ? 1 : 0)); // once all is written
  }
};
const begun = performance.now();
await import(pathToFileURL(path.join(site, "static", "worker.js")).href);
globalThis.onmessage({ data: { start: manifest, base } });
asked.questions.forEach(([verb, request], place) =>
  globalThis.onmessage({ data: { id: place + 1, verb, request: JSON.stringify(request) } }),
);

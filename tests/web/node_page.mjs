// Run pyodide.js under Node as a page runs it, with workers that a script plays, and say what it did: `node node_page.mjs SITE`.
//
// On standard input a list of steps: ["ask", name, verb, request], ["leave", name], ["say", message] (of the newest worker),
// ["wait", milliseconds], ["break", text]. On standard output {workers: [what each was sent, and whether it was ended], answers, states}.

import fs from "node:fs";
import path from "node:path";
import { mock } from "node:test";
import { pathToFileURL } from "node:url";

const site = path.resolve(process.argv[2]);
const steps = JSON.parse(fs.readFileSync(0, "utf-8"));
const workers = [], answers = {}, states = [], left = {};

globalThis.window = { isSecureContext: false };
globalThis.navigator ??= {};
globalThis.fetch = async (url) => {
  const held = new URL(url);
  return fs.existsSync(held) ? new Response(fs.readFileSync(held)) : new Response("", { status: 404 });
};
globalThis.Worker = class {
  constructor() {
    this.sent = [];
    this.ended = false;
    workers.push(this);
  }
  postMessage(message) {
    this.sent.push(message);
  }
  terminate() {
    this.ended = true;
  }
};
mock.timers.enable({ apis: ["setTimeout"] });
const settle = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
};

const { ask, state } = await import(pathToFileURL(`${site}/static/pyodide.js`).href);
state((text) => states.push(text));
const does = {
  ask(name, verb, request) {
    left[name] = new AbortController();
    ask(verb, request, { signal: left[name].signal }).then(
      (answer) => (answers[name] = answer),
      (error) => (answers[name] = error.name),
    );
  },
  leave: (name) => left[name].abort(),
  say: (message) => workers.at(-1).onmessage({ data: message }),
  break: (text) => workers.at(-1).onerror({ message: text }),
  wait: (milliseconds) => mock.timers.tick(milliseconds),
};
for (const [step, ...words] of steps) {
  does[step](...words);
  await settle();
}
const told = workers.map(({ sent, ended }) => ({
  ended,
  kept: sent.filter((one) => one.start).map((one) => Boolean(one.start.snapshot)),
  first: sent.length ? Object.keys(sent[0])[0] : null,
  asked: sent.filter((one) => one.id).map((one) => [one.id, one.verb]),
}));
console.log(JSON.stringify({ workers: told, answers, states }));
process.exit(0);

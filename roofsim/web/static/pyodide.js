// Ask the Python that runs in this browser, in a worker: nothing leaves the machine.

/** Seconds that a question nobody waits for may keep others waiting, before Python is started anew. */
const PATIENCE = 4000;

const base = new URL("../", import.meta.url);
const manifest = fetch(new URL("bundle.json", base)).then((response) => {
  if (!response.ok) throw new Error(`bundle.json cannot be fetched (${response.status})`);
  return response.json();
});
manifest.catch(() => {});

let worker = null;
let told = () => {};
let number = 0;
/** What is asked, in order: {id, verb, request, resolve, gone}. */
let asked = [];
let overdue = 0;
/** Whether Python is started from nothing: what was kept of one that had answered does not run in this browser. */
let bare = false;
/** Seconds of each part of the start, for who wants to know. */
export let parts = null;

function failed(message) {
  return { ok: false, error: { message, server: true } };
}

function settle(id, answer) {
  const place = asked.findIndex((one) => one.id === id);
  if (place < 0) return;
  const [one] = asked.splice(place, 1);
  if (!one.gone) one.resolve(answer);
  next();
}

function heard({ data }) {
  if (data.state) told(data.state);
  else if (data.ready) {
    parts = data.ready;
    told("");
  } else if (data.bare) again(data.bare);
  else if (data.failed) stop(`Python does not start here: ${data.failed}. Reload the page to try again.`);
  else if (data.id) {
    told("");
    settle(data.id, JSON.parse(data.answer));
  }
}

function stop(message) {
  told("");
  worker?.terminate();
  worker = null;
  for (const one of asked.splice(0)) if (!one.gone) one.resolve(failed(message));
}

/** Start Python anew, from nothing, and ask again what it had been asked; one that has broken so gets an answer that says so. */
function again(reason) {
  worker?.terminate();
  worker = null;
  const first = asked[0];
  if (first) first.sent = false;
  if (bare && first) settle(first.id, failed(`${reason}. Ask again: Python starts anew.`));
  else if (first) {
    bare = true;
    next();
  } else {
    bare = true;
    started();
  }
}

function started() {
  if (worker) return worker;
  const mine = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  worker = mine;
  mine.onmessage = (event) => { if (worker === mine) heard(event); };
  mine.onerror = (event) => { if (worker === mine) stop(`Python stopped: ${event.message || "its worker cannot be loaded"}. Reload the page to try again.`); };
  manifest.then(
    (read) => mine.postMessage({ start: bare ? { ...read, snapshot: null } : read, base: base.href }),
    (error) => { if (worker === mine) stop(`Python does not start here: ${error.message}. Reload the page to try again.`); },
  );
  return mine;
}

/** Give the worker the first question that it does not have; it has one at a time, so that the others can still be taken back. */
function next() {
  clearTimeout(overdue);
  asked = asked.filter((one, place) => !one.gone || (place === 0 && one.sent));
  const first = asked[0];
  if (!first) return;
  if (!first.sent) {
    first.sent = true;
    const mine = started();
    manifest.then(() => mine.postMessage({ id: first.id, verb: first.verb, request: first.request }), () => {}); // once it has been told to start
  } else if (first.gone && asked.length > 1) {
    overdue = setTimeout(() => {
      asked.shift();
      worker?.terminate();
      worker = null;
      next();
    }, PATIENCE);
  }
}

/** Return the answer to a question, or what is wrong with it. */
export function ask(verb, request, { signal } = {}) {
  return new Promise((resolve, reject) => {
    const one = { id: ++number, verb, request: JSON.stringify(request), resolve, sent: false, gone: false };
    const leave = () => {
      one.gone = true;
      reject(new DOMException("The question was taken back.", "AbortError"));
      next();
    };
    if (signal?.aborted) return leave();
    signal?.addEventListener("abort", leave, { once: true });
    asked.push(one);
    next();
  });
}

/** Return what can be chosen, as it was when the page was built: Python need not have started. */
export async function catalog() {
  started();
  try {
    const { catalog: file } = await manifest;
    const response = await fetch(new URL(file.url, base));
    if (!response.ok) throw new Error(`${file.url} cannot be fetched (${response.status})`);
    return await response.json();
  } catch (error) {
    return failed(`The catalog cannot be read: ${error.message}. Reload the page.`);
  }
}

/** Call back with what Python is doing while it starts; with nothing once it waits for questions. */
export function state(listener) {
  told = listener;
}

if ("serviceWorker" in navigator && window.isSecureContext) {
  navigator.serviceWorker.register(new URL("service.js", base), { scope: base.pathname }).catch(() => {});
}

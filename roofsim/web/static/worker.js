// Python's side of the static page: Pyodide, the archive of roofsim, and questions one after the other. A module worker.
//
// In: {start: manifest, base} once, then {id, verb, request}. Out: {state} while it starts, {ready: seconds by part},
// {failed: message}, {bare: reason} where a worker of its own has to start without the memory that was kept, {id, answer} with the
// answer as JSON text.

import { inflated, librariesIn, packagesOf, preloaded, unpack } from "./python.js";

const times = {};
let from = performance.now();
let python = null;
let door = null;
let later = [];
let names = [];
let base = "";
let site = "";

function lap(name) {
  const now = performance.now();
  times[name] = (now - from) / 1000;
  from = now;
}

/** Return the bytes of a file; of another origin only those that were meant. */
async function bytesOf(file) {
  const url = new URL(file.url, base);
  const init = file.pinned ? { integrity: file.integrity } : {};
  let response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    throw new Error(`${url} cannot be fetched${file.pinned ? ", or is not what was expected" : ""} (${error.message})`);
  }
  if (!response.ok) throw new Error(`${url} cannot be fetched (${response.status})`);
  return new Uint8Array(await response.arrayBuffer());
}

/** Install a wheel, or an archive that was made of one: a zip begins with PK. */
async function install(bytes, site) {
  if (bytes[0] === 0x50) python.unpackArchive(bytes, "wheel");
  else unpack(python.FS, await inflated(bytes), site);
}

/** Return Pyodide's loader. Of another origin its scripts run only as what was meant: an import states no integrity itself. */
async function loader(pyodide) {
  const { mjs, asm } = pyodide;
  if (!mjs.pinned) return import(new URL(mjs.url, base).href);
  const [script, module] = await Promise.all([bytesOf(asm), bytesOf(mjs)]);
  const urls = [script, module].map((bytes) => URL.createObjectURL(new Blob([bytes], { type: "text/javascript" })));
  await import(urls[0]);
  return import(urls[1]);
}

/** Let what Pyodide itself fetches from another origin be only what was meant. */
function pinned(pyodide) {
  const known = new Map(pyodide.fetched.filter((file) => file.pinned).map((file) => [new URL(file.url, base).href, file.integrity]));
  if (!known.size) return;
  const plain = self.fetch.bind(self);
  self.fetch = (input, init) => {
    const integrity = known.get(new URL(input.url || input, base).href);
    return plain(input, integrity ? { ...init, integrity } : init);
  };
}

const optionsOf = ({ pyodide }) => ({
  indexURL: new URL(pyodide.index, base).href,
  lockFileContents: JSON.stringify({ info: pyodide.info, packages: {} }),
});

/** Start from the memory of a Python that has answered before, which was kept when the page was built. */
async function resume(manifest) {
  const { pyodide, snapshot } = manifest;
  self.postMessage({ state: "Fetching Python" });
  const fetched = [...manifest.wheels.filter((wheel) => wheel.when === "start"), manifest.archive].map(async (file) => inflated(await bytesOf(file)));
  const memory = bytesOf(snapshot).then(inflated);
  const archives = Promise.all(fetched);
  const compiled = preloaded(archives.then((all) => librariesIn(all, snapshot.libraries, site)));
  for (const one of [memory, archives]) one.catch(() => {}); // reported where it is awaited
  const { loadPyodide } = await loader(pyodide);
  await Promise.all([memory, archives]);
  lap("fetch");
  self.postMessage({ state: "Starting roofsim" });
  python = await loadPyodide({ ...optionsOf(manifest), _loadSnapshot: memory });
  if ((await compiled.table) !== snapshot.table) throw new Error("compiled packages lie elsewhere in this browser");
  compiled.quicken();
  lap("python");
  for (const archive of await archives) unpack(python.FS, archive, site);
  lap("unpack");
  python.runPython("import numpy; assert numpy.linalg.inv(numpy.eye(2) / 2).sum() == 4");
  lap("numpy");
  open();
}

function open() {
  door = python.pyimport("roofsim.web.in_browser");
  lap("roofsim");
  self.postMessage({ ready: times });
}

async function start(manifest) {
  const { pyodide } = manifest;
  const now = manifest.wheels.filter((wheel) => wheel.when === "start");
  self.postMessage({ state: "Fetching Python" });
  const fetched = Promise.all([manifest.archive, ...now].map(bytesOf));
  fetched.catch(() => {}); // reported where it is awaited
  pinned(pyodide);
  const { loadPyodide } = await loader(pyodide);
  python = await loadPyodide(optionsOf(manifest));
  lap("python");
  self.postMessage({ state: "Fetching roofsim" });
  const [archive, ...wheels] = await fetched;
  lap("fetch");
  self.postMessage({ state: "Starting roofsim" });
  for (const bytes of [...wheels, archive]) await install(bytes, site);
  lap("unpack");
  python.runPython("import importlib; importlib.invalidate_caches(); import numpy");
  lap("numpy");
  python.pyimport("roofsim.web.in_browser").expect_later(manifest.later);
  open();
}

let fetching = null;

/** Fetch what was left out at the start; where that fails, questions that need it say what is missing. */
function rest() {
  fetching ??= Promise.all(later.map(bytesOf))
    .then((wheels) => Promise.all(wheels.map((bytes) => install(bytes, site))))
    .finally(() => door.arrived());
  return fetching;
}

async function answered(verb, request) {
  const said = door.answer(verb, request);
  if (said) return said;
  self.postMessage({ state: "Fetching what explains this" });
  try {
    await rest();
  } catch (error) {
    fetching = null;
    const rough = door.answer(verb, request); // says where it is wrong, if not what was expected
    door.expect_later(names); // the next such question tries again
    if (JSON.parse(rough).error?.key) return rough;
    const message = `This takes a part of Python that could not be fetched: ${error.message}. Ask again when you are online.`;
    return JSON.stringify({ ok: false, error: { message, server: true } });
  }
  return door.answer(verb, request);
}

/** Start, or say that it failed: from a kept memory, that this browser has to start Python itself, in a worker of its own. */
async function begun(manifest) {
  try {
    await (manifest.snapshot ? resume(manifest) : start(manifest));
  } catch (error) {
    self.postMessage(manifest.snapshot ? { bare: String(error.message || error) } : { failed: String(error.message || error) });
  }
}

let turn = Promise.resolve();

self.onmessage = ({ data }) => {
  if (data.start) {
    base = data.base;
    site = packagesOf(data.start.python);
    later = data.start.wheels.filter((wheel) => wheel.when === "later");
    names = data.start.later;
    turn = begun(data.start);
    return;
  }
  turn = turn.then(async () => {
    if (!door) return;
    const asked = performance.now();
    let said;
    try {
      said = await answered(data.verb, data.request);
    } catch (error) {
      if (error.pyodide_fatal_error) {
        door = null; // nothing can be asked of it any more
        return self.postMessage({ bare: `Python broke: ${String(error.message).split("\n")[0]}` });
      }
      const message = `Python failed: ${String(error.message || error).trim().split("\n").pop()}`;
      said = JSON.stringify({ ok: false, error: { message, server: true } });
    }
    self.postMessage({ id: data.id, answer: said, seconds: (performance.now() - asked) / 1000 });
  });
};

// Python's side of the static page: Pyodide, the archive of roofsim, and questions one after the other. A module worker.
//
// In: {start: manifest, base} once, then {id, verb, request}. Out: {state} while it starts, {ready: seconds by part},
// {failed: message}, {id, answer} with the answer as JSON text.

const times = {};
let from = performance.now();
let python = null;
let answer = null;
let later = [];
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

async function inflated(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes; // the host has inflated it already
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Yield the files of a ustar archive: their names and bytes. */
function* files(archive) {
  const text = (at, size) => new TextDecoder().decode(archive.subarray(at, at + size)).replace(/\0.*$/s, "");
  for (let at = 0; at + 512 <= archive.length && archive[at]; ) {
    const size = parseInt(text(at + 124, 12), 8);
    const prefix = text(at + 345, 155);
    const name = (prefix ? `${prefix}/` : "") + text(at, 100);
    yield [name, archive.subarray(at + 512, at + 512 + size)];
    at += 512 + Math.ceil(size / 512) * 512;
  }
}

function unpack(archive, folder) {
  const made = new Set();
  for (const [name, bytes] of files(archive)) {
    const path = `${folder}/${name}`;
    const parent = path.slice(0, path.lastIndexOf("/"));
    if (!made.has(parent)) python.FS.mkdirTree(parent);
    made.add(parent);
    python.FS.writeFile(path, bytes, { canOwn: true });
  }
}

/** Install a wheel, or an archive that was made of one: a zip begins with PK. */
async function install(bytes, site) {
  if (bytes[0] === 0x50) python.unpackArchive(bytes, "wheel");
  else unpack(await inflated(bytes), site);
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

async function start(manifest) {
  const { pyodide } = manifest;
  const now = manifest.wheels.filter((wheel) => wheel.when === "start");
  later = manifest.wheels.filter((wheel) => wheel.when === "later");
  self.postMessage({ state: "Fetching Python" });
  const fetched = Promise.all([manifest.archive, ...now].map(bytesOf));
  fetched.catch(() => {}); // reported where it is awaited
  pinned(pyodide);
  const { loadPyodide } = await loader(pyodide);
  python = await loadPyodide({
    indexURL: new URL(pyodide.index, base).href,
    lockFileContents: JSON.stringify({ info: pyodide.info, packages: {} }),
  });
  lap("python");
  self.postMessage({ state: "Fetching roofsim" });
  const [archive, ...wheels] = await fetched;
  lap("fetch");
  self.postMessage({ state: "Starting roofsim" });
  site = `/lib/python${manifest.python}/site-packages`;
  for (const bytes of [...wheels, archive]) await install(bytes, site);
  lap("unpack");
  python.runPython("import importlib; importlib.invalidate_caches(); import numpy");
  lap("numpy");
  const door = python.pyimport("roofsim.web.in_browser");
  door.expect_later(manifest.later);
  answer = (verb, request) => door.answer(verb, request);
  arrived = () => door.arrived();
  lap("roofsim");
  self.postMessage({ ready: times });
}

let arrived = () => {};
let fetching = null;

/** Fetch what was left out at the start; where that fails, questions that need it say what is missing. */
function rest() {
  fetching ??= Promise.all(later.map(bytesOf))
    .then((wheels) => Promise.all(wheels.map((bytes) => install(bytes, site))))
    .finally(() => arrived());
  return fetching;
}

async function answered(verb, request) {
  const said = answer(verb, request);
  if (said) return said;
  self.postMessage({ state: "Fetching what explains this" });
  try {
    await rest();
  } catch (error) {
    const message = `This takes a part of Python that could not be fetched: ${error.message}. Ask again when you are online.`;
    fetching = null;
    return JSON.stringify({ ok: false, error: { message, server: true } });
  }
  return answer(verb, request);
}

let turn = Promise.resolve();

self.onmessage = ({ data }) => {
  if (data.start) {
    base = data.base;
    turn = start(data.start).catch((error) => self.postMessage({ failed: String(error.message || error) }));
    return;
  }
  turn = turn.then(async () => {
    if (!answer) return;
    const begun = performance.now();
    let said;
    try {
      said = await answered(data.verb, data.request);
    } catch (error) {
      const message = `Python failed: ${String(error.message || error).trim().split("\n").pop()}`;
      said = JSON.stringify({ ok: false, error: { message, server: true } });
    }
    self.postMessage({ id: data.id, answer: said, seconds: (performance.now() - begun) / 1000 });
  });
};

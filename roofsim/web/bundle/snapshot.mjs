// Keep the memory of a Python that has answered, so that a visit need not start one: `node snapshot.mjs SITE`, then with what that says,
// `node snapshot.mjs SITE OUT LIBRARY...`. SITE holds bundle.json, static/python.js, Pyodide and the archives that it names.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import zlib from "node:zlib";

const [, , folder, out, ...libraries] = process.argv;
const site = path.resolve(folder);
const { inflated, librariesIn, packagesOf, preloaded, unpack } = await import(pathToFileURL(`${site}/static/python.js`).href);
const manifest = JSON.parse(fs.readFileSync(`${site}/bundle.json`, "utf-8"));
const index = `${path.join(site, manifest.pyodide.index)}/`;
const packages = packagesOf(manifest.python);
const needed = [...manifest.wheels.filter((wheel) => wheel.when === "start"), manifest.archive];
const archives = await Promise.all(needed.map((file) => inflated(new Uint8Array(fs.readFileSync(`${site}/${file.url}`)))));

const { table } = preloaded(Promise.resolve(librariesIn(archives, libraries, packages)));
const { loadPyodide } = await import(pathToFileURL(`${index}pyodide.mjs`).href);
const python = await loadPyodide({
  indexURL: index,
  lockFileContents: JSON.stringify({ info: manifest.pyodide.info, packages: {} }),
  env: { PYTHONHASHSEED: "0" },
  _makeSnapshot: true,
});
for (const archive of archives) unpack(python.FS, archive, packages);
python.runPython(`
import importlib
importlib.invalidate_caches()
from roofsim.web import in_browser
in_browser.expect_later(${JSON.stringify(manifest.later)})
in_browser.warm()
`);
const memory = python._module;
const loaded = Object.keys(memory.LDSO.loadedLibsByName).filter((name) => name.endsWith(".so"));
if (out) {
  overwrite();
  // How Python calls C depends on the browser: none is chosen here, and `quicken` chooses.
  memory.HEAP32[(memory.__PyRuntime + memory.HEAP32[memory.__PyEM_EMSCRIPTEN_COUNT_ARGS_OFFSET >> 2]) >> 2] = 0;
  fs.writeFileSync(out, zlib.gzipSync(python.makeMemorySnapshot(), { level: 9 }));
}
console.log(JSON.stringify({ libraries: loaded, table: await table }));
process.exit(0);

/** Write zeros where nothing lives any more, which pack to nothing: small objects are made until Python takes more of the memory. */
function overwrite() {
  python.runPython("held = []");
  const end = memory._sbrk(0);
  for (let turn = 0; turn < 1000 && memory._sbrk(0) === end; turn++) python.runPython("held.extend(bytes(470) for _ in range(200))");
  python.runPython("del held");
}

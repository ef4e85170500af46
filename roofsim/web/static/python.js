// How Python comes to be here: archives into its files, and its memory as it was once it had answered. For the worker, and for the
// program that keeps that memory when the page is built (roofsim/web/bundle/snapshot.mjs).

export const packagesOf = (version) => `/lib/python${version}/site-packages`;

export async function inflated(bytes) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes; // the host has inflated it already
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Yield the files of a ustar archive: their names and bytes. */
export function* files(archive) {
  const reader = new TextDecoder();
  const text = (at, size) => {
    const bytes = archive.subarray(at, at + size);
    const end = bytes.indexOf(0);
    return reader.decode(end < 0 ? bytes : bytes.subarray(0, end));
  };
  for (let at = 0; at + 512 <= archive.length && archive[at]; ) {
    const size = parseInt(text(at + 124, 12), 8);
    const prefix = text(at + 345, 155);
    const name = (prefix ? `${prefix}/` : "") + text(at, 100);
    yield [name, archive.subarray(at + 512, at + 512 + size)];
    at += 512 + Math.ceil(size / 512) * 512;
  }
}

export function unpack(FS, archive, folder) {
  const made = new Set();
  for (const [name, bytes] of files(archive)) {
    const path = `${folder}/${name}`;
    const parent = path.slice(0, path.lastIndexOf("/"));
    if (!made.has(parent)) FS.mkdirTree(parent);
    made.add(parent);
    FS.writeFile(path, bytes, { canOwn: true });
  }
}

/**
 * Have compiled packages loaded before Python: what they are given of memory, and of the table of functions, is then the same at every
 * start, and a memory that was kept is one that their code can run on. To be called before Pyodide is loaded.
 *
 * `libraries` promises [path, bytes] of each. Returns {table, quicken}: `table` promises the length of the table of functions behind
 * them (it fails where one cannot be loaded); `quicken` lets a Python of a kept memory call C as directly as this browser can.
 */
export function preloaded(libraries) {
  const flags = { loadAsync: true, global: false, nodelete: true, allowUndefined: true };
  let create;
  let directly;
  const state = { quicken: () => directly?.() };
  state.table = new Promise((resolve, reject) => {
    const load = async (module) => {
      module.addRunDependency("compiled packages");
      try {
        for (const [path, bytes] of await libraries) {
          const compiled = await WebAssembly.compile(bytes);
          module.preloadedWasm[path] = await module.loadWebAssemblyModule(compiled, flags, path, {});
          await module.loadDynamicLibrary(path, flags, {});
        }
        resolve(module.wasmTable.length);
      } catch (error) {
        reject(error);
      }
      module.removeRunDependency("compiled packages");
    };
    const wrapped = (made) => (settings) => {
      const { instantiateWasm } = settings;
      settings.instantiateWasm = (imports, done) => {
        directly = imports.env._PyEM_InitTrampoline_js;
        return instantiateWasm(imports, done);
      };
      settings.preRun.push(load);
      return made(settings);
    };
    Object.defineProperty(globalThis, "_createPyodideModule", { configurable: true, get: () => create, set: (made) => (create = wrapped(made)) });
  });
  state.table.catch(() => {}); // reported where it is awaited
  return state;
}

/** Return those files of archives that are meant, in that order, by the paths that Python knows them under. */
export function librariesIn(archives, paths, folder) {
  const held = new Map(archives.flatMap((archive) => [...files(archive)]).map(([name, bytes]) => [`${folder}/${name}`, bytes]));
  return paths.map((path) => [path, held.get(path)]);
}

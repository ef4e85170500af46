// Pyodide's loader for `node_worker.mjs`: Node's takes a path where a browser's takes an address.

const real = await import(`${globalThis.indexOfSite}pyodide.mjs`);

export const loadPyodide = (options) => real.loadPyodide({ ...options, indexURL: globalThis.indexOfSite });

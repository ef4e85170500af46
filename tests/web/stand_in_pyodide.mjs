// A Pyodide that answers what was recorded, for `node_worker.mjs`: what the worker does around Python, without a Python.

import fs from "node:fs";

const recorded = JSON.parse(fs.readFileSync(process.env.RECORDED, "utf-8"));
const written = new Map();
let expected = [];
let isHere = false;

const door = {
  expect_later(names) {
    expected = [...names];
    isHere = false;
  },
  arrived() {
    isHere = true;
  },
  answer(verb, request) {
    const known = recorded.find((one) => one.verb === verb && JSON.stringify(one.request) === request);
    if (!known) throw new Error("Traceback\n  File x\nKeyError: 'nobody recorded this'\n");
    return known.later && !isHere ? "" : JSON.stringify(known.answer);
  },
};

export async function loadPyodide({ indexURL, lockFileContents }) {
  const { info } = JSON.parse(lockFileContents);
  return {
    FS: {
      mkdirTree() {},
      writeFile(path, bytes) {
        written.set(path, bytes.length);
      },
    },
    unpackArchive(bytes, format) {
      written.set(`${format} ${written.size}`, bytes.length);
    },
    runPython() {},
    pyimport(name) {
      console.log(`POSTED ${JSON.stringify({ loaded: { indexURL, info, name, written: Object.fromEntries(written) } })}`);
      return door;
    },
  };
}

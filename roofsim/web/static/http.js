// Ask the server that this page came from.

const TOKEN = document.querySelector('meta[name="roofsim-token"]').content;
const AGAIN = "Start it again with `roofsim web`, then press Ask. The question is kept in the address.";
const WAYS = {
  403: "The server does not know this page any more: it was started again since. Reload the page; the question is kept in the address.",
  413: "That is more than the server reads. Send the description of the model alone, without weights.",
  429: "The server is busy with other questions. Press Ask in a moment.",
  503: "The server is busy or took too long. Ask something smaller, or press Ask again.",
  504: "Ask something smaller: fewer cards, GPUs or values, one engine rather than several, shorter ranges.",
};

function failed(message) {
  return { ok: false, error: { message, server: true } };
}

async function answerOf(response) {
  const known = (response.headers.get("content-type") || "").includes("json") ? await response.json() : null;
  if (known && (known.ok === false || (response.ok && known.ok === true))) {
    const way = response.status === 422 || response.ok ? "" : WAYS[response.status] || "";
    if (!way) return known;
    const said = known.error && known.error.message ? `${known.error.message.replace(/\.?$/, ".")} ` : "";
    return failed(said + way);
  }
  if (response.ok) return failed("The server sent something that is no answer. Reload the page.");
  return failed(WAYS[response.status] || `The server failed (${response.status}). Its terminal says why. ${AGAIN}`);
}

async function fetched(path, init) {
  try {
    return await answerOf(await fetch(path, init));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return failed(`The server does not answer. ${AGAIN}`);
  }
}

function posted(path, body, signal) {
  return fetched(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Roofsim-Token": TOKEN },
    body: JSON.stringify(body),
    signal,
    credentials: "same-origin",
    cache: "no-store",
  });
}

/** Return the answer to a question, or what is wrong with it. */
export function ask(verb, request, { signal } = {}) {
  return posted(`api/${verb}`, request, signal);
}

/** Have the report of a question written into the folder of the server; return its name and address. */
export function save(question) {
  return posted("api/save", question);
}

/** Return the folder of the server (null: it writes nothing) and the reports in it. */
export function saved() {
  return fetched("api/saved", { headers: { "X-Roofsim-Token": TOKEN } });
}

/** Return what can be chosen: models, cards, systems, engines, precisions. */
export function catalog() {
  return fetched("api/catalog", { headers: { "X-Roofsim-Token": TOKEN } });
}

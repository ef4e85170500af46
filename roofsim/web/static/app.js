// The page: holds the question, asks it, shows the answer. Whatever is newer wins; the address holds the whole question.

import { announce, by, h, paused, put } from "./dom.js";
import { FIRST, VERBS } from "./fields.js";
import { form, near } from "./form.js";
import { keeper } from "./question.js";
import { sliders } from "./sliders.js";
import * as answers from "./answer.js";
import * as link from "./link.js";
import { themes } from "./themes.js";

/** Pauses in ms: before an answer is asked, before one that takes long shows its progress. */
const TYPED = 60, TURNED = 350, SLOW = 300;
/** Keys of the work that say how a server is used, which the command that starts it does not. */
const LOAD = ["request_rate", "concurrency", "prompt_length", "output_length"];
/** Answers that are kept for the way back. */
const KEPT = 12;

const back = document.querySelector('meta[name="roofsim-back"]').content;
const backend = await import(back === "static" ? "./pyodide.js" : "./http.js");

const state = { catalog: null, question: FIRST, aside: null, slider: "", answered: null, answer: null, serial: 0, controller: null };
const kept = new Map();
let page = null, turning = null, why = null, ahead = null; // ahead: the question of the address, asked while the fields are still made: {key, controller, answer}

const verbOf = (question) => VERBS.find((verb) => verb.name === question.verb);
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const request = (question) => ({ scenario: question.scenario, options: question.options });

// -- the question -------------------------------------------------------------------------------------------------------

/** Change the question. `how`: "verb" and "turned" also move what the new question has no use for; "slider" waits for a pause. */
function change(make, how) {
  const before = state.question;
  let next = make(before);
  if (how === "verb" || how === "turned") next = state.aside.moved(before, next);
  state.question = next;
  page.show(next);
  const light = verbOf(next).light || how === "verb";
  if (how === "slider") askTurned();
  else if (light) askSoon(how);
  else { stale(); remember(next, "edit"); }
}

/** Say that the answer is to an older question, where the new one waits for the button. */
function stale() {
  const old = state.answered !== null && !same(state.answered, state.question);
  by("stale").hidden = !old;
  by("ask").classList.toggle("waits", old);
  by("brief").classList.toggle("old", old);
}

// -- asking -------------------------------------------------------------------------------------------------------------

const askSoon = paused((how) => ask({ how }), TYPED);
const askTurned = paused(() => ask({ how: "slider" }), TURNED);

/** Ask the question as it stands; `how` says what led to it. */
async function ask({ how = "asked", fresh = false } = {}) {
  askSoon.cancel();
  askTurned.cancel();
  if (turning) turning.stop();
  if (state.controller) state.controller.abort();
  const question = state.question;
  const serial = (state.serial += 1);
  const key = JSON.stringify(question);
  const early = ahead && ahead.key === key ? ahead : null;
  ahead = null;
  const controller = (state.controller = early ? early.controller : new AbortController());
  remember(question, how);
  const done = working(controller);
  let answer = null;
  try {
    answer = (!fresh && kept.get(key)) || (await (early ? early.answer : backend.ask(question.verb, request(question), { signal: controller.signal })));
  } catch (error) {
    if (error.name === "AbortError") return;
    answer = { ok: false, error: { message: `The page could not ask: ${error.message}. Reload it; the question is kept in the address.`, server: true } };
  } finally {
    if (serial === state.serial) done();
  }
  if (serial !== state.serial) return;
  state.controller = null;
  if (!answer.ok) return wrong(answer.error, how);
  kept.delete(key);
  kept.set(key, answer);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  right(question, answer, how);
}

/** Show that an answer is on its way, after a moment; return what ends that. */
function working(controller) {
  const began = performance.now();
  const box = by("progress");
  by("answer").setAttribute("aria-busy", "true");
  const tell = () => {
    const seconds = Math.floor((performance.now() - began) / 1000);
    by("progress-text").textContent = seconds < 1 ? "Working" : `Working, ${seconds} s`;
  };
  const timer = setTimeout(() => { box.hidden = false; tell(); announce("Working"); }, SLOW);
  const clock = setInterval(tell, 1000);
  const done = () => { clearTimeout(timer); clearInterval(clock); box.hidden = true; by("answer").removeAttribute("aria-busy"); };
  controller.signal.addEventListener("abort", () => { clearTimeout(timer); clearInterval(clock); });
  return done;
}

function cancel() {
  if (!state.controller) return;
  state.controller.abort();
  state.controller = null;
  state.serial += 1;
  by("progress").hidden = true;
  by("answer").removeAttribute("aria-busy");
  announce("Cancelled");
  by("ask").focus();
  stale();
}

function right(question, answer, how) {
  page.clear();
  by("problem").hidden = true;
  by("welcome").hidden = true;
  by("shown").hidden = false;
  answers.show(answer.html, by("head"), by("fragment"), by("figures"));
  by("brief").replaceChildren(h("span", {}, answers.brief(by("head"), by("figures"))));
  by("brief").hidden = false;
  by("shown").classList.remove("moving");
  answers.explainable(by("shown"), answer, question.scenario, explain);
  const turns = question.verb === "run" && Boolean(answer.data && answer.data.scenario);
  by("turn").hidden = !turns;
  state.answered = question;
  state.answer = answer;
  stale();
  if (turns) turning.settle(question, answer);
  for (const button of document.querySelectorAll("[data-take]")) button.hidden = !["link", "report"].includes(button.dataset.take) && !answer[button.dataset.take];
  const area = document.querySelector("#paste textarea");
  if (area) area.dataset.yaml = answer.yaml || "";
  const headline = answer.headline || by("head").textContent.trim();
  document.title = `${headline} · roofsim ${question.verb}`;
  const verdict = [...by("head").querySelectorAll(".verdict")].map((line) => line.textContent.trim()).join(" ");
  announce(how === "slider" ? verdict || headline : `${headline}. ${verdict}`);
  if (how === "submit" && matchMedia("(max-width: 960px)").matches) by("answer").focus();
}

function wrong(error, how) {
  const problems = error.problems && error.problems.length ? error.problems : [error];
  page.clear();
  const marked = problems.map((each) => page.mark({ ...error, ...each })).filter(Boolean);
  const box = by("problem");
  const old = !by("shown").hidden;
  by("welcome").hidden = true;
  box.replaceChildren(...[
    h(old ? "h2" : "h1", {}, error.server ? "No answer" : "This cannot be answered"),
    ...problems.flatMap((each) => told(each.message)),
    !marked.length && near(error, takeNear(error)),
    h("p", { class: "buttons" }, error.server && h("button", { type: "button", onclick: () => ask({ fresh: true }) }, "Ask again"),
      marked.length > 0 && h("button", { type: "button", onclick: () => marked[0].focus() }, "Go to the field"),
      old && state.answered && h("button", { type: "button", onclick: () => { restore(state.answered); ask(); } }, "Back to the last question")),
    old && h("p", { class: "quiet" }, "What is below answers the question before."),
  ].filter(Boolean));
  box.hidden = false;
  by("shown").classList.remove("moving");
  if (how === "submit" && marked.length) marked[0].focus();
}

/** Return a message as it is shown: what it says, and below it the place in what was written, whose columns stay. */
function told(message) {
  const [first, ...place] = message.split("\n");
  return [h("p", { class: "message" }, first), place.length > 0 && h("pre", { class: "message", tabindex: "0", "aria-label": "Where it is wrong" }, place.join("\n"))];
}

/** Return what takes a near match where no field shows the key: its place in the scenario. */
function takeNear(error) {
  return (name) => {
    const path = String(error.key || "").split(".");
    if (!error.key || !(path[0] in state.question.scenario)) return;
    change((now) => ({ ...now, scenario: put(now.scenario, path, name) }));
  };
}

// -- the address ----------------------------------------------------------------------------------------------------------

/** Write a question into the address: a step of the history, but one for all moves of a slider, and for all edits before a question is asked. */
async function remember(question, how) {
  const serial = state.serial;
  const hash = await link.written(question);
  if (serial !== state.serial || !same(question, state.question) || location.hash === hash) return;
  const kind = how === "slider" ? `slider ${state.slider}` : how === "edit" ? "edit" : "";
  if (how === "first") history.replaceState({}, "", hash);
  else if (kind && history.state && history.state.kind === kind) history.replaceState({ kind }, "", hash);
  else history.pushState({ kind }, "", hash);
}

/** Take a question as it is. */
function restore(question) {
  state.aside.keep(question);
  state.question = question;
  page.show(question, true);
}

/** Return the question of the address; one that cannot be read is said. */
async function addressed() {
  try {
    const question = await link.read(location.hash);
    if (question === null) return null;
    if (!VERBS.some((verb) => verb.name === question.verb)) throw new Error(`it asks for ${JSON.stringify(question.verb).slice(0, 40)}, which is none of ${VERBS.map((verb) => verb.name).join(", ")}`);
    return question;
  } catch (error) {
    by("welcome").hidden = true;
    by("problem").replaceChildren(h("h1", {}, "The link cannot be read"),
      h("p", { class: "message" }, `It may have been cut off where it was copied (${String(error.message).slice(0, 200).replace(/\.+$/, "")}).`),
      h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => { restore(FIRST); ask(); } }, "Start with an example")));
    by("problem").hidden = false;
    return undefined;
  }
}

async function travel() {
  const question = await addressed();
  if (!question || same(question, state.question)) return;
  restore(question);
  ask({ how: "first" });
}

// -- what is pasted or dropped --------------------------------------------------------------------------------------------

/** Have Python read a text; return what is wrong with it, or "", and what it noted. */
async function readText(text, name) {
  if (!text.trim()) return { wrong: "There is nothing in it." };
  let answer = null;
  try {
    answer = await backend.ask("read", { text, name }, {});
  } catch (error) {
    return { wrong: `It could not be read: ${error.message}` };
  }
  if (!answer.ok) return { wrong: answer.error.message };
  const verb = answer.serves ? "serve" : answer.kind === "launch" && state.question.verb === "serve" ? "run" : state.question.verb;
  change((now) => ({ ...now, verb, scenario: taken(answer, now.scenario) }), verb === state.question.verb ? "read" : "verb");
  if (!verbOf(state.question).light) ask();
  announce([`Read ${name}.`, ...(answer.notes || [])].join(" "));
  return { notes: answer.notes || [] };
}

/** Return the scenario that was read. A model alone, and a launch command, which names no card, leave the rest of the question as it is. */
function taken({ kind, scenario, serves }, now) {
  const { model, ...rest } = scenario;
  if (!Object.keys(rest).length) return { ...now, model };
  if (kind !== "launch") return scenario;
  const held = now.workload || {}, kept = Object.fromEntries(LOAD.filter((key) => held[key] !== undefined).map((key) => [key, held[key]]));
  const { gpus, ...card } = now.hardware || {};
  return { ...scenario, workload: { ...(serves ? kept : { phase: "train" }), ...scenario.workload }, hardware: { ...card, ...scenario.hardware } };
}

function dropping() {
  const zone = by("dropzone");
  const files = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  addEventListener("dragover", (event) => { if (files(event)) { event.preventDefault(); zone.hidden = false; } });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) zone.hidden = true; });
  addEventListener("drop", async (event) => {
    zone.hidden = true;
    if (!files(event)) return;
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (!file) return;
    const said = await readText(await file.text(), file.name);
    if (said.wrong) wrong({ message: said.wrong, key: null }, "drop");
    else page.noted(said.notes);
  });
}

// -- what is taken along, and explained -------------------------------------------------------------------------------------

async function take(button) {
  const kind = button.dataset.take;
  if (kind === "link") return window.roofsimReport.copy(button, location.origin + location.pathname + (await link.written(state.answered)));
  if (kind !== "report") return window.roofsimReport.copy(button, state.answer[kind]);
  const name = button.textContent;
  button.disabled = true;
  button.textContent = "Writing the report";
  const question = state.answered;
  const answer = await backend.ask(question.verb, { ...request(question), html: "page" }, {}).catch((error) => ({ ok: false, error }));
  button.disabled = false;
  button.textContent = name;
  if (answer.ok && answer.html) answers.download(`roofsim-${question.verb}.html`, answer.html, "text/html");
  else wrong(answer.ok ? { message: "No report came back.", server: true } : answer.error, "report");
}

/** Offer to keep reports, where the server has a folder for them, and list those that are there. */
async function keeping() {
  const found = backend.saved ? await backend.saved() : { ok: false };
  const kept = found.ok && found.folder;
  by("save-report").hidden = !kept;
  by("saved").hidden = !kept || !found.reports.length;
  if (!kept) return;
  by("save-report").title = found.folder;
  by("saved").querySelector("ul").replaceChildren(...found.reports.map((one) => h("li", {},
    h("a", { href: `saved/${encodeURIComponent(one.name)}`, target: "_blank", rel: "noopener" }, one.headline || one.name), " ",
    one.scenario && VERBS.some((verb) => verb.name === one.verb) && h("button", { type: "button", onclick: () => { restore({ verb: one.verb, scenario: one.scenario, options: one.options || {} }); ask(); } }, "Ask again"))));
}

async function save() {
  const button = by("save-report");
  button.disabled = true;
  const answer = await backend.save(state.answered).catch((error) => ({ ok: false, error: { message: error.message, server: true } }));
  button.disabled = false;
  if (!answer.ok) return wrong(answer.error, "report");
  announce(`Saved as ${answer.name}`);
  await keeping();
  by("saved").open = true;
}

let explaining = null;
async function explain(figure, scenario) {
  if (explaining) explaining.abort();
  const controller = (explaining = new AbortController());
  why.open(`Where ${figure} comes from`);
  try {
    const answer = await backend.ask("explain", { scenario: scenario || state.answered.scenario, options: { figure } }, { signal: controller.signal });
    if (answer.ok) why.fill(answer.html); else why.say(answer.error.message);
  } catch (error) {
    if (error.name !== "AbortError") why.say(String(error.message));
  }
}

// -- the start ------------------------------------------------------------------------------------------------------------

async function start() {
  themes();
  dropping();
  why = answers.dialog();
  why.onclose(() => { if (explaining) explaining.abort(); });
  if (backend.state) backend.state((text) => { by("state").textContent = text; });
  await askAhead();
  const catalog = await backend.catalog();
  if (catalog.ok === false) {
    by("welcome").hidden = true;
    by("problem").replaceChildren(h("h1", {}, "No answer"), h("p", { class: "message" }, catalog.error.message),
      h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => location.reload() }, "Reload")));
    by("problem").hidden = false;
    return;
  }
  state.catalog = catalog;
  state.aside = keeper(catalog);
  by("version").textContent = `roofsim ${catalog.version}`;
  page = form({ catalog, change, readText });
  turning = sliders({
    holder: by("sliders"),
    note: by("turn-note"),
    ask: (verb, body, signal) => backend.ask(verb, body, { signal }),
    moved: (make, name) => { state.slider = name; change(make, "slider"); },
    preview: (write, row) => answers.preview(by("shown"), write, row),
  });
  by("question").addEventListener("submit", (event) => { event.preventDefault(); document.activeElement.blur && commit(); ask({ how: "submit", fresh: state.answer === null }); });
  by("cancel").addEventListener("click", cancel);
  by("brief").addEventListener("click", () => by("answer").focus());
  document.addEventListener("click", (event) => { const button = event.target.closest("[data-take]"); if (button) take(button); });
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); by("answer").focus(); });
  by("brand").addEventListener("click", (event) => { event.preventDefault(); restore(FIRST); ask(); });
  by("save-report").addEventListener("click", save);
  keeping();
  addEventListener("popstate", travel);
  addEventListener("hashchange", travel);
  const question = await addressed();
  restore(question || FIRST);
  if (question !== undefined) ask({ how: "first" });
}

/** Ask what the address holds before the catalog is there: a server answers both at once. A link that cannot be read is said later. */
async function askAhead() {
  const question = await link.read(location.hash).then((read) => read || FIRST, () => null);
  if (!question || !verbOf(question)) return;
  const controller = new AbortController(), answer = backend.ask(question.verb, request(question), { signal: controller.signal });
  answer.catch(() => {}); // reported where it is awaited
  ahead = { key: JSON.stringify(question), controller, answer };
}

/** Take what is being typed, as leaving the field would. */
function commit() {
  const field = document.activeElement;
  if (field && field.matches("input, textarea") && field.closest("#question")) field.dispatchEvent(new Event("change", { bubbles: false }));
}

await start();

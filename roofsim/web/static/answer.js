// Show an answer: the fragment that Python made, its verdict first.

import { h, by } from "./dom.js";

const report = window.roofsimReport;

/** Put a fragment into the page: its head and the numbers that stand out before the sliders, its sections after them. What was unfolded stays so. */
export function show(html, head, rest, figures = null) {
  const open = new Set([...rest.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
  const parts = parsed(html);
  const header = parts.querySelector("header");
  if (head && header) {
    head.replaceChildren(...header.childNodes);
    header.remove();
  }
  if (figures) {
    const tiles = parts.querySelector("section:first-of-type > .tiles");
    figures.replaceChildren(...[tiles].filter(Boolean));
    figures.hidden = !tiles;
    const emptied = parts.querySelector("section:first-of-type"); // a section of these numbers alone has only its heading left
    if (tiles && emptied && emptied.children.length === 1) emptied.remove();
  }
  rest.replaceChildren(...parts.childNodes);
  rest.querySelectorAll("section > details > summary").forEach((summary) => { summary.parentElement.open ||= open.has(summary.textContent); });
  report.dress(rest);
}

/** Return what is in the article of a fragment. This is the one place that reads HTML: Python escapes whatever it is given. */
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.querySelector("article") || template.content;
}

/** Parts of a result that Python explains; what a table computes beside them (a ratio of two cards) is not one of them. */
const EXPLAINED = new Set(["step_time", "step_time_interval", "throughput", "latency", "mfu", "hfu", "model_flops", "time", "waits", "memory", "parameters", "work", "cost", "elasticity"]);

/**
 * Make numbers into buttons that ask where they come from: figures of a result that holds its scenario (of a comparison each card's own), and
 * rows of a table of classes of ops. `why(figure, scenario)` is called; without a scenario it is that of the question.
 */
export function explainable(root, answer, asked, why) {
  for (const shown of root.querySelectorAll("data[data-key]")) {
    const meant = figureOf(shown, answer, asked);
    if (!meant || shown.closest("button, th, .tree")) continue;
    const button = h("button", { type: "button", class: "why", title: "Where this comes from" });
    shown.replaceWith(button);
    button.append(shown, h("span", { class: "vh" }, ": where it comes from"));
    button.addEventListener("click", () => why(meant.figure, meant.scenario));
  }
}

/** Figures of a plan's layouts, as results call them. */
const PLANNED = { memory_peak: "memory.peak", usd_per_million_tokens: "cost.usd_per_million_tokens", usd_per_million_images: "cost.usd_per_million_images" };

/** Return the scenario of a layout of a plan: the question's with its sections; null of what is no layout. */
function laidOut(layout, asked) {
  const sections = ["parallel", "workload", "hardware"];
  if (!sections.every((name) => layout[name] && typeof layout[name] === "object") || typeof asked !== "object") return null;
  return Object.fromEntries([["model", asked.model], ...sections.map((name) => [name, { ...(asked[name] || {}), ...layout[name] }])]);
}

/** Numbers of answers that hold no result, which are those of a run of the question -> what a run calls them. */
const OF_RUN = {
  timeline: [[/^\/answer\/step_time$/, () => "step_time"]],
  fit: [[/^\/answer\/scenario\/base\/memory$/, () => "memory.peak"], [/^\/answer\/scenario\/base\/components\/(\w+)$/, ([, name]) => `memory.components.${name}`],
    [/^\/answer\/state\/parameters$/, () => "parameters"]],
  memory: [[/^\/rows\/\d+\/bytes$/, (_, row) => (row === "peak" ? "memory.peak" : COMPONENTS.has(row) ? `memory.components.${row}` : null)]],
};
const COMPONENTS = new Set(["parameters", "gradients", "optimizer_state", "activations", "temporary", "key_value_cache", "communication_buffers", "context", "fragmentation"]);

/** Return the figure that a number is, and the scenario of the result that holds it; null where none does. */
function figureOf(shown, answer, asked) {
  for (const [key, named] of OF_RUN[answer.verb] || []) {
    const found = key.exec(shown.dataset.key), row = shown.closest("tr");
    const figure = found && named(found, row && row.cells[0].textContent.trim().replaceAll(" ", "_"));
    if (figure) return { figure };
  }
  const [whole, ...steps] = shown.dataset.key.split("/").slice(1);
  if (whole === "charts" && steps[0] === "classes") return { figure: shown.closest("tr").cells[0].textContent.trim() };
  if (whole !== "answer") return null;
  let at = answer.data, held = null;
  steps.forEach((step, place) => {
    const scenario = at && typeof at.step_time === "number" ? at.scenario || laidOut(at, asked) : null;
    const figure = PLANNED[step] || steps.slice(place).filter((one) => !/^\d+$/.test(one)).join(".");
    if (scenario && EXPLAINED.has(figure.split(".")[0])) held = { figure, scenario };
    at = at === null || at === undefined ? undefined : at[step];
  });
  return held;
}

const FITS = { fits: "fits", tight: "tight", does_not_fit: "does NOT fit" };

/** Write what a slider says over the numbers that stand out, and whether it fits; `write(key)` gives the text of a figure. */
export function preview(root, write, row) {
  root.classList.toggle("moving", true);
  const fits = FITS[row["memory.verdict"]];
  const memory = root.querySelector('.tiles data[data-key="/answer/memory/capacity"]');
  if (fits && memory) for (const text of memory.closest("dd").childNodes) {
    if (text.nodeType === Node.TEXT_NODE) text.textContent = text.textContent.replace(/, (fits|tight|does NOT fit)/, `, ${fits}`);
  }
  for (const shown of root.querySelectorAll('.tiles data[data-key^="/answer/"]')) {
    const text = write(shown.dataset.key.split("/").slice(2).join("."));
    if (text) shown.textContent = text;
  }
}

/** Return the numbers that stand out, or else the verdict, in a line: small screens show it beside the button that asks. */
export function brief(head, figures) {
  const tiles = [...figures.querySelectorAll(".tiles > div")].map((tile) => `${tile.querySelector("dt").textContent} ${tile.querySelector(".big").textContent}`);
  return (tiles.length ? tiles : [...head.querySelectorAll(".verdict")].slice(0, 1).map((line) => line.textContent)).join(" · ").replace(/: where it comes from/g, "").trim();
}

/** Show where a figure comes from, in a dialog that gives the focus back. */
export function dialog() {
  const box = by("why");
  by("why-close").addEventListener("click", () => box.close());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  return {
    open(title) {
      by("why-title").textContent = title;
      by("why-body").replaceChildren(h("p", { class: "quiet" }, "Working"));
      if (!box.open) box.showModal();
    },
    fill(html) { show(html, null, by("why-body")); by("why-body").querySelectorAll("h1, header, .code").forEach((node) => node.remove()); },
    say(text) { by("why-body").replaceChildren(h("p", { class: "warning" }, text)); },
    get isOpen() { return box.open; },
    close() { if (box.open) box.close(); },
    onclose(run) { box.addEventListener("close", run); },
  };
}

/** Give a file to the person. */
export function download(name, text, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

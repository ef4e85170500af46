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

/** Make the numbers that stand out into buttons that ask where they come from. */
export function explainable(root, why) {
  for (const shown of root.querySelectorAll('.tiles data[data-key^="/answer/"], .facts data[data-key^="/answer/"]')) {
    const figure = shown.dataset.key.split("/").slice(2).filter((step) => !/^\d+$/.test(step)).join(".");
    if (shown.closest("button")) continue;
    const button = h("button", { type: "button", class: "why", title: "Where this comes from" });
    shown.replaceWith(button);
    button.append(shown, h("span", { class: "vh" }, ": where it comes from"));
    button.addEventListener("click", () => why(figure));
  }
}

/** Write what a slider says over the numbers that stand out; `write(key)` gives the text of a figure. */
export function preview(root, write) {
  root.classList.toggle("moving", true);
  if (!write) return;
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

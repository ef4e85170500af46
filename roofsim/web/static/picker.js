// A text field with a list below it: what is typed narrows the list, arrows walk through it, Enter takes an entry.

import { h, id } from "./dom.js";

/** Entries that are shown at once. */
const MOST = 80;

/** Return a name without what people write differently. */
const plain = (name) => name.toLowerCase().replace(/[^a-z0-9.]/g, "");

/**
 * Return a picker: `field` is its element, `input` its text field.
 * `entries()` are mappings with a name, `more(entry)` is what stands beside it, `take(text)` is called with what was chosen.
 */
export function picker({ label, entries, more, take, hint = "", narrow = () => true }) {
  const listId = id("list");
  const input = h("input", {
    type: "text", id: id("pick"), role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false",
    "aria-controls": listId, autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: hint,
  });
  const list = h("ul", { role: "listbox", id: listId, "aria-label": label });
  const rest = h("p", { class: "quiet" });
  const box = h("div", { class: "options", hidden: true }, list, rest);
  const field = h("div", { class: "picker" }, input, box);
  let active = -1;
  let shown = [];
  let settled = "";

  function matching() {
    const written = input.value === settled ? "" : input.value.toLowerCase().trim();
    const words = written.split(/\s+/).filter(Boolean), whole = plain(written);
    const found = entries().filter((entry) => {
      if (!narrow(entry)) return false;
      const names = [entry.name, ...(entry.aliases || [])].map((name) => name.toLowerCase());
      const about = more(entry).toLowerCase();
      return words.every((word) => about.includes(word) || names.some((name) => name.includes(word))) || names.some((name) => plain(name).includes(whole));
    });
    if (!whole) return found;
    // Those whose name begins so come first, in the order of the catalog.
    const begins = (entry) => (plain(entry.name).startsWith(whole) ? 0 : (entry.aliases || []).some((name) => plain(name).startsWith(whole)) ? 1 : 2);
    return found.map((entry, place) => [begins(entry), place, entry]).sort((one, other) => one[0] - other[0] || one[1] - other[1]).map(([, , entry]) => entry);
  }
  function open() {
    const found = matching();
    shown = found.slice(0, MOST);
    list.replaceChildren(...shown.map((entry, place) =>
      h("li", { role: "option", id: `${listId}-${place}`, "aria-selected": "false" }, h("span", {}, entry.name), h("small", {}, more(entry)))));
    rest.textContent = found.length > shown.length ? `${found.length - shown.length} more: type to narrow` : found.length ? "" : "Nothing of that name: what you typed is asked as it is.";
    rest.hidden = !rest.textContent;
    active = -1;
    box.hidden = false;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
    const same = shown.findIndex((entry) => entry.name === input.value);
    if (same >= 0) point(same);
  }
  function close() {
    box.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function point(place) {
    if (!shown.length) return;
    if (list.children[active]) list.children[active].setAttribute("aria-selected", "false");
    active = (place + shown.length) % shown.length;
    const option = list.children[active];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  }
  function choose(text) {
    input.value = text;
    settled = text;
    close();
    take(text);
  }
  input.addEventListener("input", open);
  input.addEventListener("click", () => { if (box.hidden) { open(); input.select(); } });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (box.hidden) open();
      else point(active + (event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1));
    } else if (event.key === "Enter" && !box.hidden) {
      event.preventDefault();
      choose(active >= 0 ? shown[active].name : input.value.trim());
    } else if (event.key === "Escape" && !box.hidden) {
      event.preventDefault();
      event.stopPropagation();
      input.value = settled;
      close();
    }
  });
  input.addEventListener("blur", () => {
    close();
    if (input.value.trim() !== settled) choose(input.value.trim());
  });
  // A press on the list must not take the focus away: the blur would close it before the click.
  box.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) choose(shown[[...list.children].indexOf(option)].name);
  });
  return {
    field,
    input,
    open,
    set(text) { if (document.activeElement !== input || box.hidden) { input.value = text; settled = text; } },
  };
}

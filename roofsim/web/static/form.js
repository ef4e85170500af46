// The question as a form: each field shows what the question holds at its place, and changes it there.

import { announce, h, by, at, put, valueOf, id } from "./dom.js";
import { FIELDS, GROUPS, VERBS, keyOf, nameOf, suits } from "./fields.js";
import { picker } from "./picker.js";

const { written } = window.roofsimReport;
const SIZES = [["", "Any size"], ["1e9", "Up to 1 B"], ["1e10", "1 to 10 B"], ["1e11", "10 to 100 B"], ["1e30", "Over 100 B"]];

/** Return how many parameters a model has, as people write it. */
function counted(number) {
  if (!(number > 0)) return "";
  const [size, unit] = number >= 1e12 ? [1e12, "T"] : number >= 1e9 ? [1e9, "B"] : number >= 1e6 ? [1e6, "M"] : [1e3, "k"];
  return `${Number((number / size).toPrecision(3))} ${unit}`;
}
const joined = (...parts) => parts.filter((part) => part !== "" && part !== null && part !== undefined).join(" · ");
const aboutModel = (model) => joined(counted(model.parameters), model.family, model.year);
const aboutCard = (card) => joined(
  card.memory ? written(card.memory, "B") : "",
  card.bandwidth ? written(card.bandwidth, "B/s") : "",
  card.usd_per_hour ? `${card.usd_per_hour} USD/h` : "",
);

/** Build the form; `change(change)` is called with a function of the question to the next one, and whether it is a person's choice of verb or phase. */
export function form({ catalog, change, readText }) {
  const fields = [];
  let question = null;
  const models = (catalog.models || []).map((each) => (typeof each === "string" ? { name: each } : each));
  const cards = (catalog.gpus || []).map((each) => (typeof each === "string" ? { name: each } : each));

  const set = (field, value, how) => change((now) => {
    if (field.path) return { ...now, scenario: put(now.scenario, field.path, value) };
    return { ...now, options: put(now.options, [field.option], value) };
  }, how);
  const held = (field) => (field.path ? at(question.scenario, field.path) : (question.options || {})[field.option]);

  // -- kinds of fields ------------------------------------------------------------------------------------------------

  const text = (field, input, shown, taken) => {
    let typing = false;
    input.addEventListener("input", () => { typing = true; });
    input.addEventListener("change", () => { typing = false; set(field, taken(input.value)); });
    return { input, show: (afresh) => { if (afresh) typing = false; if (!typing) input.value = shown(held(field)); } };
  };
  const plain = (value) => (value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  const KINDS = {
    number: (field) => text(field, h("input", { type: "text", inputmode: "decimal", autocomplete: "off", placeholder: field.hint || "" }), plain, valueOf),
    text: (field) => {
      const list = field.offers ? h("datalist", { id: id("offers") }, field.offers.map((each) => h("option", { value: each }))) : null;
      const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: field.hint || "", list: list && list.id });
      return { ...text(field, input, plain, valueOf), beside: list };
    },
    words: (field) => text(field, h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: field.hint || "" }),
      (value) => (Array.isArray(value) ? value.join(",") : plain(value)),
      (written) => { const words = written.split(",").map(valueOf).filter((word) => word !== undefined); return words.length > 1 ? words : words[0]; }),
    lines: (field) => text(field, h("textarea", { rows: "3", spellcheck: "false" }),
      (value) => (Array.isArray(value) ? value.join("\n") : value && typeof value === "object" ? Object.entries(value).map(([key, one]) => `${key}=${Array.isArray(one) ? one.join(",") : one}`).join("\n") : plain(value)),
      (written) => { const lines = written.split("\n").map((line) => line.trim()).filter(Boolean); return lines.length ? lines : undefined; }),
    choice: (field) => {
      const listed = typeof field.choices === "function" ? [["", field.standardText || "Default"], ...field.choices(catalog)] : field.choices;
      const input = h("select", {}, listed.map(([value, name]) => h("option", { value }, name)));
      input.addEventListener("change", () => set(field, input.value === "" ? undefined : input.value));
      return {
        input,
        show: () => {
          const value = plain(held(field));
          for (const one of input.options) one.hidden = one.disabled = one.value !== value && !suits(field, one.value, question, catalog);
          if (![...input.options].some((one) => one.value === value)) input.append(h("option", { value }, value.slice(0, 60)));
          input.value = value;
        },
      };
    },
    segments: (field) => {
      const name = id("segment");
      const radios = field.choices.map(([value, shown]) => {
        const radio = h("input", { type: "radio", name, value, onchange: () => set(field, value, "turned") });
        return [radio, h("label", {}, radio, h("span", {}, shown))];
      });
      const input = h("div", { class: "segments", role: "radiogroup" }, radios.map(([, label]) => label));
      return { input, group: true, show: () => { const value = held(field) || field.standard; radios.forEach(([radio]) => { radio.checked = radio.value === value; }); } };
    },
    card: (field) => {
      const made = picker({ label: field.label, entries: () => cards, more: aboutCard, take: (value) => set(field, value || undefined), hint: "a100-sxm4-80gb" });
      return { input: made.input, holder: made.field, show: () => made.set(plain(held(field))) };
    },
    cards: (field) => {
      const chips = h("ul", { class: "chips" });
      const count = h("input", { type: "text", inputmode: "numeric", class: "count", "aria-label": "How many of the next card", placeholder: "1" });
      const add = (value) => {
        if (!value) return;
        const many = count.value.trim();
        const wrong = many !== "" && !(Number.isInteger(Number(many)) && Number(many) > 0);
        count.toggleAttribute("aria-invalid", wrong);
        if (wrong) { count.setAttribute("aria-invalid", "true"); count.focus(); announce(`How many cards: expected a whole number above 0; got ${many}`); return; }
        count.value = "";
        made.set("");
        set(field, [...[held(field) ?? []].flat(), many && many !== "1" ? `${many}x${value}` : value]);
      };
      const made = picker({ label: "Cards", entries: () => cards, more: aboutCard, take: (value) => { if (value) { add(value); setTimeout(() => made.set(""), 0); } }, hint: "Add a card" });
      const holder = h("div", { class: "cards" }, chips, h("div", { class: "adder" }, count, h("span", { "aria-hidden": "true" }, "×"), made.field));
      return {
        input: made.input,
        holder,
        show: () => chips.replaceChildren(...[held(field) ?? []].flat().map((name, place, all) => h("li", {}, h("span", {}, String(name)),
          h("button", { type: "button", "aria-label": `Remove ${name}`, onclick: () => { set(field, all.filter((_, other) => other !== place)); made.input.focus(); } }, "×")))),
      };
    },
  };

  // -- a field with its label and its error -----------------------------------------------------------------------------

  function build(field) {
    const made = KINDS[field.kind || "number"](field);
    const error = h("div", { class: "error", id: id("error"), hidden: true });
    if (!made.input.id) made.input.id = id("field");
    const label = made.group ? h("span", { class: "label", id: id("label") }, field.label) : h("label", { for: made.input.id }, field.label);
    if (made.group) made.input.setAttribute("aria-labelledby", label.id);
    const hint = ["lines", "cards"].includes(field.kind) && field.hint ? h("p", { class: "quiet", id: id("hint") }, field.hint) : null;
    const described = hint ? hint.id : null;
    if (described) made.input.setAttribute("aria-describedby", described);
    const row = h("div", { class: `field${field.wide || field.kind === "cards" ? " span" : ""}`, "data-key": keyOf(field) }, label, made.holder || made.input, made.beside, hint, error);
    const whole = { field, row, error, described, ...made };
    fields.push(whole);
    return row;
  }

  // -- the model --------------------------------------------------------------------------------------------------------

  function modelField() {
    const family = h("select", { "aria-label": "Family" }, h("option", { value: "" }, "Any family"),
      [...new Set(models.map((model) => model.family).filter(Boolean))].sort().map((name) => h("option", { value: name }, name)));
    const size = h("select", { "aria-label": "Size" }, SIZES.map(([value, name]) => h("option", { value }, name)));
    const narrow = (model) => {
      const place = SIZES.findIndex(([value]) => value === size.value);
      const most = Number(size.value), least = place > 1 ? Number(SIZES[place - 1][0]) : 0;
      return (!family.value || model.family === family.value) && (!size.value || (model.parameters > least && model.parameters <= most));
    };
    const field = { path: ["model"], label: "Model" };
    const made = picker({ label: "Models", entries: () => models, more: aboutModel, narrow, take: (value) => set(field, value || undefined), hint: "llama3-8b" });
    const opened = () => { made.input.focus(); made.open(); };
    family.addEventListener("change", opened);
    size.addEventListener("change", opened);
    const own = h("p", { class: "quiet", hidden: true });
    const error = h("div", { class: "error", id: id("error"), hidden: true });
    const label = h("label", { for: made.input.id, class: "vh" }, "Model");
    const row = h("div", { class: "field span", "data-key": "model" }, label, made.field, h("div", { class: "filters" }, family, size), own, error);
    const show = () => {
      const model = question.scenario.model;
      const described = model !== null && typeof model === "object";
      made.set(described ? String(model.name || model.family || "") : plain(model));
      own.hidden = !described;
      own.textContent = described ? `A description of its own${model.family ? ` (${model.family})` : ""}. Choose another to replace it.` : "";
    };
    fields.push({ field, row, error, input: made.input, described: null, show });
    return [row, pasteField()];
  }

  const notes = h("ul", { class: "quiet", id: "paste-notes", hidden: true });
  /** Say what was noted of a text that was read. */
  function noted(lines = []) {
    notes.replaceChildren(...lines.map((line) => h("li", {}, line)));
    notes.hidden = !lines.length;
    if (lines.length) by("paste").open = true;
  }

  function pasteField() {
    const area = h("textarea", { rows: "6", spellcheck: "false", id: id("paste"), "aria-describedby": "paste-hint paste-said" });
    const file = h("input", { type: "file", class: "vh", id: id("file"), tabindex: "-1", "aria-label": "File to read" });
    const said = h("p", { class: "error", id: "paste-said", role: "alert", hidden: true });
    const say = (text) => { said.textContent = text; said.hidden = !text; area.toggleAttribute("aria-invalid", Boolean(text)); if (text) area.setAttribute("aria-invalid", "true"); };
    const use = async (text, name) => { const read = await readText(text, name); say(read.wrong || ""); noted(read.notes); };
    file.addEventListener("change", async () => { if (file.files[0]) { const [one] = file.files; area.value = ""; await use(await one.text(), one.name); file.value = ""; } });
    const details = h("details", { class: "paste", id: "paste" }, h("summary", {}, "Paste or drop a model or scenario"),
      h("div", { class: "field span" }, h("label", { for: area.id }, "A config.json, YAML, a launch command or a capture"), area,
        h("p", { class: "quiet", id: "paste-hint" }, "It is read as text. A file may be dropped anywhere on the page."), said, notes,
        h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => use(area.value, "pasted") }, "Read it"),
          h("button", { type: "button", onclick: () => file.click() }, "Choose a file"),
          h("button", { type: "button", id: "present", onclick: () => { area.value = area.dataset.yaml || ""; area.focus(); } }, "Edit the present question")), file));
    return details;
  }

  // -- the whole ----------------------------------------------------------------------------------------------------------

  const groups = GROUPS.map((group) => {
    const inner = group.name === "model" ? modelField() : FIELDS.filter((field) => field.group === group.name).map(build);
    const grid = h("div", { class: "grid" }, inner);
    const element = group.folded
      ? h("details", { class: "group" }, h("summary", {}, group.title), grid)
      : h("fieldset", { class: "group" }, group.title ? h("legend", {}, group.title) : h("legend", { class: "vh" }, "What is asked"), grid);
    return { ...group, element };
  });
  by("fields").replaceChildren(...groups.map((group) => group.element));
  by("verbs").append(...VERBS.map((verb) => h("label", { title: verb.about },
    h("input", { type: "radio", name: "verb", value: verb.name, form: "question", onchange: () => change((now) => ({ ...now, verb: verb.name }), "verb") }),
    h("span", {}, verb.title))));

  /** Show a question; `afresh` also where somebody was typing. */
  function show(now, afresh = false) {
    question = now;
    by("verbs").querySelectorAll("input").forEach((radio) => { radio.checked = radio.value === now.verb; });
    by("about").textContent = VERBS.find((verb) => verb.name === now.verb).about;
    for (const each of fields) {
      each.row.hidden = Boolean(each.field.when) && !each.field.when(now, catalog);
      if (!each.row.hidden) each.show(afresh);
    }
    showRest(now);
    for (const group of groups) {
      const rows = fields.filter((each) => each.field.group === group.name);
      if (group.name !== "model") group.element.hidden = rows.every((each) => each.row.hidden);
      if (group.folded && rows.some((each) => !each.row.hidden && held(each.field) !== undefined)) group.element.open = true;
    }
  }

  /** Return the keys of the scenario that no field shows, with their values: what a slider or a pasted file has set. */
  function unshown(scenario) {
    const covered = new Set(fields.filter((each) => !each.row.hidden).map(({ field }) => (field.path ? field.path.join(".") : field.instead)));
    const found = [];
    for (const [section, held] of Object.entries(scenario)) {
      if (section === "model") continue;
      if (held === null || typeof held !== "object" || Array.isArray(held)) { found.push([[section], held]); continue; }
      for (const [key, value] of Object.entries(held)) {
        if (covered.has(`${section}.${key}`)) continue;
        if (key === "override" && value !== null && typeof value === "object") found.push(...Object.entries(value).filter(([name]) => !covered.has(`${section}.${key}.${name}`)).map(([name, one]) => [[section, key, name], one]));
        else found.push([[section, key], value]);
      }
    }
    return found;
  }
  const rest = h("ul", { class: "chips" });
  const restRow = h("div", { class: "rest", hidden: true }, h("span", { class: "label quiet" }, "Also in the question"), rest);
  groups.find((group) => group.name === "hardware").element.querySelector(".grid").append(restRow);
  function showRest(now) {
    const found = unshown(now.scenario);
    restRow.hidden = found.length === 0;
    rest.replaceChildren(...found.map(([path, value]) => {
      const text = `${path.at(-1)}: ${plain(value).slice(0, 60)}`;
      return h("li", {}, h("span", {}, text), h("button", { type: "button", "aria-label": `Remove ${text}`, onclick: () => { change((one) => ({ ...one, scenario: put(one.scenario, path, undefined) })); by("ask").focus(); } }, "×"));
    }));
  }

  /** Mark the field that an error is about, beside those that are marked already; return its input, or null where no field is. */
  function mark(error) {
    // Where no key is stated, the message begins with what it is about: `gpus: unknown gpu 'h101'`.
    const named = String((error.option && `options.${error.option}`) || error.key || (/^([\w.-]+): /.exec(error.message) || [])[1] || "");
    const quoted = (/'([^']+)'/.exec(error.message) || [])[1];
    const short = named.replace(/^--/, "").replaceAll("-", "_").replace(/^options\./, "");
    const fits = [(each) => keyOf(each.field) === named, (each) => each.field.option === short, (each) => short && each.field.path && each.field.path.at(-1) === short,
      (each) => named.startsWith(`${keyOf(each.field)}.`),
      // Where no field is called so: the one that holds what the message quotes.
      (each) => quoted && [held(each.field)].flat().some((one) => plain(one) === quoted)];
    const found = fits.map((fit) => fields.find((each) => !each.row.hidden && fit(each))).find(Boolean);
    if (!found) return null;
    const folded = found.row.closest("details");
    if (folded) folded.open = true;
    found.input.setAttribute("aria-invalid", "true");
    found.input.setAttribute("aria-describedby", [found.described, found.error.id].filter(Boolean).join(" "));
    found.error.hidden = false;
    const meant = near(error, (value) => {
      if (found.field.option === "gpus" && found.field.kind === "cards") {
        const wrong = String(error.found ?? quoted ?? "").replace(/^'|'$/g, "");
        const list = [question.options.gpus ?? []].flat().map(String);
        const place = list.findIndex((one) => one === wrong || (wrong && one.includes(wrong)));
        set(found.field, place < 0 ? [...list, value] : list.map((one, other) => (other === place ? value : one)));
      } else if (found.field.kind === "lines" || found.field.kind === "words") {
        const wrong = String(error.found ?? quoted ?? "").replace(/^'|'$/g, "");
        const now = question.options[found.field.option];
        set(found.field, wrong && Array.isArray(now) ? now.map((one) => String(one).replace(wrong, value)) : [value]);
      } else set(found.field, value);
      found.input.focus();
    });
    found.error.replaceChildren(...[h("p", {}, error.message.split("\n")[0]), meant].filter(Boolean));
    return found.input;
  }
  function clear() {
    for (const each of fields) {
      each.input.removeAttribute("aria-invalid");
      if (each.described) each.input.setAttribute("aria-describedby", each.described); else each.input.removeAttribute("aria-describedby");
      each.error.hidden = true;
      each.error.replaceChildren();
    }
  }
  return { show, mark, clear, noted, shown: (field) => !field.when || field.when(question, catalog), names: { models: models.map(nameOf), cards: cards.map(nameOf) } };
}

/** Return buttons for what may have been meant. */
export function near(error, take) {
  const meant = (error.near || []).slice(0, 6);
  if (!meant.length) return null;
  return h("p", { class: "near" }, h("span", {}, "Did you mean "), meant.map((name) => h("button", { type: "button", onclick: () => take(String(name)) }, String(name))));
}

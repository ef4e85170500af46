// Sliders: their arrays are swept by Python once per answer; moving one looks its values up.

import { h, at, put, id } from "./dom.js";
import { SLIDERS, FACTORS } from "./fields.js";

const { written, three } = window.roofsimReport;
const REST = "Move one: its effect shows at once, the whole answer a moment later. The lines show the step time, of the price the cost.";
/** Figures that move with a slider. */
const CANDIDATES = ["step_time", "step_time_interval", "throughput.decode_tokens_per_second", "throughput.tokens_per_second", "throughput.samples_per_second",
  "memory.peak", "memory.fits", "memory.verdict", "mfu", "bound"];
const WRITE = { step_time: (value) => written(value, "s"), "memory.peak": (value) => written(value, "B"), mfu: (value) => `${three(100 * value)} %` };

/** Return the figures of an answer that move with a slider. */
function figuresOf(data) {
  const costs = Object.keys(data.cost || {}).filter((key) => key.startsWith("usd_per_million_")).map((key) => `cost.${key}`);
  return [...CANDIDATES, ...costs].filter((key) => (at(data, key.split(".")) ?? null) !== null);
}

/** Return a change as a factor: "2x" as it is, "+10%" as "1.1x"; null of what is none. */
function factor(text) {
  const percent = /^([+-][\d.]+)\s*%$/.exec(text);
  if (percent) return `${Number((1 + Number(percent[1]) / 100).toPrecision(12))}x`;
  return /^[\d.]+x$/.test(text) ? text : null;
}

/** Return a figure of a row as it is written; "" where it has none. */
function shownAs(key, row) {
  const interval = key.match(/^step_time_interval\.([01])$/);
  const value = interval ? (row.step_time_interval || [])[interval[1]] : row[key];
  if (typeof value !== "number") return "";
  if (interval) return written(value, "s");
  if (key.startsWith("cost.")) return `${value >= 1 && value < 1000 ? value.toFixed(2) : three(value)} USD`;
  return (WRITE[key] || three)(value);
}

/**
 * Return sliders: `ask(verb, request, signal)` gives arrays, `moved(change, label)` is called with what a slider says,
 * `preview(write, row)` with what to show while it moves.
 */
export function sliders({ holder, note, ask, moved, preview }) {
  const made = SLIDERS.map((slider) => build(slider));
  let question = null, answer = null, controller = null, refused = ""; // refused: why the last place could not be asked
  holder.replaceChildren(...made.map((each) => each.element));

  function build(slider) {
    const input = h("input", { type: "range", id: id("slider"), min: "0", max: "1", step: "1" });
    const output = h("output", { for: input.id });
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("class", "spark");
    drawing.setAttribute("aria-hidden", "true");
    drawing.setAttribute("viewBox", "0 0 100 24");
    drawing.setAttribute("preserveAspectRatio", "none");
    const element = h("div", { class: "slider", "data-slider": slider.name }, h("label", { for: input.id }, slider.label), output, drawing, input);
    const one = { slider, input, output, drawing, element, stops: [], rows: null };
    input.addEventListener("input", () => turn(one));
    input.addEventListener("change", () => { if (one.rows && !one.rows[input.value].feasible) rest(one); });
    return one;
  }

  function stopsOf(slider, path) {
    const stated = at(question.scenario, path);
    if (slider.factor) {
      if (slider.draws && !Object.entries(answer.data.cost || {}).some(([key, value]) => key.startsWith("usd_per_million") && value !== null)) return [null, 0];
      const now = factor(stated === undefined ? "1x" : String(stated).trim());
      if (FACTORS.includes(now)) return [FACTORS, FACTORS.indexOf(now)];
      return now ? withNow(FACTORS, now, parseFloat) : [null, 0];
    }
    // What was written as Python takes it (1,024 or 2k) stands in the answer as a number.
    const now = [stated, at(answer.data.scenario, path)].map(Number).find((value) => value > 0 && Number.isFinite(value));
    return now ? withNow(slider.stops, now, Number) : [null, 0];
  }
  function withNow(stops, now, size) {
    const all = stops.includes(now) ? stops : [...stops, now].sort((one, other) => size(one) - size(other));
    return [all, all.indexOf(now)];
  }

  const labelled = (one) => { const value = one.stops[one.input.value]; return one.slider.factor ? value.replace("x", " ×") : Number(value).toLocaleString("en-US"); };

  function turn(one) {
    const value = one.stops[one.input.value];
    one.output.textContent = labelled(one);
    one.input.setAttribute("aria-valuetext", labelled(one));
    mark(one);
    const row = one.rows && one.rows[one.input.value];
    if (row) tell(one, row);
    if (row && !row.feasible) return; // it cannot be asked: the slider goes back when it is let go
    refused = "";
    one.last = one.input.value;
    const path = one.slider.path(question);
    const still = one.slider.factor && value === "1x" ? undefined : value;
    moved((now) => ({ ...now, scenario: put(now.scenario, path, still) }), one.slider.name);
  }

  /** Put a slider back to where the question is; what the note says of the other place stays. */
  function rest(one) {
    one.input.value = one.last;
    one.output.textContent = labelled(one);
    one.input.setAttribute("aria-valuetext", labelled(one));
    mark(one);
  }

  function tell(one, row) {
    const name = `${one.slider.label} ${labelled(one)}`;
    if (!row.feasible) { note.textContent = refused = `${name} cannot be asked: ${row.reason || "it is not possible"}`; return; }
    const interval = row.step_time_interval ? ` (${written(row.step_time_interval[0], "s")} to ${written(row.step_time_interval[1], "s")})` : "";
    note.textContent = `${name}: ${written(row.step_time, "s")}${interval}, limited by ${String(row.bound).replaceAll("_", " ")}${row["memory.fits"] === false ? "; does not fit" : ""}.`;
    preview((key) => shownAs(key, row), row);
  }

  // The course of the step time (of a price: of the cost) along the stops, on a scale of orders of magnitude.
  function draw(one) {
    one.drawing.replaceChildren();
    const figure = (row) => row[one.slider.draws ? Object.keys(row).find((key) => key.startsWith(one.slider.draws)) : "step_time"];
    const values = (one.rows || []).map((row) => (row.feasible && figure(row) > 0 ? Math.log(figure(row)) : null));
    const known = values.filter((value) => value !== null);
    if (known.length < 2) return;
    const low = Math.min(...known), high = Math.max(...known, low + Math.log(2));
    one.points = values.map((value, place) => (value === null ? null : [(100 * place) / (values.length - 1), 21 - (18 * (value - low)) / (high - low)]));
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", one.points.filter(Boolean).map((point) => point.map((each) => each.toFixed(1)).join(",")).join(" "));
    one.drawing.append(line);
    mark(one);
  }
  function mark(one) {
    const point = one.points && one.points[one.input.value];
    let line = one.drawing.querySelector("line");
    if (!point) { if (line) line.remove(); return; }
    if (!line) { line = document.createElementNS("http://www.w3.org/2000/svg", "line"); one.drawing.append(line); }
    for (const end of ["x1", "x2"]) line.setAttribute(end, point[0].toFixed(1));
    line.setAttribute("y1", "0");
    line.setAttribute("y2", "24");
  }

  /** Show the sliders at what an answer was asked with, and fetch their arrays. */
  async function settle(asked, answered) {
    stop();
    question = asked;
    answer = answered;
    note.textContent = refused || REST;
    const own = new AbortController();
    controller = own;
    for (const one of made) {
      const [stops, place] = stopsOf(one.slider, one.slider.path(question));
      one.element.hidden = !stops;
      one.rows = null;
      one.points = null;
      if (!stops) continue;
      one.stops = stops;
      one.input.max = String(stops.length - 1);
      one.input.value = one.last = String(place);
      one.output.textContent = labelled(one);
      one.input.setAttribute("aria-valuetext", labelled(one));
    }
    const figures = figuresOf(answered.data);
    for (const one of made.filter((each) => !each.element.hidden)) {
      const path = one.slider.path(question).join(".");
      try {
        const swept = await ask("sweep", { scenario: question.scenario, options: { axes: { [path]: one.stops }, figures }, html: false }, own.signal);
        if (own.signal.aborted) return;
        const rows = swept.ok && swept.data && swept.data.rows;
        one.rows = rows && rows.length === one.stops.length ? rows : null;
      } catch (error) {
        if (own.signal.aborted) return;
        one.rows = null;
      }
      draw(one);
    }
  }
  /** Leave off fetching. */
  function stop() {
    if (controller) controller.abort();
    controller = null;
  }
  return { settle, stop };
}

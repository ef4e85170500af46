"use strict";
// Tips, tables that sort and buttons that copy, for the parts of a report, also those that come into a page later.
window.roofsimReport = (function () {
  const tip = document.getElementById("tip");

  // What a number is written as, in three digits with a prefix of its unit.
  const DECIMAL = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"]];
  const BINARY = [[2 ** 50, "Pi"], [2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"], [1, ""]];
  function written(value, unit) {
    if (!unit || unit === "%" || !isFinite(value)) return three(value) + (unit ? " " + unit : "");
    const sizes = unit === "B" ? BINARY : DECIMAL;
    const [size, prefix] = sizes.find(([one]) => Math.abs(value) >= one) || sizes[sizes.length - 1];
    return three(value / size) + " " + prefix + unit;
  }
  function three(value) {
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
    const short = value.toPrecision(3); // as Python writes it: 33.0 of 33.04, but 33 of 33
    return Number(short) === value || short.includes("e") ? Number(short).toString() : short;
  }

  function say(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(x + 14, 6), innerWidth - box.width - 6);
    const above = y - box.height - 12;
    tip.style.left = Math.max(left, 6) + "px";
    tip.style.top = (above < 6 ? y + 16 : above) + "px";
  }
  function hush() { tip.hidden = true; }

  // Where a pointer is on an axis, from its place between the ends.
  function along(axis, share) {
    return axis.log ? Math.exp(Math.log(axis.low) + share * (Math.log(axis.high) - Math.log(axis.low))) : axis.low + share * (axis.high - axis.low);
  }
  function nearest(values, value) {
    let best = 0;
    values.forEach((one, place) => { if (Math.abs(one - value) < Math.abs(values[best] - value)) best = place; });
    return best;
  }
  function reading(frame, x, y) {
    if (frame.roof) {
      const reach = Math.min(frame.roof.peak, x * frame.roof.bandwidth);
      return three(x) + " FLOP per byte\nroof: " + written(reach, "FLOP/s");
    }
    if (frame.step) {
      const place = nearest(frame.step.at, x);
      return frame.step.op[place] + "\n" + frame.step.phase[place] + ": " + written(frame.step.total[place], "B") + " allocated" + alive(frame.step.parts, place);
    }
    if (frame.map) {
      const row = nearest(frame.map.y.map(Math.log), Math.log(y));
      const column = nearest(frame.map.x.map(Math.log), Math.log(x));
      return written(frame.map.x[column], frame.x.unit) + "\n" + written(frame.map.y[row], frame.y.unit) + "\n" + frame.map.what + " " + written(frame.map.z[row][column], frame.map.unit);
    }
    return null;
  }
  // What is alive at a place of a step, the largest first.
  function alive(parts, place) {
    const held = Object.entries(parts || {}).map(([name, values]) => [name, values[place]]).filter(([, value]) => value > 0);
    return held.sort((one, other) => other[1] - one[1]).map(([name, value]) => "\n  " + name.replaceAll("_", " ") + " " + written(value, "B")).join("");
  }
  const frames = new WeakMap();
  function frame_of(figure) {
    if (!frames.has(figure)) frames.set(figure, JSON.parse(figure.dataset.frame));
    return frames.get(figure);
  }
  function framed(target, event) {
    const svg = target.closest("svg[data-box]");
    const figure = svg && svg.closest("figure[data-frame]");
    if (!figure) return null;
    const frame = frame_of(figure);
    const [left, top, right, bottom] = svg.dataset.box.split(" ").map(Number);
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const across = ((event.clientX - box.left) * scale - left) / (right - left);
    const up = (bottom - (event.clientY - box.top) * scale) / (bottom - top);
    if (across < 0 || across > 1 || up < 0 || up > 1) return null;
    return reading(frame, along(frame.x, across), along(frame.y, up));
  }

  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (!(event.target instanceof Element)) return hush();
    const area = mark && mark.classList.contains("area");
    const text = (mark && !area && mark.dataset.tip) || framed(event.target, event) || (mark && mark.dataset.tip);
    if (text) say(area && text !== mark.dataset.tip ? mark.dataset.tip + "\n" + text : text, event.clientX, event.clientY); else hush();
  });
  document.addEventListener("pointerleave", hush);
  document.addEventListener("scroll", hush, { passive: true });
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest("[data-tip]");
    if (!mark) return;
    const box = mark.getBoundingClientRect();
    say(mark.dataset.tip, box.left + box.width / 2, box.top);
  });
  document.addEventListener("focusout", hush);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });

  // Tables: a press on a head sorts by its column, another turns it round.
  function sortable(table) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, body, head, column));
    });
  }
  function sort(table, body, head, column) {
    const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const keyed = [...body.rows].map((row) => [key_of(row.cells[column]), row]);
    const empty = (key) => key === "" || key === "-";
    keyed.sort(([one], [other]) => empty(one) || empty(other) ? empty(one) - empty(other)
      : way * (typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true })));
    [...head.parentElement.cells].forEach((cell) => cell.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    body.append(...keyed.map(([, row]) => row));
  }
  function key_of(cell) {
    const shown = cell.querySelector("data");
    return shown ? Number(shown.value) : cell.textContent.trim();
  }

  // What a report has that needs the script; of a part that comes later, whoever put it there calls this.
  function dress(root) {
    root.querySelectorAll("svg title").forEach((title) => title.remove());
    root.querySelectorAll("table").forEach(sortable);
  }
  dress(document);

  function copy(button, text) {
    const name = button.dataset.name || (button.dataset.name = button.textContent);
    const said = (word) => { button.textContent = word; setTimeout(() => { button.textContent = name; }, 1500); };
    const select = () => {
      const shown = button.parentElement.querySelector("pre");
      if (shown) getSelection().selectAllChildren(shown);
      said(shown ? "selected" : "could not copy");
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => said("copied"), select); else select();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".copy");
    if (button) copy(button, button.parentElement.querySelector("pre").textContent);
  });

  const save = document.getElementById("save");
  if (save) save.addEventListener("click", (event) => {
    event.preventDefault();
    const data = JSON.parse(document.getElementById("data").textContent);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(data, null, 2)], { type: "application/json" }));
    link.download = "roofsim.json";
    link.click();
  });
  return { written, three, dress, copy };
})();

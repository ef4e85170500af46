// Make elements. Text goes in as text: nothing here reads HTML.

/** Return an element: attributes as they are, `on...` as listeners, children as nodes or text. */
export function h(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value") made.value = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const by = (id) => document.getElementById(id);

/** Return a function that runs after `pause` ms without another call; `cancel` forgets a call that waits. */
export function paused(run, pause) {
  let timer = 0;
  const call = (...given) => { clearTimeout(timer); timer = setTimeout(() => run(...given), pause); };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Return what a nested mapping holds at a path of keys. */
export function at(mapping, path) {
  return path.reduce((here, key) => (here !== null && typeof here === "object" ? here[key] : undefined), mapping);
}

/** Return a mapping like another with a value at a path; `undefined` takes the key out, and what is empty then. */
export function put(mapping, [key, ...rest], value) {
  const made = { ...(mapping !== null && typeof mapping === "object" ? mapping : {}) };
  const inner = rest.length ? put(made[key], rest, value) : value;
  if (inner === undefined || (rest.length && Object.keys(inner).length === 0)) delete made[key];
  else made[key] = inner;
  return made;
}

/** Return what somebody wrote as a value of a scenario: a number where it is one, otherwise the text, which Python reads. */
export function valueOf(text) {
  const written = text.trim();
  if (written === "") return undefined;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(written) && Number.isFinite(Number(written)) ? Number(written) : written;
}

/** Say something to screen readers. */
export function announce(text) {
  by("live").textContent = text;
}

let places = 0;
/** Return an id that no other element has. */
export function id(stem) {
  places += 1;
  return `${stem}-${places}`;
}

// A question as a link: `#scenario=` and base64url of its JSON, deflated where that is shorter (then a `~` stands before it).

const MARK = "#scenario=";
/** Questions whose JSON is longer are deflated. */
const LONG = 1200;
/** Longest link that is read: beyond it nobody shares links. */
const MOST = 2000000;

function base64url(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function bytesOf(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (sign) => sign.charCodeAt(0));
}

async function through(stream, bytes) {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

/** Return the part of an address that holds a question. */
export async function written({ verb, scenario, options }) {
  const bytes = new TextEncoder().encode(JSON.stringify({ verb, scenario, options }));
  if (bytes.length <= LONG || typeof CompressionStream === "undefined") return MARK + base64url(bytes);
  return `${MARK}~${base64url(await through(new CompressionStream("deflate-raw"), bytes))}`;
}

/** Return the question that an address holds, or null where it holds none; raise where it cannot be read. */
export async function read(hash) {
  if (!hash.startsWith(MARK)) return null;
  const held = decodeURIComponent(hash.slice(MARK.length));
  if (held.length > MOST) throw new Error("it is too long");
  const packed = held.startsWith("~");
  let bytes = bytesOf(packed ? held.slice(1) : held);
  if (packed) bytes = await through(new DecompressionStream("deflate-raw"), bytes);
  const question = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  if (question === null || typeof question !== "object" || typeof question.verb !== "string") throw new Error("it names no verb");
  const { verb, scenario, options } = question;
  if (typeof scenario === "string") return { verb, scenario: { model: scenario }, options: mapping(options) };
  return { verb, scenario: mapping(scenario), options: mapping(options) };
}

function mapping(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}

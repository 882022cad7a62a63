"use strict";
// The state of the page: kept by the browser over a reload, and in the fragment of the address, which no browser sends.
const KEPT = "chatcodec studio";
const LONGEST_KEPT = 2_000_000, LONGEST_LINK = 16_000;

const textOf = (value, otherwise) => (typeof value === "string" ? value : otherwise);

// Puts a value that was read into `state`: models by their names, and nothing of another type.
function restore(state, read, offered) {
  if (!isObject(read)) return;
  const missing = [];
  for (const [key, from] of [["vocabulary", "model"], ["besideVocabulary", "besideModel"]]) {
    if (typeof read[from] !== "string") continue;
    const at = offered.vocabularies.indexOf(read[from]);
    if (at >= 0) state[key] = at;
    else missing.push(read[from]);
  }
  for (const key of ["format", "besideFormat"]) {
    const name = textOf(read[key], "");
    if (!name || offered.formats.includes(name)) state[key] = name;
    else missing.push(name);
  }
  if (Array.isArray(read.messages)) state.messages = read.messages;
  if (Array.isArray(read.tools)) state.tools = read.tools;
  state.drop = read.drop === true;
  state.completion = textOf(read.completion, state.completion);
  if (["tokens", "compare", "stream", "live"].includes(read.view)) state.view = read.view;
  state.missing = [...new Set(missing)];
}

function written(state, offered) {
  const { format, besideFormat, messages, tools, drop, completion, view } = state;
  return JSON.stringify({ model: offered.vocabularies[state.vocabulary], besideModel: offered.vocabularies[state.besideVocabulary], format, besideFormat, messages, tools, drop, completion, view });
}

async function through(bytes, stream, most) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    parts.push(value);
    size += value.length;
    if (size > most) throw new Error("too long");
  }
}

async function toFragment(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), LONGEST_LINK);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return "#s=" + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function ofFragment(fragment) {
  const binary = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(Uint8Array.from(binary, (char) => char.charCodeAt(0)), new DecompressionStream("deflate-raw"), LONGEST_KEPT);
  return JSON.parse(new TextDecoder().decode(bytes));
}

// Gives what the address has, or else what the browser kept; null for neither, or where it is no state.
async function readState() {
  try {
    return location.hash.startsWith("#s=") ? await ofFragment(location.hash) : JSON.parse(localStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

// Keeps the state; says in `node` what could not be kept.
let keeping = 0;
async function keepState(text, node) {
  const mine = ++keeping;
  let why = "";
  try {
    if (text.length > LONGEST_KEPT) throw new Error("too long");
    localStorage.setItem(KEPT, text);
  } catch {
    why = "Too long to be kept over a reload.";
    localStorage.removeItem(KEPT);
  }
  let fragment = location.pathname;
  try {
    fragment = await toFragment(text);
  } catch {
    why ||= "Too long for the address; kept by this browser.";
  }
  if (mine !== keeping) return;
  history.replaceState(null, "", fragment);
  node.textContent = why;
}

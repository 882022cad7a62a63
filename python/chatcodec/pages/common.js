"use strict";
// A caller's text reaches the page as text nodes and attribute values alone, never as markup.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}]/u;
const joiners = new Set(["\u200c", "\u200d"]);

function make(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A sign for a character that cannot be seen, or that reorders or ends lines.
function sign(char) {
  const code = char.codePointAt(0);
  if (char === "\n") return "↵";
  if (char === "\t") return "⇥";
  if (code < 32) return String.fromCodePoint(0x2400 + code);
  return "⟨" + code.toString(16).toUpperCase().padStart(4, "0") + "⟩";
}

// Text with signs for what cannot be seen. A newline keeps its break where `breaks` is set.
function shown(text, breaks) {
  if (!hidden.test(text)) return [document.createTextNode(text)];
  const parts = [];
  let plain = "";
  for (const char of text) {
    if (!hidden.test(char) || joiners.has(char)) {
      plain += char;
      continue;
    }
    if (plain) parts.push(document.createTextNode(plain));
    plain = breaks && char === "\n" ? "\n" : "";
    parts.push(make("span", { class: "pic" }, sign(char)));
  }
  if (plain) parts.push(document.createTextNode(plain));
  return parts;
}

// Works when the browser has time, and first after the first paint is on the screen: what runs before takes time
// from the paint. A page that is hidden paints nothing.
// A browser that sees no frames may have no idle time for seconds.
const idle = window.requestIdleCallback ? (work) => window.requestIdleCallback(work, { timeout: 300 }) : (work) => setTimeout(work, 30);
const hasTime = (deadline, begun) => deadline !== undefined && (deadline.timeRemaining() > 4 || (deadline.didTimeout && performance.now() < begun + 12));
const isPainted = () => performance.getEntriesByName("first-contentful-paint").length > 0;
function afterPaint(work) {
  let isBegun = false;
  const begin = () => { if (!isBegun) { isBegun = true; idle(work); } };
  const canObserve = (window.PerformanceObserver?.supportedEntryTypes || []).includes("paint");
  requestAnimationFrame(() => setTimeout(() => {
    if (!canObserve || isPainted()) begin();
    else new PerformanceObserver(() => { if (isPainted()) begin(); }).observe({ type: "paint" });
  }));
  setTimeout(begin, 1000);
}

function choices(name, title, options, chosen, change) {
  const labels = options.map(([value, text]) =>
    make("label", {}, make("input", {
      type: "radio", name, value, checked: value === chosen, onchange: () => change(value),
    }), " " + text));
  return make("fieldset", {}, make("legend", {}, title), ...labels);
}

function facts(node, rows) {
  node.replaceChildren(make("dl", {}, ...rows.map(([term, value, style]) =>
    make("div", {}, make("dt", {}, term), make("dd", { class: style || "" }, ...shown(String(value)))))));
}

// The chunks of a stream of server-sent events.
async function* chunksOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
  }
}

"use strict";
// What the buttons copy: ids, a program in Python, and a request of curl.

// Writes a JSON value in Python's syntax.
function inPython(value, indent = "") {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = indent + "    ";
  const [open, close, parts] = Array.isArray(value)
    ? ["[", "]", value.map((each) => inPython(each, inner))]
    : ["{", "}", Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${inPython(each, inner)}`)];
  return parts.length ? `${open}\n${parts.map((part) => `${inner}${part},\n`).join("")}${indent}${close}` : open + close;
}

// What was dropped is named as its file is: the reader has it somewhere.
const DROPPED = / \(dropped(?:, \d+)?\)$/;

function asPython({ model, isEmbedded, format, messages, tools, drop }) {
  const path = isEmbedded ? '"embedded"' : inPython(model.replace(DROPPED, ""));
  const file = format.replace(DROPPED, "");
  const writer = file === format ? inPython(format) : `${file.endsWith(".toml") ? "Format" : "Template"}.load(${inPython(file)})`;
  const isTemplate = writer.startsWith("Template");
  const codec = isTemplate || isEmbedded ? `Codec(${format ? writer : '"internlm2"'}, vocab=${path})`
    : `Codec.from_pretrained(${path}${format ? `, ${writer}` : ""})`;
  const names = ["Codec", ...(file === format ? [] : [isTemplate ? "Template" : "Format"])];
  return `from chatcodec import ${names.join(", ")}\n\ncodec = ${codec}\nmessages = ${inPython(messages)}\n`
    + (tools ? `tools = ${inPython(tools)}\n` : "")
    + `encoding = codec.encode(messages${tools ? ", tools=tools" : ""}, unknown="ignore"${drop ? ', on_unsupported="drop"' : ""})\n`
    + "print(encoding.ids.tolist())\n";
}

// A request to the gateway (`chatcodec serve`) or any server of OpenAI's interface.
function asCurl({ model, messages, tools }) {
  const body = JSON.stringify({ model, messages, ...(tools ? { tools } : {}) }, null, 1);
  return "curl http://127.0.0.1:8000/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n"
    + `  -d '${body.replaceAll("'", "'\\''")}'\n`;
}

// Buttons that copy what `texts` give by name; and a line that says so.
function copyButtons(texts) {
  const said = make("span", { class: "dim", role: "status" });
  const copy = async (name) => {
    const text = texts[name]();
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = `copied ${name}`;
    } catch (error) {
      said.textContent = `The browser refuses to copy: ${error.message}`;
    }
  };
  return make("div", { class: "copies", role: "group", "aria-label": "copy" }, said, make("span", { class: "dim" }, "Copy"),
    ...Object.keys(texts).map((name) => press(name, `copy ${name}`, () => copy(name))));
}

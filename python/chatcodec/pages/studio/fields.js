"use strict";
// The fields of the form, by the path of the value that each holds, such as `messages[0].role`: an error stands under its field.
const fields = new Map();
// What a field holds that is no JSON, by path: nothing is asked while there is any.
const problems = new Map();

function field(path, text, node, style) {
  const id = "at-" + path.replace(/\W+/g, "-");
  const error = make("p", { class: "wrong", id: id + "-error", role: "alert" });
  node.id = id;
  node.setAttribute("aria-describedby", error.id);
  fields.set(path, { node, error });
  return make("div", { class: "field " + (style || "") }, make("label", { for: id }, text), node, error);
}

function forgetFields(prefix) {
  for (const known of [fields, problems])
    for (const path of known.keys()) if (path.startsWith(prefix)) known.delete(path);
}

function clearErrors() {
  for (const { node, error } of fields.values()) {
    if (error.hasChildNodes()) error.replaceChildren();
    node.removeAttribute("aria-invalid");
  }
}

// The field of a path, or of what the path is in; undefined where no field holds it.
function fieldOf(path) {
  const inner = /(?:\.[^.[\]]+|\[[^\]]*\]|^[^.[\]]+)$/;
  for (let name = path; name; name = name.replace(inner, "")) {
    if (fields.has(name)) return fields.get(name);
    if (!inner.test(name)) return undefined;
  }
  return undefined;
}

function showError(path, message) {
  const found = fieldOf(path);
  if (!found) return undefined;
  found.error.replaceChildren(...shown(message));
  found.node.setAttribute("aria-invalid", "true");
  return found.node;
}

// A text area as high as its text; of a long text it has a fixed height, for that is measured at each key.
const LONG_TEXT = 5000;
function area(value, input, properties) {
  const fit = () => node.classList.toggle("long", node.value.length > LONG_TEXT);
  const node = make("textarea", { rows: "1", spellcheck: "false", autocomplete: "off", oninput: () => { fit(); input(node.value); }, ...properties });
  node.value = value;
  fit();
  return node;
}

function line(value, input, properties) {
  const node = make("input", { type: "text", spellcheck: "false", autocomplete: "off", oninput: () => input(node.value), ...properties });
  node.value = value;
  return node;
}

// A text area that holds JSON. The value stays as it was while the text is no JSON.
function jsonArea(path, value, set, properties) {
  return area(value === undefined || value === null ? "" : JSON.stringify(value, null, 1), (text) => {
    problems.delete(path);
    try {
      set(text.trim() ? JSON.parse(text) : null);
    } catch (error) {
      problems.set(path, error instanceof SyntaxError ? `not JSON: ${error.message}` : error.message);
    }
  }, properties);
}

function press(text, name, work, style) {
  return make("button", { type: "button", class: style || "small", "aria-label": name === text ? undefined : name, title: name === text ? undefined : name, onclick: work }, text);
}

"use strict";
// An editor of messages and tools. It changes the values of `state` in place, keys that it does not show included,
// and calls `changed`. The same values are shown as JSON in its other view.
const ROLES = ["system", "developer", "user", "assistant", "tool"];
const REASONING = ["reasoning_content", "thinking", "reasoning"];
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function startEditor(state, changed) {
  const list = make("ol", { class: "cards", id: "cards", tabindex: "-1", "aria-label": "messages" });
  const tools = make("ol", { class: "cards", "aria-label": "tools" });
  const below = make("div", {});
  const body = make("div", { class: "editor" });
  const inside = (text) => ({ onfocus: (event) => { last = event.target; }, ...text });
  // The text area that had the focus last: attacks go there.
  let last = null;

  const text = (path, name, value, set, style) =>
    field(path, name, area(value, (typed) => { set(typed); changed(); }, inside()), style);
  const json = (path, name, value, set) =>
    field(path, name, jsonArea(path, value, set, { class: "code" }));
  const short = (path, name, value, set) =>
    field(path, name, line(value, (typed) => { set(typed); changed(); }), "row");

  const content = (message, path) => {
    const at = `${path}.content`;
    if (Array.isArray(message.content)) return json(at, "content, as parts", message.content, (value) => { message.content = value; });
    const name = message.role === "tool" ? "result" : "content";
    return text(at, name, message.content ?? "", (value) => { message.content = value; }, "main");
  };
  const call = (message, path, nth) => {
    const each = message.tool_calls[nth];
    const called = isObject(each.function) ? each.function : each;
    const at = `${path}.tool_calls[${nth}]` + (called === each ? "" : ".function");
    const given = typeof called.arguments === "string" ? called.arguments : JSON.stringify(called.arguments ?? {});
    const remove = () => {
      message.tool_calls.splice(nth, 1);
      if (!message.tool_calls.length) delete message.tool_calls;
      redraw();
    };
    return make("div", { class: "call" }, short(`${at}.name`, "calls", called.name ?? "", (value) => { called.name = value; }),
      text(`${at}.arguments`, "arguments", given, (value) => { called.arguments = value; }, "code"),
      press("✕", `remove call ${nth + 1}`, remove));
  };
  const addCall = (message) => {
    const id = `call_${state.messages.reduce((sum, each) => sum + (Array.isArray(each.tool_calls) ? each.tool_calls.length : 0), 0)}`;
    const tool = Array.isArray(state.tools) && isObject(state.tools[0]) ? state.tools[0].function ?? state.tools[0] : null;
    message.tool_calls = [...(Array.isArray(message.tool_calls) ? message.tool_calls : []),
      { id, type: "function", function: { name: tool?.name ?? "get_weather", arguments: '{"city": "Oslo"}' } }];
    redraw();
  };
  const card = (message, nth) => {
    const path = `messages[${nth}]`;
    const role = make("select", { onchange: () => { message.role = role.value; redraw(nth); } },
      ...[...new Set([...ROLES, String(message.role)])].map((name) => make("option", { value: name, selected: name === message.role }, name)));
    const move = (step) => {
      const [moved] = state.messages.splice(nth, 1);
      state.messages.splice(nth + step, 0, moved);
      redraw(nth + step, step < 0 ? ".up" : ".down");
    };
    const head = make("div", { class: "card-head" }, field(`${path}.role`, `role of message ${nth + 1}`, role, "quiet"),
      make("span", { class: "dim number" }, String(nth + 1)),
      nth ? press("↑", `move message ${nth + 1} up`, () => move(-1), "small up") : null,
      nth + 1 < state.messages.length ? press("↓", `move message ${nth + 1} down`, () => move(1), "small down") : null,
      press("✕", `remove message ${nth + 1}`, () => { state.messages.splice(nth, 1); redraw(Math.min(nth, state.messages.length - 1)); }));
    const parts = [];
    const isAssistant = message.role === "assistant";
    const thought = REASONING.find((name) => typeof message[name] === "string");
    if (thought) parts.push(text(`${path}.${thought}`, "reasoning", message[thought], (value) => { message[thought] = value; }));
    if (message.role === "tool") {
      parts.push(make("div", { class: "pair" },
        short(`${path}.tool_call_id`, "of the call", message.tool_call_id ?? "", (value) => { message.tool_call_id = value; }),
        short(`${path}.name`, "function", message.name ?? "", (value) => { message.name = value; })));
    }
    parts.push(content(message, path));
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls : [];
    parts.push(...calls.map((each, at) => (isObject(each) ? call(message, path, at) : null)));
    if (isAssistant) parts.push(make("div", { class: "adds" }, thought ? press("remove reasoning", "remove reasoning", () => { delete message[thought]; redraw(nth); })
      : press("+ reasoning", "+ reasoning", () => { message.reasoning = ""; redraw(nth, ".field:not(.quiet) textarea"); }),
    press("+ call", "+ call", () => addCall(message))));
    const node = make("li", { class: "card " + (roleColours[message.role] === undefined ? "" : message.role) }, head, ...parts);
    // What is wrong with the whole message stands under its role.
    fields.set(path, fields.get(`${path}.role`));
    return node;
  };
  const tool = (each, nth) => {
    const declared = isObject(each.function) ? each.function : each;
    const at = `tools[${nth}]` + (declared === each ? "" : ".function");
    const remove = () => { state.tools.splice(nth, 1); if (!state.tools.length) state.tools = null; redraw(); };
    const node = make("li", { class: "card" },
      make("div", { class: "pair" }, short(`${at}.name`, "name", declared.name ?? "", (value) => { declared.name = value; }),
        press("✕", `remove tool ${nth + 1}`, remove)),
      text(`${at}.description`, "description", declared.description ?? "", (value) => { declared.description = value; }),
      json(`${at}.parameters`, "parameters (JSON schema)", declared.parameters, (value) => { declared.parameters = value ?? {}; }));
    fields.set(`tools[${nth}]`, fields.get(`${at}.name`));
    return node;
  };
  // The first call that no later message answers.
  const unanswered = () => {
    const answered = new Set(state.messages.map((each) => each.tool_call_id));
    return state.messages.flatMap((each) => (Array.isArray(each.tool_calls) ? each.tool_calls : [])).find((each) => isObject(each) && !answered.has(each.id));
  };
  const fresh = {
    user: () => ({ role: "user", content: "" }),
    assistant: () => ({ role: "assistant", content: "" }),
    result: () => {
      const open = unanswered();
      return { role: "tool", ...(open ? { tool_call_id: open.id, name: (open.function ?? open).name } : {}), content: "" };
    },
    system: () => ({ role: "system", content: "" }),
  };
  const add = (kind) => {
    const message = fresh[kind]();
    if (kind === "system") state.messages.unshift(message);
    else state.messages.push(message);
    redraw(kind === "system" ? 0 : state.messages.length - 1, ".main textarea");
  };
  const addTool = () => {
    state.tools = [...(Array.isArray(state.tools) ? state.tools : []), { type: "function", function: {
      name: "get_weather", description: "The weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
    redraw();
  };

  const isEditable = () => Array.isArray(state.messages) && state.messages.every(isObject)
    && (state.tools === null || (Array.isArray(state.tools) && state.tools.every(isObject)));
  const drawCards = () => {
    list.replaceChildren(...state.messages.map(card));
    tools.replaceChildren(...(state.tools ?? []).map(tool));
    const error = make("p", { class: "wrong", id: "cards-error", role: "alert" });
    fields.set("messages", { node: list, error });
    below.replaceChildren(error, make("div", { class: "adds", role: "group", "aria-label": "add a message" },
      ...Object.keys(fresh).map((kind) => press(`+ ${kind}`, `+ ${kind}`, () => add(kind)))));
    const toolsError = make("p", { class: "wrong", role: "alert" });
    fields.set("tools", { node: tools, error: toolsError });
    body.replaceChildren(list, below, make("h2", {}, "Tools"), tools, toolsError, make("div", { class: "adds" }, press("+ tool", "+ tool", addTool)));
  };
  const drawJson = () => {
    const of = (name, text, rows) => field(name, text, jsonArea(name, state[name], (value) => {
      if (name === "messages" && !Array.isArray(value)) throw new Error("expected a list of messages");
      state[name] = value;
    }, { class: "code", rows, onfocus: (event) => { last = event.target; } }), "json");
    body.replaceChildren(of("messages", "Messages (JSON)", "18"), of("tools", "Tools (JSON)", "6"));
  };
  let view = "editor";
  // Draws the view anew, with the focus on a part of the message `nth`.
  const draw = (nth, part) => {
    forgetFields("messages");
    forgetFields("tools");
    if (view === "json" || !isEditable()) drawJson();
    else drawCards();
    if (nth !== undefined && nth >= 0) (list.children[nth]?.querySelector(part ?? "select") ?? list.children[nth]?.querySelector("select"))?.focus();
  };
  const redraw = (nth, part) => {
    last = null;
    draw(nth, part);
    changed();
  };
  const setView = (value) => {
    if (value === "editor" && (problems.size || !isEditable())) {
      problems.set("messages", problems.get("messages") ?? "expected a list of messages, each an object; the editor shows no others");
      views.querySelector("[value=json]").checked = true;
      changed();
      return;
    }
    view = value;
    redraw();
  };
  const views = choices("view", "", [["editor", "Editor"], ["json", "JSON"]], view, setView);
  views.setAttribute("aria-label", "how messages are shown");
  views.classList.add("segments");
  // Changes of JSON areas come by their events, as those of cards do.
  body.addEventListener("input", (event) => { if (event.target.classList.contains("code")) changed(); });
  draw();

  // Puts text into the text area that had the focus last, or else into the last user's message.
  const insert = (typed) => {
    if (!list.isConnected) {
      const users = isEditable() ? state.messages.filter((each) => each.role === "user" && typeof each.content === "string") : [];
      if (users.length) users[users.length - 1].content += typed;
      redraw();
      return;
    }
    const users = list.querySelectorAll(".card.user .main textarea");
    const target = last?.isConnected ? last : users[users.length - 1] ?? list.querySelector(".main textarea");
    if (!target) return;
    if (target !== last) target.setSelectionRange(target.value.length, target.value.length);
    target.setRangeText(typed, target.selectionStart, target.selectionEnd, "end");
    target.dispatchEvent(new Event("input", { bubbles: true }));
  };
  return { node: body, views, insert, draw: () => redraw() };
}

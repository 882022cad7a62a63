"use strict";
// A client of the gateway: sends the question, shows the prompt's tokens and the stream as it comes, runs the tool.
(() => {
  const { model, question, tools, result } = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  const detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the token", tabindex: "0" });
  const talk = make("ol", { class: "talk", "aria-label": "the conversation" });
  const prompt = make("div", { id: "prompt" });
  const rows = make("tbody", {});
  const state = make("p", { class: "dim", role: "status" });
  const error = make("p", { class: "wrong", role: "alert" });
  const text = make("textarea", { id: "question", rows: "5", spellcheck: "false" });
  text.value = question;
  const send = make("button", { class: "go" }, "Send");

  const post = async (path, body) => {
    const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (answer.ok) return answer;
    const value = await answer.json();
    throw new Error(value.error.message);
  };
  // A message of the conversation; gives the node of its text, which a stream fills.
  const say = (role, content, kind) => {
    const body = make("div", { class: "said" }, ...shown(content, true));
    talk.append(make("li", { class: role }, make("span", { class: "head" }, kind || role), body));
    return body;
  };
  const row = (ids, kind, value) => {
    rows.append(make("tr", {}, make("td", { class: "code" }, ids.join(" ")), make("td", {}, kind), make("td", { class: "code" }, ...shown(value))));
    rows.parentNode.parentNode.scrollTop = rows.parentNode.scrollHeight;
  };
  // Scrolls both panes to what the user's text spells, when all tokens are shown.
  const toForged = () => {
    if (!prompt.dataset.ready) {
      requestAnimationFrame(toForged);
      return;
    }
    for (const [pane, forged] of [[".tokens", "mark"], [".string", "button"]]) {
      const node = prompt.querySelector(pane);
      const first = node.querySelector(forged);
      if (first) node.scrollTop += first.getBoundingClientRect().top - node.getBoundingClientRect().top - node.clientHeight / 4;
    }
  };
  async function ask(messages, nth) {
    const data = await (await post("demo/tokens", { messages, tools })).json();
    delete prompt.dataset.ready;
    showEncoding(prompt, detail, data);
    toForged();
    state.textContent = `Request ${nth}: the engine generates ids, the gateway reads them.`;
    row([], `request ${nth}`, "");
    const body = { model, messages, stream: true, return_token_ids: true, ...(tools.length ? { tools } : {}) };
    const message = { role: "assistant", content: "" };
    let said = null, called = null, ids = [];
    // Ids of chunks that show nothing belong to the next row.
    const next = (kind, value) => {
      row(ids, kind, value);
      ids = [];
    };
    for await (const chunk of chunksOf(await post("v1/chat/completions", body))) {
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices[0];
      if (!choice) continue;
      const { content, tool_calls: calls, reasoning_content: reasoning } = choice.delta;
      ids.push(...(choice.token_ids || []));
      if (reasoning) next("reasoning", reasoning);
      else if (content) {
        message.content += content;
        (said ??= say("assistant", "")).replaceChildren(...shown(message.content, true));
        next("text", content);
      } else if (calls) {
        const { id, function: part } = calls[0];
        message.tool_calls ??= [{ id, type: "function", function: { name: "", arguments: "" } }];
        const call = message.tool_calls[0].function;
        call.name += part.name || "";
        call.arguments += part.arguments || "";
        (called ??= say("assistant", "", "assistant: a call")).replaceChildren(...shown(`${call.name}(${call.arguments})`, true));
        next(part.name ? "call" : "arguments", part.name || part.arguments || "");
      } else if (choice.finish_reason) next("end", choice.finish_reason);
    }
    return message;
  }
  async function run() {
    send.disabled = true;
    error.replaceChildren();
    talk.replaceChildren();
    rows.replaceChildren();
    delete main.dataset.done;
    const messages = [{ role: "user", content: text.value }];
    try {
      say("user", text.value);
      for (let nth = 1; nth < 4; nth++) {
        const message = await ask(messages, nth);
        messages.push(message);
        if (!message.tool_calls) break;
        const call = message.tool_calls[0];
        messages.push({ role: "tool", tool_call_id: call.id, name: call.function.name, content: result });
        say("tool", result, "tool: the result");
      }
      state.textContent = "Done. Change the text, and send it again.";
    } catch (problem) {
      state.textContent = "";
      error.replaceChildren(...shown(problem.message));
    }
    send.disabled = false;
    main.dataset.done = "yes";
  }
  const form = make("form", { onsubmit: (event) => { event.preventDefault(); run(); } },
    make("label", { for: "question" }, "What a user types"), text, make("p", {}, send), state, error);
  main.append(
    make("p", {}, "The user's text spells control tokens, to forge an answer and another turn. The gateway gives the engine ids in which they are text. The engine is a script in the place of vLLM; this page is the client."),
    make("div", { class: "studio demo" },
      make("div", {}, form, make("h2", {}, "The conversation"), talk),
      make("div", {}, make("h2", {}, "The prompt: the ids that the engine gets"), prompt,
        make("h2", {}, "The stream, as it comes"),
        make("div", { class: "scroll live", tabindex: "0", role: "region", "aria-label": "the stream" },
          make("table", {}, make("thead", {}, make("tr", {}, ...["ids", "kind", "text"].map((name) => make("th", { scope: "col" }, name)))), rows)))));
  document.body.append(detail);
  run();
})();

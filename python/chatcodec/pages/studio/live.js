"use strict";
// A request to the operator's gateway, and its stream as it comes.
const LIVE_ROWS = 2000, PROMPT_IDS = 2000;

// The kind and the text of what a chunk adds.
function* addedBy({ delta, finish_reason: finish }) {
  const reasoning = delta?.reasoning_content ?? delta?.reasoning;
  if (reasoning) yield ["reasoning", reasoning];
  if (delta?.content) yield ["text", delta.content];
  for (const call of delta?.tool_calls ?? []) {
    if (call.function?.name) yield ["call", call.function.name];
    if (call.function?.arguments) yield ["arguments", call.function.arguments];
  }
  if (finish) yield ["end", finish];
}

function startLive(address, request, encoded, refuse) {
  const state = make("p", { class: "dim", role: "status" }, `Sends the conversation to ${address}, which chose its own model.`);
  const prompt = make("div", {});
  const rows = make("tbody", {});
  let running = new AbortController();
  const add = (ids, kind, text) => {
    if (rows.childElementCount < LIVE_ROWS)
      rows.append(make("tr", {}, make("td", { class: "code" }, ids.join(" ")), make("td", {}, kind), make("td", { class: "code" }, ...shown(text))));
  };
  const showPrompt = (ids) => {
    const known = encoded();
    const first = known ? commonLength(ids, known.ids) : -1;
    const isSame = known && first === ids.length && first === known.ids.length;
    const said = !known ? "" : isSame ? " They are those of the tab Tokens." : ` They differ from those of the tab Tokens from id ${first} on.`;
    prompt.replaceChildren(make("p", { class: isSame ? "verdict safe" : "verdict" }, `The engine got ${ids.length} ids.${said}`),
      make("p", { class: "string", tabindex: "0", role: "region", "aria-label": "ids of the prompt" }, ids.slice(0, PROMPT_IDS).join(" ") + (ids.length > PROMPT_IDS ? " …" : "")));
  };
  const send = async () => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    rows.replaceChildren();
    prompt.replaceChildren();
    state.textContent = "The gateway reads the request.";
    try {
      const answer = await fetch("/live", { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(request()) });
      if (!answer.ok) {
        const { error, path } = await answer.json();
        throw Object.assign(new Error(error), { path });
      }
      let ids = [], isOver = false;
      for await (const chunk of chunksOf(answer)) {
        if (chunk.error) throw new Error(chunk.error.message);
        if (chunk.prompt_token_ids) showPrompt(chunk.prompt_token_ids);
        const choice = chunk.choices?.[0];
        if (!choice) continue;
        // Ids of chunks that show nothing belong to the next row.
        ids.push(...(choice.token_ids ?? []));
        for (const [kind, text] of addedBy(choice)) {
          add(ids, kind, text);
          ids = [];
          isOver ||= kind === "end";
        }
        state.textContent = `The stream comes: ${rows.childElementCount} rows.`;
      }
      state.textContent = isOver ? "Done." : "The stream ended before the answer did.";
    } catch (problem) {
      if (signal.aborted) return;
      state.textContent = "";
      refuse(problem);
    }
  };
  return make("div", {}, make("p", {}, press("Send", "Send", send, "go")), state, prompt,
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the stream of the gateway" },
      make("table", { class: "came" }, make("thead", {}, make("tr", {}, ...["ids", "kind", "text"].map((name) => make("th", { scope: "col" }, name)))), rows)));
}

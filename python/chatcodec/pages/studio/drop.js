"use strict";
// Files that are dropped on the page, or chosen: a model's files, a chat template or a format file.
function startDrop(most, taken) {
  const input = make("input", { type: "file", multiple: true, onchange: () => { send([...input.files]); input.value = ""; } });
  const node = field("files", "Open files", input, "row files");
  const send = async (files) => {
    if (!files.length) return;
    fields.get("files").error.replaceChildren();
    input.removeAttribute("aria-invalid");
    node.classList.add("sending");
    try {
      // The vocabulary of a GGUF file is at its beginning; its weights stay where they are.
      const parts = files.map((file) => (/\.gguf$/i.test(file.name) ? file.slice(0, most) : file));
      const size = parts.reduce((sum, part) => sum + part.size, 0);
      if (size > most) throw new Error(`${size} bytes of files, expected at most ${most}`);
      const names = files.map(({ name }, at) => ({ name, size: parts[at].size }));
      const answer = await fetch("/files", { method: "POST", body: new Blob(parts),
        headers: { "Content-Type": "application/octet-stream", "X-Files": encodeURIComponent(JSON.stringify(names)) } });
      const value = await answer.json();
      if (value.error !== undefined) throw new Error(value.error);
      taken(value);
    } catch (problem) {
      showError("files", problem.message);
    } finally {
      node.classList.remove("sending");
    }
  };
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const mark = (isOver) => document.body.classList.toggle("dropping", isOver);
  addEventListener("dragover", (event) => { if (hasFiles(event)) { event.preventDefault(); mark(true); } });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) mark(false); });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(false);
    send([...event.dataTransfer.files]);
  });
  return node;
}

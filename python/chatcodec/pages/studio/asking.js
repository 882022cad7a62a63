"use strict";
// Requests to the studio's server. A request that is overtaken by the next one is aborted, and its answer dropped.
const PAUSE = 150, LONG_PAUSE = 400, LONG = 50_000;

async function post(path, value, signal) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value), signal });
  const read = await answer.json();
  if (read.error !== undefined) throw Object.assign(new Error(read.error), { path: read.path });
  return read;
}

// Runs `work` when nothing was typed for a moment; `work` is given a signal that says whether it was overtaken.
function latest(work) {
  let waiting = 0;
  let running = new AbortController();
  const run = async () => {
    running.abort();
    running = new AbortController();
    await work(running.signal);
  };
  return { now: run, soon: (size) => {
    clearTimeout(waiting);
    running.abort();
    waiting = setTimeout(run, size > LONG ? LONG_PAUSE : PAUSE);
  } };
}

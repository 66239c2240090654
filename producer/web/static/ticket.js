"use strict";
// A ticket's page, live: steps, tools and tokens of the running turn, written as text. Without this file a reload shows the same.
(() => {
  const page = document.getElementById("ticket");
  if (!page || !window.EventSource) return;
  const live = document.getElementById("live");
  const steps = document.getElementById("live-steps");
  const draft = document.getElementById("live-draft");
  const text = document.getElementById("live-text");
  const problem = document.getElementById("live-problem");
  const SHOWN = 20;
  // Not this page's address: after a refused action that is the action's, and loading it again would send it again.
  const home = `/tickets/${encodeURIComponent(page.dataset.ticket)}`;
  let busy = false, again = false, turn = "";

  function add(words, kind) {
    for (const old of steps.querySelectorAll(".now")) old.className = "ok";
    const item = document.createElement("li");
    item.className = kind;
    item.textContent = words;
    steps.append(item);
    while (steps.children.length > SHOWN) steps.firstChild.remove();
    live.hidden = false;
  }

  function begin(id) {
    if (id === turn) return;
    turn = id;
    steps.replaceChildren();
    clear();
  }

  function clear() {
    text.textContent = "";
    draft.hidden = true;
  }

  function say(words) {
    problem.textContent = words;
    problem.hidden = !words;
  }

  function exchange(fresh) {
    for (const place of page.querySelectorAll("[data-fresh]")) {
      const other = fresh.querySelector(`[data-fresh="${place.dataset.fresh}"]`);
      // What somebody is filling in, or has in focus, stays.
      if (!other || place.contains(document.activeElement) || [...place.querySelectorAll("input[type=text]")].some((field) => field.value)) continue;
      const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.id));
      const known = new Set([...place.querySelectorAll("details")].map((one) => one.id));
      place.replaceChildren(...document.importNode(other, true).childNodes);
      for (const one of place.querySelectorAll("details")) if (known.has(one.id)) one.open = open.has(one.id);
    }
    page.dataset.pulse = fresh.dataset.pulse;
  }

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(home, {cache: "no-store", headers: {accept: "text/html"}});
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("ticket");
      if (answer.ok && fresh) exchange(fresh);
      else if (answer.redirected || answer.status === 404 || answer.status === 410) window.location.assign(home);
      else say(page.dataset.lost);      // the server is away for a moment: what is being written stays
    } catch {
      say(page.dataset.lost);
    } finally {
      busy = false;
    }
    if (again) {
      again = false;
      refresh();
    }
  }

  const stream = new EventSource(`${home}/live`);
  const on = (name, shown) => stream.addEventListener(name, (event) => shown(JSON.parse(event.data)));
  on("turn", (data) => begin(data.turn));
  on("step", (data) => {
    begin(data.turn);
    if (data.node === "draft") clear();
    add(data.node, "now");
  });
  on("tool", (data) => {
    begin(data.turn);
    add(`${data.name}(${JSON.stringify(data.args)})`, data.is_error ? "danger" : "ok");
  });
  on("token", (data) => {
    begin(data.turn);
    live.hidden = draft.hidden = false;
    text.textContent += data.text;
  });
  on("end", (data) => {
    if (data.turn === turn) {
      live.hidden = true;
      turn = "";
    }
    refresh();
  });
  on("changed", (data) => {
    if (data.pulse !== page.dataset.pulse) refresh();
  });
  on("gone", () => {
    stream.close();
    window.location.assign(home);
  });
  on("full", () => say(page.dataset.full));
  stream.addEventListener("open", () => say(""));
  stream.addEventListener("error", () => say(page.dataset.lost));
})();

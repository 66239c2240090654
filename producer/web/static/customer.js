"use strict";
// The customer's page, live: the steps while an answer is made, and what is new. Without this file a reload shows the same.
(() => {
  const own = document.getElementById("own");
  const live = document.getElementById("live");
  if (!own || !live) return;
  const form = own.querySelector("form");
  const page = encodeURIComponent(own.dataset.page);
  const query = own.dataset.query;
  const POLL = 20000;
  let busy = false, again = false, timer = 0, step = "";

  form.elements.body.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  const head = () => live.querySelector("[data-pulse]");

  function showStep() {
    const place = document.getElementById("step");
    if (head().dataset.state !== "working") step = "";
    else if (step && place) place.textContent = step;
  }

  function show(html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;      // made by our own templates, which escape
    if (fresh.content.querySelector("[data-pulse]").dataset.pulse === head().dataset.pulse) return;
    const before = live.querySelectorAll(".said").length;
    live.replaceChildren(fresh.content);
    showStep();
    const lines = live.querySelectorAll(".said");
    if (lines.length > before && !form.contains(document.activeElement)) {
      lines[lines.length - 1].scrollIntoView({block: "nearest"});
    }
  }

  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(`${page}/conversation${query}`, {cache: "no-store"});
      if (answer.status === 404) window.location.reload();
      else if (answer.ok) show(await answer.text());
    } catch {
      poll();     // the line is away
    } finally {
      busy = false;
    }
    if (again) {
      again = false;
      refresh();
    }
  }

  function poll() {
    if (!timer) timer = window.setInterval(refresh, POLL);
  }

  const stream = new EventSource(`${page}/events${query}`);
  stream.addEventListener("step", (event) => {
    step = JSON.parse(event.data).text;
    showStep();
  });
  stream.addEventListener("changed", (event) => {
    if (JSON.parse(event.data).pulse !== head().dataset.pulse) refresh();
  });
  stream.addEventListener("gone", () => {
    stream.close();
    window.location.reload();
  });
  stream.addEventListener("full", poll);
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) poll();
  });
})();

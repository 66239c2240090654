"use strict";
// Pages work without this file: it keeps a second click from being sent.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  if (form.method === "post") {
    form.dataset.sent = "yes";
    form.querySelectorAll("button").forEach((button) => button.setAttribute("aria-disabled", "true"));
  }
});
// A page that the browser kept (the back button) may be sent again: the server decides what that means.
window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((form) => {
    delete form.dataset.sent;
    form.querySelectorAll("button").forEach((button) => button.removeAttribute("aria-disabled"));
  });
});

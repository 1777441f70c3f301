"use strict";
const table = document.querySelector("table.index");
const search = document.getElementById("search");
const found = document.getElementById("found");
const bodies = [...table.tBodies];

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const body of bodies) {
    body.hidden = !words.every((word) => body.dataset.words.includes(word));
    shown += body.hidden ? 0 : 1;
  }
  found.textContent = words.length ? `${shown} of ${bodies.length}` : "";
}

function sort(button) {
  const by = button.dataset.sort;
  const value = (body) => (by === "name" ? body.dataset.name : -Number(body.dataset[by]));
  bodies.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  table.append(...bodies);
  for (const other of table.querySelectorAll("button")) other.setAttribute("aria-pressed", other === button);
}

search.addEventListener("input", filter);
document.getElementById("search-form").addEventListener("submit", (event) => event.preventDefault());
for (const button of table.querySelectorAll("button")) button.addEventListener("click", () => sort(button));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "Escape") {
    search.value = "";
    filter();
  }
});

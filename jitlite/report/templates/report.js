"use strict";
// Works on what the page holds: lines carry the place they come from (data-p) and what is known of their values (data-f).
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const stages = all(".stage");
  const links = new Map(all("nav ol a").map((a) => [a.hash.slice(1), a]));
  const detail = byId("detail");
  const search = byId("search");
  const narrow = matchMedia("(max-width: 44rem)");
  let current = null;
  let hits = [];
  let hit = -1;

  // Links to the source say where a line comes from; written once, they keep the page small.
  for (const link of all(".stage ol.code a, svg a")) {
    const line = link.closest("li") || link;
    const place = link.getAttribute("href").slice(1);
    if (place !== line.dataset.b) line.dataset.p = place;
    if (line !== link) link.tabIndex = -1;
  }

  // -- one stage at a time

  const TOKEN = /(%[\w.]+)|(\w+::\w+)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/g;

  // Wraps the names of values, operators and strings of a stage when it is first shown, so that the page stays small.
  function prepare(stage) {
    if (stage.dataset.ready) return;
    stage.dataset.ready = "yes";
    for (const code of all("code", stage)) {
      const text = code.textContent;
      const parts = [];
      let at = 0;
      for (const found of text.matchAll(TOKEN)) {
        parts.push(text.slice(at, found.index));
        const span = document.createElement("span");
        span.className = found[1] ? "v" : found[2] ? "op" : "q";
        span.textContent = found[0];
        parts.push(span);
        at = found.index + found[0].length;
      }
      if (at) code.replaceChildren(...parts, text.slice(at));
    }
  }

  function show(stage, focus) {
    if (!stage) return;
    current = stage;
    const showsAll = byId("all").getAttribute("aria-pressed") === "true";
    for (const other of stages) other.hidden = !showsAll && other !== stage;
    for (const [id, link] of links) {
      if (id === stage.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    (showsAll ? stages : [stage]).forEach(prepare);
    reveal(links.get(stage.id).closest("nav"), links.get(stage.id));
    reveal(links.get(stage.id).closest("ol"), links.get(stage.id));
    if (showsAll || (focus && narrow.matches)) stage.scrollIntoView();
    if (focus) byId(stage.id + "-heading").focus({ preventScroll: true });
    if (location.hash !== "#" + stage.id) history.replaceState(null, "", "#" + stage.id);
  }

  // Scrolls a list so far that an item of it is seen, and not the page around it.
  function reveal(list, item) {
    const [outer, inner] = [list.getBoundingClientRect(), item.getBoundingClientRect()];
    if (inner.top < outer.top) list.scrollTop += inner.top - outer.top - 8;
    if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom + 8;
    if (inner.left < outer.left) list.scrollLeft += inner.left - outer.left - 8;
    if (inner.right > outer.right) list.scrollLeft += inner.right - outer.right + 8;
  }

  function step(by) {
    const next = stages[stages.indexOf(current) + by];
    if (next) show(next, true);
  }

  // -- places: a line of the source and all that came from it

  // The lines that come from a place. A line of machine code may come from several: the others are in data-q.
  const from = (place, root = document) => all(`[data-p="${place}"], [data-q~="${place}"]`, root);
  const placesOf = (line) => [line.dataset.p, ...(line.dataset.q || "").split(" ")].filter(Boolean);

  // Beside the name of a stage: how many of its lines come from what was chosen, or were found.
  function count(stage, lines) {
    links.get(stage.id).querySelector(".count").textContent = lines ? String(lines) : "";
  }

  function light(places, scroll) {
    for (const line of all(".lit")) line.classList.remove("lit");
    if (!search.value) for (const stage of stages) count(stage, 0);
    if (!places.length) return;
    const source = byId(places[0]);
    const own = places.slice(1).map(byId).filter(Boolean);
    const found = [...from(places[0]), ...own];
    for (const line of found) line.classList.add("lit");
    if (!search.value) {
      for (const stage of stages) count(stage, from(places[0], stage).length);
    }
    if (!scroll) return;
    if (source) {
      source.closest("details").open = true;
      reveal(source.closest(".source"), source);
    }
    const inStage = found.filter((line) => current.contains(line));
    if (inStage.length && !inStage.some((line) => line.classList.contains("at"))) inStage[0].scrollIntoView({ block: "nearest" });
  }

  function tell(line, place) {
    const inStage = from(place, current).length;
    const numbers = placesOf(line).map((id) => id.slice(id.indexOf("-") + 1));
    const parts = [`${numbers.length > 1 ? "lines" : "line"} ${numbers.join(", ")}: ${inStage} ${inStage === 1 ? "place" : "places"} in ${current.querySelector("h2").firstChild.textContent.trim()}`];
    if (line.dataset.f) parts.push(line.dataset.f);
    const cost = byId(place) && byId(place).dataset.t;
    if (cost) parts.push(cost);
    detail.textContent = parts.join("  ·  ");
  }

  function choose(line) {
    for (const other of all(".at")) other.classList.remove("at");
    line.classList.add("at");
    light(placesOf(line), true);
    if (line.dataset.p) tell(line, line.dataset.p);
    else detail.textContent = line.dataset.f || "";
  }

  // -- drawings: a box opens the drawing of its submodule or of its block, and closes it again

  function toggleDrawing(box) {
    const drawing = byId(box.dataset.b);
    drawing.open = !drawing.open;
    if (!drawing.open) return;
    drawing.querySelector("summary").focus({ preventScroll: true });
    drawing.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  for (const drawing of all(".drawing")) {
    drawing.addEventListener("toggle", () => {
      for (const box of all(`a[data-b="${drawing.id}"]`)) box.setAttribute("aria-expanded", String(drawing.open));
    });
  }

  // -- values: where one is defined, and its uses

  function chooseValue(span) {
    const name = span.textContent;
    const found = all(".v", current).filter((other) => other.textContent === name);
    for (const other of all(".same")) other.classList.remove("same");
    for (const other of found) other.classList.add("same");
    const defined = found.find((other) => /^ : /.test(other.nextSibling ? other.nextSibling.textContent : ""));
    const line = (defined || span).closest("[data-p], li, td");
    const type = defined ? typeAfter(defined) : "";
    const uses = found.length - (defined ? 1 : 0);
    const facts = (line.dataset.f || "").split("; ").find((fact) => fact.startsWith(name + " : "));
    const parts = [name + (type && ` : ${type}`), `${uses} ${uses === 1 ? "use" : "uses"}`];
    if (facts) parts.push(`in this call ${facts.slice(name.length + 3)}`);
    const number = all("a", line)[0];
    if (number) parts.push(`from line ${number.textContent}`);
    light(placesOf(line), false);
    detail.textContent = parts.join("  ·  ");
  }

  // The type that is written behind a value's name: up to the comma, bracket or equals sign that ends it.
  function typeAfter(span) {
    const line = span.closest("code").textContent;
    const text = line.slice(line.indexOf(span.textContent + " : ") + span.textContent.length + 3);
    let depth = 0;
    for (let i = 0; i < text.length; i++) {
      if ("([".includes(text[i])) depth++;
      else if (")]".includes(text[i]) && depth-- === 0) return text.slice(0, i);
      else if (depth === 0 && (text[i] === "," || text.startsWith(" =", i))) return text.slice(0, i);
    }
    return text;
  }

  // -- search

  function find(wanted) {
    for (const line of all(".hit")) line.classList.remove("hit");
    hits = [];
    hit = -1;
    for (const stage of stages) {
      const lines = wanted ? all("li, td, svg a", stage).filter((l) => l.textContent.toLowerCase().includes(wanted)) : [];
      for (const line of lines) line.classList.add("hit");
      hits.push(...lines.map((line) => [stage, line]));
      count(stage, lines.length);
    }
    byId("found").textContent = wanted ? `${hits.length} found` : "";
  }

  function nextHit(by) {
    if (!hits.length) return;
    hit = hit < 0 ? Math.max(hits.findIndex(([stage]) => stage === current), 0) : (hit + by + hits.length) % hits.length;
    const [stage, line] = hits[hit];
    show(stage, false);
    for (let folded = line.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    choose(line);
    line.scrollIntoView({ block: "center", inline: "nearest" });
    byId("found").textContent = `${hit + 1} of ${hits.length}`;
  }

  search.addEventListener("input", () => find(search.value.trim().toLowerCase()));
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    nextHit(1);
  });

  // -- mouse and keys

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const id = link ? link.getAttribute("href").slice(1) : "";
    if (id.startsWith("stage-")) {
      event.preventDefault();
      show(byId(id), true);
      return;
    }
    const value = event.target.closest(".v");
    if (value) return chooseValue(value);
    const line = event.target.closest("[data-p], [data-b], .code li");
    if (!line) return undefined;
    event.preventDefault();
    choose(line);
    if (line.dataset.b) toggleDrawing(line);
  });

  document.addEventListener("mouseover", (event) => {
    for (const line of all(".hover")) line.classList.remove("hover");
    const line = event.target.closest(".code [data-p]");
    if (!line) return;
    for (const source of placesOf(line).map(byId)) if (source) source.classList.add("hover");
    for (const other of from(line.dataset.p, current)) other.classList.add("hover");
  });

  function moveLine(list, by) {
    const lines = all(":scope > li", list);
    const at = lines.findIndex((line) => line.classList.contains("at"));
    const next = lines[at < 0 ? 0 : at + by];
    if (!next) return;
    choose(next);
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      search.value = "";
      find("");
      light([], false);
      detail.textContent = "";
      search.blur();
      return;
    }
    if (event.target === search) return;
    const list = event.target.closest("ol.code") || current.querySelector("ol.code");
    const actions = {
      j: () => step(1), ArrowRight: () => step(1), k: () => step(-1), ArrowLeft: () => step(-1),
      "/": () => search.focus(), n: () => nextHit(1), N: () => nextHit(-1),
      ArrowDown: () => list && moveLine(list, 1), ArrowUp: () => list && moveLine(list, -1),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });

  function toggle(id, then) {
    byId(id).addEventListener("click", () => {
      const pressed = byId(id).getAttribute("aria-pressed") !== "true";
      byId(id).setAttribute("aria-pressed", String(pressed));
      then(pressed);
    });
  }
  toggle("all", () => show(current, false));
  toggle("wrap", (pressed) => document.body.classList.toggle("wrap", pressed));

  window.addEventListener("hashchange", () => {
    const target = byId(location.hash.slice(1));
    if (target && target.classList.contains("stage")) show(target, true);
  });
  const wanted = byId(location.hash.slice(1));
  show(wanted && wanted.classList.contains("stage") ? wanted : byId("stage-both") || byId("stage-graph") || stages[0], false);
  if (wanted && wanted.dataset.p) choose(wanted);
})();

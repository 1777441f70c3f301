"use strict";
// Searches the site in the page itself. The index is a script, so that pages opened from a disk find it, too: those may
// load scripts beside them, and ask for nothing else.
document.addEventListener("DOMContentLoaded", () => {
  const MOST = 30; // results
  const AROUND = 70; // characters of a text before and behind the first word that was found
  const input = document.getElementById("mkdocs-search-query");
  const list = document.getElementById("mkdocs-search-results");
  if (!input || !list) return;
  list.setAttribute("aria-live", "polite");
  let sections = null;

  function withIndex(then) {
    if (sections) return then();
    const script = document.createElement("script");
    script.src = `${base_url}/search/index.js`;
    script.onload = () => {
      sections = window.siteSections.map((s) => ({ ...s, head: s.title.toLowerCase(), body: s.text.toLowerCase() }));
      then();
    };
    document.head.append(script);
  }

  // How well a section fits, 0 where a word is missing: words of its title count most, whole words more than parts.
  function fit(section, words) {
    let sum = 0;
    for (const word of words) {
      const inHead = section.head.includes(word);
      const inBody = section.body.includes(word);
      if (!inHead && !inBody) return 0;
      const whole = new RegExp(`(^|[^\\w])${word.replace(/[^\w\s]/g, "\\$&")}([^\\w]|$)`);
      sum += inHead ? 20 + 20 * whole.test(section.head) : 0;
      sum += inBody ? 1 + 2 * whole.test(section.body) : 0;
    }
    sum += section.body.includes(words.join(" ")) ? 5 : 0;
    return section.head === words.join(" ") ? sum + 100 : sum;
  }

  function excerpt(section, words) {
    const phrase = section.body.indexOf(words.join(" "));
    const at = phrase >= 0 ? phrase : Math.min(...words.map((word) => section.body.indexOf(word)).filter((found) => found >= 0), section.text.length);
    const start = at >= section.text.length ? 0 : Math.max(at - AROUND, 0);
    const text = section.text.slice(start, start + 2 * AROUND).replace(/\s+/g, " ");
    return `${start ? "… " : ""}${text}${start + 2 * AROUND < section.text.length ? " …" : ""}`;
  }

  // Text is put in as text: whatever a page holds, nothing of it becomes markup here.
  function marked(text, words) {
    const made = document.createElement("p");
    const pattern = new RegExp(words.map((word) => word.replace(/[^\w\s]/g, "\\$&")).join("|"), "gi");
    let at = 0;
    for (const found of text.matchAll(pattern)) {
      const mark = document.createElement("mark");
      mark.textContent = found[0];
      made.append(text.slice(at, found.index), mark);
      at = found.index + found[0].length;
    }
    made.append(text.slice(at));
    return made;
  }

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return list.replaceChildren();
    const found = sections.map((section) => [fit(section, words), section]).filter(([sum]) => sum);
    found.sort(([a], [b]) => b - a);
    const results = found.slice(0, MOST).map(([, section]) => {
      const result = document.createElement("article");
      const heading = document.createElement("h3");
      const link = document.createElement("a");
      link.href = `${base_url}/${section.location}`;
      link.textContent = section.page && section.page !== section.title ? `${section.page}: ${section.title}` : section.title;
      heading.append(link);
      result.append(heading, marked(excerpt(section, words), words));
      return result;
    });
    if (!results.length) {
      const none = document.createElement("p");
      none.textContent = list.dataset.noResultsText || "No results found";
      results.push(none);
    }
    list.replaceChildren(...results);
    return undefined;
  }

  input.addEventListener("input", () => withIndex(show));
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) {
    input.value = asked;
    withIndex(show);
  }
});

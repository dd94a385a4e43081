/* Comfort alone: every page works without this file. Nothing here asks anybody but the server that sent it. */
"use strict";

const one = (selector, where = document) => where.querySelector(selector);
const all = (selector, where = document) => [...where.querySelectorAll(selector)];

/* A click on a step sends what was typed first, so that nothing is lost on the way. */
function keepWhatWasTyped() {
  const form = one("form#step[method=\"post\"]");
  if (!form) return;
  let isChanged = false;
  form.addEventListener("input", () => { isChanged = true; });
  form.addEventListener("submit", () => { isChanged = false; });
  for (const link of all("nav.steps a[data-step]")) {
    link.addEventListener("click", (event) => {
      if (!isChanged || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const go = document.createElement("input");
      go.type = "hidden"; go.name = "go"; go.value = link.dataset.step;
      form.append(go);
      form.noValidate = true;
      form.requestSubmit();
    });
  }
  addEventListener("beforeunload", (event) => { if (isChanged) event.preventDefault(); });
}

/* Parts of a page that are still being worked out come as soon as they are there; the rest stays as it is. */
function awaitParts() {
  const parts = () => all("[data-comes][id]");
  async function look() {
    if (!parts().length) return;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts()) {
        const now = found.getElementById(part.id);
        // A page of which all was awaited, or that has become another one, is shown anew.
        if (!now || (part.tagName === "MAIN" && !("comes" in now.dataset))) { location.reload(); return; }
        if (!("comes" in now.dataset)) part.replaceWith(document.importNode(now, true));
      }
    } catch { /* the server may be back soon */ }
    setTimeout(look, 700);
  }
  if (parts().length) setTimeout(look, 400);
}

/* A choice that needs no button. */
function sendAtOnce() {
  for (const choice of all("[data-send]")) {
    choice.addEventListener("change", () => choice.form.requestSubmit());
    for (const button of all("button.plain", choice.form)) button.hidden = true;
  }
}

/* A run tells how far it is; the page is loaded anew when it has ended. */
function followJob() {
  const job = one('#job[data-url][data-state="running"]');
  if (!job) return;
  const show = (name, text) => { for (const each of all(`[data-show="${name}"]`, job)) each.textContent = text; };
  const lost = (text) => { show("lost", text); for (const each of all('[data-show="lost"]', job)) each.hidden = !text; };
  async function look() {
    try {
      const found = await (await fetch(job.dataset.url, { cache: "no-store" })).json();
      if (found.state !== "running") { location.reload(); return; }
      for (const [name, value] of Object.entries(found)) {
        if (name === "share") continue;
        show(name, name === "seconds" ? spoken(value) : value ?? "");
      }
      for (const bar of all('progress[data-show="share"]', job)) {
        if (found.share === null) bar.removeAttribute("value"); else bar.value = found.share;
      }
      lost("");
    } catch {
      lost("The server does not answer. The run goes on without it: start priory studio again to see it.");
    }
    setTimeout(look, 1000);
  }
  setTimeout(look, 500);
}

function spoken(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/* The slider moves ε; the forecast follows as it comes. */
function forecast() {
  const box = one("#forecast[data-url]"), field = one("#epsilon"), delta = one("#delta");
  if (!box || !field) return;
  let asked = 0, waiting;
  async function ask() {
    const mine = ++asked;
    box.setAttribute("aria-busy", "true");
    for (;;) {
      const given = new URLSearchParams({ epsilon: field.value, ...(delta && { delta: delta.value }) });
      let found;
      try {
        found = await (await fetch(`${box.dataset.url}?${given}`, { cache: "no-store" })).json();
      } catch { found = { state: "wrong", message: "The server does not answer." }; }
      if (mine !== asked) return;
      fill(box, found);
      if (found.state !== "working") break;
      await new Promise((resolve) => setTimeout(resolve, 300));
      if (mine !== asked) return;
    }
    box.setAttribute("aria-busy", "false");
  }
  const later = () => { clearTimeout(waiting); waiting = setTimeout(ask, 150); };
  for (const each of [field, delta]) each?.addEventListener("input", later);
  ask();
}

function slide() {
  const slider = one("#epsilon-slider[data-positions]"), field = one("#epsilon");
  if (!slider || !field) return;
  const positions = slider.dataset.positions.split(" ");
  const distance = (i) => Math.abs(Math.log(positions[i] / field.value));
  const say = () => slider.setAttribute("aria-valuetext", `ε = ${positions[slider.value]}`);
  function follow() {
    if (!(field.value > 0)) return;
    slider.value = positions.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
    say();
  }
  slider.addEventListener("input", () => {
    field.value = positions[slider.value];
    say();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  field.addEventListener("input", (event) => { if (event.isTrusted) follow(); });
  follow();
  slider.closest(".slider").hidden = false;
}

const SAID = {
  mean: (share) => `${(100 * share).toFixed(1)} %`,
  seconds: spoken,
  memory: (bytes) => (bytes < 1e9 ? `${Math.max(1, Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`),
};

/* Facts come at once, errors as soon as some columns were rehearsed, the time when all were. */
function fill(box, found) {
  const has = found.mean !== undefined && found.mean !== null;
  const isWhole = has && found.rehearsed === found.of;
  const shown = { ...found.facts, ...(has && found), ...(!isWhole && { seconds: null, memory: null }) };
  for (const part of all("[data-show]", box)) {
    const name = part.dataset.show, value = shown[name];
    if (name === "status") part.textContent = stands(found, has, isWhole);
    else if (value === undefined || value === null) { if (part.tagName !== "TBODY") part.textContent = "…"; }
    else if (part.tagName === "TBODY") part.replaceChildren(...value.map(row));
    else part.textContent = SAID[name] ? SAID[name](value) : value;
  }
  if (found.words) one("#meaning")?.replaceChildren(...found.words.map(line));
  one("[data-part]", box).hidden = !has;
}

function stands(found, has, isWhole) {
  if (found.state === "wrong") return found.message;
  if (found.state === "done") return isWhole ? "" : `Rehearsed with ${found.rehearsed} of ${found.of} columns; the rest is reckoned from these.`;
  if (!has) return "Errors and time are being rehearsed …";
  if (found.interpolated) return "Reckoned from other values of ε; a rehearsal is on its way.";
  return isWhole ? "A closer forecast is on its way." : `From ${found.rehearsed} of ${found.of} columns so far.`;
}

/* What a budget means, line by line; lines that begin with a hyphen are under the one before. */
function line(words) {
  const made = element("li", words.replace(/^- /, ""));
  if (words.startsWith("- ")) made.className = "under";
  return made;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

/* A row of the table of errors: names, the error in per cent, and a meter for the eye. */
function row(each) {
  const line = document.createElement("tr");
  const number = element("td", `${(100 * each.error).toFixed(1)} %`);
  number.className = "n";
  const meter = document.createElement("meter");
  meter.min = 0; meter.max = 0.5; meter.low = 0.05; meter.high = 0.2; meter.optimum = 0;
  meter.value = each.error;
  meter.setAttribute("aria-hidden", "true");
  const cell = document.createElement("td");
  cell.append(meter);
  line.append(element("td", each.column ?? each.columns.join(" × ")), number, cell);
  return line;
}

/* The form for questions shows what the question needs, and suggests levels. */
function helpToAsk() {
  const form = one("form#ask");
  if (!form) return;
  const what = one("#what", form), column = one("#column", form);
  function fit() {
    for (const part of all("[data-for]", form)) part.hidden = !part.dataset.for.split(" ").includes(what.value);
    for (const option of all("option[data-asks]", column)) {
      const fits = option.dataset.asks.split(" ").includes(what.value);
      option.disabled = !fits;
      option.hidden = !fits;
    }
    if (column.selectedOptions[0]?.disabled) column.value = "";
  }
  what.addEventListener("change", fit);
  fit();
  for (const choice of all("select[data-test]", form)) {
    const line = choice.closest(".test"), value = one("input", line), sign = one('select[name="test-sign"]', line);
    const suggest = () => {
      const list = choice.selectedOptions[0]?.dataset.list;
      if (list) value.setAttribute("list", list); else value.removeAttribute("list");
      value.hidden = sign.value.startsWith("is ");
    };
    choice.addEventListener("change", suggest);
    sign.addEventListener("change", suggest);
    suggest();
  }
  const another = one("#another", form), lines = all(".test", form);
  const unused = () => lines.filter((line) => line.hidden);
  lines.slice(1).forEach((line) => { line.hidden = !one("select[data-test]", line).value; });
  another.hidden = !unused().length;
  another.addEventListener("click", () => {
    const [line] = unused();
    line.hidden = false;
    one("select", line).focus();
    another.hidden = !unused().length;
  });
}

/* A form shows what goes with the kind, or with who is protected. */
function fitForm() {
  for (const part of all(".for[data-kinds], .for[data-protects]")) {
    const [name, fits] = part.dataset.kinds ? ["kind", part.dataset.kinds] : ["protects", part.dataset.protects];
    const chosen = () => one(`select[name="${name}"]`)?.value ?? one(`input[name="${name}"]:checked`)?.value;
    const fit = () => { part.hidden = !fits.split(" ").includes(chosen()); };
    for (const each of all(`[name="${name}"]`)) each.addEventListener("change", fit);
    fit();
  }
}

/* The line of a text that has a problem. */
function goToLine() {
  const text = one("textarea[data-line]");
  const line = Number(text?.dataset.line);
  if (!line) return;
  const start = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  const end = text.value.indexOf("\n", start);
  text.focus();
  text.setSelectionRange(start, end < 0 ? text.value.length : end);
  text.scrollTop = (line - 3) * parseFloat(getComputedStyle(text).lineHeight);
}

/* Where a page shows a problem, the reader begins at the first field that has one. */
function goToProblem() {
  one('[aria-invalid="true"]')?.focus();
}

for (const start of [keepWhatWasTyped, awaitParts, sendAtOnce, followJob, slide, forecast, fitForm, helpToAsk, goToProblem, goToLine]) start();

"use strict";
// Shows one unit at a time, sends each mark as it is made, and says when it is on the disk.
const $ = (id) => document.getElementById(id);
const main = document.querySelector("main");
let code = "", state = null, unit = null, place = 0;
let saving = Promise.resolve(), waiting = 0, lost = false, isTurning = false, renewal = 0;

function make(tag, own, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(own ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...inside);
  return node;
}

const say = (text) => { $("status").textContent = text; };
const warn = (text) => { $("alarm").textContent = text; };
const heading = (text) => make("h1", { tabindex: -1 }, text);
const terms = (pairs) => make("dl", {}, ...pairs.flatMap(([a, b]) => [make("dt", {}, a), make("dd", {}, b)]));
const count = () => `${state.done.filter(Boolean).length} of ${state.done.length} done`;

async function ask(path, body) {
  const headers = { Authorization: `Bearer ${code}` };
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Error("the server does not answer; start it again, then try once more");
  }
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(found.error ?? `the server answers ${response.status}`);
  return found;
}

function show(...nodes) {
  main.replaceChildren(...nodes);
  window.scrollTo(0, 0);
  main.querySelector("h1").focus();
}

// A unit ------------------------------------------------------------------------------------------

async function open(number) {
  try {
    unit = await ask(`api/units/${number}`);
  } catch (error) {
    return warn(`Not opened: ${error.message}.`);
  }
  place = number;
  warn("");
  say(count());
  const total = state.done.length;
  const texts = unit.parts.map(([title, text]) => make("section", {}, make("h2", {}, title), make("pre", {}, text)));
  show(
    heading(`${number + 1} of ${total}: ${unit.name}`),
    make("progress", { max: total, value: state.done.filter(Boolean).length, "aria-label": "Done" }),
    make("div", { class: texts.length ? "two" : "" },
      make("div", { class: "texts" }, ...texts),
      make("form", { autocomplete: "off", "aria-label": "Ratings", onsubmit: (event) => event.preventDefault() },
        make("div", { class: "legend" }, terms([...unit.legend, ...unit.rules])),
        ...unit.items.map(group),
        make("nav", {},
          make("button", { type: "button", disabled: number === 0, onclick: () => turn(-1) }, "Previous"),
          make("button", { type: "button", class: "next", onclick: () => turn(1) }, "Next")),
        keysInWords())));
}

function group([name, text], number) {
  const mark = unit.marks[name];
  const radio = ([value, meaning]) => make("label", { title: meaning || null },
    make("input", { type: "radio", name: `item-${number}`, value, checked: mark?.value === value,
      "aria-label": meaning && value ? `${value}: ${meaning}` : null, onchange: () => save(number) }),
    make("span", {}, value || "cannot say"));
  const more = Object.entries(unit.more).map(([column, pattern]) => make("label", { class: "more" }, `${column} `,
    make("input", { type: "text", name: column, pattern, value: mark?.more[column] ?? "", onchange: () => save(number) })));
  const id = `text-${number}`;
  return make("fieldset", { role: "radiogroup", "aria-labelledby": id, id: `item-${number}` },
    make("legend", { id }, make("b", {}, name), text ? ` ${text}` : ""),
    make("div", { class: "values" }, ...unit.values.map(radio), radio(["", ""])), ...more);
}

function save(number) {
  const box = $(`item-${number}`), [item] = unit.items[number], own = unit;
  const chosen = box.querySelector("input:checked");
  if (!chosen) return warn(`Choose a value of ${item}: what you write is saved with it.`);
  const more = Object.fromEntries([...box.querySelectorAll("[type=text]")].map((field) => [field.name, field.value.trim()]));
  const mark = { unit: own.name, item, value: chosen.value, more };
  waiting += 1;
  saving = saving.then(async () => {
    try {
      state = await ask("api/marks", mark);
      own.marks[item] = mark;
      lost = false;
      warn("");
      say(`Saved: ${item}, ${mark.value || "cannot say"}. ${count()}`);
    } catch (error) {
      lost = true;
      for (const radio of box.querySelectorAll("[type=radio]")) radio.checked = radio.value === own.marks[item]?.value;
      say("");
      warn(`NOT saved: ${item}: ${error.message}.`);
    } finally {
      waiting -= 1;
    }
  });
}

/** Goes to another unit. No key counts until it is shown: it would mark what nobody has read. */
async function turn(step) {
  if (isTurning) return;
  isTurning = true;
  try {
    await saving;
    if (lost) lost = false; // stays once, to be read; the next turn goes on without that mark
    else await to(place + step);
  } finally {
    isTurning = false;
  }
}

async function to(next) {
  const first = state.done.indexOf(false);
  if (next < 0) return;
  if (next < state.done.length) return open(next);
  if (first >= 0 && first !== place) return open(first);
  if (first >= 0) return say(`This one has items without a mark. ${count()}`);
  unit = null;
  say(count());
  show(heading("All are rated. Thank you."), make("p", {}, "You may close this page, or look through your ratings again."),
    make("button", { type: "button", onclick: () => open(0) }, "Look through"));
}

// Keys --------------------------------------------------------------------------------------------

/** Returns the key of a value: its first letter, or its number where two begin alike; 0 for 10. */
function keyOf(value) {
  if (value === "") return "-";
  if (value === "10") return "0";
  const values = unit.values.map(([own]) => own).filter((own) => own !== "10");
  const isClear = new Set(values.map((own) => own[0].toLowerCase())).size === values.length;
  return isClear ? value[0].toLowerCase() : `${values.indexOf(value) + 1}`;
}

/** Returns whether single keys mark: who speaks to the computer, or shakes, may switch them off (WCAG 2.1.4). */
function hasKeys() {
  return localStorage.getItem("keys") !== "off";
}

function keysInWords() {
  const named = unit.values.map(([value]) => [keyOf(value), value]).map(([key, value]) => (value.length === 1 ? value : `${key} ${value}`)).join(", ");
  const onchange = (event) => localStorage.setItem("keys", event.target.checked ? "on" : "off");
  return make("p", { class: "keys" },
    make("label", {}, make("input", { type: "checkbox", checked: hasKeys(), onchange }), ` Keys mark: ${named} and go on, - cannot say.`),
    " Tab another item, Enter next, Shift+Enter previous.");
}

function goOn(from) {
  const stops = [...main.querySelectorAll("fieldset, [type=text], .next")];
  const stop = stops[stops.indexOf(from) + 1];
  (stop?.querySelector("input:checked") ?? stop?.querySelector("input") ?? stop)?.focus();
  stop?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (!unit || isTurning || event.repeat || event.altKey || event.ctrlKey || event.metaKey || event.isComposing) return;
  const at = document.activeElement, isText = at?.matches("[type=text]");
  if (event.key === "Enter" && !at?.matches("button")) {
    event.preventDefault();
    if (!isText) return turn(event.shiftKey ? -1 : 1);
    at.blur(); // saves what was written
    return goOn(at);
  }
  if (isText || !hasKeys()) return;
  const boxes = [...main.querySelectorAll("fieldset")];
  const box = at?.closest("fieldset") ?? boxes.find((own) => !own.querySelector("input:checked"));
  const radio = box && [...box.querySelectorAll("[type=radio]")].find((own) => keyOf(own.value) === event.key.toLowerCase());
  if (!radio) return;
  event.preventDefault();
  radio.checked = true;
  save(boxes.indexOf(box));
  goOn(box);
});

// The overview, coming and going ------------------------------------------------------------------

function table(caption, head, rows) {
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell, at) => make(at || tag === "th" ? tag : "th", { scope: tag === "th" ? "col" : at ? null : "row" }, cell)));
  return make("div", { class: "wide" }, make("table", {}, make("caption", {}, caption),
    make("thead", {}, line(head, "th")), make("tbody", {}, ...rows.map((row) => line(row, "td")))));
}

async function overview() {
  clearTimeout(renewal);
  try {
    const found = await ask("api/overview");
    const digits = (value, most) => (value == null ? "–" : value.toFixed(most));
    const rows = found.agreement.map((row) => [row.text ? `${row.item}: ${row.text.slice(0, 60)}${row.text.length > 60 ? "…" : ""}` : row.item, `${row.units}`, `${row.pairs}`,
      ...["exact", "within_one", "alpha"].map((name) => digits(row[name], 2))]);
    main.replaceChildren(heading("Overview"),
      table("Raters", ["rater", "units done", "units"], found.raters.map((row) => row.map(String))),
      table("Agreement so far", ["item", "rated", "pairs", "equal", "within 1", "alpha"], rows),
      make("p", {}, "Pairs are two ratings of one item; alpha is Krippendorff's, of any number of raters, where ratings differ. Few pairs say little."));
    warn("");
  } catch (error) {
    warn(`Not renewed: ${error.message}.`);
  }
  renewal = setTimeout(overview, 10_000);
}

function login() {
  const field = make("input", { type: "password", id: "code", autocomplete: "off", required: true });
  show(heading("Review"), make("form", { onsubmit: (event) => { event.preventDefault(); enter(field.value.trim()); } },
    make("label", { for: "code" }, "Your code "), field, make("button", {}, "Begin")));
  field.focus();
}

async function enter(given) {
  code = given;
  try {
    state = await ask("api/state");
  } catch (error) {
    warn(`${error.message}.`);
    return login();
  }
  sessionStorage.setItem("code", code);
  warn("");
  $("leave").hidden = false;
  $("who").textContent = state.done ? `Rater: ${state.rater}` : "Overseer";
  if (!state.done) return overview();
  const first = state.done.indexOf(false);
  return open(Math.max(first, 0));
}

function begin() {
  const given = location.hash.slice(1);
  if (given) history.replaceState(null, "", location.pathname); // the code is not left to be read there
  const known = given || sessionStorage.getItem("code");
  return known ? enter(known) : login();
}

$("leave").addEventListener("click", async () => {
  await saving;
  sessionStorage.removeItem("code");
  location.reload();
});
window.addEventListener("beforeunload", (event) => { if (waiting) event.preventDefault(); });
window.addEventListener("hashchange", () => location.hash && begin());
begin();

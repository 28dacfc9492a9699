"use strict";

// Which lines of a run the instance browser shows, in which order, and the controls that say so.
(() => {
  const { h } = medhelm;
  const ORDERS = [["", "As in the data"], ["low", "Lowest score first"], ["high", "Highest score first"]];
  const GAPS = [["", "All"], ["any", "Outcome or score differs"], ["outcome", "Outcome differs"], ["higher", "A scored higher than B"], ["lower", "A scored lower than B"]];
  const FILTERS = ["outcome", "part", "min", "max", "q", "differs"];

  function limit(text) {
    const value = text === "" ? NaN : Number(text);
    return Number.isFinite(value) ? value : null;
  }

  /** Return what the address asks of the instance browser; what makes no sense is left out. */
  medhelm.askedOf = (view) => ({
    outcome: view.get("outcome"), part: view.get("part"), min: limit(view.get("min")), max: limit(view.get("max")),
    differs: view.get("differs"), order: view.get("order"), query: view.get("q").trim(),
    instance: view.get("instance"), repeat: Number(view.get("repeat", "0")), page: Number(view.get("page", "0")),
  });

  /** Return how a line differs from that of another run: {outcome, score, by}; null without a twin. */
  medhelm.gapOf = (lines, line, other) => {
    const twin = other.find(lines.id(line), lines.repeat(line));
    if (twin < 0) return null;
    const [a, b] = [lines.value(line), other.value(twin)];
    return { outcome: lines.outcome(line) !== other.outcome(twin), score: medhelm.valuesDiffer(a, b), by: a === null || b === null ? null : a - b };
  };

  function passesGap(wanted, gap) {
    if (!wanted) return true;
    if (!gap) return false;
    if (wanted === "outcome") return gap.outcome;
    if (wanted === "higher") return gap.score && gap.by > 0;
    if (wanted === "lower") return gap.score && gap.by < 0;
    return gap.outcome || gap.score;
  }

  function passes(lines, line, want, other) {
    const value = lines.value(line);
    if (want.outcome && lines.outcome(line) !== want.outcome) return false;
    if (want.part && lines.part(line) !== want.part) return false;
    if (want.min !== null && (value === null || value < want.min)) return false;
    if (want.max !== null && (value === null || value > want.max)) return false;
    return !other || passesGap(want.differs, want.differs ? medhelm.gapOf(lines, line, other) : null);
  }

  // Missing scores come last either way.
  function ordered(lines, found, order, other) {
    const keys = new Map([
      ["low", (line) => lines.value(line)],
      ["high", (line) => (lines.value(line) === null ? null : -lines.value(line))],
      ["gap", (line) => {
        const gap = other && medhelm.gapOf(lines, line, other);
        return gap && gap.by !== null ? -Math.abs(gap.by) : null;
      }],
    ]);
    const key = keys.get(order);
    if (!key) return found;
    const known = found.map((line) => [key(line), line]);
    known.sort(([a, i], [b, j]) => (a === null) - (b === null) || a - b || i - j);
    return known.map(([, line]) => line);
  }

  /** Return the lines that pass all filters but the search, in the order asked for. */
  medhelm.linesThatPass = (lines, want, other) => {
    const all = Array.from({ length: lines.count }, (_, line) => line);
    return ordered(lines, all.filter((line) => passes(lines, line, want, other)), want.order, other);
  };

  // Filters -------------------------------------------------------------------------------------

  // A filter leaves no instance chosen, so that the first that passes is shown.
  function filtering(view) {
    return { ...view, go: (changes) => view.go({ instance: "", repeat: "", page: "", ...changes }) };
  }

  function counted(lines, names, nameOf) {
    const counts = new Map(names.map((name) => [name, 0]));
    for (let line = 0; line < lines.count; line += 1) counts.set(nameOf(line), (counts.get(nameOf(line)) || 0) + 1);
    return [["", `All (${medhelm.count(lines.count)})`], ...names.map((name) => [name, `${medhelm.plain(name, 40)} (${medhelm.count(counts.get(name))})`])];
  }

  function range(view, card) {
    const [, , minimum, maximum] = card.metrics[0] || ["", "", 0, 1];
    const box = (key, label, end) => h("input", { type: "number", id: `filter-${key}`, "aria-label": label, step: "any", placeholder: String(end), value: view.get(key), on: { change: (event) => view.go({ [key]: event.target.value }) } });
    return h("div", { class: "field", role: "group", "aria-label": "Score range" }, h("label", { for: "filter-min" }, "Score from, to"), h("div", { class: "range-boxes" }, box("min", "Score from", minimum), box("max", "Score to", maximum)));
  }

  function searchBox(view, lines) {
    const input = h("input", { type: "search", id: "filter-q", value: view.get("q"), autocomplete: "off", spellcheck: "false", placeholder: lines.hasText ? "cases, answers, judges, ids" : "" });
    const go = () => view.go({ q: input.value.trim() });
    // A search field tells that it was cleared by its own button.
    input.addEventListener("search", () => input.value === "" && view.get("q") && go());
    const send = (event) => {
      event.preventDefault();
      go();
    };
    return h("form", { class: "field search", role: "search", on: { submit: send } }, h("label", { for: "filter-q" }, lines.hasText ? "Search all text" : `Search ${lines.isHashed ? "hashes" : "ids"}`), h("div", { class: "range-boxes" }, input, h("button", { type: "submit", class: "quiet", id: "search-go" }, "Search")));
  }

  function compareSelect(view, run) {
    const others = medhelm.scorings.get(view.scoring).runs.filter(([benchmark, model]) => benchmark === run.benchmark && model !== run.model).map(([, model]) => [model, medhelm.plain(model, 60)]);
    if (!others.length) return null;
    const keeping = { ...view, go: (changes) => view.go({ ...changes, page: "", differs: "", order: view.get("order") === "gap" ? "" : view.get("order") }) };
    return medhelm.select(keeping, "with", "Beside it (B)", [["", "No other model"], ...others]);
  }

  /** Return the controls; other: the lines of a second run, or null. */
  medhelm.lineFilters = (view, card, lines, other) => {
    const { run } = lines;
    const own = filtering(view);
    const none = Object.fromEntries(FILTERS.map((key) => [key, ""]));
    const isOn = FILTERS.some((key) => view.get(key));
    const orders = other ? [...ORDERS, ["gap", "Largest difference first"]] : ORDERS;
    return h("section", { class: "filters", "aria-label": "Filters of instances" },
      medhelm.select(own, "outcome", "Outcome", counted(lines, [...run.outcomes], lines.outcome)),
      run.parts.length ? medhelm.select(own, "part", "Part", counted(lines, [...run.parts], lines.part)) : null,
      range(own, card),
      searchBox(own, lines),
      medhelm.select(own, "order", "Order", orders),
      compareSelect(view, run),
      other ? medhelm.select(own, "differs", "Differences", GAPS) : null,
      isOn ? h("button", { type: "button", class: "quiet", id: "reset", on: { click: () => own.go(none) } }, "Reset filters") : null);
  };
})();

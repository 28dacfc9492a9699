"use strict";

// The list of the site's benchmarks.
(() => {
  const { h } = medhelm;

  function column(name, type, heading, description) {
    return { name, type, heading, description, unit: "", digits: 0, percent: false, low: null, high: null };
  }

  const COLUMNS = [
    column("benchmark", "string", "benchmark", "name of the benchmark"),
    column("title", "string", "title", "title of the benchmark"),
    column("category", "string", "category", "category of the taxonomy"),
    column("subcategory", "string", "subcategory", "subcategory of the taxonomy"),
    column("access", "string", "access", "who can get its data"),
    column("metric", "string", "main metric", "the metric that is ranked by"),
    column("n", "integer", "n", "compared instances"),
    column("models", "integer", "models", "models with a run"),
    column("text", "boolean", "text", "whether its instances may be read on this site"),
  ];

  function runsOf(scoring) {
    const found = new Map();
    for (const [benchmark] of medhelm.scorings.get(scoring).runs) found.set(benchmark, (found.get(benchmark) || 0) + 1);
    return found;
  }

  /** Return a row of each benchmark that knows its main metric and n: that of a ranked model, if there is one. */
  function known(scores) {
    const found = new Map();
    for (const row of scores ? scores.rows : []) {
      const name = scores.get(row, "benchmark");
      if (!scores.get(row, "is_main") || scores.get(row, "n") === null) continue;
      if (!found.has(name) || scores.get(found.get(name), "status") !== "ranked") found.set(name, row);
    }
    return found;
  }

  /** Return the list as a page table, from site.js and the table of scores. */
  function listTable(scoring, lines, scores) {
    const runs = runsOf(scoring);
    const facts = known(scores);
    const fact = (name, what) => (facts.has(name) ? scores.get(facts.get(name), what) : null);
    const rows = lines.map((b) => [b.name, b.title, medhelm.categoryTitle(b.category), medhelm.subcategoryTitle(b.subcategory), b.access, fact(b.name, "metric"), fact(b.name, "n"), runs.get(b.name) || 0, b.has_text]);
    return medhelm.reader({ name: "benchmark_list", title: "Benchmarks of this site", columns: COLUMNS, rows, notes: [], settings: [] });
  }

  function matches(line, words) {
    const text = [line.name, line.title, line.category, line.subcategory, line.access].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  function search(view, show) {
    const input = h("input", { type: "search", id: "search", value: view.get("q"), autocomplete: "off", on: { input: (event) => {
      view.remember({ q: event.target.value });
      show();
    } } });
    return h("div", { class: "field" }, h("label", { for: "search" }, "Search"), input);
  }

  function list(view, scores, chosen) {
    const words = view.get("q").toLowerCase().split(/\s+/).filter(Boolean);
    const lines = medhelm.site.benchmarks.filter((b) => chosen.has(b.name) && matches(b, words));
    medhelm.say(medhelm.many(lines.length, "benchmark"));
    if (!lines.length) return medhelm.nothing("No benchmark passes the filters.");
    const table = listTable(view.scoring, lines, scores);
    const title = (row) => [
      medhelm.link(medhelm.benchmarkHash(view, table.get(row, "benchmark")), null, medhelm.name(table.get(row, "title"))), " ",
      medhelm.offlineJury.has(table.get(row, "benchmark")) ? medhelm.badge("warn", "offline jury", "rated by rules that stand in for judges") : null,
    ];
    return medhelm.dataTable(table, {
      columns: [{ name: "title", heading: "benchmark", cell: title, saved: ["benchmark", "title"] }, "category", "subcategory", "access", "metric", "n", "models", { name: "text", heading: "text on the site", isText: true }],
      head: "title", view, sort: "title", caption: "Benchmarks of this site", file: "benchmarks", unit: "benchmark",
    });
  }

  async function render(view) {
    const found = medhelm.viewOf(view);
    const [page, scores] = await Promise.all([found ? medhelm.load(found.key) : null, medhelm.scorings.size ? medhelm.tableOf(view.scoring, "benchmarks") : null]);
    const place = h("div", null);
    const chosen = new Set(page ? page.benchmarks : []);
    const show = () => place.replaceChildren(list(view, scores, chosen));
    show();
    return [
      h("h1", null, "Benchmarks"),
      h("p", { class: "lead" }, "What each benchmark asks, where its data come from, how it is scored, and what the models reach on it."),
      medhelm.filters(view, { extra: search(view, show) }),
      place,
    ];
  }

  medhelm.page("benchmarks", { title: "Benchmarks", render });
})();

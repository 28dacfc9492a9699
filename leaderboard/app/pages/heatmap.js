"use strict";

// Normalised scores of models on benchmarks, grouped by category and subcategory.
(() => {
  const { h } = medhelm;
  const OUTCOME = "share_";

  function status(table, row) {
    const reasons = new Map([["missing", "no run"], ["not graded", "a stored run without a grading"]]);
    const found = table.get(row, "status");
    return reasons.get(found) || found;
  }

  function outcomes(table, row) {
    return table.columns
      .filter((c) => c.name.startsWith(OUTCOME) && table.get(row, c.name))
      .map((c) => `${c.name.slice(OUTCOME.length).replaceAll("_", " ")} ${medhelm.percent(table.get(row, c.name))}`)
      .join(", ");
  }

  function cut(table, row) {
    if (table.get(row, "cut") === null) return "not counted in this grading";
    return `${medhelm.valueText(table.column("cut_share"), table.get(row, "cut_share"))} (${medhelm.count(table.get(row, "ended_at_budget"))}, of them scored ${medhelm.count(table.get(row, "cut"))})`;
  }

  function fact(term, ...value) {
    return value.some((v) => v !== null && v !== "") ? [h("dt", null, term), h("dd", null, value)] : null;
  }

  function flags(table, row) {
    return (table.get(row, "flags") || "").split(" ").filter(Boolean);
  }

  function remarks(table, row) {
    const name = table.get(row, "benchmark");
    return [
      ...flags(table, row),
      medhelm.isIncomplete(name, table.get(row, "model")) && !flags(table, row).includes("partial") ? "incomplete run" : null,
      medhelm.offlineJury.has(name) ? "offline jury" : null,
    ].filter(Boolean).join(", ");
  }

  /** Return what is known of a cell: raw score, interval, n, outcomes. */
  function details(table, row) {
    const line = medhelm.benchmarks.get(table.get(row, "benchmark"));
    const head = [h("p", { class: "strong" }, medhelm.name(line ? line.title : table.get(row, "benchmark"))), h("p", null, medhelm.name(table.get(row, "model")))];
    if (table.get(row, "score") === null) return [head, h("p", null, `No score: ${status(table, row)}.`)];
    return [
      head,
      h("dl", { class: "facts tight" },
        fact("Normalised", medhelm.valueText(table.column("normalised"), table.get(row, "normalised"))),
        fact("Raw score", medhelm.withInterval(table, row, "score")),
        fact("Metric", medhelm.name(table.get(row, "metric"))),
        fact("n", medhelm.count(table.get(row, "n"))),
        fact("Scored", `${medhelm.count(table.get(row, "scored"))} of ${medhelm.count(table.get(row, "planned"))}`),
        fact("Outcomes", outcomes(table, row)),
        fact("Ended at the output budget", cut(table, row)),
        fact("Coverage", medhelm.valueText(table.column("coverage"), table.get(row, "coverage"))),
        fact("Status", table.get(row, "status")),
        fact("Marks", remarks(table, row))),
    ];
  }

  const COLOURS = [["", "Values shown"], ["full", "0 to 1"], ["benchmark", "Each benchmark"]];

  /** Return lowest and highest of the values that the colours of a row stand for. */
  function rangeOf(table, rows) {
    const values = rows.filter((row) => row && isRanked(table.get(row, "model"))).map((row) => table.get(row, "normalised"));
    const known = values.filter((v) => v !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    return low < high ? [low, high] : [0, 1]; // Of one value alone colours say where it stands.
  }

  // What reads the gold is near 1 everywhere and would take the colours from the others.
  function isRanked(model) {
    const card = medhelm.models.get(model);
    return !card || card.is_ranked;
  }

  function share(value, [low, high]) {
    return (value - low) / (high - low);
  }

  function cell(view, table, row, range) {
    if (!row) return h("td", { class: "cell" }, medhelm.dash("not in the table"));
    const value = table.get(row, "normalised");
    const text = medhelm.valueText(table.column("normalised"), value);
    const colours = value === null ? null : medhelm.scaleColour(share(value, range));
    const style = colours ? { "background-color": colours.background, color: colours.color } : null;
    const marks = remarks(table, row);
    const content = [text, value === null ? h("span", { class: "unseen" }, ` (${status(table, row)})`) : null, marks ? h("span", { class: "unseen" }, ` (${marks})`) : null];
    const [benchmark, model] = [table.get(row, "benchmark"), table.get(row, "model")];
    const attributes = { class: `spot${flags(table, row).length ? " flagged" : ""}${value === null ? " empty" : ""}`, style };
    const hasRun = medhelm.scorings.get(view.scoring).run(benchmark, model) !== undefined;
    const spot = hasRun ? medhelm.link(medhelm.runHash(view, benchmark, model), attributes, content) : h("span", attributes, content);
    return h("td", { class: "cell" }, spot);
  }

  function byBenchmark(table) {
    const found = new Map();
    for (const row of table.rows) {
      if (!table.get(row, "is_main")) continue;
      const name = table.get(row, "benchmark");
      if (!found.has(name)) found.set(name, new Map());
      found.get(name).set(table.get(row, "model"), row);
    }
    return found;
  }

  function parts(lines, subcategories) {
    const found = subcategories.map((s) => [s.title, lines.filter((b) => medhelm.isOf(b.subcategory, s))]);
    const others = lines.filter((b) => !subcategories.some((s) => medhelm.isOf(b.subcategory, s)));
    const rest = [...new Set(others.map((b) => b.subcategory))].map((title) => [title, others.filter((b) => b.subcategory === title)]);
    return [...found, ...rest].filter(([, own]) => own.length);
  }

  /** Return [category, [[subcategory, lines]]] in the order of the taxonomy; what it lacks comes last. */
  function groups(benchmarks) {
    const { taxonomy } = medhelm.site;
    const lines = medhelm.site.benchmarks.filter((b) => benchmarks.has(b.name));
    const found = taxonomy.map((c) => [c.title, parts(lines.filter((b) => medhelm.isOf(b.category, c)), c.subcategories)]);
    const others = lines.filter((b) => !medhelm.categories.has(b.category));
    const rest = [...new Set(others.map((b) => b.category))].map((title) => [title, parts(others.filter((b) => b.category === title), [])]);
    return [...found, ...rest].filter(([, own]) => own.length);
  }

  function benchmarkRow(view, table, line, cells, models, spots, shared) {
    const range = shared || rangeOf(table, models.map((model) => cells.get(model)));
    const tds = models.map((model) => {
      const row = cells.get(model);
      const td = cell(view, table, row, range);
      if (row) spots.set(td.firstChild, row);
      return td;
    });
    const title = medhelm.link(medhelm.benchmarkHash(view, line.name), null, medhelm.name(line.title));
    const mark = medhelm.offlineJury.has(line.name) ? [" ", medhelm.badge("warn", "offline jury", "rated by rules that stand in for judges")] : null;
    return h("tr", null, h("th", { scope: "row" }, h("div", { class: "head" }, title, mark)), tds);
  }

  function band(kind, title, models) {
    return h("tr", { class: kind }, h("th", { scope: "rowgroup", colspan: models.length + 1 }, h("span", null, medhelm.name(title))));
  }

  function grid(view, table, benchmarks, models, found, range) {
    const spots = new Map();
    const bodies = groups(benchmarks).map(([category, own]) =>
      h("tbody", null,
        band("band", category, models),
        own.map(([subcategory, lines]) => [
          band("subband", subcategory, models),
          lines.filter((line) => found.has(line.name)).map((line) => benchmarkRow(view, table, line, found.get(line.name), models, spots, range)),
        ])));
    const heads = models.map((model) => h("th", { scope: "col" }, h("div", { class: "head" }, medhelm.name(model)), h("span", { class: "badges" }, medhelm.modelMarks(model, benchmarks))));
    const element = h("table", { class: "heat" }, h("caption", { class: "unseen" }, "Normalised scores, benchmarks by models"), h("thead", null, h("tr", null, h("th", { scope: "col" }, "benchmark"), heads)), bodies);
    medhelm.tips(element, ".spot", (spot) => details(table, spots.get(spot)));
    medhelm.arrows(element, ".spot");
    return medhelm.scroller("Heatmap", element);
  }

  /** Return the legend of the colours: from the worst value to the best. */
  medhelm.scaleLegend = (low, high) => {
    const steps = Array.from({ length: 21 }, (_, i) => h("span", { style: { "background-color": medhelm.scaleColour(i / 20).background } }));
    return h("p", { class: "legend" }, h("span", null, low), h("span", { class: "ramp", "aria-hidden": "true" }, steps), h("span", null, high));
  };

  function list(view, table, benchmarks, models) {
    const rows = table.rows.filter((row) => table.get(row, "is_main") && benchmarks.has(table.get(row, "benchmark")) && models.includes(table.get(row, "model")));
    return medhelm.dataTable(table, {
      columns: ["benchmark", "model", "metric", "normalised", "score", "n",
        { name: "scored", heading: "scored", saved: ["scored", "planned"], cell: (row) => (table.get(row, "scored") === null ? medhelm.dash() : `${medhelm.count(table.get(row, "scored"))}/${medhelm.count(table.get(row, "planned"))}`) },
        "coverage", { name: "cut_share", heading: "cut", missing: "not counted in this grading" }, "status", "flags"],
      rows, view, caption: "Scores as a list", file: "heatmap", unit: "score",
    });
  }

  /** Return the ends of the colours for all rows; null where each row has its own. */
  function rangeFor(choice, table, benchmarks, models, found) {
    if (choice === "full") return [0, 1];
    if (choice === "benchmark") return null;
    return rangeOf(table, [...benchmarks].flatMap((name) => models.map((model) => found.get(name) && found.get(name).get(model))));
  }

  function legend(table, range) {
    if (!range) return medhelm.scaleLegend("lowest of the benchmark", "highest");
    const text = (value) => (value === 0 || value === 1 ? String(value) : medhelm.valueText(table.column("normalised"), value));
    return medhelm.scaleLegend(text(range[0]), text(range[1]));
  }

  async function render(view) {
    const [tables, table] = await Promise.all([medhelm.viewTables(view), medhelm.tableOf(view.scoring, "benchmarks")]);
    const head = [
      h("h1", null, "Heatmap"),
      h("p", { class: "lead" }, "Scores from 0, the worst, to 1, the best that the metric can give. Each cell leads to its run."),
      medhelm.filters(view, { weights: true, extra: medhelm.switcher(view, "colours", "Colours over", COLOURS) }),
    ];
    if (!tables || !table) return [head, medhelm.nothing("No benchmark with runs passes the filters.")];
    const models = tables.half.rows.map((row) => tables.half.get(row, "model")).filter((m) => medhelm.passesWeights(view, m));
    if (!models.length) return [head, medhelm.nothing("No model passes the filters.")];
    medhelm.say(`${medhelm.many(models.length, "model")}, ${medhelm.many(tables.benchmarks.size, "benchmark")}`);
    const found = byBenchmark(table);
    const range = rangeFor(view.get("colours"), table, tables.benchmarks, models, found);
    return [
      head,
      h("div", { class: "tools" }, legend(table, range), h("p", { class: "faint" }, "A corner marks a flagged run. Arrow keys move between cells; raw score, interval, n and outcomes show on hover and focus.")),
      grid(view, table, tables.benchmarks, models, found, range),
      medhelm.lazyDetails("The same as a list, to sort and download", () => list(view, table, tables.benchmarks, models)),
      medhelm.notes(table),
    ];
  }

  medhelm.page("heatmap", { title: "Heatmap", render });
})();

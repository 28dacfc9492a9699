"use strict";

// Coverage of criteria: models by thresholded coverage, hits about the threshold, other scores, slices.
(() => {
  const { h } = medhelm;
  const WORDS = [
    ["Coverage, CACS@k", "Of the criteria of a case those that an answer meets are its hits. Below k hits a case counts 0, from k on every further hit counts; 100 is every criterion of every case."],
    ["Pass@k, accuracy", "The share of cases that reach k hits; the share of all criteria that are met."],
  ];
  const FIRST = ["register", "difficulty", "families", "group"];

  function rowsOf(table, benchmark, level) {
    return table.rows.filter((row) => table.get(row, "benchmark") === benchmark && table.get(row, "level") === level);
  }

  function fileName(benchmark, what) {
    return `${benchmark.replace(/\W+/g, "_").slice(0, 60)}_${what}`;
  }

  function modelCell(view, table, row) {
    const [benchmark, model] = [table.get(row, "benchmark"), table.get(row, "model")];
    const hasRun = medhelm.scorings.get(view.scoring).run(benchmark, model) !== undefined;
    return hasRun ? medhelm.link(medhelm.runHash(view, benchmark, model), null, medhelm.name(model)) : medhelm.name(model);
  }

  function scores(view, table, benchmark, rows) {
    return [
      h("h2", { id: "scores" }, "Coverage by model"),
      medhelm.dataTable(table, {
        columns: [{ name: "model", cell: (row) => modelCell(view, table, row) }, "coverage", "accuracy", { name: "passed", heading: "reach k" }, "hits", { name: "reaching", heading: "accuracy of those" }, "invalid", "n"],
        rows, head: "model", sort: "-coverage", view, caption: "Coverage by model", file: fileName(benchmark, "coverage"), unit: "model",
        rowClass: (row) => (table.get(row, "ranked") ? null : "apart"),
      }),
    ];
  }

  // How far the judge behind the scores agrees with experts: above the scores, or that nobody measured it.
  function fidelity(view, table, benchmark) {
    const rows = table ? table.rows.filter((row) => table.get(row, "benchmark") === benchmark) : [];
    const head = h("h2", { id: "fidelity" }, "Fidelity of the judge");
    if (!rows.length) return [head, h("p", { class: "note" }, "How far the judge agrees with physicians is unmeasured: nobody has compared its decisions with theirs.")];
    return [
      head,
      medhelm.dataTable(table, { columns: ["grader", "reference", "mf1", "mf1_wrong", "kappa", "positive", "positive_reference", "invalid", "decisions"], rows, head: "grader", view, key: "fidelity", caption: "Agreement of the judge with experts, and of experts with each other", file: fileName(benchmark, "fidelity"), unit: "row" }),
    ];
  }

  // Cases by the number of hits: cases short of k, and those that reach it.
  function distribution(benchmark, values) {
    if (!values) return h("p", { class: "note" }, "The hits of single cases are not shown: cases were asked several times, or have different numbers of criteria.");
    const heads = [["model", false], [`below ${values.k}`, true], [`${values.k} to ${values.n}`, true], ["least", true], ["most", true]];
    const rows = Object.entries(values.counts).map(([model, counts]) => {
      const below = counts.slice(0, values.k).reduce((sum, count) => sum + count, 0);
      const total = counts.reduce((sum, count) => sum + count, 0);
      return [medhelm.name(model), medhelm.count(below), medhelm.count(total - below), medhelm.count(counts.findIndex((count) => count > 0)), medhelm.count(counts.findLastIndex((count) => count > 0))];
    });
    return [h("h2", { id: "hits" }, `Hits about the threshold of ${values.k} of ${values.n}`), medhelm.plainTable("Cases below the threshold and from it on, by model", heads, rows)];
  }

  function sensitivity(view, table, benchmark) {
    const rows = rowsOf(table, benchmark, "threshold");
    if (!rows.length) return null;
    return [
      h("h2", { id: "sensitivity" }, "Other thresholds and scores"),
      medhelm.dataTable(table, { columns: ["measure", { name: "correlation", heading: "rank correlation", missing: "does not vary" }, { name: "top3", missing: "no more models" }, { name: "top5", missing: "no more models" }], rows, head: "measure", view, key: "threshold", caption: "Ranks by other thresholds and scores, against the main score", file: fileName(benchmark, "thresholds"), unit: "score" }),
      medhelm.lazyDetails("Coverage at other thresholds", () => medhelm.dataTable(table, { columns: ["measure", { name: "model", cell: (row) => modelCell(view, table, row) }, "coverage", "n"], rows: rowsOf(table, benchmark, "score"), head: "measure", view, key: "score", caption: "Coverage by model at other thresholds", file: fileName(benchmark, "other_thresholds"), unit: "row", rowClass: (row) => (table.get(row, "ranked") ? null : "apart") })),
    ];
  }

  function slices(view, table, benchmark) {
    const rows = rowsOf(table, benchmark, "slice");
    const axes = [...new Set(rows.map((row) => table.get(row, "axis")))].sort((a, b) => place(a) - place(b));
    return axes.map((axis) => {
      const own = rows.filter((row) => table.get(row, "axis") === axis);
      const list = () => medhelm.dataTable(table, { columns: ["value", "model", "coverage", { name: "difference", missing: "no other cases" }, "n"], rows: own, head: "value", view, key: axis, caption: `Coverage by ${axis}`, file: fileName(benchmark, axis), unit: "row" });
      return axis === axes[0] ? [h("h2", { id: "slices" }, `By ${medhelm.plain(axis)}`), list()] : medhelm.lazyDetails(`By ${medhelm.plain(axis)}`, list);
    });
  }

  function place(axis) {
    return FIRST.includes(axis) ? FIRST.indexOf(axis) : FIRST.length;
  }

  function lengths(view, table, benchmark) {
    const rows = rowsOf(table, benchmark, "length");
    if (!rows.length) return null;
    return medhelm.lazyDetails("Length of answers", () => medhelm.dataTable(table, { columns: ["measure", { name: "correlation", missing: "does not vary" }, "n"], rows, head: "measure", view, key: "length", caption: "Correlation of length and scores", file: fileName(benchmark, "length"), unit: "row" }));
  }

  function pick(view, names, benchmark) {
    const title = (name) => medhelm.plain((medhelm.benchmarks.get(name) || { title: name }).title, 60);
    const own = names.length > 1 ? medhelm.select(view, "benchmark", "Benchmark", names.map((name) => [name, title(name)]), benchmark) : null;
    const scoring = medhelm.scoringSelect(view);
    return own || scoring ? h("section", { class: "filters", "aria-label": "Filters" }, scoring, own) : null;
  }

  async function render(view) {
    const table = await medhelm.tableOf(view.scoring, "coverage");
    const values = (await medhelm.valuesOf(view.scoring, "coverage")) || {};
    const names = table ? [...new Set(benchmarksOf(table))] : [];
    const head = [h("h1", null, "Coverage"), h("p", { class: "lead" }, "Judges decide on each criterion of a case alone. Coverage counts a case from a threshold of criteria on. It is not clearance for clinical use.")];
    if (!names.length) return [head, medhelm.nothing("No benchmark here has criteria with a threshold.")];
    const benchmark = names.includes(view.get("benchmark")) ? view.get("benchmark") : names[0];
    return [
      head,
      pick(view, names, benchmark),
      medhelm.benchmarkNotes(benchmark),
      fidelity(view, await medhelm.tableOf(view.scoring, "judge_fidelity"), benchmark),
      scores(view, table, benchmark, rowsOf(table, benchmark, "model")),
      distribution(benchmark, values[benchmark]),
      sensitivity(view, table, benchmark),
      slices(view, table, benchmark),
      lengths(view, table, benchmark),
      medhelm.notes(table),
    ];
  }

  function benchmarksOf(table) {
    return table.rows.filter((row) => table.get(row, "level") === "model").map((row) => table.get(row, "benchmark"));
  }

  medhelm.page("coverage", { render, benchmarkLink: "Its coverage by threshold and slice", words: WORDS });
})();

"use strict";

// One benchmark: what it is, how it is scored, what answers without a model and the models reach.
(() => {
  const { h } = medhelm;
  const ANSWERS = new Map([
    ["oracle", "the gold itself, as an answer"],
    ["empty", "no answer"],
    ["random", "a random choice"],
  ]);
  const OTHER = "the same answer to every instance";

  function facts(pairs) {
    const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length));
    return h("dl", { class: "facts" }, known.map(([term, value]) => [h("dt", null, term), h("dd", null, value)]));
  }

  function taskTitles() {
    return new Map(medhelm.site.taxonomy.flatMap((c) => c.subcategories.flatMap((s) => s.tasks.map((t) => [t.id, t.title]))));
  }

  function hash(text) {
    return text ? h("code", { class: "hash" }, medhelm.name(text)) : null;
  }

  function about(view, page) {
    const titles = taskTitles();
    const category = h("span", null, medhelm.name(medhelm.categoryTitle(page.category)), " / ", medhelm.name(medhelm.subcategoryTitle(page.subcategory)));
    return [
      h("h2", { id: "about" }, "About"),
      facts([
        ["Category", category],
        ["Tasks", page.tasks.map((task, i) => [i ? "; " : "", medhelm.name(titles.get(task) || task)])],
        ["Source", page.source ? medhelm.external(page.source) : null],
        ["Citation", page.citation ? medhelm.shown(page.citation, 1000) : null],
        ["Licence", page.licence ? medhelm.shown(page.licence, 300) : null],
        ["Access of data", `${page.access}${page.has_text ? "; its instances may be read on this site" : "; scores and hashes only on this site"}`],
        ["Curation", page.curation],
        ["Version", medhelm.name(page.version)],
        ["Split", medhelm.name(page.split)],
        ["Instances", medhelm.count(page.instances)],
        ["Instances share a", page.cluster ? medhelm.name(page.cluster) : null],
        ["Output budget", `${medhelm.count(page.max_output_tokens)} tokens`],
        ["Dataset SHA-256", hash(page.dataset_sha256)],
      ]),
    ];
  }

  function prompt(page) {
    const text = !page.instruction
      ? h("p", { class: "note" }, page.instruction === null ? "The instruction of this benchmark is not published." : "There is no instruction beside the instances' own text.")
      : h("blockquote", { class: "text" }, medhelm.shown(page.instruction, 20000));
    return [
      h("h2", { id: "prompt" }, "Prompt"),
      text,
      facts([["Template", [medhelm.name(page.prompt_name), `, version ${medhelm.plain(page.prompt_version)}`]], ["SHA-256", hash(page.prompt_sha256)]]),
    ];
  }

  function plainTable(label, heads, rows) {
    return medhelm.scroller(label, h("table", null, h("caption", { class: "unseen" }, label),
      h("thead", null, h("tr", null, heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
      h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, i) => (i ? h("td", { class: heads[i][1] }, cell) : h("th", { scope: "row" }, h("div", { class: "head" }, cell)))))))));
  }

  // Ends of a metric's scale have no column, and are few and short.
  function end(value) {
    return Number.isInteger(value) ? medhelm.count(value) : String(value);
  }

  function metrics(page) {
    const rows = page.metrics.map(([name, version, minimum, maximum, floor, isHigher, aggregation], i) => [
      [medhelm.name(name), i ? null : [" ", medhelm.badge("plain", "main", "ranked by this metric")]], medhelm.name(version), `${end(minimum)} to ${end(maximum)}`, floor === null ? medhelm.dash("in no mean") : end(floor), isHigher ? "higher" : "lower", medhelm.name(aggregation),
    ]);
    const jury = page.jury ? h("p", null, "Jury: ", medhelm.name(page.jury), page.jury === "offline" ? " – rules that stand in for judges; its scores say nothing about quality." : ".") : null;
    const rubric = page.rubric.length ? [h("h3", null, "Rubric"), h("dl", { class: "rubric" }, page.rubric.map(([name, text]) => [h("dt", null, medhelm.name(name)), h("dd", null, medhelm.shown(text, 5000))]))] : null;
    return [
      h("h2", { id: "metrics" }, "Metrics"),
      plainTable("Metrics", [["metric", "text"], ["version", "text"], ["scale", "text"], ["floor", "number"], ["better", "text"], ["over instances", "text"]], rows),
      h("p", { class: "faint" }, "The floor is what an answer that cannot be read counts; where a metric has none, the answer is in no mean."),
      jury, rubric,
    ];
  }

  function embedded(page) {
    const head = h("h2", { id: "embedded" }, "Answers without a model");
    const main = page.metrics.length ? page.metrics[0][0] : "";
    if (!page.embedded.length) return [head, h("p", { class: "note" }, "The manifest holds no scores of embedded answers for these data and this metric.")];
    const column = page.scores.columns.find((c) => c.name === "score");
    const rows = page.embedded.map(([name, value]) => [medhelm.name(name), value === null ? medhelm.dash("not scored") : medhelm.valueText(column, value), ANSWERS.get(name) || OTHER]);
    return [
      head,
      h("p", { class: "faint" }, "What fixed answers score on ", medhelm.name(main), ", as recorded when the benchmark was last validated: the oracle bounds what can be reached, the others are what a model must beat."),
      plainTable("Scores of answers without a model", [["answer", "text"], ["score", "number"], ["what it is", "text"]], rows),
    ];
  }

  function scoreCell(table, row, metric) {
    const value = table.get(row, "score");
    if (value === null) return medhelm.dash(table.get(row, "status") === "missing" ? "no run" : table.get(row, "status"));
    const [low, high] = [table.get(row, "low"), table.get(row, "high")];
    const line = metric ? medhelm.whisker(value, low, high, metric[2], metric[3]) : null;
    return [h("span", { class: "strong" }, medhelm.valueText(table.column("score"), value)), " ", h("span", { class: "interval" }, medhelm.intervalText(table, row, table.column("score"))), line];
  }

  function modelCell(view, table, row) {
    const [benchmark, model] = [table.get(row, "benchmark"), table.get(row, "model")];
    const hasRun = medhelm.scorings.get(view.scoring).run(benchmark, model) !== undefined;
    const name = hasRun ? medhelm.link(medhelm.runHash(view, benchmark, model), null, medhelm.name(model)) : medhelm.name(model);
    return h("div", { class: "model" }, h("span", null, name), h("span", { class: "badges" }, medhelm.modelMarks(model, new Set([benchmark]))));
  }

  function scoredCell(table, row) {
    return table.get(row, "scored") === null ? medhelm.dash() : `${medhelm.count(table.get(row, "scored"))}/${medhelm.count(table.get(row, "planned"))}`;
  }

  function models(view, page) {
    const table = medhelm.reader(page.scores);
    const names = [...new Set(table.rows.map((row) => table.get(row, "metric")))];
    const main = page.metrics.length ? page.metrics[0][0] : names[0];
    const chosen = names.includes(view.get("metric")) ? view.get("metric") : main;
    const metric = page.metrics.find(([name]) => name === chosen);
    const rows = table.rows.filter((row) => table.get(row, "metric") === chosen);
    const pick = names.length > 1 ? medhelm.select(view, "metric", "Metric", names.map((name) => [name === main ? "" : name, medhelm.plain(name === main ? `${name} (main)` : name)]), chosen === main ? "" : chosen) : null;
    const scoring = medhelm.scoringSelect(view);
    return [
      h("h2", { id: "models" }, "Models"),
      pick || scoring ? h("section", { class: "filters", "aria-label": "Filters" }, scoring, pick) : null,
      medhelm.dataTable(table, {
        columns: [
          { name: "model", cell: (row) => modelCell(view, table, row) },
          { name: "score", heading: chosen, cell: (row) => scoreCell(table, row, metric), className: "wide" },
          { name: "normalised", heading: "normalised" }, "n",
          ...(rows.some((row) => table.get(row, "mean_of")) ? [{ name: "mean_of", heading: "mean of", isText: true, missing: "no parts" }] : []),
          { name: "scored", cell: (row) => scoredCell(table, row), saved: ["scored", "planned"] },
          { name: "not_scored", heading: "not scored", className: "prose", missing: "", cell: (row) => (table.get(row, "not_scored") ? medhelm.name(table.get(row, "not_scored")) : "") },
          { name: "coverage", heading: "coverage" },
          { name: "cut_share", heading: "cut", missing: "not counted in this grading" },
          { name: "worst_case", heading: "at worst", missing: "not defined for this metric" },
          "status",
          { name: "flags", isText: true, sort: null, cell: (row) => (table.get(row, "flags") || "").split(" ").filter(Boolean).map((flag) => medhelm.badge("warn", flag, "see the notes")) },
        ],
        rows, head: "model", sort: metric && metric[5] === false ? "score" : "-score", view, caption: `Models on ${medhelm.plain(page.title)}`, file: `${page.name.replace(/\W+/g, "_").slice(0, 60)}_scores`, unit: "model",
        rowClass: (row) => (table.get(row, "status") === "ranked" ? null : "apart"),
      }),
    ];
  }

  function labels(bins) {
    return bins.slice(1).map((high, i) => `${Number(bins[i].toFixed(6))} to ${Number(high.toFixed(6))}`);
  }

  function distributionPlot(page, histograms, byModel) {
    const centres = page.bins.slice(1).map((high, i) => (page.bins[i] + high) / 2);
    const width = page.bins.length > 1 ? page.bins[1] - page.bins[0] : 1;
    const ranges = labels(page.bins);
    const step = 1 / histograms.length;
    const most = Math.max(...histograms.flatMap((own) => own.counts));
    const axes = (ink) => Object.fromEntries(histograms.map((own, i) => [`yaxis${i ? i + 1 : ""}`, { domain: [1 - (i + 1) * step, 1 - i * step - 0.28 * step], nticks: 3, range: [0, most], fixedrange: true, tickfont: { size: 10, color: ink.faint } }]));
    const names = (ink) => histograms.map((own, i) => ({ text: medhelm.tickText(own.model), xref: "paper", yref: "paper", x: 0, xanchor: "left", y: 1 - i * step - 0.28 * step, yanchor: "bottom", showarrow: false, font: { size: 12, color: ink.text } }));
    return (ink) => ({
      data: histograms.map((own, i) => ({
        type: "bar", x: centres, y: own.counts, width: width * 0.92, yaxis: i ? `y${i + 1}` : "y", marker: { color: byModel.has(own.model) ? ink.accent : ink["line-strong"] }, showlegend: false, textposition: "none",
        hovertext: own.counts.map((count, bin) => `${medhelm.plotText(own.model)}<br>${ranges[bin]}: ${medhelm.many(count, "instance")}`), hoverinfo: "text",
      })),
      layout: { ...axes(ink), annotations: names(ink), xaxis: { title: { text: medhelm.plotText(page.metrics.length ? page.metrics[0][0] : "score") }, range: [page.bins[0], page.bins[page.bins.length - 1]], anchor: histograms.length > 1 ? `y${histograms.length}` : "y" }, bargap: 0, margin: { l: 48, r: 16, t: 8, b: 52 } },
    });
  }

  function distributionTable(page, histograms) {
    const heads = [["model", "text"], ...labels(page.bins).map((label) => [label, "number"])];
    return plainTable("Instances by score and model", heads, histograms.map((own) => [medhelm.name(own.model), ...own.counts.map((count) => medhelm.count(count))]));
  }

  /** Return the figure of how many instances of each model have which score; `page`: the data of a benchmark's page. */
  medhelm.distribution = (page) => {
    const table = medhelm.reader(page.scores);
    const places = new Map(table.rows.filter((row) => table.get(row, "is_main")).map((row, i) => [table.get(row, "model"), i]));
    const ranked = new Set(table.rows.filter((row) => table.get(row, "status") === "ranked").map((row) => table.get(row, "model")));
    const own = page.histograms.filter((line) => line.counts.some(Boolean)).sort((a, b) => (places.get(a.model) ?? Infinity) - (places.get(b.model) ?? Infinity));
    if (!own.length) return [h("h2", null, "Distribution of scores"), medhelm.nothing("No instance has a score.")];
    return medhelm.figure({
      title: "Distribution of scores", caption: `How many instances of each model have which score on ${medhelm.plain(page.metrics.length ? page.metrics[0][0] : "the main metric")}; grey: not ranked.`,
      height: 90 + 84 * own.length, plot: distributionPlot(page, own, ranked), table: distributionTable(page, own),
    });
  };

  // The pages of plugins that are about this benchmark.
  function pluginLinks(view, name) {
    const own = medhelm.site.pages.filter((page) => page.benchmarks.includes(name) && medhelm.pages.get(page.name)?.benchmarkLink);
    return own.map((page) => h("p", null, medhelm.link(medhelm.hash(page.name, [], { scoring: view.query.get("scoring"), benchmark: name }), null, medhelm.pages.get(page.name).benchmarkLink)));
  }

  async function render(view) {
    const name = view.path[0] || "";
    const scoring = medhelm.scorings.get(view.scoring);
    const key = scoring && scoring.benchmarks.get(name);
    if (view.path.length !== 1 || !key) throw new medhelm.NotFound(`The site has no benchmark ${medhelm.plain(name, 80)}${medhelm.site.scorings.length > 1 ? " under this scoring" : ""}.`);
    const page = await medhelm.load(key);
    return [
      h("p", { class: "trail" }, medhelm.link(medhelm.carried(view, "benchmarks"), null, "Benchmarks"), " / ", medhelm.name(medhelm.subcategoryTitle(page.subcategory))),
      h("h1", { "data-title": medhelm.plain(page.title) }, medhelm.name(page.title)),
      h("p", { class: "badges" }, h("code", null, medhelm.name(page.name)), medhelm.benchmarkMarks(page.name)),
      h("p", { class: "lead" }, medhelm.shown(page.description, 5000)),
      medhelm.benchmarkNotes(page.name),
      pluginLinks(view, page.name),
      models(view, page),
      medhelm.distribution(page),
      await medhelm.calibrationFigures(view, page.name),
      embedded(page),
      about(view, page),
      prompt(page),
      metrics(page),
      medhelm.notes(medhelm.reader(page.scores)),
    ];
  }

  medhelm.page("benchmark", { parent: "benchmarks", render });
})();

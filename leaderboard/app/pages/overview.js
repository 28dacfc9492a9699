"use strict";

// Models ranked by win rate on the chosen benchmarks.
(() => {
  const { h } = medhelm;

  function modelCell(table, row, benchmarks) {
    const name = table.get(row, "model");
    return h("div", { class: "model" }, medhelm.name(name), h("span", { class: "badges" }, medhelm.modelMarks(name, benchmarks)));
  }

  function flagsCell(table, row) {
    const flags = (table.get(row, "flags") || "").split(" ").filter(Boolean);
    return flags.length ? flags.map((flag) => medhelm.badge("warn", flag, "see the notes")) : null;
  }

  function columns(table, by, benchmarks) {
    return [
      { name: "rank", className: "stack", cell: (row) => (table.get(row, "rank") === null ? medhelm.dash(medhelm.whyUnranked(table, row)) : medhelm.valueCell(table, row, "rank")) },
      { name: "model", cell: (row) => modelCell(table, row, benchmarks) },
      medhelm.winColumn(table, by),
      { name: by.sd, heading: "SD" },
      { name: "macro_average", heading: "macro-average", className: "stack" },
      { name: "macro_sd", heading: "SD" },
      { name: "tie_group", heading: "tie group" },
      { name: "coverage", heading: "coverage" },
      { name: "cut_share", heading: "cut", missing: "graded before answers cut by the output budget were counted" },
      { name: "benchmarks", heading: "benchmarks" },
      { name: "total_cost_usd", heading: "cost, USD", missing: "price, usage or the jury's cost is unknown" },
      { name: "flags", heading: "flags", sort: null, isText: true, cell: (row) => flagsCell(table, row) },
    ];
  }

  function benchmarkList(view, benchmarks) {
    const items = [...benchmarks].map((name) => {
      const line = medhelm.benchmarks.get(name);
      return h("li", null, medhelm.link(medhelm.benchmarkHash(view, name), null, medhelm.name(line ? line.title : name)), " ", medhelm.benchmarkMarks(name));
    });
    return h("details", { class: "behind" }, h("summary", null, `The ${medhelm.many(items.length, "benchmark")} of this selection`), h("ul", { class: "columns" }, items));
  }

  function warnings(benchmarks) {
    const offline = [...benchmarks].filter((name) => medhelm.offlineJury.has(name)).length;
    const stopped = medhelm.site.incomplete.filter(([benchmark]) => benchmarks.has(benchmark)).length;
    return [
      offline ? h("p", { class: "mark warn" }, h("strong", null, "Offline jury. "), `${medhelm.many(offline, "benchmark is", "benchmarks are")} rated by rules that stand in for judges; those scores say nothing about quality.`) : null,
      stopped ? h("p", { class: "mark warn" }, h("strong", null, "Incomplete runs. "), `${medhelm.many(stopped, "run")} stopped before the end; the models are marked.`) : null,
    ];
  }

  function rankedTable(view, tables, by) {
    const table = tables[by.table];
    const rows = table.rows.filter((row) => medhelm.passesWeights(view, table.get(row, "model")));
    if (!rows.length) return medhelm.nothing("No model passes the filters.");
    medhelm.say(medhelm.many(rows.length, "model"));
    return medhelm.dataTable(table, {
      columns: columns(table, by, tables.benchmarks), rows, head: "model", sort: "rank", view, unit: "model",
      caption: "Models ranked by win rate", file: "overview",
      rowClass: (row) => (table.get(row, "ranked") ? null : "apart"),
    });
  }

  async function render(view) {
    const by = medhelm.winRate(view);
    const tables = await medhelm.viewTables(view);
    const lead = tables ? `${medhelm.many(tables.half.rows.length, "model")} on ${medhelm.many(tables.benchmarks.size, "benchmark")}, ranked by the share of rivals that each one beats.` : "";
    return [
      h("h1", null, "Overview"),
      h("p", { class: "lead" }, lead),
      medhelm.filters(view, { weights: true, extra: medhelm.winSwitch(view) }),
      tables ? [
        warnings(tables.benchmarks),
        h("p", { class: "faint" }, by.says, " ", medhelm.RANK_RULE, view.get("weights") ? " Ranks are those among all models; the filter by weights only hides rows." : ""),
        rankedTable(view, tables, by),
        benchmarkList(view, tables.benchmarks),
        medhelm.notes(tables[by.table]),
      ] : medhelm.nothing("No benchmark with runs passes the filters."),
    ];
  }

  medhelm.page("overview", { title: "Overview", render });
})();

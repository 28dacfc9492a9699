"use strict";

// Means by category and subcategory, and how far the site's benchmarks cover the taxonomy.
(() => {
  const { h } = medhelm;

  function index(table, level) {
    const found = new Map();
    for (const row of table.rows) {
      if (table.get(row, "level") !== level) continue;
      const group = table.get(row, level);
      if (!found.has(group)) found.set(group, new Map());
      found.get(group).set(table.get(row, "model"), row);
    }
    return found;
  }

  function meanCell(table, row, spots) {
    const value = row ? table.get(row, "mean") : null;
    if (value === null) return h("td", { class: "cell" }, h("span", { class: "spot empty", title: "not every common benchmark of it has a score of this model" }, medhelm.DASH));
    const colours = medhelm.scaleColour(value);
    const spot = h("span", { class: "spot", style: { "background-color": colours.background, color: colours.color } }, medhelm.valueText(table.column("mean"), value));
    spots.set(spot, row);
    return h("td", { class: "cell" }, spot);
  }

  function details(table, row) {
    const group = table.get(row, "subcategory") === null ? medhelm.categoryTitle(table.get(row, "category")) : medhelm.subcategoryTitle(table.get(row, "subcategory"));
    return [
      h("p", { class: "strong" }, medhelm.name(group)),
      h("p", null, medhelm.name(table.get(row, "model"))),
      h("dl", { class: "facts tight" },
        h("dt", null, "Mean"), h("dd", null, medhelm.withInterval(table, row, "mean")),
        h("dt", null, "SD"), h("dd", null, table.get(row, "sd") === null ? `${medhelm.DASH} (one benchmark)` : medhelm.valueText(table.column("sd"), table.get(row, "sd"))),
        h("dt", null, "Benchmarks"), h("dd", null, medhelm.count(table.get(row, "benchmarks")))),
    ];
  }

  function groupRow(table, title, cells, models, spots) {
    return h("tr", null, h("th", { scope: "row" }, h("div", { class: "head" }, medhelm.name(title))), models.map((model) => meanCell(table, cells.get(model), spots)));
  }

  /** Return bodies with the groups of a level, in the order of the taxonomy; others come last. */
  function bodies(table, level, models, spots) {
    const found = index(table, level);
    const row = (line) => {
      const key = found.has(line.title) ? line.title : line.id;
      const cells = found.get(key);
      found.delete(key);
      return cells ? groupRow(table, line.title, cells, models, spots) : null;
    };
    const { taxonomy } = medhelm.site;
    const own = level === "category"
      ? [h("tbody", null, taxonomy.map(row))]
      : taxonomy.map((c) => [c, c.subcategories.map(row).filter(Boolean)]).filter(([, rows]) => rows.length).map(([c, rows]) =>
        h("tbody", null, h("tr", { class: "band" }, h("th", { scope: "rowgroup", colspan: models.length + 1 }, h("span", null, medhelm.name(c.title)))), rows));
    return [...own, h("tbody", null, [...found.keys()].map((title) => row({ id: title, title })))];
  }

  /** Return a grid with a row for each group and a column for each model. */
  function grid(table, level, models, label) {
    const spots = new Map();
    const head = h("tr", null, h("th", { scope: "col" }, level), models.map((model) => h("th", { scope: "col" }, h("div", { class: "head" }, medhelm.name(model)))));
    const element = h("table", { class: "heat" }, h("caption", { class: "unseen" }, label), h("thead", null, head), bodies(table, level, models, spots));
    medhelm.tips(element, ".spot:not(.empty)", (spot) => details(table, spots.get(spot)));
    medhelm.arrows(element, ".spot");
    return medhelm.scroller(label, element);
  }

  function list(view, table, models) {
    const rows = table.rows.filter((row) => models.includes(table.get(row, "model")));
    return medhelm.dataTable(table, {
      columns: [
        { name: "category", cell: (row) => medhelm.name(medhelm.categoryTitle(table.get(row, "category"))) },
        { name: "subcategory", cell: (row) => (table.get(row, "subcategory") === null ? "all" : medhelm.name(medhelm.subcategoryTitle(table.get(row, "subcategory")))) },
        "model", "mean", { name: "sd", missing: "one benchmark" }, { name: "benchmarks", heading: "benchmarks" },
      ],
      rows, view, caption: "Means as a list", file: "categories", unit: "mean",
    });
  }

  function meter(part, whole) {
    return h("span", { class: "meter", "aria-hidden": "true" }, h("span", { style: { width: `${whole ? (100 * part) / whole : 0}%` } }));
  }

  function coverage(part, whole, ...what) {
    return h("span", { class: "cover" }, meter(part, whole), `${part} of ${medhelm.many(whole, ...what)}`);
  }

  function benchmarkLinks(view, names) {
    return names.map((name, place) => {
      const line = medhelm.benchmarks.get(name);
      return [place ? ", " : "", medhelm.link(medhelm.benchmarkHash(view, name), null, medhelm.name(line ? line.title : name))];
    });
  }

  function taskItem(view, task) {
    const isCovered = task.benchmarks.length > 0;
    return h("li", { class: isCovered ? "covered" : "bare" },
      h("span", null, medhelm.name(task.title)),
      isCovered ? h("span", { class: "by" }, benchmarkLinks(view, task.benchmarks)) : h("span", { class: "by" }, "no benchmark"));
  }

  function covered(subcategory) {
    return subcategory.tasks.filter((t) => t.benchmarks.length).length;
  }

  function subcategoryItem(view, subcategory) {
    const summary = h("summary", null, h("span", { class: "branch" }, medhelm.name(subcategory.title)), coverage(covered(subcategory), subcategory.tasks.length, "task"));
    const of = subcategory.benchmarks.length ? h("p", { class: "faint" }, `${medhelm.many(subcategory.benchmarks.length, "benchmark")}: `, benchmarkLinks(view, subcategory.benchmarks)) : h("p", { class: "faint" }, "No benchmark of this site.");
    return h("details", null, summary, of, h("ul", { class: "tasks" }, subcategory.tasks.map((task) => taskItem(view, task))));
  }

  function categoryItem(view, category) {
    const whole = category.subcategories;
    const tasks = whole.reduce((sum, s) => sum + s.tasks.length, 0);
    const done = whole.reduce((sum, s) => sum + covered(s), 0);
    const summary = h("summary", null, h("span", { class: "branch strong" }, medhelm.name(category.title)),
      coverage(whole.filter((s) => s.benchmarks.length).length, whole.length, "subcategory", "subcategories"), coverage(done, tasks, "task"));
    return h("details", { open: true }, summary, whole.map((s) => subcategoryItem(view, s)));
  }

  function tree(view) {
    const element = h("div", { class: "tree" }, medhelm.site.taxonomy.map((c) => categoryItem(view, c)));
    const toggle = (isOpen) => () => element.querySelectorAll("details").forEach((d) => { d.open = isOpen; });
    const buttons = h("div", { class: "downloads" },
      h("button", { type: "button", class: "quiet small", on: { click: toggle(true) } }, "Open all"),
      h("button", { type: "button", class: "quiet small", on: { click: toggle(false) } }, "Close all"));
    return [h("div", { class: "tools" }, h("p", { class: "faint" }, "The benchmarks of this site, whatever the filters above say."), buttons), element];
  }

  function means(view, tables) {
    const table = tables.categories;
    const models = tables.half.rows.map((row) => tables.half.get(row, "model")).filter((m) => medhelm.passesWeights(view, m));
    if (!table.rows.length) return medhelm.nothing("No benchmark of the selection is common to all ranked models, so there are no means.");
    if (!models.length) return medhelm.nothing("No model passes the filters.");
    return [
      h("h2", null, "Means by category"),
      medhelm.scaleLegend("0", "1"),
      grid(table, "category", models, "Means by category and model"),
      h("h2", null, "Means by subcategory"),
      grid(table, "subcategory", models, "Means by subcategory and model"),
      medhelm.lazyDetails("The same as a list, to sort and download", () => list(view, table, models)),
    ];
  }

  async function render(view) {
    const tables = await medhelm.viewTables(view);
    return [
      h("h1", null, "Categories"),
      h("p", { class: "lead" }, "Unweighted means of the normalised scores over the benchmarks that all ranked models have, and what of the taxonomy the benchmarks cover."),
      medhelm.filters(view, { weights: true }),
      tables ? means(view, tables) : medhelm.nothing("No benchmark with runs passes the filters."),
      h("h2", { id: "taxonomy" }, "Taxonomy and coverage"),
      tree(view),
      tables ? medhelm.notes(tables.categories) : null,
    ];
  }

  medhelm.page("categories", { title: "Categories", render });
})();

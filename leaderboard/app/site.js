"use strict";

// What site.js says, found by name. Names come from data, so they are keys of Maps only.
(() => {
  const wrapped = new WeakMap();

  /** Return a page table with its columns by name: `get(row, name)`, `column(name)`, `has(name)`. */
  medhelm.reader = (table) => {
    if (wrapped.has(table)) return wrapped.get(table);
    const places = new Map(table.columns.map((c, place) => [c.name, place]));
    const place = (name) => {
      if (!places.has(name)) throw new Error(`The table ${table.name} has no column ${name}.`);
      return places.get(name);
    };
    const reader = {
      table,
      name: table.name,
      columns: table.columns,
      rows: table.rows,
      notes: table.notes,
      settings: new Map(table.settings),
      has: (name) => places.has(name),
      column: (name) => table.columns[place(name)],
      get: (row, name) => row[place(name)],
    };
    wrapped.set(table, reader);
    return reader;
  };

  function byTwo(triples) {
    const found = new Map();
    for (const [first, second, value] of triples) {
      if (!found.has(first)) found.set(first, new Map());
      found.get(first).set(second, value);
    }
    return (first, second) => (found.has(first) ? found.get(first).get(second) : undefined);
  }

  function scoringPages(pages) {
    return {
      scoring: pages.scoring,
      tables: new Map(pages.tables),
      benchmarks: new Map(pages.benchmarks),
      run: byTwo(pages.runs),
      runs: pages.runs,
      values: new Map(pages.values),
      made: pages.made,
    };
  }

  /** Read what the other files need of `data/site.js`. */
  medhelm.setSite = (site) => {
    medhelm.site = site;
    medhelm.models = new Map(site.models.map((m) => [m.name, m]));
    medhelm.benchmarks = new Map(site.benchmarks.map((b) => [b.name, b]));
    medhelm.scorings = new Map(site.scorings.map((s) => [s.scoring, scoringPages(s)]));
    medhelm.offlineJury = new Set(site.offline_jury);
    medhelm.pluginPages = new Map(site.pages.map((page) => [page.name, page]));
    // Runs name them by title, the taxonomy by id too.
    medhelm.categories = new Map(site.taxonomy.flatMap((c) => [[c.title, c], [c.id, c]]));
    medhelm.subcategories = new Map(
      site.taxonomy.flatMap((c) => c.subcategories.flatMap((s) => [[s.title, s], [s.id, s]])),
    );
    medhelm.isIncomplete = byTwo(site.incomplete.map(([benchmark, model]) => [benchmark, model, true]));
  };

  /** Return whether a text is the id or the title of a category or subcategory. */
  medhelm.isOf = (text, line) => text === line.id || text === line.title;

  /** Return the title of a category or subcategory; the text itself where the taxonomy has none. */
  medhelm.categoryTitle = (id) => (medhelm.categories.has(id) ? medhelm.categories.get(id).title : id);
  medhelm.subcategoryTitle = (id) =>
    medhelm.subcategories.has(id) ? medhelm.subcategories.get(id).title : id;

  /** Return a table of a scoring as a reader, or null where the site has none of this name. */
  medhelm.tableOf = async (scoring, name) => {
    const pages = medhelm.scorings.get(scoring);
    const key = pages && pages.tables.get(name);
    return key === undefined || key === null ? null : medhelm.reader(await medhelm.load(key));
  };

  /** Return what a plugin's page reads besides its tables, or null. */
  medhelm.valuesOf = async (scoring, page) => {
    const pages = medhelm.scorings.get(scoring);
    return pages && pages.values.has(page) ? medhelm.load(pages.values.get(page)) : null;
  };

  function badge(kind, label, title) {
    return medhelm.h("span", { class: `badge ${kind}`, title }, label);
  }

  medhelm.badge = badge;

  /** Return the reason why a model is shown beside the others and not ranked. */
  medhelm.apartWhy = (card) => (card.provider === "human" ? "answers of people" : "reads the gold");

  /** Return the marks of a model: what it is, and what of it is not finished. */
  medhelm.modelMarks = (name, benchmarks = null) => {
    const card = medhelm.models.get(name);
    const marks = [];
    if (card && card.is_baseline) marks.push(badge("plain", "baseline", "a rule, not a language model"));
    if (card && !card.is_ranked) marks.push(badge("plain", medhelm.apartWhy(card), "shown beside the models; never ranked"));
    const stopped = medhelm.site.incomplete.filter(
      ([benchmark, model]) => model === name && (!benchmarks || benchmarks.has(benchmark)),
    ).length;
    if (stopped) marks.push(badge("warn", `${stopped} incomplete`, `${medhelm.many(stopped, "run")} stopped before the end`));
    return marks;
  };

  /** Return the lines of plugins' pages above the scores of a benchmark. */
  medhelm.benchmarkNotes = (benchmark) => {
    const own = medhelm.site.pages.flatMap((page) => page.marks).filter((mark) => mark.benchmark === benchmark);
    return own.map((mark) => medhelm.h("p", { class: `mark ${mark.kind}` }, medhelm.shown(mark.text, 1000)));
  };

  /** Return the marks of a benchmark. */
  medhelm.benchmarkMarks = (name) => {
    const line = medhelm.benchmarks.get(name);
    const marks = [];
    if (line && line.access !== "public") marks.push(badge("plain", line.access, "who can get its data"));
    if (medhelm.offlineJury.has(name)) {
      marks.push(badge("warn", "offline jury", "rated by rules that stand in for judges; says nothing about quality"));
    }
    return marks;
  };
})();

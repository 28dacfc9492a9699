"use strict";

// Filters shared by the pages over many benchmarks; what is chosen is in the address.
(() => {
  const { h } = medhelm;
  const WEIGHTS = [["", "All models"], ["open", "Open weights"], ["closed", "Closed weights"], ["none", "Baselines"]];

  function chosen(view) {
    return { suite: view.get("suite"), access: view.get("access"), category: view.get("category") };
  }

  function matching(view, wanted) {
    return medhelm.site.views.filter(
      (v) => v.scoring === view.scoring && Object.keys(wanted).every((k) => v[k] === wanted[k]),
    );
  }

  /** Return the view of the site that the filters choose; null where no benchmark is left. */
  medhelm.viewOf = (view) => matching(view, chosen(view))[0] || null;

  /** Return the tables of the chosen benchmarks: {benchmarks, half, literal, categories}, or null. */
  medhelm.viewTables = async (view) => {
    const found = medhelm.viewOf(view);
    if (!found) return null;
    const page = await medhelm.load(found.key);
    return {
      benchmarks: new Set(page.benchmarks),
      half: medhelm.reader(page.half),
      literal: medhelm.reader(page.literal),
      categories: medhelm.reader(page.categories),
    };
  };

  /** Return a labelled choice; options are [value, text, is disabled]. */
  medhelm.select = (view, key, label, options, value = view.get(key)) => {
    const id = `filter-${key}`;
    const control = h("select", { id, on: { change: (event) => view.go({ [key]: event.target.value }) } },
      options.map(([v, text, isOff]) => h("option", { value: v, disabled: isOff && v !== value, selected: v === value }, text)));
    return h("div", { class: "field pick" }, h("label", { for: id }, label), control);
  };

  /** Return a switch between a few values as radio buttons; options are [value, text]. */
  medhelm.switcher = (view, key, legend, options, value = view.get(key)) =>
    h("fieldset", { class: "switch" }, h("legend", null, legend),
      h("div", { class: "segments" }, options.map(([v, text]) => {
        const id = `switch-${key}-${v || "default"}`;
        const input = h("input", { type: "radio", name: `switch-${key}`, id, checked: v === value, on: { change: () => view.go({ [key]: v }) } });
        return [input, h("label", { for: id }, text)];
      })));

  function filterOptions(view, key, all, title) {
    const here = medhelm.site.views.filter((v) => v.scoring === view.scoring);
    // What the address asks for is an option even where the site has none of it.
    const values = [...new Set([...here.map((v) => v[key]), view.get(key)])].filter(Boolean);
    const options = values.map((value) => {
      const isOff = !matching(view, { ...chosen(view), [key]: value }).length;
      return [value, medhelm.plain(title(value), 60), isOff];
    });
    return [["", all, false], ...options];
  }

  medhelm.scoringSelect = (view) => {
    if (medhelm.site.scorings.length < 2) return null;
    const options = medhelm.site.scorings.map((s) => [s.scoring, medhelm.plain(s.scoring)]);
    return medhelm.select(view, "scoring", "Scoring", options, view.scoring);
  };

  function fields(view, given) {
    const all = [
      ["suite", "Suite", medhelm.site.first_suite || "All benchmarks", (v) => v],
      ["access", "Access of data", "Any", (v) => v],
      ["category", "Category", "All", medhelm.categoryTitle],
    ];
    const found = all
      .map(([key, label, any, title]) => [key, label, filterOptions(view, key, any, title)])
      .filter(([, , options]) => options.length > 1)
      .map(([key, label, options]) => medhelm.select(view, key, label, options));
    if (given.weights) found.push(medhelm.select(view, "weights", "Weights", WEIGHTS));
    return found;
  }

  /** Return the filters of a page; `weights`: by model too; `extra`: more fields. */
  medhelm.filters = (view, given = {}) => {
    const isOn = ["suite", "access", "category", ...(given.weights ? ["weights"] : [])].some((key) => view.get(key));
    const none = { suite: "", access: "", category: "", weights: "" };
    return h("section", { class: "filters", "aria-label": "Filters" },
      medhelm.scoringSelect(view), fields(view, given), given.extra || null,
      isOn ? h("button", { type: "button", class: "quiet", id: "reset", on: { click: () => view.go(none) } }, "Reset filters") : null);
  };

  /** Return whether a model passes the filter by weights. */
  medhelm.passesWeights = (view, model) => {
    const wanted = view.get("weights");
    const card = medhelm.models.get(model);
    return !wanted || (card !== undefined && card.weights === wanted);
  };

  /** Return what a page says where the filters leave nothing. */
  medhelm.nothing = (what) => h("p", { class: "note", id: "nothing" }, what);
})();

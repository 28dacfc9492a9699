"use strict";

// One run: what it reached, its instances, how it was made and how to make it again.
(() => {
  const { h } = medhelm;
  const TABS = [["", "Instances"], ["results", "Results and usage"], ["settings", "Settings and how to reproduce"]];
  const USAGE = new Map([
    ["requests", "Requests"],
    ["input_tokens", "Input tokens"],
    ["cached_tokens", "of these, cached"],
    ["output_tokens", "Output tokens"],
    ["reasoning_tokens", "of these, reasoning"],
    ["unknown", "Answers without a count of tokens"],
    ["lost", "Requests whose answer was lost; they may be billed"],
    ["output_limit_tokens", "Output tokens if every answer had used its budget"],
  ]);

  // Head ----------------------------------------------------------------------------------------

  function crumbs(view, run, card) {
    const own = medhelm.scorings.get(view.scoring).runs.filter(([benchmark]) => benchmark === run.benchmark);
    const choose = (event) => { location.hash = medhelm.hash("run", [run.benchmark, event.target.value], { scoring: view.query.get("scoring"), tab: view.get("tab"), instance: view.get("instance"), repeat: view.get("repeat") }); };
    const scoring = medhelm.site.scorings.filter((s) => medhelm.scorings.get(s.scoring).run(run.benchmark, run.model) !== undefined).length > 1 ? medhelm.scoringSelect(view) : null;
    return h("div", { class: "crumbs" },
      h("nav", { "aria-label": "Where this page stands" }, medhelm.link(medhelm.carried(view, "benchmarks"), null, "Benchmarks"), h("span", { class: "faint", "aria-hidden": "true" }, "/"), medhelm.link(medhelm.benchmarkHash(view, run.benchmark), null, medhelm.name(card.title || run.benchmark))),
      h("div", { class: "jumps" }, scoring, own.length > 1 ? h("div", { class: "field" }, h("label", { for: "model" }, "Model"), h("select", { id: "model", on: { change: choose } }, own.map(([, model]) => h("option", { value: model, selected: model === run.model }, medhelm.plain(model, 60))))) : null));
  }

  function marks(run) {
    return [
      medhelm.benchmarkNotes(run.benchmark),
      medhelm.offlineJury.has(run.benchmark) ? h("p", { class: "mark warn" }, h("strong", null, "Offline jury. "), "Rules stand in for judges here; these scores say nothing about quality.") : null,
      run.state === "partial" ? h("p", { class: "mark warn" }, h("strong", null, "Incomplete run. "), `It was stopped before its end: ${medhelm.count(run.ids.length)} answers so far.`) : null,
      run.served.length > 1 ? h("p", { class: "mark warn" }, h("strong", null, "Drift. "), `The endpoint served ${medhelm.count(run.served.length)} different model ids or fingerprints.`) : null,
    ];
  }

  function outcomeCounts(run, row, table) {
    const counts = run.outcomes.map(() => 0);
    for (const place of run.outcome) counts[place] += 1;
    const found = run.outcomes.map((name, place) => [name, counts[place]]).sort((a, b) => b[1] - a[1]);
    const planned = row && run.state === "partial" ? table.get(row, "planned") : null;
    const left = planned === null ? 0 : planned - counted(run, found);
    return left > 0 ? [...found, ["not run", left]] : found;
  }

  // Planned rows leave the uninformative out.
  function counted(run, found) {
    return run.ids.length - found.filter(([name]) => name === "uninformative").reduce((sum, [, n]) => sum + n, 0);
  }

  function shareBar(found) {
    const all = found.reduce((sum, [, n]) => sum + n, 0);
    return h("span", { class: "shares", "aria-hidden": "true" }, found.map(([name, n]) => h("span", { class: `o-${medhelm.plain(name).replace(" ", "-")}`, style: { "flex-grow": String(all ? n / all : 0) } })));
  }

  function tile(term, ...content) {
    return h("div", null, h("dt", null, term), h("dd", null, content));
  }

  function headline(run, table, row, found) {
    const metric = run.metrics[0];
    const value = row ? medhelm.valueCell(table, row, "score", "no score") : medhelm.scoreText((run.results[0] || ["", null])[1]);
    return h("dl", { class: "headline" },
      tile(medhelm.name(metric), h("span", { class: "big" }, value)),
      row ? tile("normalised", h("span", { class: "big" }, medhelm.valueCell(table, row, "normalised", "no score"))) : null,
      row ? tile("coverage", h("span", { class: "big" }, medhelm.valueText(table.column("coverage"), table.get(row, "coverage")))) : null,
      h("div", { class: "wide" }, h("dt", null, "outcomes"), h("dd", null, shareBar(found), h("span", { class: "outcome-list" }, found.map(([name, n]) => h("span", null, h("i", { class: `o-${medhelm.plain(name).replace(" ", "-")}`, "aria-hidden": "true" }), `${medhelm.plain(name)} ${medhelm.count(n)}`))))),
    );
  }

  function tabs(view) {
    const here = TABS.some(([key]) => key === view.get("tab")) ? view.get("tab") : "";
    return h("nav", { class: "tabs", "aria-label": "Parts of this run" }, TABS.map(([key, title]) => medhelm.link(view.hashWith({ tab: key }), { id: `tab-${key || "instances"}`, "aria-current": key === here ? "page" : null }, title)));
  }

  // Results and usage ---------------------------------------------------------------------------

  function metricTable(view, run, table, rows) {
    const isTold = (row, name) => table.get(row, name) !== null && (name !== "clusters" || table.get(row, name) !== table.get(row, "n"));
    const optional = ["mean_of", "clusters", "worst_of_repeats", "repeat_sd", "worst_case"].filter((name) => rows.some((row) => isTold(row, name)));
    return medhelm.dataTable(table, {
      columns: ["metric", { name: "score", missing: "no instance has a value" }, "normalised", { name: "n", heading: "n" }, ...optional.map((name) => ({ name, heading: name.replaceAll("_", " ") })), { name: "counted", heading: "counted" }, { name: "scored", heading: "scored" }, { name: "planned", heading: "planned" }, { name: "coverage", heading: "coverage" }, { name: "interval_method", heading: "interval by", isText: true }, { name: "flags", heading: "flags", isText: true, missing: "none" }],
      rows, head: "metric", view, caption: "Results by metric", file: "run", unit: "metric",
    });
  }

  function plainResults(run) {
    return medhelm.plainTable("Results by metric", [["metric", false], ["value", true], ["counted", true], ["scored", true]],
      run.results.map(([metric, value, n, scored]) => [medhelm.name(metric), value === null ? medhelm.dash("no instance has a value") : medhelm.scoreText(value), medhelm.count(n), medhelm.count(scored)]));
  }

  function outcomeTable(run, found) {
    const all = found.reduce((sum, [, n]) => sum + n, 0);
    return medhelm.plainTable("Outcomes on the main metric", [["outcome", false], ["answers", true], ["share", true], ["what it means", false]],
      found.map(([name, n]) => [medhelm.outcomeBadge(name), medhelm.count(n), medhelm.percent(all ? n / all : null), medhelm.outcomeMeaning(name)]));
  }

  function judgesTable(run, card) {
    if (!run.judges.length) {
      if (!card.jury) return null;
      return [h("h2", null, "Judges"), h("p", null, medhelm.offlineJury.has(run.benchmark) ? "No model judged these answers: three graders by rule stand in. Their scores are among the metrics above." : "No judge was asked in this run.")];
    }
    const ended = [...new Set(run.judges.flatMap((judge) => judge.judgements.map(([name]) => name)))];
    const rows = run.judges.map((judge) => {
      const counts = new Map(judge.judgements);
      return [medhelm.name(judge.name), ...ended.map((name) => medhelm.count(counts.get(name) || 0)), medhelm.count(judge.input_tokens), medhelm.count(judge.output_tokens)];
    });
    return [
      h("h2", null, "Judges"),
      h("p", { class: "faint" }, "How each judge's judgements of this model's answers ended, every try counted, and what they used. ", medhelm.link(medhelm.hash("jury", [], { benchmark: run.benchmark }), null, "How far the judges agree")),
      medhelm.plainTable("Judges", [["judge", false], ...ended.map((name) => [medhelm.name(name), true]), ["input tokens", true], ["output tokens", true]], rows),
    ];
  }

  function cost(table, row) {
    if (!row) return null;
    const columns = [["cost_usd", "Cost of the answers, USD"], ["jury_cost_usd", "Cost of the judges, USD"], ["total_cost_usd", "Total cost, USD"], ["total_cost_upper_usd", "Total cost at most, USD"]];
    return columns.map(([name, title]) => [title, table.get(row, name) === null ? medhelm.dash("price or usage is unknown") : medhelm.valueText(table.column(name), table.get(row, name))]);
  }

  function usage(run, table, row) {
    const tokens = run.usage.map(([name, value]) => [USAGE.get(name) || medhelm.name(name), medhelm.count(value)]);
    return [h("h2", null, "Usage and cost"), medhelm.facts([...tokens, ...(cost(table, row) || [])], "numbers")];
  }

  function results(view, run, card, table, rows, found) {
    const main = rows.find((row) => table.get(row, "is_main"));
    return [
      h("h2", null, "Scores"),
      h("p", { class: "faint" }, "On the instances that all compared models have a value for. The first metric is the main one."),
      rows.length ? metricTable(view, run, table, rows) : plainResults(run),
      h("h2", null, "Outcomes"),
      h("p", { class: "faint" }, "How each answer ended on ", medhelm.name(run.metrics[0]), ". Missing is never a score of 0: what counts with the floor and what is in no mean is said in the last column."),
      outcomeTable(run, found),
      judgesTable(run, card),
      usage(run, table, main),
      medhelm.notes(table),
    ];
  }

  // Settings and how to reproduce ---------------------------------------------------------------

  function value(found) {
    if (typeof found === "boolean") return found ? "yes" : "no";
    return typeof found === "number" ? String(found) : medhelm.shown(found, 2000);
  }

  function provenance(run) {
    const versions = run.provenance.filter(([name]) => name.startsWith("version."));
    const others = run.provenance.filter(([name]) => !name.startsWith("version."));
    const title = (name) => name.replaceAll("_", " ");
    return [
      h("h2", null, "Provenance"),
      medhelm.facts([...others.map(([name, text]) => [medhelm.name(title(name)), medhelm.shown(text, 500)]), ["run folder", h("span", { class: "mono" }, medhelm.name(run.folder))], ["request hash", h("span", { class: "mono" }, medhelm.shown(run.request_hash))], ["grading hash", h("span", { class: "mono" }, medhelm.shown(run.grading_hash))]]),
      h("h3", null, "Versions"),
      medhelm.facts(versions.map(([name, text]) => [medhelm.name(name.slice("version.".length)), medhelm.shown(text, 200)]), "narrow"),
    ];
  }

  function served(run) {
    return [
      h("h2", null, "Served models"),
      h("p", { class: "faint" }, "Model ids and fingerprints as the endpoint named them, with the number of answers. More than one means that the endpoint changed what it serves."),
      run.served.length ? medhelm.plainTable("Served models", [["served as", false], ["answers", true]], run.served.map(([name, n]) => [medhelm.name(name), medhelm.count(n)])) : h("p", null, "None named."),
    ];
  }

  function settings(run) {
    return [
      h("h2", null, "How to make this run again"),
      run.command
        ? [h("p", null, "In a checkout of the same version, with the benchmark's data in place:"), medhelm.command(run.command)]
        : h("p", null, "No command can be printed: it was asked in words, with settings or with examples of its user's own, which are not published."),
      h("p", { class: "faint" }, "The settings below decide the answers. Addresses, keys, system prompts and further fields of a model's own file are not published; where a setting says sha256, it is the hash of a text that is kept back. A plugin or a folder of configuration has to be named again."),
      h("h2", null, "Settings"),
      medhelm.facts(run.settings.map(([name, found]) => [medhelm.name(name), value(found)])),
      served(run),
      provenance(run),
    ];
  }

  // The page ------------------------------------------------------------------------------------

  async function otherRun(view, benchmark, model) {
    const wanted = view.get("with");
    if (!wanted || wanted === model) return null;
    const key = medhelm.scorings.get(view.scoring).run(benchmark, wanted);
    return key === undefined ? null : { model: wanted, lines: medhelm.linesOf(await medhelm.load(key)) };
  }

  async function instances(view, run, card) {
    const lines = medhelm.linesOf(run);
    const other = await otherRun(view, run.benchmark, run.model);
    return [
      run.note ? h("p", { class: "note", id: "no-text" }, medhelm.shown(run.note, 500)) : null,
      other ? h("p", { class: "sides" }, h("span", { class: "side" }, "A"), " ", medhelm.name(run.model), " ", h("span", { class: "side" }, "B"), " ", medhelm.link(medhelm.runHash(view, run.benchmark, other.model), null, medhelm.name(other.model))) : null,
      view.get("with") && !other ? h("p", { class: "note" }, "The address asks for a second model that has no run on this benchmark.") : null,
      medhelm.instanceBrowser(view, card, lines, other),
    ];
  }

  function keyOf(view) {
    const [benchmark, model] = view.path;
    const pages = medhelm.scorings.get(view.scoring);
    const key = pages && model !== undefined ? pages.run(benchmark, model) : undefined;
    if (key === undefined) throw new medhelm.NotFound("The site has no run of this model on this benchmark under this scoring.");
    return [key, pages.benchmarks.get(benchmark)];
  }

  async function render(view) {
    const [run, card] = await Promise.all(keyOf(view).map((key) => medhelm.load(key)));
    const table = medhelm.reader(card.scores);
    const rows = card.scores.rows.filter((row) => table.get(row, "model") === run.model);
    const main = rows.find((row) => table.get(row, "is_main")) || null;
    const found = outcomeCounts(run, main, table);
    const bodies = new Map([["results", () => results(view, run, card, table, rows, found)], ["settings", () => settings(run)]]);
    const body = bodies.get(view.get("tab")) || (() => instances(view, run, card));
    return [
      crumbs(view, run, card),
      h("h1", { "data-title": `${medhelm.plain(run.model)} on ${medhelm.plain(card.title || run.benchmark)}` }, medhelm.name(run.model), h("span", { class: "on" }, " on ", medhelm.name(card.title || run.benchmark))),
      h("p", { class: "badges" }, medhelm.modelMarks(run.model, new Set([run.benchmark])), medhelm.benchmarkMarks(run.benchmark)),
      marks(run),
      headline(run, table, main, found),
      tabs(view),
      await body(),
    ];
  }

  medhelm.page("run", { parent: "benchmarks", render });
})();

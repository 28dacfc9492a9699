"use strict";

// What this site is made of, how to make it again, how to cite it, what its numbers mean.
(() => {
  const { h } = medhelm;
  const PAPER = "Bedi S, Cui H, Fuentes M, Unell A, Wornow M, et al. MedHELM: Holistic Evaluation of Large Language Models for Medical Tasks. arXiv:2505.23802, 2025.";
  const WORDS = [
    ["Score", "What the main metric of a benchmark gives, in the metric's own unit, on the instances that all compared models have a value for."],
    ["Normalised score", "The score from 0, the worst that the metric can give, to 1, the best."],
    ["Win rate", "The share of rivals that a model beats, averaged over the benchmarks that all ranked models have. A tie counts one half, which gives the paper's table 1; by the paper's text it wins for both, and the overview has a switch. It depends on which models are in the field."],
    ["Macro-average", "The unweighted mean of the normalised scores. It does not depend on the field."],
    ["SD", "Standard deviation: of a win rate over the rivals, of a macro-average over the benchmarks. It shows spread, not uncertainty."],
    ["Interval in brackets", "How far the number may be off because the benchmark has only so many instances: the ends between which it falls when instances are drawn again, with all instances of one patient or note together. For rates on few instances it is Wilson's interval. It does not cover a change of data, prompt or judges."],
    ["Rank set, tie group", "The ranks that a model may have, with 95 % confidence for all models at once unless the settings say otherwise: from 1 + the number of models that are clearly better to the number of models less those that are clearly worse. A pair is told apart where the paired differences of both win rate and macro-average are clear among those of all pairs (Mogstad, Romano, Shaikh and Wilhelm 2024). The first of a tie group is not clearly better than the others of it."],
    ["Paired difference, Holm", "The difference of two models on the same instances, with its interval and a p value that allows for the number of comparisons made."],
    ["MDE", "Minimum detectable effect: the difference between two models that a benchmark of this size finds in 80 % of cases. A power figure, not a test."],
    ["Coverage", "The share of planned answers that have a value. Below 99 % a run is flagged and the model is not ranked on that benchmark."],
    ["Cut", "The share of planned answers that the output budget ended, those that were scored all the same among them. A run with any is flagged."],
    ["Missing", "A dash is never a 0. Answers that are unparsed, empty, refused or truncated count with the metric's floor, or are in no mean where it has none; failed requests, prompts too long for the model and answers that too few judges rated are in no mean."],
    ["Baseline", "A rule that answers without a language model. A model that does not clear it has shown nothing. Those that read the gold are shown and never ranked."],
    ["Offline jury", "Three graders by rule that stand in where no judge is asked. Their scores say nothing about quality."],
  ];

  // Versions and settings -----------------------------------------------------------------------

  function siteFacts() {
    const { site } = medhelm;
    return medhelm.facts([
      ["Site", medhelm.name(site.title)],
      ["Built", medhelm.time(site.built_at)],
      ["medhelm", site.medhelm],
      ["Data", site.data === "sample" ? "bundled samples: few and synthetic" : "full data of each benchmark"],
      ["Models", medhelm.count(site.models.length)],
      ["Benchmarks", medhelm.count(site.benchmarks.length)],
      ["Scoring", site.scorings.map((s, i) => [i ? ", " : "", medhelm.name(s.scoring)])],
      ["Incomplete runs", site.incomplete.length ? site.incomplete.map(([benchmark, model], i) => [i ? "; " : "", medhelm.name(model), " on ", medhelm.name(benchmark)]) : "none"],
    ]);
  }

  function settingText(found) {
    if (typeof found === "boolean") return found ? "yes" : "no";
    return found === null ? medhelm.dash() : medhelm.shown(String(found), 500);
  }

  function tableSettings(table) {
    if (!table) return null;
    return [
      h("h3", null, "Settings of the tables"),
      medhelm.facts([...table.settings].map(([name, found]) => [medhelm.name(name.replaceAll("_", " ")), settingText(found)])),
    ];
  }

  function problems() {
    const found = medhelm.site.problems;
    return [
      h("h2", { id: "problems" }, "What was left out"),
      found.length
        ? medhelm.plainTable("What was left out, and why", [["where", false], ["why", false]], found.map((p) => [medhelm.name(p.where), h("span", { class: "wrap" }, medhelm.shown(p.what, 2000))]))
        : h("p", null, "Nothing: every graded run of the results folder is shown."),
    ];
  }

  // Benchmarks: versions, hashes, citations -----------------------------------------------------

  function versionRow(view, card) {
    return [
      medhelm.link(medhelm.benchmarkHash(view, card.name), null, medhelm.name(card.title || card.name)),
      medhelm.name(card.version), medhelm.name(card.split), medhelm.count(card.instances),
      h("span", { class: "hash" }, medhelm.shown(card.dataset_sha256, 200)),
      [medhelm.name(card.prompt_name), " ", medhelm.name(card.prompt_version)],
      h("span", { class: "hash" }, medhelm.shown(card.prompt_sha256, 200)),
      medhelm.name(card.licence),
    ];
  }

  function versions(view, cards) {
    const heads = [["benchmark", false], ["version", false], ["split", false], ["instances", true], ["dataset sha256", false], ["prompt", false], ["prompt sha256", false], ["licence", false]];
    return medhelm.plainTable("Versions and hashes of the benchmarks", heads, cards.map((card) => versionRow(view, card)));
  }

  function citations(cards) {
    const found = cards.filter((card) => card.citation);
    const none = cards.length - found.length;
    return [
      found.length ? h("ul", { class: "citations" }, found.map((card) => h("li", null, h("strong", null, medhelm.name(card.title || card.name)), ". ", medhelm.shown(card.citation, 2000)))) : null,
      none ? h("p", { class: "faint" }, `${medhelm.many(none, "benchmark names", "benchmarks name")} no publication.`) : null,
    ];
  }

  function citationText(cards) {
    return [`medhelm, version ${medhelm.site.medhelm}.`, PAPER, ...cards.filter((card) => card.citation).map((card) => `${medhelm.plain(card.title || card.name, 300)}: ${medhelm.plain(card.citation, 2000)}`)].join("\n");
  }

  // The benchmarks' own files are read after the page is there, since there may be many.
  async function fill(view, keys, places) {
    const cards = [];
    try {
      for (const key of keys) {
        cards.push(await medhelm.load(key));
        if (!places.versions.isConnected) return;
        places.progress.value = cards.length;
      }
    } catch (error) {
      places.versions.replaceChildren(h("p", { class: "note bad", role: "alert" }, medhelm.shown(error.message, 500)));
      return;
    }
    places.versions.replaceChildren(versions(view, cards));
    places.citations.replaceChildren(...[citations(cards), medhelm.copyButton("Copy all citations", () => citationText(cards))].flat().filter(Boolean));
    places.versions.dataset.filled = "true";
  }

  function lazyCards(view) {
    const keys = [...medhelm.scorings.get(view.scoring)?.benchmarks.values() ?? []];
    const progress = h("progress", { max: keys.length, value: 0, "aria-label": "Reading the benchmarks' files" });
    const places = { progress, versions: h("div", { id: "versions" }, progress), citations: h("div", { id: "citations" }) };
    document.addEventListener("medhelm:placed", () => places.versions.isConnected && fill(view, keys, places), { once: true });
    return places;
  }

  // Runs: seeds and dates ------------------------------------------------------------------------

  function runRow(view, run) {
    const answered = run.answered_from ? [medhelm.time(run.answered_from), " to ", medhelm.time(run.answered_until)] : medhelm.dash();
    return [
      medhelm.link(medhelm.runHash(view, run.benchmark, run.model), null, [medhelm.name(run.model), " on ", medhelm.name(run.benchmark)]),
      medhelm.count(run.seed), medhelm.count(run.repeats), medhelm.name(run.state), answered, run.graded_at ? medhelm.time(run.graded_at) : medhelm.dash(),
      h("span", { class: "hash" }, medhelm.shown(run.medhelm, 100)),
    ];
  }

  // There may be hundreds: read when asked for.
  function runs(view) {
    const place = h("div", null);
    const heads = [["run", false], ["seed", true], ["repeats", true], ["state", false], ["answered", false], ["graded", false], ["medhelm", false]];
    const fold = h("details", { id: "runs" }, h("summary", null, "Seeds, dates and versions of every run"), place);
    fold.addEventListener("toggle", async () => {
      if (!fold.open || place.childNodes.length) return;
      try {
        const lines = await medhelm.load(medhelm.scorings.get(view.scoring).made);
        place.replaceChildren(medhelm.plainTable("Seeds, dates and versions of every run", heads, lines.map((run) => runRow(view, run))));
      } catch (error) {
        place.replaceChildren(h("p", { class: "note bad", role: "alert" }, medhelm.shown(error.message, 500)));
      }
    });
    return fold;
  }

  // Reproduce, cite, download -------------------------------------------------------------------

  function reproduce() {
    return [
      h("h2", { id: "reproduce" }, "How to reproduce"),
      h("p", null, "This site is built from a folder of results, without a network and without asking any model:"),
      medhelm.command(medhelm.site.command),
      h("p", { class: "faint" }, "RESULTS is the folder of results, SITE the folder to write. The same results and settings give the same numbers, whatever the order of runs."),
      h("p", null, "The runs themselves are made by ", h("code", null, "medhelm run"), "; each run's page has the exact command, the settings, versions, dates and seeds behind it. Two builds are compared by:"),
      medhelm.command("medhelm leaderboard diff OLD NEW"),
    ];
  }

  function cite(places) {
    return [
      h("h2", { id: "cite" }, "How to cite"),
      h("p", null, "Cite the software with its version, the paper that it follows, and every benchmark whose numbers you use."),
      h("ul", { class: "citations" },
        h("li", null, h("strong", null, "Software"), `. medhelm, version ${medhelm.site.medhelm}. Results built ${medhelm.time(medhelm.site.built_at)}.`),
        h("li", null, h("strong", null, "Paper"), ". ", PAPER, " ", medhelm.external("https://arxiv.org/abs/2505.23802", "arxiv.org/abs/2505.23802"))),
      h("h3", null, "Benchmarks"),
      places.citations,
    ];
  }

  function downloads() {
    const byTable = new Map();
    for (const file of medhelm.site.downloads) {
      const key = JSON.stringify([file.scoring, file.title]);
      if (!byTable.has(key)) byTable.set(key, { ...file, files: [] });
      byTable.get(key).files.push(file);
    }
    if (!byTable.size) return null;
    const hasScorings = medhelm.site.scorings.length > 1;
    const heads = [["table", false], ...(hasScorings ? [["scoring", false]] : []), ["files", false]];
    const links = (files) => files.map((file, i) => [i ? " · " : "", medhelm.fileLink(file.path, medhelm.plain(file.format.toUpperCase()))]);
    const rows = [...byTable.values()].map((entry) => [medhelm.name(entry.title), ...(hasScorings ? [medhelm.name(entry.scoring)] : []), links(entry.files)]);
    return [
      h("h2", { id: "downloads" }, "Downloads"),
      h("p", null, "Every table of this site with every column, as CSV and as JSON with the columns' descriptions, the notes and the settings."),
      medhelm.plainTable("Downloads", heads, rows),
    ];
  }

  function flagNotes(tables) {
    const found = [...new Set(tables.filter(Boolean).flatMap((table) => table.notes).filter((note) => note.startsWith("Flags.")))];
    const marks = [...new Set(found.flatMap((note) => note.replace(/^Flags\.\s*/, "").replace(/\.$/, "").split(/; (?=[A-Z] [a-z]+: )/)))];
    if (!marks.length) return h("p", { class: "faint" }, "No run of this site is flagged.");
    return h("ul", { class: "citations" }, marks.map((mark) => {
      const [name, ...why] = mark.split(": ");
      return h("li", null, h("strong", null, medhelm.name(name.replace(/^[A-Z] /, ""))), `: ${medhelm.plain(why.join(": "), 500)}.`);
    }));
  }

  function meanings(tables) {
    return [
      h("h2", { id: "words" }, "What the numbers and marks mean"),
      medhelm.facts([...WORDS, ...medhelm.site.pages.flatMap((page) => medhelm.pages.get(page.name)?.words || [])], "words"),
      h("h3", null, "Flags"),
      flagNotes(tables),
      h("h3", null, "Outcomes of an answer"),
      medhelm.facts(["scored", "unparsed", "empty", "refused", "truncated", "oversize", "error", "unscored", "uninformative"].map((name) => [name, medhelm.outcomeMeaning(name)]), "words"),
    ];
  }

  function notShown() {
    const hidden = medhelm.site.benchmarks.filter((b) => !b.has_text);
    if (!hidden.length) return null;
    return h("p", null, `Of ${medhelm.many(hidden.length, "benchmark")} whose data are not public or may not be republished, scores and keyed hashes are shown, never texts. Nobody can tell an instance from its hash without the key, which stays with the results.`);
  }

  async function render(view) {
    const [overall, benchmarks] = await Promise.all(["overall", "benchmarks"].map((name) => medhelm.tableOf(view.scoring, name)));
    const places = lazyCards(view);
    return [
      h("h1", null, "About"),
      h("p", { class: "lead" }, "medhelm evaluates language models on medical work, under the taxonomy of MedHELM. This page says what the numbers are made of."),
      medhelm.site.scorings.length > 1 ? h("div", { class: "filters" }, medhelm.scoringSelect(view)) : null,
      h("nav", { class: "on-page", "aria-label": "On this page" }, [["reproduce", "Reproduce"], ["cite", "Cite"], ["downloads", "Downloads"], ["words", "What the numbers mean"], ["settings", "Versions and settings"], ["problems", "Left out"]].map(([id, title]) => h("button", { type: "button", class: "quiet small", on: { click: () => jump(id) } }, title))),
      siteFacts(),
      notShown(),
      reproduce(),
      cite(places),
      downloads(),
      meanings([overall, benchmarks]),
      h("h2", { id: "settings" }, "Versions and settings"),
      h("h3", null, "Benchmarks, data and prompts"),
      places.versions,
      runs(view),
      tableSettings(overall),
      problems(),
    ];
  }

  // The address after # is the page, so that places on it are not links.
  function jump(id) {
    const heading = document.getElementById(id);
    if (!heading) return;
    heading.setAttribute("tabindex", "-1");
    heading.scrollIntoView({ block: "start" });
    heading.focus({ preventScroll: true });
  }

  medhelm.page("about", { title: "About", render });
})();

"use strict";

// The lines of a run: an answer to one instance each; where their texts lie, and how they are searched.
(() => {
  const MEANING = new Map([
    ["scored", "an answer was read and scored"],
    ["unparsed", "text came, but no answer could be read; counts with the metric's floor, or in no mean where it has none"],
    ["empty", "no text came; counts with the metric's floor, or in no mean where it has none"],
    ["refused", "the endpoint said that the model refuses; counts with the metric's floor, or in no mean where it has none"],
    ["truncated", "the output budget ended before an answer could be read; counts with the metric's floor, or in no mean where it has none"],
    ["oversize", "the prompt exceeds the model's window; in no mean"],
    ["error", "the request failed; in no mean"],
    ["unscored", "the answer is there, but too few judges gave a verdict; in no mean"],
    ["uninformative", "the gold of the instance cannot tell right from wrong; in no mean, and not against coverage"],
    ["not run", "the run was stopped before it asked; in no mean"],
  ]);
  const FLOORED = new Set(["unparsed", "empty", "refused", "truncated"]);

  /** Return what an outcome means. */
  medhelm.outcomeMeaning = (outcome) => MEANING.get(outcome) || "";

  /** Return an outcome as a mark. */
  medhelm.outcomeBadge = (outcome) => {
    const kind = outcome === "scored" || outcome === "uninformative" ? "plain" : FLOORED.has(outcome) ? "warn" : "bad";
    return medhelm.badge(kind, medhelm.plain(outcome), MEANING.get(outcome));
  };

  /** Return a value of one answer: whole numbers as such, others with three digits. */
  medhelm.scoreText = (value) => (Number.isInteger(value) ? medhelm.count(value) : medhelm.number(value, 3));

  // JSON keeps ids apart from repeats whatever characters they hold.
  function keyOf(id, repeat) {
    return JSON.stringify([id, repeat]);
  }

  const known = new WeakMap();

  /** Return the lines of a run page by number. */
  medhelm.linesOf = (run) => {
    if (known.has(run)) return known.get(run);
    const repeat = (line) => (run.repeat.length ? run.repeat[line] : 0);
    let places = null;
    const lines = {
      run,
      count: run.ids.length,
      hasText: run.answers.length > 0 || run.texts.length > 0,
      isHashed: !(medhelm.benchmarks.get(run.benchmark) || { has_text: false }).has_text,
      hasRepeats: run.repeat.length > 0,
      id: (line) => run.ids[line],
      repeat,
      outcome: (line) => run.outcomes[run.outcome[line]],
      value: (line) => run.value[line],
      part: (line) => (run.part.length && run.part[line] >= 0 ? run.parts[run.part[line]] : ""),
      place: (line) => (run.place.length ? run.place[line] : line),
      find: (id, wanted) => {
        if (!places) places = new Map(run.ids.map((own, line) => [keyOf(own, repeat(line)), line]));
        const line = places.get(keyOf(id, wanted));
        return line === undefined ? -1 : line;
      },
    };
    known.set(run, lines);
    return lines;
  };

  // Number of the shard that holds a place: the last one that begins at or before it.
  function shardAt(shards, place) {
    let [low, high] = [0, shards.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (shards[middle][0] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  async function fromShards(shards, place) {
    if (!shards.length) return null;
    const [first, key] = shards[shardAt(shards, place)];
    return (await medhelm.load(key))[place - first] || null;
  }

  /** Return what a model answered on a line, or null. Loads the one shard that holds it. */
  medhelm.answerOf = (lines, line) => fromShards(lines.run.answers, line);

  /** Return the instance of a line, or null. Loads the one shard that holds it. */
  medhelm.instanceOf = (lines, line) => fromShards(lines.run.texts, lines.place(line));

  // Search --------------------------------------------------------------------------------------

  function detailTexts(line) {
    return (line.details || []).flatMap(([name, value]) => medhelm.pages.get(name)?.texts?.(value) || []);
  }

  function instanceText(item) {
    if (!item) return "";
    const pairs = [...item.answer_key, ...item.metadata, ...item.criteria, ...item.prompt].flat();
    return [item.context, item.question, ...item.choices, ...item.references, ...detailTexts(item), ...pairs].join("\n");
  }

  function answerText(answer) {
    if (!answer) return "";
    const replies = answer.judges.flatMap((judge) => judge.replies);
    const prompt = (answer.prompt || []).map(([, content]) => content);
    const turns = (answer.turns || []).map(([, text]) => text);
    return [answer.text, answer.extracted, answer.error, ...replies, ...turns, ...prompt].join("\n");
  }

  function byShard(shards, candidates, place) {
    if (!shards.length) return [];
    const found = new Map();
    for (const line of candidates) {
      const number = shardAt(shards, place(line));
      if (!found.has(number)) found.set(number, []);
      found.get(number).push(line);
    }
    return [...found].sort(([a], [b]) => a - b).map(([number, own]) => ({ first: shards[number][0], key: shards[number][1], own }));
  }

  function filesOf(lines, candidates) {
    const { run } = lines;
    const answers = byShard(run.answers, candidates, (line) => line).map((file) => ({ ...file, place: (line) => line, read: answerText }));
    const texts = byShard(run.texts, candidates, lines.place).map((file) => ({ ...file, place: lines.place, read: instanceText }));
    return [...texts, ...answers];
  }

  // Repeats share their instance, whose text is then compared once.
  function hitsIn(file, items, wanted) {
    const seen = new Map();
    return file.own.filter((line) => {
      const place = file.place(line) - file.first;
      if (!seen.has(place)) seen.set(place, medhelm.folded(file.read(items[place])).includes(wanted));
      return seen.get(place);
    });
  }

  /**
   * Search ids, then instances and answers, one file after another.
   *
   * `report({hits, done, files})` is called after each file, `isStopped()` asked before each.
   */
  medhelm.searchLines = async (lines, query, candidates, report, isStopped) => {
    const wanted = medhelm.folded(query);
    const hits = new Set(candidates.filter((line) => medhelm.folded(lines.id(line)).includes(wanted)));
    const files = filesOf(lines, candidates);
    let done = 0;
    report({ hits, done, files: files.length });
    for (const file of files) {
      if (isStopped()) break;
      const items = await medhelm.load(file.key);
      if (isStopped()) break;
      for (const line of hitsIn(file, items, wanted)) hits.add(line);
      done += 1;
      report({ hits, done, files: files.length });
    }
    return { hits, done, files: files.length };
  };
})();

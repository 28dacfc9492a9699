"use strict";

// One instance: the case, what one or two models answered, what metrics and judges said of it.
(() => {
  const { h } = medhelm;
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const MOST_MARKS = 1000;
  const FINISH = new Map([
    ["stop", "by itself"],
    ["length", "at the output budget"],
    ["refusal", "refused by the endpoint"],
    ["oversize", "not sent: longer than the model's window"],
    ["error", "failed"],
  ]);

  function part(title, ...content) {
    return h("section", { class: "part" }, h("h4", null, title), content);
  }

  function textPart(title, text, seek) {
    return text ? part(title, medhelm.longText(text, seek)) : null;
  }

  function pairs(title, found) {
    return found.length ? part(title, medhelm.facts(found.map(([name, value]) => [medhelm.name(name), medhelm.shown(value, 2000)]), "tight")) : null;
  }

  // What plugins' pages show ----------------------------------------------------------------------

  /** Return what a page shows of an instance or an answer; null where it shows nothing. */
  medhelm.detailOf = (line, name) => ((line && line.details) || []).find(([page]) => page === name)?.[1] ?? null;

  // A part that fails costs only itself.
  function drawn(title, draw) {
    try {
      const nodes = draw();
      return nodes ? part(title, nodes) : null;
    } catch (error) {
      return part(title, h("p", { class: "note bad", role: "alert" }, "This part cannot be shown. ", medhelm.shown(error.message, 500)));
    }
  }

  function detailed(key, lines) {
    const shown = lines.flatMap((line) => ((line && line.details) || []).map(([name]) => name));
    return [...medhelm.pages].filter(([name, page]) => page[key] && shown.includes(name));
  }

  function itemDetails(item, sides) {
    const title = (name) => (item.gold === name ? "Gold" : medhelm.pluginPages.get(name)?.title || name);
    return detailed("item", [item]).map(([name, page]) => drawn(title(name), () => page.item(medhelm.detailOf(item, name), sides)));
  }

  function answerDetails(item, side) {
    return detailed("answer", [item, side.answer]).map(([name, page]) => drawn(page.answerTitle || name, () => page.answer(medhelm.detailOf(item, name), medhelm.detailOf(side.answer, name), side)));
  }

  function turns(answer, seek) {
    if (!answer.turns) return null;
    return part(`Turns (${answer.turns.length})`, h("ol", { class: "turns" }, answer.turns.map(([who, text]) => h("li", { class: "message" }, h("p", { class: "faint" }, medhelm.name(who)), medhelm.longText(text, seek)))));
  }

  // The case ------------------------------------------------------------------------------------

  function choiceItem(item, sides, text, place) {
    const letter = LETTERS[place] || String(place + 1);
    const isGold = item.references.includes(letter);
    const takers = sides.filter((side) => side.answer && side.answer.extracted === letter);
    const marks = [
      isGold ? h("span", { class: "badge gold" }, "gold") : null,
      takers.map((side) => h("span", { class: "badge pick" }, sides.length > 1 ? [side.label, ": ", medhelm.name(side.model)] : "answered")),
    ];
    return h("li", { class: isGold ? "gold" : null }, h("span", { class: "letter" }, letter), h("span", null, medhelm.shown(text, 4000), " ", marks));
  }

  function choices(item, sides) {
    if (!item.choices.length) return null;
    return part("Choices", h("ol", { class: "choices" }, item.choices.map((text, place) => choiceItem(item, sides, text, place))));
  }

  function gold(item, seek) {
    const { references } = item;
    if (!references.length) return part("Gold", h("p", { class: "faint" }, "None: the answer is rated without one."));
    if (item.choices.length) return part("Gold", h("p", null, references.map((text, i) => [i ? ", " : "", h("strong", null, medhelm.name(text))])));
    const [first, ...others] = references;
    return [
      textPart("Gold", first, seek),
      others.length ? part("Accepted too", h("ul", { class: "plain" }, others.map((text) => h("li", null, medhelm.longText(text, seek))))) : null,
    ];
  }

  function criteria(item) {
    if (!item.criteria.length) return null;
    return part("Criteria of this instance", medhelm.facts(item.criteria.map(([name, text]) => [medhelm.name(name), medhelm.shown(text, 4000)]), "tight"));
  }

  function messages(prompt, seek) {
    return prompt.map(([role, content]) => h("div", { class: "message" }, h("p", { class: "faint" }, medhelm.name(role)), medhelm.longText(content, seek)));
  }

  function promptDetails(title, prompt, seek) {
    if (!prompt || !prompt.length) return null;
    return medhelm.lazyDetails(`${title} (${medhelm.many(prompt.length, "message")})`, () => h("div", null, messages(prompt, seek)));
  }

  function caseOf(item, sides, seek) {
    if (!item) return h("p", { class: "note" }, "The text of this instance cannot be read: no run whose log is whole has it.");
    return h("section", { class: "case", "aria-label": "Instance" },
      h("h3", null, "Instance"),
      textPart("Context", item.context, seek),
      textPart("Question", item.question, seek),
      choices(item, sides),
      item.gold ? null : [gold(item, seek), pairs("For the metric only", item.answer_key)],
      itemDetails(item, sides),
      criteria(item),
      pairs("Metadata", item.metadata),
      promptDetails("Prompt as sent", item.prompt, seek));
  }

  // Answers -------------------------------------------------------------------------------------

  const VERDICTS = new Map([[1, ["plain", "met"]], [0, ["warn", "not met"]]]);

  function verdict(reply, place, isAlone) {
    const [kind, word] = VERDICTS.get(reply.ratings[place]) || ["", "no valid verdict"];
    const said = reply.reasons[place] ? [" ", h("span", { class: "faint" }, medhelm.shown(reply.reasons[place], 2000))] : null;
    return h("p", null, h("span", { class: `badge ${kind}` }, word), isAlone ? null : [" ", medhelm.name(reply.judge)], said);
  }

  /** Return each criterion of an instance with the judges' verdicts on it; null where there is none. */
  function verdicts(found, item) {
    const heard = found.filter((reply) => reply.ratings);
    if (!item || !item.criteria.length || !heard.length) return null;
    return part("Verdicts", h("ul", { class: "verdicts" }, item.criteria.map(([name, text], place) => h("li", null,
      h("p", null, h("strong", null, medhelm.name(name)), " ", medhelm.shown(text, 4000)),
      heard.map((reply) => verdict(reply, place, heard.length === 1))))));
  }

  function ratings(reply, item, card) {
    if (!reply.ratings || (item && item.criteria.length)) return null;
    const names = card.rubric.map(([name]) => name);
    return h("ul", { class: reply.reasons.length ? "ratings reasoned" : "ratings" }, reply.ratings.map((value, place) => h("li", null, medhelm.name(names[place] || `criterion ${place + 1}`), " ", h("strong", null, value === null ? "no valid verdict" : medhelm.count(value)), reply.reasons[place] ? [" ", h("span", { class: "faint" }, medhelm.shown(reply.reasons[place], 2000))] : null)));
  }

  function rawReplies(reply, seek) {
    const { replies } = reply;
    if (!replies.length) return null;
    const title = replies.length === 1 ? "Its reply" : `Its ${replies.length} replies, repairs included`;
    const details = medhelm.lazyDetails(title, () => h("div", null, replies.map((text) => medhelm.longText(text, seek))));
    if (seek && replies.some((text) => medhelm.folded(text).includes(seek))) details.open = true;
    return details;
  }

  function judgeItem(reply, item, card, seek) {
    const ended = h("span", { class: `badge ${reply.ended === "scored" ? "plain" : "warn"}` }, medhelm.name(reply.ended));
    return h("li", null, h("p", null, h("strong", null, medhelm.name(reply.judge)), " ", ended), ratings(reply, item, card), rawReplies(reply, seek));
  }

  function judges(side, item, card, seek) {
    const { judges: found } = side.answer;
    if (!found.length) return null;
    return [
      part("Judges", h("ul", { class: "judges" }, found.map((reply) => judgeItem(reply, item, card, seek)))),
      verdicts(found, item),
    ];
  }

  function tokens(answer) {
    if (answer.input_tokens === null && answer.output_tokens === null) return null;
    return `${medhelm.count(answer.input_tokens)} in, ${medhelm.count(answer.output_tokens)} out`;
  }

  function response(answer, seek) {
    if (answer.text) return medhelm.longText(answer.text, seek);
    return h("p", { class: "faint" }, "No text came.");
  }

  function answerFacts(answer) {
    return medhelm.facts([
      ["Extracted", answer.extracted ? h("strong", null, medhelm.shown(answer.extracted, 2000)) : null],
      ["Ended", medhelm.plain(FINISH.get(answer.finish) || answer.finish)],
      ["Error", answer.error ? medhelm.shown(answer.error, 500) : null],
      ["Tokens", tokens(answer)],
      ["Latency", answer.latency_s ? `${medhelm.number(answer.latency_s, 2)} s` : null],
    ], "tight");
  }

  function sideHead(side, metric, isPair) {
    const value = side.line < 0 ? null : side.lines.value(side.line);
    return h("header", null,
      h("h3", null, isPair ? [h("span", { class: "side" }, side.label), " "] : null, medhelm.name(side.model)),
      side.line < 0 ? null : h("p", { class: "verdict" }, h("span", { class: "value strong" }, value === null ? medhelm.dash("no score") : medhelm.scoreText(value)), " ", h("span", { class: "faint" }, medhelm.name(metric)), " ", medhelm.outcomeBadge(side.lines.outcome(side.line))));
  }

  function answerOf(side, item, card, isPair, seek) {
    const head = sideHead(side, side.lines.run.metrics[0], isPair);
    const attributes = { class: "answer", "aria-label": `Answer of ${medhelm.plain(side.model)}` };
    if (side.line < 0) return h("section", attributes, head, h("p", { class: "note" }, "This run has no answer to this instance and repeat."));
    if (!side.answer) return h("section", attributes, head, h("p", { class: "note" }, medhelm.shown(side.lines.run.note || "The text of this answer cannot be read.", 500)));
    return h("section", attributes, head,
      answerDetails(item, side),
      turns(side.answer, seek),
      part("Response", response(side.answer, seek)),
      answerFacts(side.answer),
      promptDetails("Prompt as sent to this model", side.answer.prompt, seek),
      judges(side, item, card, seek));
  }

  // Scores --------------------------------------------------------------------------------------

  const TIE = 1e-9;

  /** Return whether two values of a metric differ; missing ones differ from all others. */
  medhelm.valuesDiffer = (a, b) => (a === null || b === null ? a !== b : Math.abs(a - b) > TIE);

  function metricCell(found) {
    if (!found) return medhelm.dash("this run does not have the metric");
    const value = found.value === null ? medhelm.dash("no score") : h("span", { class: "value" }, medhelm.scoreText(found.value));
    return [value, found.outcome === "scored" ? null : [" ", medhelm.outcomeBadge(found.outcome)], found.reason ? h("div", { class: "reason" }, medhelm.shown(found.reason, 1000)) : null];
  }

  function scores(sides) {
    const read = sides.filter((side) => side.answer);
    if (!read.length) return null;
    const found = sides.map((side) => new Map((side.answer ? side.answer.scores : []).map((line) => [line.metric, line])));
    const metrics = [...new Set(read.flatMap((side) => side.answer.scores.map((line) => line.metric)))];
    const isPair = sides.length > 1;
    const differs = metrics.map((metric) => {
      const [a, b] = found.map((own) => own.get(metric));
      return Boolean(isPair && a && b && (a.outcome !== b.outcome || medhelm.valuesDiffer(a.value, b.value)));
    });
    const heads = [["metric", false], ...sides.map((side) => [isPair ? [h("span", { class: "side" }, side.label), " ", medhelm.name(side.model)] : "score", true]), ...(isPair ? [["", false]] : [])];
    const rows = metrics.map((metric, place) => [medhelm.name(metric), ...found.map((own) => metricCell(own.get(metric))), ...(isPair ? [differs[place] ? h("span", { class: "badge differs" }, "differs") : ""] : [])]);
    return h("section", { class: "scores" }, h("h3", null, "Scores"), medhelm.plainTable("Scores of this instance", heads, rows, (_, place) => (differs[place] ? "differs" : null)));
  }

  function difference(sides) {
    if (sides.length < 2 || sides.some((side) => side.line < 0)) return null;
    const [a, b] = sides.map((side) => [side.lines.outcome(side.line), side.lines.value(side.line)]);
    const found = [a[0] !== b[0] ? `outcomes differ: ${a[0]} and ${b[0]}` : "", medhelm.valuesDiffer(a[1], b[1]) ? `scores differ: ${[a[1], b[1]].map((v) => (v === null ? "none" : medhelm.scoreText(v))).join(" and ")}` : ""].filter(Boolean);
    const text = found.length ? found.join("; ") : "same outcome and same score";
    return h("p", { class: found.length ? "mark differs" : "mark" }, h("strong", null, "A and B. "), medhelm.plain(text[0].toUpperCase() + text.slice(1)), ".");
  }

  /**
   * Return what is known of one instance.
   *
   * card: the benchmark's page; item: the instance, or null; sides: {label, model, lines, line (-1:
   * not there), answer} of one or two models; query: what was searched for.
   */
  medhelm.instanceContent = ({ card, item, sides, query }) => {
    const seek = query ? medhelm.folded(query) : "";
    const isPair = sides.length > 1;
    return [
      difference(sides),
      caseOf(item, sides, seek),
      h("div", { class: isPair ? "answers pair" : "answers" }, sides.map((side) => answerOf(side, item, card, isPair, seek))),
      scores(sides),
    ];
  };

  // Marks of what was searched for --------------------------------------------------------------

  function rangesIn(container, query) {
    const pattern = new RegExp(query.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "gi");
    const walker = document.createTreeWalker(container, NodeFilter.SHOW_TEXT);
    const ranges = [];
    while (walker.nextNode() && ranges.length < MOST_MARKS) {
      for (const match of walker.currentNode.data.matchAll(pattern)) {
        const range = new Range();
        range.setStart(walker.currentNode, match.index);
        range.setEnd(walker.currentNode, match.index + match[0].length);
        ranges.push(range);
        if (ranges.length >= MOST_MARKS) break;
      }
    }
    return ranges;
  }

  let watch = null;

  function unmark() {
    if (watch) watch.disconnect();
    if (window.CSS && CSS.highlights) CSS.highlights.delete("found");
  }

  document.addEventListener("medhelm:leave", unmark);

  /** Mark where a text is in an element, now and as it grows, without changing it. */
  medhelm.markText = (container, query) => {
    unmark();
    if (!query || !window.CSS || !CSS.highlights) return;
    let isWaiting = false;
    const mark = () => {
      isWaiting = false;
      if (container.isConnected) CSS.highlights.set("found", new Highlight(...rangesIn(container, query)));
    };
    const later = () => {
      if (!isWaiting) requestAnimationFrame(mark);
      isWaiting = true;
    };
    watch = new MutationObserver(later);
    watch.observe(container, { childList: true, subtree: true });
    later();
  };
})();

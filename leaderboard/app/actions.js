"use strict";

// Labelled actions of one case: each with its rubric, what one or two models said, what that counts.
(() => {
  const { h } = medhelm;
  const LABELS = new Map([
    ["appropriate", "appropriate"],
    ["inappropriate", "inappropriate"],
    ["missing", "no label"],
    ["invalid", "invalid label"],
  ]);

  function errorBadge({ error, severity }) {
    return h("span", { class: `badge error-${severity}` }, `${severity} ${error}`);
  }

  function textOf(actions) {
    return new Map(actions.map((action) => [action.id, action]));
  }

  function whyNone(side) {
    const outcome = side.lines.outcome(side.line);
    if (outcome === "scored") return "They cannot be told again: the run was graded by other rules than those of this version.";
    if (side.lines.value(side.line) !== null) return "No labels could be read: in this grading the case counts as the worst.";
    return outcome === "unparsed" || outcome === "truncated" ? "No labels could be read: the case is in no score; the table of harm has the worst case beside." : "There is no answer, so that no error is known.";
  }

  function unlabelled(lines) {
    const found = ["missing", "invalid"].map((label) => lines.filter((line) => line.label === label).map((line) => line.id)).map((ids, i) => (ids.length ? `${["Without a label", "With an invalid label"][i]}: ${ids.join(", ")}` : ""));
    const said = found.filter(Boolean).join(". ");
    return said ? h("p", { class: "faint" }, `${medhelm.plain(said, 1000)}. They count as not endorsed.`) : null;
  }

  /** Return the errors of a side's answer in words. */
  medhelm.errorList = (item, side) => {
    if (!side.answer.labels) return h("p", { class: "faint" }, whyNone(side));
    const known = textOf(item.actions);
    const wrong = side.answer.labels.filter((line) => line.error);
    const order = ["severe", "moderate", "mild"];
    wrong.sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
    if (!wrong.length) return [h("p", null, "None."), unlabelled(side.answer.labels)];
    return [h("ul", { class: "plain errors" }, wrong.map((line) => h("li", null, errorBadge(line), " ", h("span", { class: "mono" }, medhelm.name(line.id)), " ", known.has(line.id) ? medhelm.shown(known.get(line.id).text, 1000) : null))), unlabelled(side.answer.labels)];
  };

  function rubricCell(action) {
    return [h("span", { class: "rating" }, h("strong", null, String(action.rating)), ` ${medhelm.plain(action.kind)}`), h("span", { class: "of-cases" }, `rated ${action.ratings.join(", ")}`)];
  }

  function about(action) {
    const others = action.alternatives.length ? `or instead ${action.alternatives.join(", ")}` : "";
    const broad = action.broad.length ? `part of ${action.broad.join(", ")}` : "";
    return h("span", { class: "of-cases" }, medhelm.plain([action.category, others, broad].filter(Boolean).join("; "), 300), action.references.length ? [". ", medhelm.shown(action.references.join("; "), 300)] : null);
  }

  function labelCell(line) {
    if (!line) return medhelm.dash("no labels could be read");
    return [LABELS.get(line.label) || medhelm.plain(line.label), line.error ? h("span", { class: "of-cases" }, errorBadge(line)) : null, line.why ? h("span", { class: "of-cases" }, medhelm.plain(line.why)) : null];
  }

  function table(item, sides) {
    const said = sides.map((side) => new Map((side.answer && side.answer.labels ? side.answer.labels : []).map((line) => [line.id, line])));
    const isPair = sides.length > 1;
    const heads = [["action", false], ["rubric", false], ...sides.map((side) => [isPair ? [h("span", { class: "side" }, side.label), " ", medhelm.name(side.model)] : "label given", false])];
    const rows = item.actions.map((action) => [
      [h("span", { class: "mono" }, medhelm.name(action.id)), " ", medhelm.shown(action.text, 1000), about(action)],
      rubricCell(action), ...said.map((own) => labelCell(own.get(action.id))),
    ]);
    const isWrong = (_, place) => (said.some((own) => (own.get(item.actions[place].id) || { error: "" }).error) ? "differs" : null);
    return h("div", { class: "actions" }, medhelm.plainTable("Actions with their rubric and the labels given", heads, rows, isWrong));
  }

  /** Return the menu of a case with rubric and labels, folded; null where it has none. */
  medhelm.actionTable = (item, sides) => {
    if (!item.actions) return null;
    return medhelm.lazyDetails(`All ${medhelm.many(item.actions.length, "action")} with the rubric and the labels given`, () => table(item, sides));
  };
})();

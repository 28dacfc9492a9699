"use strict";

// Small parts that pages about single things share: facts, plain tables, long texts, what can be copied.
(() => {
  const { h } = medhelm;
  const PREVIEW = 1200;
  const PREVIEW_LINES = 16;
  const SPARE = 200;
  const SLICE = 4000;
  const LONGEST_LINE = 12000;
  const MANY_TOKENS = 200;
  const COPIED_MS = 2000;

  /** Return a list of facts; pairs are [term, ...content], those without content are left out. */
  medhelm.facts = (pairs, className = "") => {
    const items = pairs.filter((pair) => pair && pair.slice(1).flat(Infinity).some((v) => v !== null && v !== undefined && v !== "" && v !== false));
    return h("dl", { class: `facts ${className}`.trim() }, items.map(([term, ...content]) => [h("dt", null, term), h("dd", null, content)]));
  };

  /** Return a table of nodes: heads are [text, is number], the first cell of a row names it. */
  medhelm.plainTable = (caption, heads, rows, rowClass = () => null) => {
    const kind = (place) => (heads[place][1] ? "number" : "text");
    const cell = (content, place) => (place ? h("td", { class: kind(place) }, content) : h("th", { scope: "row", class: kind(place) }, h("div", { class: "head" }, content)));
    return medhelm.scroller(
      caption,
      h("table", null,
        h("caption", { class: "unseen" }, caption),
        h("thead", null, h("tr", null, heads.map(([text], place) => h("th", { scope: "col", class: kind(place) }, text)))),
        h("tbody", null, rows.map((row, place) => h("tr", { class: rowClass(row, place) }, row.map(cell))))),
    );
  };

  // Long texts ----------------------------------------------------------------------------------

  // Neither a pair of surrogates nor a word is cut in two where that can be helped.
  function safeEnd(text, end) {
    if (end >= text.length) return text.length;
    const space = Math.max(text.lastIndexOf(" ", end), text.lastIndexOf("\n", end));
    const cut = space > end - SPARE && space > 0 ? space + 1 : end;
    return /[\ud800-\udbff]/.test(text[cut - 1]) ? cut - 1 : cut;
  }

  function previewEnd(text) {
    let end = 0;
    for (let line = 0; line < PREVIEW_LINES && end >= 0 && end < PREVIEW; line += 1) end = text.indexOf("\n", end) + 1 || Infinity;
    end = safeEnd(text, Math.min(end, PREVIEW));
    const isShort = text.length - end < SPARE && text.slice(end).split("\n").length < 4;
    return isShort ? text.length : end;
  }

  // Thousands of marked tokens would halt the page: where they are that many they become text in brackets.
  function nodesOf(text) {
    const pieces = medhelm.pieces(text);
    if (pieces.length <= 2 * MANY_TOKENS) return [...medhelm.shown(text).childNodes];
    return [pieces.map((piece) => (typeof piece === "string" ? piece : `[${piece.token}]`)).join("")];
  }

  // A slice ends with a line, so that it can be a block of its own; only endless lines are broken.
  function sliceEnd(text, from) {
    const line = text.indexOf("\n", from + SLICE) + 1;
    return line && line - from <= LONGEST_LINE ? line : safeEnd(text, from + LONGEST_LINE);
  }

  // A frame takes a slice, and only slices in view are laid out: the page answers while a text grows.
  function grow(body, text, from, isWanted) {
    if (from >= text.length || !isWanted()) return;
    const to = sliceEnd(text, from);
    body.append(h("span", { class: "slice" }, nodesOf(text.slice(from, to))));
    requestAnimationFrame(() => body.isConnected && grow(body, text, to, isWanted));
  }

  /** Return a text of the data, folded where it is long; open from the start where `seek` is in the folded part. */
  medhelm.longText = (text, seek = "") => {
    const end = previewEnd(text);
    const body = h("bdi", { class: "shown long", id: medhelm.newId("text") }, end === text.length ? nodesOf(text) : null);
    if (end === text.length) return h("div", { class: "textbox" }, body);
    let isOpen = false;
    const button = h("button", { type: "button", class: "quiet small", "aria-controls": body.id, on: { click: () => turn(!isOpen) } });
    function turn(open) {
      isOpen = open;
      body.classList.toggle("cut", !open);
      button.textContent = open ? "Show less" : `Show all ${medhelm.count(text.length)} characters`;
      button.setAttribute("aria-expanded", String(open));
      body.replaceChildren(...(open ? [] : nodesOf(text.slice(0, end))));
      if (open) grow(body, text, 0, () => isOpen);
    }
    turn(Boolean(seek) && medhelm.folded(text).indexOf(seek, end - seek.length) >= 0);
    return h("div", { class: "textbox" }, body, button);
  };

  /** Return a text as searches compare it. */
  medhelm.folded = (text) => text.normalize("NFC").toLowerCase();

  // Copying -------------------------------------------------------------------------------------

  function copyByHand(text) {
    const area = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy"); // The only way where the page has no clipboard.
    area.remove();
    return isDone;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyByHand(text);
    }
  }

  /** Return a button that copies what `text()` returns. */
  medhelm.copyButton = (label, text) => {
    const button = h("button", { type: "button", class: "quiet small copy" }, label);
    button.addEventListener("click", async () => {
      const said = (await copy(text())) ? "Copied" : "Not copied: the browser does not allow it";
      button.focus();
      button.textContent = said;
      medhelm.say(said);
      setTimeout(() => { button.textContent = label; }, COPIED_MS);
    });
    return button;
  };

  /** Return a command with a button that copies it; none where it holds what a terminal would obey unseen. */
  medhelm.command = (text) => {
    const line = medhelm.shown(text);
    const isPlain = !line.querySelector(".token") && !/[\n\r\t]/.test(text);
    return h("div", { class: "command" },
      h("pre", { tabindex: "0", role: "region", "aria-label": "Command" }, h("code", null, line)),
      isPlain ? medhelm.copyButton("Copy", () => text) : h("p", { class: "faint" }, "It holds characters that cannot be seen, so it is not offered for copying."));
  };
})();

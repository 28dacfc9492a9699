"use strict";

// The instance browser: a filtered list of a run's lines, and beside it the instance that is open.
(() => {
  const { h } = medhelm;
  const PAGE = 50;
  const STACKED = "(max-width: 62rem)";

  // The list ------------------------------------------------------------------------------------

  function scoreCell(lines, line) {
    const [value, outcome] = [lines.value(line), lines.outcome(line)];
    return h("span", { class: "of" }, outcome === "scored" ? null : [medhelm.outcomeBadge(outcome), " "], h("span", { class: "value" }, value === null ? medhelm.dash("no score") : medhelm.scoreText(value)));
  }

  function otherCell(lines, line, other) {
    const twin = other.find(lines.id(line), lines.repeat(line));
    return twin < 0 ? h("span", { class: "of" }, medhelm.dash("no answer in the other run")) : scoreCell(other, twin);
  }

  function row(browser, line) {
    const { view, lines, other } = browser;
    const gap = other ? medhelm.gapOf(lines, line, other.lines) : null;
    const differs = gap && (gap.outcome || gap.score);
    const names = [lines.hasRepeats ? `repeat ${lines.repeat(line)}` : "", lines.part(line)].filter(Boolean);
    const hash = view.hashWith(address(lines, line));
    const link = medhelm.link(hash, { class: "line" },
      h("span", { class: "id" }, medhelm.name(lines.id(line)), names.length ? h("span", { class: "about" }, names.map((name, i) => [i ? ", " : "", medhelm.name(name)])) : null),
      scoreCell(lines, line),
      other ? [h("span", { class: "gap" }, differs ? [h("span", { "aria-hidden": "true" }, "≠"), h("span", { class: "unseen" }, "differs from")] : [h("span", { "aria-hidden": "true" }, "="), h("span", { class: "unseen" }, "same as")]), otherCell(lines, line, other.lines)] : null);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      browser.open(line, { isStep: true, isChosen: true });
    });
    return h("li", { class: differs ? "differs" : null }, link);
  }

  function address(lines, line) {
    return { instance: lines.id(line), repeat: lines.hasRepeats ? String(lines.repeat(line)) : "", page: "" };
  }

  function pager(browser) {
    const last = Math.max(1, Math.ceil(browser.found.length / PAGE));
    if (last < 2) return null;
    const button = (text, label, page) => h("button", { type: "button", class: "quiet small", "aria-label": label, disabled: page < 1 || page > last, on: { click: () => browser.turn(page) } }, text);
    const here = browser.page;
    return h("nav", { class: "pager", "aria-label": "Pages of the list" }, button("First", "First page", here > 1 ? 1 : 0), button("Back", "Page before", here - 1), h("span", { class: "faint" }, `Page ${medhelm.count(here)} of ${medhelm.count(last)}`), button("Next", "Page after", here + 1), button("Last", "Last page", here < last ? last : 0));
  }

  function listHead(browser) {
    const { other } = browser;
    return h("p", { class: "list-head faint", "aria-hidden": "true" }, h("span", { class: "id" }, browser.lines.isHashed ? "hash" : "instance"), h("span", { class: "of" }, other ? "A" : "score"), other ? [h("span", { class: "gap" }), h("span", { class: "of" }, "B")] : null);
  }

  function fillList(browser) {
    const { found, page, parts, lines } = browser;
    const shown = found.slice((page - 1) * PAGE, page * PAGE);
    browser.links = new Map();
    const items = shown.map((line) => {
      const item = row(browser, line);
      browser.links.set(line, item.firstChild);
      return item;
    });
    parts.list.replaceChildren(...(items.length ? [listHead(browser), h("ol", { start: (page - 1) * PAGE + 1 }, items), pager(browser)].filter(Boolean) : [h("p", { class: "faint", id: "nothing" }, browser.isSearching ? "Nothing found yet." : "No instance passes the filters.")]));
    const of = found.length === lines.count ? "" : ` of ${medhelm.count(lines.count)}`;
    parts.count.textContent = `${medhelm.count(found.length)}${of} ${lines.count === 1 ? "answer" : "answers"}`;
    mark(browser);
  }

  function mark(browser) {
    for (const [line, link] of browser.links) {
      if (line === browser.current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const link = browser.links.get(browser.current);
    const box = browser.parts.list;
    if (!link || !box.isConnected) return;
    // Only the list scrolls: the page stays where its reader is.
    const [at, of] = [link.getBoundingClientRect(), box.getBoundingClientRect()];
    const top = of.top + (box.firstChild ? box.firstChild.offsetHeight : 0); // The head stays above the list.
    if (at.top < top) box.scrollTop -= top - at.top;
    else if (at.bottom > of.bottom) box.scrollTop += at.bottom - of.bottom;
  }

  function listKeys(browser, event) {
    const steps = new Map([["j", 1], ["ArrowDown", 1], ["k", -1], ["ArrowUp", -1]]);
    const step = steps.get(event.key);
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    browser.step(step);
    const link = browser.links.get(browser.current);
    if (link) link.focus({ preventScroll: true });
  }

  // The open instance ---------------------------------------------------------------------------

  function repeatLinks(browser) {
    const { lines, current, view } = browser;
    if (!lines.hasRepeats) return null;
    const id = lines.id(current);
    const links = [];
    for (let repeat = 0; lines.find(id, repeat) >= 0; repeat += 1) {
      const line = lines.find(id, repeat);
      links.push(medhelm.link(view.hashWith(address(lines, line)), { "aria-current": line === current ? "true" : null }, String(repeat)));
    }
    return h("p", { class: "repeats" }, h("span", { class: "faint" }, "Repeat"), links);
  }

  function position(browser) {
    const place = browser.found.indexOf(browser.current);
    if (place < 0) return h("p", { class: "faint" }, "Not among those that pass the filters.");
    return h("p", { class: "faint" }, `${medhelm.count(place + 1)} of ${medhelm.count(browser.found.length)}`, browser.lines.part(browser.current) ? [" · ", medhelm.name(browser.lines.part(browser.current))] : null);
  }

  function swapLink(browser) {
    const { view, lines, other, current } = browser;
    if (!other) return null;
    const query = { scoring: view.query.get("scoring"), ...address(lines, current), with: lines.run.model };
    return medhelm.link(medhelm.hash("run", [lines.run.benchmark, other.model], query), { class: "swap" }, "Swap A and B");
  }

  function paneHead(browser) {
    const { lines, current, found, view } = browser;
    const place = found.indexOf(current);
    const button = (text, label, step, isOff) => h("button", { type: "button", class: "quiet small", id: `go-${label}`, "aria-label": `${text} instance`, disabled: isOff, on: { click: () => browser.step(step) } }, text);
    const link = () => new URL(view.hashWith(address(lines, current)), location.href).href;
    return h("header", { class: "pane-head" },
      h("div", null, h("h2", { id: "open-id", tabindex: "-1" }, medhelm.name(lines.id(current))), position(browser)),
      repeatLinks(browser),
      h("div", { class: "pane-tools" }, swapLink(browser), medhelm.copyButton("Copy link", link), button("Previous", "previous", -1, place === 0 || !found.length), button("Next", "next", 1, place === found.length - 1)));
  }

  function sidesOf(browser) {
    const { lines, other, current } = browser;
    const first = { label: "A", model: lines.run.model, lines, line: current };
    if (!other) return [first];
    return [first, { label: "B", model: other.model, lines: other.lines, line: other.lines.find(lines.id(current), lines.repeat(current)) }];
  }

  async function showPane(browser) {
    const { parts, lines, current, card } = browser;
    if (!parts.pane) return;
    const mine = (browser.turns += 1);
    const focused = parts.pane.contains(document.activeElement) ? document.activeElement.id : "";
    if (current < 0) return parts.pane.replaceChildren(h("p", { class: "faint" }, browser.isSearching ? "Searching." : "No instance to show."));
    parts.pane.setAttribute("aria-busy", "true");
    let content;
    try {
      const sides = sidesOf(browser);
      const [item, ...answers] = await Promise.all([medhelm.instanceOf(lines, current), ...sides.map((side) => (side.line < 0 ? null : medhelm.answerOf(side.lines, side.line)))]);
      if (mine !== browser.turns) return;
      content = medhelm.instanceContent({ card, item, sides: sides.map((side, i) => ({ ...side, answer: answers[i] })), query: browser.want.query });
    } catch (error) {
      if (mine !== browser.turns) return;
      content = h("p", { class: "note bad", role: "alert" }, medhelm.shown(error.message, 500));
    }
    parts.pane.removeAttribute("aria-busy");
    parts.pane.replaceChildren(paneHead(browser), ...[content].flat(Infinity).filter(Boolean));
    restoreFocus(focused);
    medhelm.markText(parts.pane, browser.want.query);
  }

  // What its reader has unfolded stays as it is.
  function refreshHead(browser) {
    const head = browser.parts.pane && browser.parts.pane.querySelector(".pane-head");
    if (!head) return;
    const focused = head.contains(document.activeElement) ? document.activeElement.id : "";
    head.replaceWith(paneHead(browser));
    restoreFocus(focused);
  }

  // A button at the end of the list is off, and its neighbour then takes the focus.
  function restoreFocus(id) {
    const element = id && document.getElementById(id);
    if (!element) return;
    const twin = new Map([["go-next", "go-previous"], ["go-previous", "go-next"]]).get(id);
    (element.disabled && twin ? document.getElementById(twin) : element).focus({ preventScroll: true });
  }

  function spoken(lines, line) {
    const value = lines.value(line);
    return `Instance ${medhelm.plain(lines.id(line), 60)}${lines.hasRepeats ? `, repeat ${lines.repeat(line)}` : ""}: ${lines.outcome(line)}${value === null ? "" : `, ${medhelm.scoreText(value)}`}`;
  }

  // Search --------------------------------------------------------------------------------------

  function progressLine(browser, { hits, done, files }, isDone) {
    const { parts, want } = browser;
    const found = `${medhelm.count(hits.size)} of ${medhelm.many(browser.candidates.length, "answer")}`;
    const what = h("bdi", null, "“", medhelm.shown(want.query, 80), "”");
    if (!files) return parts.search.replaceChildren(h("p", { class: "faint" }, `${found} with `, what, " in the id."));
    const bar = h("progress", { max: files, value: done, "aria-label": "Search" });
    const said = isDone
      ? [done < files ? `Stopped after ${done} of ${medhelm.many(files, "file")}: ` : "", `${found} with `, what, done < files ? " so far." : "."]
      : [`${done} of ${medhelm.many(files, "file")} searched, ${found} with `, what];
    const button = isDone
      ? (done < files ? h("button", { type: "button", class: "quiet small", id: "search-on", on: { click: () => search(browser) } }, "Search all") : null)
      : h("button", { type: "button", class: "quiet small", id: "search-stop", on: { click: () => { browser.isStopped = true; } } }, "Stop");
    const hadFocus = parts.search.contains(document.activeElement);
    parts.search.replaceChildren(...[isDone ? null : bar, h("p", { class: "faint" }, said), button].filter(Boolean));
    if (hadFocus && button) button.focus();
  }

  async function search(browser) {
    const { lines, want } = browser;
    browser.isStopped = false;
    browser.isSearching = true;
    let result = { hits: new Set(), done: 0, files: 0 };
    const report = (now) => {
      result = now;
      // What was left behind by a reader who has gone on is not shown.
      if (!browser.root.isConnected) browser.isStopped = true;
      else {
        progressLine(browser, now, false);
        narrow(browser, now.hits);
      }
    };
    try {
      await medhelm.searchLines(lines, want.query, browser.candidates, report, () => browser.isStopped);
    } catch (error) {
      browser.parts.search.replaceChildren(h("p", { class: "note bad", role: "alert" }, medhelm.shown(error.message, 500)));
      browser.isSearching = false;
      return;
    }
    browser.isSearching = false;
    if (!browser.root.isConnected) return;
    progressLine(browser, result, true);
    narrow(browser, result.hits);
    medhelm.say(`${medhelm.many(browser.found.length, "answer")} found`);
  }

  function narrow(browser, hits) {
    browser.found = browser.candidates.filter((line) => hits.has(line));
    const isNew = browser.current < 0;
    if (isNew && browser.found.length) browser.current = browser.found[0];
    const last = Math.max(1, Math.ceil(browser.found.length / PAGE));
    if (!browser.isTurned) browser.page = pageOf(browser, browser.current) || 1;
    browser.page = Math.min(browser.page, last);
    fillList(browser);
    if (isNew) showPane(browser);
    else refreshHead(browser);
  }

  // All together --------------------------------------------------------------------------------

  function pageOf(browser, line) {
    const place = browser.found.indexOf(line);
    return place < 0 ? 0 : Math.floor(place / PAGE) + 1;
  }

  function buttons(browser) {
    const { view, lines, parts } = browser;
    browser.open = (line, { isStep = false, isChosen = false } = {}) => {
      browser.current = line;
      browser.isTurned = false;
      const page = pageOf(browser, line) || browser.page;
      view.remember(address(lines, line), isStep);
      if (page !== browser.page) {
        browser.page = page;
        fillList(browser);
      } else mark(browser);
      medhelm.say(spoken(lines, line));
      showPane(browser).then(() => {
        if (!isChosen || !parts.pane || !matchMedia(STACKED).matches) return;
        parts.pane.scrollIntoView({ block: "start" });
        const heading = parts.pane.querySelector("h2");
        if (heading) heading.focus({ preventScroll: true });
      });
    };
    browser.step = (step) => {
      const place = browser.found.indexOf(browser.current);
      const line = browser.found[place < 0 ? 0 : place + step];
      if (line !== undefined) browser.open(line);
    };
    browser.turn = (page) => {
      browser.page = page;
      browser.isTurned = true;
      view.remember({ page: String(page) });
      fillList(browser);
      parts.list.scrollTop = 0;
      const first = parts.list.querySelector("a");
      if (first) first.focus({ preventScroll: true });
      medhelm.say(`Page ${page}`);
    };
  }

  function begin(browser) {
    const { want, lines } = browser;
    const wanted = want.instance ? lines.find(want.instance, lines.hasRepeats ? want.repeat : 0) : -1;
    browser.isUnknown = Boolean(want.instance) && wanted < 0;
    browser.current = wanted;
    if (wanted < 0 && browser.found.length && lines.hasText) [browser.current] = browser.found;
    const last = Math.max(1, Math.ceil(browser.found.length / PAGE));
    browser.isTurned = Number.isInteger(want.page) && want.page > 0;
    browser.page = browser.isTurned ? Math.min(want.page, last) : pageOf(browser, browser.current) || 1;
  }

  /** Return the browser of a run's instances; other: {model, lines} of a second run, or null. */
  medhelm.instanceBrowser = (view, card, lines, other) => {
    const want = medhelm.askedOf(view);
    const parts = {
      search: h("div", { class: "search-state" }),
      count: h("p", { class: "count" }),
      list: h("div", { class: "list", id: "list", role: "group", "aria-label": "Instances" }),
      pane: lines.hasText ? h("section", { class: "pane", id: "pane", "aria-label": "Open instance" }) : null,
    };
    const candidates = medhelm.linesThatPass(lines, want, other ? other.lines : null);
    const browser = { view, card, lines, other, want, parts, candidates, found: want.query ? [] : candidates, links: new Map(), turns: 0, isSearching: Boolean(want.query), isStopped: false };
    buttons(browser);
    begin(browser);
    parts.list.addEventListener("keydown", (event) => listKeys(browser, event));
    fillList(browser);
    showPane(browser);
    browser.root = h("div", { class: "browser" },
      medhelm.lineFilters(view, card, lines, other ? other.lines : null),
      browser.isUnknown ? h("p", { class: "note", id: "unknown" }, "The address names an instance that this run does not have: ", medhelm.shown(want.instance, 200), ".") : null,
      parts.search,
      h("div", { class: "tools" }, parts.count, h("p", { class: "faint keys" }, "Keys j and k, or the arrows, move while the list has the focus.")),
      h("div", { class: parts.pane ? `split${other ? " pair" : ""}` : `split alone${other ? " pair" : ""}` }, parts.list, parts.pane));
    document.addEventListener("medhelm:placed", () => {
      if (!browser.root.isConnected) return;
      mark(browser);
      if (!want.query) return;
      if (parts.pane) medhelm.markText(parts.pane, want.query);
      search(browser);
    }, { once: true });
    return browser.root;
  };
})();

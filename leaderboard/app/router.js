"use strict";

// Pages by the address behind #, which also holds filters, sorting and tabs: every view has a link.
(() => {
  const pages = (medhelm.pages = new Map());
  const CARRIED = ["scoring", "suite", "access", "category", "weights", "by"];
  let current = null;
  let turn = 0;

  /**
   * Make a page known. Those with a title are in the navigation, in the order of their scripts.
   *
   * render(view): its nodes, or a promise of them; title: of a plugin's page the plugin has it;
   * parent: the page that the navigation marks instead. Of plugins' pages, each may be left out:
   * benchmarkLink: the text of the link from a benchmark's page; words: pairs for the page About;
   * item(value, sides): nodes of what it shows of an instance; answerTitle and answer(value, own, side):
   * of an answer, `value` being that of its instance; texts(value): the texts in it that can be searched.
   */
  medhelm.page = (name, page) => pages.set(name, page);

  /** Return an address: page, parts of the path, and what is asked of it; empty values are left out. */
  medhelm.hash = (name, path = [], query = {}) => {
    const parts = [name, ...path].map(encodeURIComponent).join("/");
    const asked = new URLSearchParams();
    for (const key of Object.keys(query)) if (query[key]) asked.set(key, query[key]);
    const text = asked.toString();
    return `#/${parts}${text ? `?${text}` : ""}`;
  };

  function parse(hash) {
    const [before, ...after] = hash.replace(/^#\/?/, "").split("?");
    try {
      const [name, ...path] = before.split("/").map(decodeURIComponent);
      return { name: name || "overview", path, query: new URLSearchParams(after.join("?")) };
    } catch {
      return { name: "", path: [], query: new URLSearchParams() };
    }
  }

  function changed(view, changes) {
    const query = new URLSearchParams(view.query);
    for (const key of Object.keys(changes)) {
      if (changes[key]) query.set(key, changes[key]);
      else query.delete(key);
    }
    return medhelm.hash(view.name, view.path, Object.fromEntries(query));
  }

  function makeView(address) {
    const first = medhelm.site.scorings.length ? medhelm.site.scorings[0].scoring : "";
    const asked = address.query.get("scoring");
    const view = {
      ...address,
      scoring: medhelm.scorings.has(asked) ? asked : first,
      get: (key, otherwise = "") => address.query.get(key) || otherwise,
    };
    view.hashWith = (changes) => changed(view, changes);
    // Shows the page anew; the reader comes back with the browser's own button.
    view.go = (changes) => {
      location.hash = changed(view, changes);
    };
    // Keeps the address true to what is shown without showing it anew; a step is one to come back from.
    view.remember = (changes, isStep = false) => {
      for (const key of Object.keys(changes)) {
        if (changes[key]) view.query.set(key, changes[key]);
        else view.query.delete(key);
      }
      history[isStep ? "pushState" : "replaceState"](null, "", changed(view, {}));
      if (current === view) medhelm.showNav(view);
    };
    return view;
  }

  /** Return the address of another page under the filters of this one. */
  medhelm.carried = (view, name, path = [], more = {}) => {
    const query = {};
    for (const key of CARRIED) query[key] = view.query.get(key);
    return medhelm.hash(name, path, { ...query, ...more });
  };

  medhelm.runHash = (view, benchmark, model) =>
    medhelm.hash("run", [benchmark, model], { scoring: view.query.get("scoring") });
  medhelm.benchmarkHash = (view, benchmark) =>
    medhelm.hash("benchmark", [benchmark], { scoring: view.query.get("scoring") });

  function missing(what) {
    return [
      medhelm.h("h1", null, "No such page"),
      medhelm.h("p", null, what),
      medhelm.h("p", null, medhelm.link("#/overview", null, "Go to the overview")),
    ];
  }

  /** A page throws this where the address names nothing that the site has. */
  medhelm.NotFound = class extends Error {};

  function failed(error) {
    if (error instanceof medhelm.NotFound) return missing(error.message);
    return [
      medhelm.h("h1", null, "This page cannot be shown"),
      medhelm.h("p", { class: "note bad", role: "alert" }, medhelm.shown(error.message, 500)),
    ];
  }

  async function nodesOf(view) {
    const page = pages.get(view.name);
    if (!page) return missing("The address names no page of this site.");
    try {
      return await page.render(view);
    } catch (error) {
      return failed(error);
    }
  }

  function place(view, nodes, before) {
    const main = document.getElementById("main");
    const isSame = before && before.name === view.name && before.path.join("/") === view.path.join("/");
    const focused = isSame && document.activeElement ? document.activeElement.id : "";
    document.dispatchEvent(new Event("medhelm:leave"));
    main.replaceChildren(...[nodes].flat(Infinity).filter((n) => n instanceof Node));
    main.removeAttribute("aria-busy");
    main.className = `page-${pages.has(view.name) ? view.name : "missing"}`;
    const heading = main.querySelector("h1");
    const title = heading ? heading.dataset.title || heading.textContent : "";
    document.title = `${title} – ${medhelm.plain(medhelm.site.title)}`;
    if (isSame && focused && document.getElementById(focused)) document.getElementById(focused).focus();
    else if (before && !isSame) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    document.dispatchEvent(new Event("medhelm:placed"));
  }

  async function show() {
    const mine = (turn += 1);
    const view = makeView(parse(location.hash));
    const before = current;
    document.getElementById("main").setAttribute("aria-busy", "true");
    const nodes = await nodesOf(view);
    if (mine !== turn) return; // The reader has gone on meanwhile.
    current = view;
    medhelm.showNav(view);
    place(view, nodes, before);
  }

  medhelm.startRouter = () => {
    addEventListener("hashchange", show);
    return show();
  };
})();

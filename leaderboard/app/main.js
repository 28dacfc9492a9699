"use strict";

// The frame around pages: navigation, marks that hold for all of them, the foot; then the first page.
(() => {
  const { h } = medhelm;
  medhelm.showNav = (view) => {
    const here = medhelm.pages.get(view.name)?.parent || view.name;
    const titles = [...medhelm.pages].map(([name, page]) => [name, medhelm.pluginPages.get(name)?.title || page.title]);
    const items = titles.filter(([, title]) => title).map(([name, title]) =>
      h("li", null, medhelm.link(medhelm.carried(view, name), { "aria-current": name === here ? "page" : null }, medhelm.plain(title, 60))),
    );
    document.getElementById("nav").replaceChildren(h("ul", null, items));
    closeNav();
  };

  function closeNav() {
    document.getElementById("pages").setAttribute("aria-expanded", "false");
  }

  function startNav() {
    const button = document.getElementById("pages");
    button.addEventListener("click", () => {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!isOpen));
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && button.getAttribute("aria-expanded") === "true") {
        closeNav();
        button.focus();
      }
    });
  }

  function startTheme() {
    const button = document.getElementById("theme");
    const label = () => {
      button.textContent = `Theme: ${medhelm.theme()}`;
    };
    button.addEventListener("click", medhelm.nextTheme);
    document.addEventListener("medhelm:theme", label);
    label();
  }

  function startSkip() {
    // The address after # is the page, so the link moves the focus itself.
    document.getElementById("skip").addEventListener("click", (event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    });
  }

  function showMarks() {
    const { site } = medhelm;
    const marks = [];
    if (site.data === "sample") {
      marks.push(
        h("p", { class: "mark warn" }, h("strong", null, "Synthetic samples."), " These numbers come from a few made-up instances: they show that the set-up works and say nothing about models."),
      );
    }
    if (site.problems.length) {
      marks.push(
        h("p", { class: "mark bad" }, h("strong", null, `${medhelm.many(site.problems.length, "problem")} in the results. `), "Something is left out of this site. ", medhelm.link("#/about", null, "What and why")),
      );
    }
    document.getElementById("marks").replaceChildren(...marks);
  }

  function showFoot() {
    const { site } = medhelm;
    document.getElementById("foot").replaceChildren(
      h("p", null, `medhelm ${site.medhelm}, built ${medhelm.time(site.built_at)}. `, medhelm.link("#/about", null, "How to reproduce and cite")),
    );
  }

  function fail(error) {
    document.getElementById("main").replaceChildren(
      h("h1", null, "This site cannot be shown"),
      h("p", { class: "note bad", role: "alert" }, error.message),
      h("p", null, "Build it again with medhelm leaderboard build."),
    );
  }

  async function start() {
    startNav();
    startTheme();
    startSkip();
    try {
      medhelm.setSite(await medhelm.load("site"));
      const { title, logo } = medhelm.site;
      document.getElementById("brand").replaceChildren(logo ? medhelm.logo(logo) : "", medhelm.name(title));
      showMarks();
      showFoot();
      await medhelm.startRouter();
    } catch (error) {
      fail(error);
    }
    document.documentElement.dataset.ready = "true";
  }

  start();
})();

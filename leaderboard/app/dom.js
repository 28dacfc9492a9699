"use strict";

// The only place that makes elements. Text reaches the page as text nodes, never as markup.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SVG_TAGS = new Set(["svg", "g", "line", "rect", "circle", "path", "text", "title"]);
  const NAME_LIMIT = 160;

  // Controls, bidi controls, zero-width, invisible operators and tag characters, in runs of one; and
  // piles of combining marks, which spill over other lines and halt the layout.
  const UNSEEN =
    /\p{M}{9,}|([\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}])\1*/gu;
  // The joiner inside a picture of several is part of it.
  const JOINED = /\p{Extended_Pictographic}[\u{1f3fb}-\u{1f3ff}\ufe0f]*$/u;

  function isJoiner(text, match, start) {
    if (match !== "\u200d") return false;
    const next = text.slice(start + 1, start + 3);
    return JOINED.test(text.slice(Math.max(0, start - 6), start)) && /^\p{Extended_Pictographic}/u.test(next);
  }

  function codePoint(char) {
    return `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  }

  /** Return the pieces of a text: strings as they are, and {token} for what cannot be seen. */
  medhelm.pieces = (text) => {
    const found = [];
    let end = 0;
    for (const match of text.matchAll(UNSEEN)) {
      if (isJoiner(text, match[0], match.index)) continue;
      if (match.index > end) found.push(text.slice(end, match.index));
      const times = [...match[0]].length;
      const what = match[1] ? codePoint(match[0]) : "combining marks";
      found.push({ token: what + (times > 1 ? ` ×${times}` : "") });
      end = match.index + match[0].length;
    }
    if (end < text.length) found.push(text.slice(end));
    return found;
  };

  function cut(text, limit) {
    if (text.length <= limit) return [text, 0];
    // A pair of surrogates is not cut in two.
    const end = /[\ud800-\udbff]/.test(text[limit - 1]) ? limit - 1 : limit;
    return [text.slice(0, end), text.length - end];
  }

  /** Return a text of the data as an element of its own direction, with unseen characters marked. */
  medhelm.shown = (text, limit = Infinity) => {
    const [kept, more] = cut(String(text), limit);
    const element = medhelm.h("bdi", { class: "shown" });
    for (const piece of medhelm.pieces(kept)) {
      if (typeof piece === "string") element.append(piece);
      else element.append(medhelm.h("span", { class: "token", title: "a character that cannot be seen" }, piece.token));
    }
    if (more) element.append(medhelm.h("span", { class: "token" }, `… ${more.toLocaleString("en-US")} more characters`));
    return element;
  };

  /** Return a name of the data for lists: as `shown`, no longer than a line or two, broken at its joints. */
  medhelm.name = (text) => {
    const element = medhelm.shown(text, NAME_LIMIT);
    for (const node of [...element.childNodes]) {
      if (node.nodeType !== Node.TEXT_NODE) continue;
      const parts = node.data.split(/(?<=[/_:.])(?=[^/_:.])/);
      node.replaceWith(...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
    }
    return element;
  };

  /** Return a text of the data for attributes, titles and charts. */
  medhelm.plain = (text, limit = NAME_LIMIT) => {
    const [kept, more] = cut(String(text), limit);
    const parts = medhelm.pieces(kept).map((p) => (typeof p === "string" ? p : `[${p.token}]`));
    return parts.join("").replace(/\s+/g, " ") + (more ? "…" : "");
  };

  function setAttribute(element, name, value) {
    if (value === null || value === undefined || value === false) return;
    if (name === "on") {
      for (const event of Object.keys(value)) element.addEventListener(event, value[event]);
    } else if (name === "style") {
      for (const property of Object.keys(value)) element.style.setProperty(property, value[property]);
    } else if (name === "value") {
      element.value = value;
    } else if (name === "href" || name === "src" || name.startsWith("on")) {
      throw new Error(`${name} is set by the helpers of links only`);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }

  /** Return an element with attributes and children; strings become text nodes, null nothing. */
  medhelm.h = (tag, attributes, ...children) => {
    const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const name of Object.keys(attributes || {})) setAttribute(element, name, attributes[name]);
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      element.append(child instanceof Node ? child : String(child));
    }
    return element;
  };

  /** Return the picture beside the title. */
  medhelm.logo = (path) => {
    if (!/^app\/logo\.[a-z]+$/.test(path)) throw new Error("a logo is a file of the site");
    const element = medhelm.h("img", { class: "logo", alt: "" });
    element.src = path;
    return element;
  };

  function anchor(href, attributes, children) {
    const element = medhelm.h("a", attributes, ...children);
    element.setAttribute("href", href);
    return element;
  }

  /** Return a link to a page of this site; `hash` comes from `medhelm.hash`. */
  medhelm.link = (hash, attributes, ...children) => {
    if (!hash.startsWith("#/")) throw new Error("a link inside the site begins with #/");
    return anchor(hash, attributes, children);
  };

  /** Return a link to another site where the address is http or https, else its text. */
  medhelm.external = (address, ...children) => {
    const label = children.length ? children : [medhelm.name(address)];
    let url;
    try {
      url = new URL(address);
    } catch {
      return medhelm.h("span", null, ...label);
    }
    if (url.protocol !== "https:" && url.protocol !== "http:") return medhelm.h("span", null, ...label);
    return anchor(url.href, { rel: "noopener noreferrer" }, label);
  };

  /** Return a link to a file of this site, below its folder. */
  medhelm.fileLink = (path, ...children) => {
    const safe = path.split("/").map(encodeURIComponent).join("/");
    if (!/^[\w-]/.test(safe) || path.split("/").includes("..")) return medhelm.h("span", null, ...children);
    return anchor(safe, { download: path.split("/").pop() }, children);
  };

  /** Hand a file to the reader. */
  medhelm.saveFile = (name, type, text) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const element = anchor(address, { download: name, class: "unseen" }, []);
    document.body.append(element);
    element.click();
    element.remove();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  /** Tell those who hear the page what has changed. */
  medhelm.say = (text) => {
    document.getElementById("status").textContent = text;
  };

  let count = 0;

  /** Return an id that no other element has. */
  medhelm.newId = (prefix) => `${prefix}-${(count += 1)}`;
})();

"use strict";

// Data files are scripts, since a page from disk may read nothing else: each calls medhelmData.
const medhelmData = (() => {
  const KEPT = 64;
  const waiting = new Map();
  const found = new Map();

  function path(key) {
    return `data/${key.split("/").map(encodeURIComponent).join("/")}.js`;
  }

  function script(source, onload, onerror) {
    const element = document.createElement("script");
    element.src = source;
    element.onload = () => {
      element.remove();
      onload();
    };
    element.onerror = () => {
      element.remove();
      onerror();
    };
    document.head.append(element);
  }

  function read(key) {
    const file = path(key);
    return new Promise((resolve, reject) => {
      let text = null;
      waiting.set(key, (given) => {
        text = given;
      });
      const fail = (why) => {
        waiting.delete(key);
        reject(new Error(`The file ${file} ${why}.`));
      };
      script(
        file,
        () => {
          if (text === null) return fail("does not hold the data that its name says");
          waiting.delete(key);
          try {
            resolve(JSON.parse(text));
          } catch {
            fail("is damaged; build the site again");
          }
        },
        () => fail("cannot be read; it is missing or damaged"),
      );
    });
  }

  /** Return the content of a data file; the last ones read are kept. */
  medhelm.load = (key) => {
    const known = found.get(key);
    found.delete(key);
    const promise = known || read(key);
    found.set(key, promise);
    promise.catch(() => found.delete(key));
    if (found.size > KEPT) found.delete(found.keys().next().value);
    return promise;
  };

  const libraries = new Map();

  /** Run a script of the folder app/ once. */
  medhelm.loadScript = (name) => {
    if (!libraries.has(name)) {
      libraries.set(
        name,
        new Promise((resolve, reject) => {
          const fail = () => reject(new Error(`The file app/${name} cannot be read.`));
          script(`app/${name}`, resolve, fail);
        }),
      );
    }
    return libraries.get(name);
  };

  return (key, text) => {
    const give = waiting.get(key);
    if (give) give(text);
  };
})();

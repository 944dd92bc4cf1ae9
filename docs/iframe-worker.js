// Search in pages that are opened as files: browsers start no Worker from file://, so this one is a hidden frame that
// runs the same script. On a server the browser's own is used. The name is that by which Material for MkDocs knows it.
"use strict";

if (location.protocol === "file:") {
  const inside = () => {
    window.postMessage = (data) => parent.postMessage(data, "*");
    window.importScripts = (...urls) =>
      urls.reduce(
        (before, url) =>
          before.then(
            () =>
              new Promise((loaded, failed) => {
                const script = Object.assign(document.createElement("script"), { src: url, onload: loaded, onerror: failed });
                document.body.append(script);
              }),
          ),
        Promise.resolve(),
      );
  };

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(this.frame);
      const there = this.frame.contentWindow;
      this.ready = new Promise((loaded) => this.frame.addEventListener("load", loaded, { once: true }));
      window.addEventListener("message", (event) => {
        if (event.source === there) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      there.document.write(`<body><script>(${inside})()</script><script src="${url}"></script></body>`);
      there.document.close();
    }

    postMessage(data) {
      const send = () => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
      this.ready.then(send);
    }

    terminate() {
      this.frame.remove();
    }
  };
}

// The documents pages: uploads with progress, the page's image with the place of each value, the queue's tools.
(() => {
  "use strict";

  const refresh = () => document.dispatchEvent(new CustomEvent("penstock:refresh"));

  // Uploads: each file by itself, so that each has its own progress and its own answer; a few at once.
  const AT_ONCE = 3, SHOWN = 200;
  const drop = document.getElementById("drop");
  const sizeOf = (bytes) => (bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1024))} KB` : `${(bytes / 2 ** 20).toFixed(1)} MB`);
  if (drop) {
    const list = document.getElementById("uploads"), said = document.getElementById("uploads-said");
    const waiting = [];
    let running = 0, good = 0, bad = 0;

    const tally = () => {
      const left = waiting.length + running;
      said.textContent = [left && `${left} on the way`, good && `${good} uploaded`, bad && `${bad} refused`].filter(Boolean).join(", ");
    };
    const rowOf = (file) => {
      const row = document.getElementById("upload-row").content.firstElementChild.cloneNode(true);
      row.querySelector(".upload-name").textContent = file.name;
      row.querySelector(".upload-name").title = file.name;
      row.querySelector(".upload-size").textContent = sizeOf(file.size);
      row.querySelector("progress").setAttribute("aria-label", `Upload of ${file.name}`);
      if (list.childElementCount >= SHOWN) list.querySelector(".done")?.remove();
      list.append(row);
      return row;
    };
    const state = (row, kind, words) => {
      row.classList.remove("done", "wrong-file");
      if (kind) row.classList.add(kind);
      row.querySelector(".upload-state").textContent = words;
    };
    const refuse = (row, words, file) => {
      bad += 1;
      state(row, "wrong-file", words);
      if (!file) return;
      const again = document.createElement("button");
      again.type = "button";
      again.className = "link";
      again.textContent = "Try again";
      again.addEventListener("click", () => { bad -= 1; again.remove(); state(row, "", "waiting"); waiting.push([file, row]); next(); });
      row.querySelector(".upload-state").append(" ", again);
    };
    const why = (request) => {
      let told = "";
      try { told = JSON.parse(request.responseText).detail; } catch { /* no answer of ours */ }
      if (typeof told === "string" && told) return told;
      return request.status === 413 ? "The file is too large." : `The service refused it (${request.status}).`;
    };
    const send = (file, row) => new Promise((resolve) => {
      const request = new XMLHttpRequest(), form = new FormData(), bar = row.querySelector("progress");
      form.append("files", file, file.name);
      request.open("POST", "/api/documents");
      request.setRequestHeader("X-CSRF-Token", drop.dataset.csrf);
      request.setRequestHeader("Accept", "application/json");
      request.upload.addEventListener("progress", (event) => {
        if (!event.lengthComputable) return;
        bar.value = Math.round(event.loaded / event.total * 100);
        state(row, "", event.loaded < event.total ? `${bar.value} %` : "being taken in");
      });
      request.addEventListener("load", () => {
        if (request.status >= 200 && request.status < 300) {
          bar.value = 100;
          good += 1;
          state(row, "done", "uploaded");
        } else {
          // What the file itself is wrong with, nothing but another file mends.
          refuse(row, why(request), [429, 500, 502, 503, 504].includes(request.status) ? file : null);
        }
        resolve();
      });
      request.addEventListener("error", () => { refuse(row, "The service does not answer.", file); resolve(); });
      request.send(form);
    });
    const next = () => {
      while (running < AT_ONCE && waiting.length) {
        const [file, row] = waiting.shift();
        running += 1;
        send(file, row).then(() => { running -= 1; refresh(); tally(); next(); });
      }
      tally();
    };
    const take = (files) => {
      document.getElementById("uploads-box").hidden = false;
      for (const file of files) {
        const row = rowOf(file), largest = Number(drop.dataset.largest);
        if (file.size > largest) refuse(row, `The file has ${sizeOf(file.size)}; at most ${sizeOf(largest)} are taken.`);
        else if (!file.size) refuse(row, "The file is empty, or a folder.");
        else { state(row, "", "waiting"); waiting.push([file, row]); }
      }
      next();
    };
    const input = document.getElementById("files");
    input.addEventListener("change", () => { take([...input.files]); input.value = ""; });
    document.getElementById("uploads-clear").addEventListener("click", () => {
      for (const row of list.querySelectorAll(".done, .wrong-file")) row.remove();
      good = bad = 0;
      document.getElementById("uploads-box").hidden = !list.childElementCount;
      tally();
    });
    // The whole page takes what is dropped: nobody must aim.
    const files = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
    let depth = 0;
    document.addEventListener("dragenter", (event) => { if (files(event)) { depth += 1; drop.classList.add("over"); } });
    document.addEventListener("dragleave", (event) => { if (files(event) && --depth <= 0) { depth = 0; drop.classList.remove("over"); } });
    document.addEventListener("dragover", (event) => { if (files(event)) event.preventDefault(); });
    document.addEventListener("drop", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      depth = 0;
      drop.classList.remove("over");
      take([...event.dataTransfer.files]);
    });
    window.addEventListener("beforeunload", (event) => { if (running || waiting.length) event.preventDefault(); });
  }

  // The page's image. A box is found by the field's name; the page that has it is turned to.
  const ZOOMS = [100, 150, 200, 300], WIDE = [1200, 1600, 2000, 2000];
  const viewer = () => document.querySelector("[data-viewer]");
  const zoomOf = (sheet) => Number(sheet.dataset.zoom || 0);
  const source = (sheet) => `${sheet.dataset.src}?page=${sheet.dataset.page}&width=${WIDE[zoomOf(sheet)]}`;
  const redraw = (sheet) => {
    const image = sheet.querySelector("img"), wanted = source(sheet);
    if (image.getAttribute("src") !== wanted) {
      sheet.classList.add("loading");
      image.addEventListener("load", () => sheet.classList.remove("loading"), { once: true });
      image.src = wanted;
      image.alt = `Page ${sheet.dataset.page} of ${sheet.dataset.name}`;
    }
    const at = sheet.querySelector("[data-at]");
    if (at) at.textContent = sheet.dataset.page;
    for (const box of sheet.querySelectorAll(".boxes rect")) box.toggleAttribute("hidden", box.dataset.on !== sheet.dataset.page);
  };
  const turnTo = (sheet, page) => {
    const wanted = Math.min(Math.max(page, 1), Number(sheet.dataset.pages));
    if (String(wanted) === sheet.dataset.page) return;
    sheet.dataset.page = wanted;
    redraw(sheet);
    sheet.querySelector(".sheet-scroll").scrollTop = 0;
  };
  const into = (sheet, box) => {
    const scroll = sheet.querySelector(".sheet-scroll"), seen = scroll.getBoundingClientRect(), at = box.getBoundingClientRect();
    const margin = 40;
    if (at.top < seen.top + margin || at.bottom > seen.bottom - margin) scroll.scrollTop += at.top - seen.top - seen.height / 3;
    if (at.left < seen.left + margin || at.right > seen.right - margin) scroll.scrollLeft += at.left - seen.left - seen.width / 3;
  };
  const point = (name) => {
    const sheet = viewer();
    if (!sheet) return;
    let found = null;
    for (const box of sheet.querySelectorAll(".boxes rect")) {
      const on = box.dataset.of === name;
      box.classList.toggle("on", on);
      if (on) found = box;
    }
    if (!found) return;
    turnTo(sheet, Number(found.dataset.on));
    into(sheet, found);
  };
  const zoom = (by) => {
    const sheet = viewer();
    if (!sheet) return;
    const to = Math.min(Math.max(zoomOf(sheet) + by, 0), ZOOMS.length - 1);
    sheet.dataset.zoom = to;
    sheet.querySelector(".sheet-page").className = `sheet-page z${to}`;
    sheet.querySelector("[data-scale]").textContent = `${ZOOMS[to]} %`;
    redraw(sheet);
    const on = sheet.querySelector(".boxes rect.on:not([hidden])");
    if (on) into(sheet, on);
  };
  window.penstockSheet = { point, zoom };
  document.addEventListener("click", (event) => {
    const turn = event.target.closest?.("[data-turn]"), scale = event.target.closest?.("[data-zoom]:not([data-viewer])");
    if (turn) { event.preventDefault(); const sheet = turn.closest("[data-viewer]"); turnTo(sheet, Number(sheet.dataset.page) + Number(turn.dataset.turn)); }
    if (scale) zoom(Number(scale.dataset.zoom));
    const box = event.target.closest?.(".boxes rect");
    if (box) document.dispatchEvent(new CustomEvent("penstock:field", { detail: box.dataset.of }));
  });
  document.addEventListener("error", (event) => {
    const sheet = event.target.closest?.("[data-viewer]");
    if (!sheet) return;
    sheet.querySelector(".sheet-scroll").hidden = true;
    sheet.querySelector(".sheet-lost").hidden = false;
  }, true);
  // On the document's page, what is pointed at.
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const row = event.target.closest?.(".doc-grid [data-field]");
      if (row) point(row.dataset.field);
    });
  }

  // The queue: the slider says what it would approve; what changes without any job is looked at again.
  const slide = () => {
    const form = document.querySelector(".approve-form"), slider = document.getElementById("percent");
    if (!form || !slider) return;
    const many = JSON.parse(form.dataset.approvable)[Number(slider.value) - Number(form.dataset.least)];
    document.getElementById("percent-said").textContent = `${slider.value} %`;
    document.getElementById("approve-said").textContent = `Approve ${many.toLocaleString("en")}`;
    form.querySelector("button").disabled = !many;
    form.setAttribute("hx-confirm", `Approve ${many.toLocaleString("en")} review${many === 1 ? "" : "s"} that nobody has looked at?`);
  };
  document.addEventListener("input", (event) => { if (event.target.id === "percent") slide(); });
  document.addEventListener("htmx:after:swap", slide);
  const again = document.querySelector("[data-again]");
  if (again) setInterval(refresh, Number(again.dataset.again) * 1000);
  document.addEventListener("keydown", (event) => {
    const button = document.querySelector(".next-button");
    if (!button || event.key !== "n" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    event.stopPropagation();
    button.click();
  }, true);
})();

// The documents pages: uploads with progress, the page's image with the place of each value, the queue's tools.
(() => {
  "use strict";

  const refresh = () => document.dispatchEvent(new CustomEvent("penstock:refresh"));

  // Uploads: what is dropped together goes in one request and is one batch, as far as `MOST` and `TOGETHER` reach. A
  // request is taken as a whole or not at all, so a file that does not look like a document goes alone, to be refused
  // alone; and one that is refused by its name leaves the others to go without it.
  const AT_ONCE = 2, SHOWN = 200, MOST = 200, TOGETHER = 64e6;
  const drop = document.getElementById("drop");
  const sizeOf = (bytes) => (bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1024))} KB` : `${(bytes / 2 ** 20).toFixed(1)} MB`);
  if (drop) {
    const list = document.getElementById("uploads"), said = document.getElementById("uploads-said");
    const seen = document.getElementById("uploads-batch");
    const waiting = [];
    let running = 0, good = 0, bad = 0, left = 0, bytes = 0, sent = 0;

    const tally = () => {
      const part = left && bytes ? ` (${Math.min(99, Math.floor(sent / bytes * 100))} %)` : "";
      said.textContent = [left && `${left} on the way${part}`, good && `${good} uploaded`, bad && `${bad} refused`].filter(Boolean).join(", ");
      if (!left) bytes = sent = 0;
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
    const put = (group) => {
      // Asked again under the same key, the service answers with what it made the first time.
      group.key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      for (const { row } of group.files) state(row, "", "waiting");
      waiting.push(group);
    };
    const again = (group) => {
      for (const { file, row } of group.files) { bad -= 1; left += 1; bytes += file.size; state(row, "", "waiting"); }
      waiting.push(group);
      next();
    };
    const refuse = ({ row }, words, group) => {
      bad += 1;
      state(row, "wrong-file", words);
      if (!group) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "link";
      button.textContent = group.files.length > 1 ? "Try them again" : "Try again";
      button.addEventListener("click", () => again(group));
      row.querySelector(".upload-state").append(" ", button);
    };
    const why = (request) => {
      let told = "";
      try { told = JSON.parse(request.responseText).detail; } catch { /* no answer of ours */ }
      if (typeof told === "string" && told) return told;
      return request.status === 413 ? "The file is too large." : `The service refused it (${request.status}).`;
    };
    const taken = (group, request) => {
      for (const { row } of group.files) { row.querySelector("progress").value = 100; state(row, "done", "uploaded"); }
      good += group.files.length;
      left -= group.files.length;
      let batch = null;
      try { batch = JSON.parse(request.responseText).batch_id; } catch { /* no answer of ours */ }
      if (batch) { seen.href = `/ui/documents?batch=${encodeURIComponent(batch)}`; seen.hidden = false; }
    };
    const refused = (group, request) => {
      const words = why(request), { files } = group;
      const worth = [429, 500, 502, 503, 504].includes(request.status);
      // What the file itself is wrong with, nothing but another file mends.
      if (worth || files.length === 1) {
        left -= files.length;
        for (const each of files) refuse(each, words, worth ? group : null);
        return;
      }
      const named = files.find(({ file }) => words.startsWith(`${file.name}: `));
      for (const { file } of files) if (named?.file !== file) bytes += file.size;
      if (named) {
        left -= 1;
        refuse(named, words.slice(named.file.name.length + 2));
        put({ files: files.filter((each) => each !== named) });
      } else for (const each of files) put({ files: [each] });
    };
    const send = (group) => new Promise((resolve) => {
      const request = new XMLHttpRequest(), form = new FormData();
      const whole = group.files.reduce((sum, { file }) => sum + file.size, 0);
      let through = 0;
      const reached = (loaded) => {
        sent += loaded - through;
        through = loaded;
        let begins = 0;
        for (const { file, row } of group.files) {
          const percent = Math.round(Math.min(Math.max((loaded - begins) / file.size, 0), 1) * 100);
          row.querySelector("progress").value = percent;
          state(row, "", loaded >= whole ? "being taken in" : percent ? `${percent} %` : "waiting");
          begins += file.size;
        }
        tally();
      };
      for (const { file } of group.files) form.append("files", file, file.name);
      request.open("POST", "/api/documents");
      request.setRequestHeader("X-CSRF-Token", drop.dataset.csrf);
      request.setRequestHeader("Accept", "application/json");
      request.setRequestHeader("Idempotency-Key", group.key);
      // What is sent is a little more than the files: the parts' heads.
      request.upload.addEventListener("progress", (event) => { if (event.lengthComputable) reached(event.loaded / event.total * whole); });
      request.addEventListener("load", () => {
        sent += whole - through;
        if (request.status >= 200 && request.status < 300) taken(group, request); else refused(group, request);
        resolve();
      });
      request.addEventListener("error", () => {
        sent += whole - through;
        left -= group.files.length;
        for (const each of group.files) refuse(each, "The service does not answer.", group);
        resolve();
      });
      request.send(form);
    });
    const next = () => {
      while (running < AT_ONCE && waiting.length) {
        running += 1;
        send(waiting.shift()).then(() => { running -= 1; refresh(); tally(); next(); });
      }
      tally();
    };
    // Only how files are sent depends on this; what is a document, the service says.
    const MARKS = ["%PDF-", "\x89PNG", "\xff\xd8\xff", "GIF8", "II*\0", "MM\0*", "II+\0", "MM\0+"];
    const looksRight = async (file) => {
      try {
        const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 1024).arrayBuffer()));
        return MARKS.some((mark) => head.startsWith(mark)) || head.includes("%PDF-") || (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP");
      } catch {
        return false;
      }
    };
    const grouped = async (files) => {
      let group = null, size = 0;
      const known = await Promise.all(files.map(({ file }) => looksRight(file)));
      for (const [n, each] of files.entries()) {
        if (!known[n]) { put({ files: [each] }); continue; }
        if (!group || group.length >= MOST || size + each.file.size > TOGETHER) { group = []; size = 0; put({ files: group }); }
        group.push(each);
        size += each.file.size;
      }
      next();
    };
    const take = (files) => {
      document.getElementById("uploads-box").hidden = false;
      const fit = [];
      for (const file of files) {
        const row = rowOf(file), largest = Number(drop.dataset.largest);
        if (file.size > largest) refuse({ row }, `The file has ${sizeOf(file.size)}; at most ${sizeOf(largest)} are taken.`);
        else if (!file.size) refuse({ row }, "The file is empty, or a folder.");
        else { state(row, "", "waiting"); left += 1; bytes += file.size; fit.push({ file, row }); }
      }
      tally();
      grouped(fit);
    };
    const input = document.getElementById("files");
    input.addEventListener("change", () => { take([...input.files]); input.value = ""; });
    document.getElementById("uploads-clear").addEventListener("click", () => {
      for (const row of list.querySelectorAll(".done, .wrong-file")) row.remove();
      good = bad = 0;
      seen.hidden = true;
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
    window.addEventListener("beforeunload", (event) => { if (left) event.preventDefault(); });
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

  // The queue: the slider says what it would approve.
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
  // Each time claims one: nobody gets two by pressing twice.
  let leaving = false;
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "next-form" || document.getElementById("review")) return;
    if (leaving) event.preventDefault();
    leaving = true;
  });
  window.addEventListener("pageshow", () => { leaving = false; });
  document.addEventListener("keydown", (event) => {
    // On the queue's page `n` is the next review for those who review, and nothing for others: no new job.
    if (!again || event.key !== "n" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches?.("input:not([type=range]), textarea, select") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) document.querySelector(".next-button")?.click();
  }, true);
})();

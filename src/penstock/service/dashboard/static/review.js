// The review page: fields by keyboard, the claim that lasts while somebody is at work, and decisions that lose nothing.
(() => {
  "use strict";

  const root = document.getElementById("review"), form = document.getElementById("decide");
  if (!root || !form) return;
  const { item, document: documentId, csrf } = root.dataset;
  const decides = Boolean(form.querySelector(".decide-bar"));
  const fields = [...form.querySelectorAll(".rfield")];
  const COLUMNS = ["item", "quantity", "unit_price", "total"];
  const DRAFT = `penstock-review-${item}`;

  const send = (method, path, body) => fetch(path, {
    method,
    headers: { "X-CSRF-Token": csrf, Accept: "application/json", ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body && JSON.stringify(body),
  });
  const why = async (answer) => {
    let told = null;
    try { told = await answer.json(); } catch { /* no answer of ours */ }
    const words = told && (told.detail || told.title);
    return typeof words === "string" ? words : `The service refused it (${answer.status}).`;
  };
  const problem = document.getElementById("review-problem");
  const tell = (words) => {
    problem.textContent = words;
    problem.hidden = !words;
    if (words) problem.scrollIntoView({ block: "nearest" });
  };

  // What is typed, against what counts now.
  const inputOf = (field) => field.querySelector(".rfield-input");
  const linesOf = (key) => [...document.querySelectorAll("#line-rows .line-row")]
    .map((row) => Object.fromEntries([...row.querySelectorAll("input")].map((input, n) => [COLUMNS[n], input[key].trim()])))
    .filter((line) => Object.values(line).some(Boolean));
  const lines = () => linesOf("value");
  const linesWere = linesOf("defaultValue");
  const same = (some, others) => JSON.stringify(some) === JSON.stringify(others);
  const changeOf = (field) => {
    if (field.dataset.field === "line_items") { const now = lines(); return same(now, linesWere) ? undefined : now; }
    const input = inputOf(field), now = input.value.trim();
    return now === input.dataset.was ? undefined : now;
  };
  const corrections = () => {
    const told = {};
    for (const field of fields) { const change = changeOf(field); if (change !== undefined) told[field.dataset.field] = change; }
    return told;
  };
  const many = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;
  const showState = () => {
    let changed = 0, seen = 0;
    for (const field of fields) {
      const differs = changeOf(field) !== undefined;
      field.classList.toggle("changed", differs);
      changed += differs;
      seen += field.classList.contains("accepted") || differs;
    }
    const said = document.getElementById("decide-said");
    if (said) said.textContent = `${changed ? `${many(changed, "correction")}, ` : ""}${seen} of ${fields.length} looked at`;
    form.querySelector(".decide-bar [value=approve]")?.classList.toggle("primary", !changed);
    form.querySelector(".decide-bar [value=correct]")?.classList.toggle("primary", Boolean(changed));
    try {
      if (changed) sessionStorage.setItem(DRAFT, JSON.stringify(corrections())); else sessionStorage.removeItem(DRAFT);
    } catch { /* storage is switched off */ }
  };

  // Lines.
  const addLine = (values = {}) => {
    const template = document.getElementById("line-template");
    if (!template) return null;
    const rows = document.getElementById("line-rows"), n = rows.childElementCount;
    const row = template.content.firstElementChild.cloneNode(true);
    for (const [at, input] of [...row.querySelectorAll("input")].entries()) {
      input.name = `line.${n}.${COLUMNS[at]}`;
      input.setAttribute("aria-label", input.getAttribute("aria-label").replace("line N", `line ${n + 1}`));
      input.value = values[COLUMNS[at]] || "";
    }
    row.querySelector("button").setAttribute("aria-label", `Remove line ${n + 1}`);
    rows.append(row);
    form.elements.lines.value = n + 1;
    return row;
  };
  const setLines = (told) => {
    document.getElementById("line-rows").replaceChildren();
    for (const line of told) addLine(line);
  };

  // What was typed before the page was loaded again is there again.
  const restore = () => {
    let draft = null;
    try { draft = JSON.parse(sessionStorage.getItem(DRAFT)); } catch { /* storage is switched off */ }
    if (!draft || !decides) return;
    for (const field of fields) {
      const value = draft[field.dataset.field];
      if (Array.isArray(value)) setLines(value);
      else if (typeof value === "string") inputOf(field).value = value;
    }
  };

  // The claim: made with the first thing somebody does, renewed by what they do, told by the second.
  const RENEW = 60000;
  let held = root.dataset.state === "mine", until = held ? Date.now() + Number(root.dataset.left) * 1000 : 0;
  let claimedAt = held ? until - Number(root.dataset.holds) * 1000 : 0, claiming = null;
  const claimSaid = document.getElementById("claim-said"), claimLeft = document.getElementById("claim-left");
  const claim = () => {
    claiming ||= (async () => {
      try {
        const answer = await send("POST", `/api/queue/${item}/claim`);
        if (!answer.ok) { held = false; tell(await why(answer)); return false; }
      } catch {
        tell("The service does not answer. What you typed is still here.");
        return false;
      } finally {
        claiming = null;
      }
      claimedAt = Date.now();
      until = claimedAt + Number(root.dataset.holds) * 1000;
      if (!held) claimed();
      held = true;
      countdown();
      return true;
    })();
    return claiming;
  };
  const claimed = () => {
    document.getElementById("claim-form")?.remove();
    document.getElementById("release-form")?.removeAttribute("hidden");
    const pill = root.querySelector(".review-line .pill");
    pill.className = "pill s-waiting";
    pill.lastChild.textContent = "in review";
  };
  const countdown = () => {
    if (!held || !claimLeft) return;
    const left = Math.max(0, Math.round((until - Date.now()) / 1000));
    claimSaid.classList.toggle("on", left > 0);
    claimSaid.classList.toggle("soon", left > 0 && left < 300);
    if (!left) { held = false; claimLeft.textContent = "your claim has lapsed"; return; }
    const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    claimLeft.textContent = left < 300 ? `yours for ${clock}` : `yours for ${Math.round(left / 60)} min`;
  };
  const active = () => { if (decides && (!held || Date.now() - claimedAt > RENEW)) claim(); };

  // Deciding.
  let deciding = false;
  const decide = async (action) => {
    if (deciding || !decides) return;
    const changed = corrections(), count = Object.keys(changed).length;
    if (action === "approve" && count) { tell(`There ${count === 1 ? "is" : "are"} ${many(count, "correction")}: submit with s, or undo with Escape.`); return; }
    if (action === "correct" && !count) { tell("Nothing is corrected: approve with a, or change a value first."); return; }
    const reason = document.getElementById("reason").value.trim();
    if (action === "reject" && !reason) { openReject(); return; }
    deciding = true;
    root.classList.add("deciding");
    try {
      if (!held && !await claim()) return;
      const answer = await send("PUT", `/api/queue/${item}/submit`, {
        action, ...(action === "correct" ? { corrections: changed } : {}), ...(reason ? { reason } : {}),
      });
      if (!answer.ok) {
        if (action === "reject") document.getElementById("reject").hidePopover();
        tell(await why(answer));
        return;
      }
      try { sessionStorage.removeItem(DRAFT); } catch { /* storage is switched off */ }
      next(item);
    } catch {
      tell("The service does not answer: nothing was decided, or nobody knows yet. What you typed is still here.");
    } finally {
      deciding = false;
      root.classList.remove("deciding");
    }
  };
  const next = (done = "") => {
    const going = document.getElementById("next-form");
    if (!going) return;
    going.elements.done.value = done;
    going.submit();
  };
  const unlock = async (name) => {
    try {
      const answer = await send("POST", `/api/documents/${documentId}/fields/${name}/unlock`);
      if (answer.ok) location.reload(); else tell(await why(answer));
    } catch {
      tell("The service does not answer.");
    }
  };
  const openReject = () => {
    const box = document.getElementById("reject");
    if (!box.matches(":popover-open")) box.showPopover();
    document.getElementById("reason").focus();
  };

  // The field that is looked at: its box is shown on the page.
  let at = -1;
  const go = (to, focus = true) => {
    if (!fields.length) return;
    at = Math.min(Math.max(to, 0), fields.length - 1);
    for (const [n, field] of fields.entries()) field.classList.toggle("on", n === at);
    const field = fields[at];
    if (focus) { field.focus({ preventScroll: true }); field.scrollIntoView({ block: "nearest" }); }
    window.penstockSheet?.point(field.dataset.field);
  };
  const edit = (select = true) => {
    const field = fields[at], input = inputOf(field) || field.querySelector(".line-row input");
    if (!input || input.readOnly) return;
    input.focus();
    if (select) input.select();
  };
  const accept = () => {
    const field = fields[at];
    if (!field || !decides) return;
    field.classList.add("accepted");
    field.querySelector("[data-accept]")?.setAttribute("aria-pressed", "true");
    active();
    showState();
    if (at === fields.length - 1) field.focus({ preventScroll: true }); else go(at + 1);
  };
  const undo = () => {
    const field = fields[at];
    if (!field) return;
    if (field.dataset.field === "line_items") { if (decides && changeOf(field)) setLines(linesWere); } else inputOf(field).value = inputOf(field).dataset.was;
    field.classList.remove("accepted");
    field.querySelector("[data-accept]")?.setAttribute("aria-pressed", "false");
    field.focus({ preventScroll: true });
    showState();
  };

  const COMMANDS = {
    j: () => go(at + 1), ArrowDown: () => go(at + 1), k: () => go(at - 1), ArrowUp: () => go(at - 1),
    e: () => edit(), Escape: undo, Enter: accept,
    a: () => decide("approve"), s: () => decide("correct"), r: () => { if (decides) openReject(); },
    n: () => next(), c: () => { if (decides) claim(); },
    u: () => { const button = fields[at]?.querySelector("[data-unlock]"); if (button) unlock(button.dataset.unlock); },
    "+": () => window.penstockSheet?.zoom(1), "=": () => window.penstockSheet?.zoom(1), "-": () => window.penstockSheet?.zoom(-1),
    "?": () => document.getElementById("review-help").showModal(),
  };
  let leader = 0;
  const inLines = (event) => {
    const cell = event.target.closest(".line-row td"), row = event.target.closest(".line-row");
    const beside = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
    beside?.children[[...row.children].indexOf(cell)]?.querySelector("input")?.select();
    beside?.children[[...row.children].indexOf(cell)]?.querySelector("input")?.focus();
  };
  const whileTyping = (event) => {
    const field = event.target.closest(".rfield");
    if (!field) return false;
    at = fields.indexOf(field);
    const arrow = event.key === "ArrowDown" || event.key === "ArrowUp";
    if (arrow && event.target.closest(".line-row")) inLines(event);
    else if (event.key === "ArrowDown") go(at + 1);
    else if (event.key === "ArrowUp") go(at - 1);
    else if (event.key === "Enter") accept();
    else if (event.key === "Escape") undo();
    else return false;
    return true;
  };
  const onKey = (event) => {
    if (event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey) {
      if (event.key === "Enter" && event.target.closest("#reject")) { event.preventDefault(); decide("reject"); }
      return;
    }
    if (event.target.matches("input, textarea, select")) {
      if (whileTyping(event)) { event.preventDefault(); event.stopPropagation(); }
      return;
    }
    // `g` and a letter still lead to places.
    if (leader) { clearTimeout(leader); leader = 0; return; }
    if (event.key === "g") { leader = setTimeout(() => { leader = 0; }, 1200); return; }
    if (document.querySelector("#reject:popover-open")) return;
    const pressed = event.target.closest("button, a, summary");
    if (pressed && (event.key === "Enter" || event.key === " ")) return;
    const does = COMMANDS[event.key];
    if (does) { event.preventDefault(); event.stopPropagation(); does(); return; }
    // Anything else that is written begins a correction.
    if (/^[0-9A-Z.,(]$/.test(event.key) && at >= 0 && decides) { edit(); event.stopPropagation(); }
  };

  document.addEventListener("keydown", onKey, true);
  form.addEventListener("input", () => { tell(""); active(); showState(); });
  form.addEventListener("focusin", (event) => {
    const field = event.target.closest(".rfield");
    if (field && fields.indexOf(field) !== at) go(fields.indexOf(field), false);
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("button"), field = event.target.closest(".rfield");
    if (field) go(fields.indexOf(field), false);
    if (!button) return;
    if (button.matches("[data-accept]")) accept();
    else if (button.matches("[data-unlock]")) unlock(button.dataset.unlock);
    else if (button.id === "add-line") { addLine()?.querySelector("input").focus(); showState(); }
    else if (button.matches("[data-drop-line]")) { button.closest(".line-row").remove(); active(); showState(); }
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); decide(event.submitter?.value || "correct"); });
  document.getElementById("next-form")?.addEventListener("submit", (event) => { event.preventDefault(); next(); });
  document.getElementById("claim-form")?.addEventListener("submit", (event) => { event.preventDefault(); claim(); });
  document.getElementById("review-keys").addEventListener("click", () => document.getElementById("review-help").showModal());
  document.addEventListener("penstock:field", (event) => go(fields.findIndex((field) => field.dataset.field === event.detail)));
  for (const hidden of form.querySelectorAll("#add-line, [data-unlock]")) hidden.hidden = false;
  setInterval(countdown, 1000);

  restore();
  showState();
  countdown();
  go(0, false);
  fields[0]?.focus({ preventScroll: true });
})();

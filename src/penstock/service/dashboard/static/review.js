// The review page: fields by keyboard, the claim that lasts while somebody is at work, and decisions that lose nothing.
(() => {
  "use strict";

  const root = document.getElementById("review"), form = document.getElementById("decide");
  if (!root || !form) return;
  const { item, document: documentId, csrf } = root.dataset;
  let decides = Boolean(root.dataset.decides);
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
  // Who is told that they cannot decide may be typing, and looks at the keys: those that do something rest until a
  // moment has passed without any.
  const REST = 1500;
  let restsUntil = 0;
  const rest = () => { restsUntil = Date.now() + REST; };
  const refuse = (words) => { tell(words); rest(); };
  const whose = () => {
    const { may, state, owner, status } = root.dataset;
    if (state === "decided") return `It was ${status}${owner ? ` by ${owner}` : ""}${may ? ": choose “Decide anew” to decide once more." : "."}`;
    if (!may) return "You may look at it; deciding needs the scope review.";
    const way = document.getElementById("release-form") ? "Release it first." : "Wait until it is released.";
    return `This is ${owner}'s: ${status === "in review" ? "in review by" : "assigned to"} ${owner}. ${way}`;
  };
  const mayDecide = () => { if (!decides) refuse(whose()); return decides; };

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
    // Of what is somebody else's for now, what was typed here is kept until it can be submitted.
    if (!decides) return;
    try {
      if (changed) sessionStorage.setItem(DRAFT, JSON.stringify(corrections())); else sessionStorage.removeItem(DRAFT);
    } catch { /* storage is switched off */ }
  };

  // What a field cannot be is said at the field: when it is left, and when a decision is refused for it.
  const blame = (field, words) => {
    field.classList.toggle("wrong", Boolean(words));
    const said = field.querySelector(".rfield-wrong");
    said.textContent = words;
    said.hidden = !words;
    if (words) { field.classList.remove("accepted"); field.querySelector("[data-accept]")?.setAttribute("aria-pressed", "false"); }
    if (words) inputOf(field)?.setAttribute("aria-invalid", "true"); else inputOf(field)?.removeAttribute("aria-invalid");
  };
  const check = async (field) => {
    const change = changeOf(field);
    if (change === undefined || !decides) { blame(field, ""); return; }
    const told = new URLSearchParams({ field: field.dataset.field, value: typeof change === "string" ? change : JSON.stringify(change) });
    try {
      const answer = await fetch("/ui/review/check", { method: "POST", headers: { "X-CSRF-Token": csrf, Accept: "application/json" }, body: told });
      if (answer.ok && same(changeOf(field), change)) blame(field, (await answer.json()).problem);
    } catch { /* the decision will say that nobody answers */ }
  };
  const blameFor = (words) => {
    const [names, ...why] = words.split(": "), told = names.split(", ");
    const found = fields.filter((field) => told.includes(field.dataset.field));
    if (found.length !== told.length || !why.length) return;
    for (const field of found) blame(field, why.join(": "));
    go(fields.indexOf(found[0]));
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
  const claimSaid = () => document.getElementById("claim-said"), claimLeft = () => document.getElementById("claim-left");
  const claim = () => {
    claiming ||= (async () => {
      try {
        const answer = await send("POST", `/api/queue/${item}/claim`);
        if (!answer.ok) { held = false; await refusedBy(answer); return false; }
      } catch {
        tell("The service does not answer. What you typed is still here.");
        return false;
      } finally {
        claiming = null;
      }
      claimedAt = Date.now();
      until = claimedAt + Number(root.dataset.holds) * 1000;
      const fresh = !held;
      held = true;
      if (fresh) { claimed(); tell(""); }
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
    Object.assign(root.dataset, { state: "mine", status: "in review" });
  };
  const countdown = () => {
    if (!held || !claimLeft()) return;
    const left = Math.max(0, Math.round((until - Date.now()) / 1000));
    claimSaid().classList.toggle("on", left > 0);
    claimSaid().classList.toggle("soon", left > 0 && left < 300);
    if (!left) { held = false; claimLeft().textContent = "your claim has lapsed"; return; }
    const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    claimLeft().textContent = left < 300 ? `yours for ${clock}` : `yours for ${Math.round(left / 60)} min`;
  };
  const active = () => { if (decides && (!held || Date.now() - claimedAt > RENEW)) claim(); };

  // What others do meanwhile: the page is looked at again, and what changes about whose it is, is shown. What was typed
  // stays where it is.
  const typing = () => Boolean(Object.keys(corrections()).length || document.querySelector("dialog[open], #reject:popover-open"));
  const show = (fresh) => {
    const before = root.dataset.state, could = decides;
    for (const name of ["state", "status", "owner", "may", "decides", "left", "holds"]) root.dataset[name] = fresh.dataset[name];
    decides = Boolean(root.dataset.decides);
    held = root.dataset.state === "mine";
    until = held ? Date.now() + Number(root.dataset.left) * 1000 : 0;
    claimedAt = held ? until - Number(root.dataset.holds) * 1000 : 0;
    for (const id of ["review-head", "review-decided", ...(could === decides ? [] : ["decide-end"])]) {
      document.getElementById(id).replaceWith(document.adoptNode(fresh.querySelector(`#${id}`)));
    }
    for (const input of form.querySelectorAll(".rfields input")) input.readOnly = !decides;
    for (const button of form.querySelectorAll("[data-accept], [data-drop-line], #add-line")) button.hidden = !decides;
    if (decides && !could) { tell(""); restsUntil = 0; restore(); } else if (!decides && (could || before !== root.dataset.state)) refuse(whose());
    showState();
    countdown();
  };
  const valuesOf = (page) => [...page.querySelectorAll(".rfield-input")].map((input) => input.dataset.was);
  let looking = null;
  const look = () => {
    looking ||= (async () => {
      try {
        const answer = await fetch(location.href, { headers: { "Penstock-Refresh": "true" }, cache: "no-store" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("review");
        if (leaving) return;
        if (answer.status === 404) { decides = false; refuse("This document is not there any more: somebody deleted it."); return; }
        if (!fresh) return;
        if (!same(valuesOf(fresh), valuesOf(root)) && !typing()) { location.reload(); return; }
        if (["state", "status", "owner", "decides"].some((name) => fresh.dataset[name] !== root.dataset[name])) show(fresh);
      } catch { /* the service does not answer now: it is asked again */ } finally { looking = null; }
    })();
    return looking;
  };
  const refusedBy = async (answer) => {
    const words = await why(answer);
    tell(words);
    if (answer.status !== 409) { blameFor(words); return; }
    rest();
    await look();
    // Theirs, in words of this page; else those of the service, which know better.
    if (!decides) refuse(whose());
  };

  // Deciding.
  let deciding = false, leaving = false;
  const decide = async (action) => {
    if (deciding || leaving || !mayDecide()) return;
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
        await refusedBy(answer);
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
    // Each time claims one: nobody gets two by pressing twice.
    if (!going || leaving) return;
    leaving = true;
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
    if (!mayDecide()) return;
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
    if (!mayDecide() || !input) return;
    input.focus();
    if (select) input.select();
  };
  const accept = () => {
    const field = fields[at];
    if (!field || !mayDecide()) return;
    field.classList.add("accepted");
    field.querySelector("[data-accept]")?.setAttribute("aria-pressed", "true");
    active();
    showState();
    if (at === fields.length - 1) field.focus({ preventScroll: true }); else go(at + 1);
  };
  const undo = () => {
    const field = fields[at];
    if (!field) return;
    if (!decides) { field.focus({ preventScroll: true }); return; }
    blame(field, "");
    if (field.dataset.field === "line_items") { if (decides && changeOf(field)) setLines(linesWere); } else inputOf(field).value = inputOf(field).dataset.was;
    field.classList.remove("accepted");
    field.querySelector("[data-accept]")?.setAttribute("aria-pressed", "false");
    field.focus({ preventScroll: true });
    showState();
  };

  const COMMANDS = {
    j: () => go(at + 1), ArrowDown: () => go(at + 1), k: () => go(at - 1), ArrowUp: () => go(at - 1),
    e: () => edit(), Escape: undo, Enter: accept,
    a: () => decide("approve"), s: () => decide("correct"), r: () => openReject(),
    n: () => next(), c: () => { if (mayDecide()) claim(); },
    u: () => { const button = fields[at]?.querySelector("[data-unlock]"); if (button) unlock(button.dataset.unlock); },
    "+": () => window.penstockSheet?.zoom(1), "=": () => window.penstockSheet?.zoom(1), "-": () => window.penstockSheet?.zoom(-1),
  };
  const HARMLESS = ["j", "k", "e", "+", "=", "-", "?"];
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
    if (event.target.id === "reason" && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      event.stopPropagation();
      if (!event.repeat) decide("reject");
      return;
    }
    if (event.ctrlKey) return;
    if (event.target.matches("input, textarea, select")) {
      if (whileTyping(event)) { event.preventDefault(); event.stopPropagation(); }
      return;
    }
    if (Date.now() < restsUntil && event.key.length === 1 && !HARMLESS.includes(event.key)) {
      rest();
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    // `g` and a letter still lead to places.
    if (leader) { clearTimeout(leader); leader = 0; return; }
    if (event.key === "g") { leader = setTimeout(() => { leader = 0; }, 1200); return; }
    if (document.querySelector("#reject:popover-open")) return;
    const pressed = event.target.closest("button, a, summary");
    if (pressed && (event.key === "Enter" || event.key === " ")) return;
    const does = COMMANDS[event.key];
    // A key that is held down goes on through the fields, and does nothing else again and again.
    if (does) { event.preventDefault(); event.stopPropagation(); if (!event.repeat || /^(j|k|Arrow.*|[-+=])$/.test(event.key)) does(); return; }
    // Anything else that is written begins a correction.
    if (/^[0-9A-Z.,(]$/.test(event.key) && at >= 0) { edit(); event.stopPropagation(); if (!decides) event.preventDefault(); }
  };

  document.addEventListener("keydown", onKey, true);
  form.addEventListener("input", (event) => {
    const field = event.target.closest(".rfield");
    if (field) blame(field, "");
    if (Date.now() > restsUntil) tell("");
    active();
    showState();
  });
  form.addEventListener("focusout", (event) => {
    const field = event.target.matches("input") && event.target.closest(".rfield");
    if (field && !(field.dataset.field === "line_items" && field.contains(event.relatedTarget))) check(field);
  });
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
  root.addEventListener("submit", (event) => {
    const does = { "next-form": () => next(), "claim-form": claim }[event.target.id];
    if (does) { event.preventDefault(); does(); }
  });
  root.addEventListener("click", (event) => { if (event.target.closest("#review-keys")) document.getElementById("help").showModal(); });
  document.addEventListener("penstock:field", (event) => go(fields.findIndex((field) => field.dataset.field === event.detail)));
  for (const hidden of form.querySelectorAll(decides ? "#add-line, [data-unlock]" : "[data-unlock]")) hidden.hidden = false;
  setInterval(countdown, 1000);
  setInterval(() => { if (!document.hidden && !deciding) look(); }, Number(root.dataset.look) * 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  window.addEventListener("focus", look);
  // A page that comes back out of the browser's memory is as old as when it was left.
  window.addEventListener("pageshow", (event) => { if (event.persisted) { leaving = false; look(); } });

  restore();
  showState();
  countdown();
  go(0, false);
  fields[0]?.focus({ preventScroll: true });
})();

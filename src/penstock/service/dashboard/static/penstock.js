// What htmx does not do: the theme, live updates, times that tick, keys, copying, and asking before something is lost.
(() => {
  "use strict";

  // The theme is set before anything is painted: this script is not deferred.
  const THEMES = ["auto", "light", "dark"];
  const root = document.documentElement;
  let theme = "auto";
  try { theme = localStorage.getItem("penstock-theme") || "auto"; } catch { /* storage is switched off */ }
  if (!THEMES.includes(theme)) theme = "auto";
  const showTheme = () => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (!button) return;
    const icon = { auto: "auto", light: "sun", dark: "moon" }[theme];
    button.querySelector("use").setAttribute("href", `${button.dataset.icons}#${icon}`);
    button.title = `Theme: ${theme}`;
    button.setAttribute("aria-label", button.title);
  };
  const nextTheme = () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try { localStorage.setItem("penstock-theme", theme); } catch { /* storage is switched off */ }
    showTheme();
  };
  showTheme();

  // Times. The server's clock counts, so that a browser whose clock is wrong shows no job from the future.
  let skew = 0, lost = 0;
  const takeClock = (told) => { if (told) skew = Number(told) * 1000 - Date.now(); };
  const now = () => Date.now() + skew;
  const length = (seconds) => {
    const s = Math.max(seconds, 0);
    if (s >= 86400) return `${Math.round(s / 86400)} d`;
    if (s >= 3600) return `${Math.round(s / 3600)} h`;
    if (s >= 60) return `${Math.round(s / 60)} min`;
    return s < 1 ? `${Math.round(s * 1000)} ms` : `${Math.round(s)} s`;
  };
  const since = (moment) => {
    const s = (now() - moment) / 1000;
    if (Math.abs(s) < 1) return "now";
    return s > 0 ? `${length(s)} ago` : `in ${length(-s)}`;
  };
  const write = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
  const second = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  const tick = () => {
    for (const element of document.querySelectorAll("time.since, time.lasting")) {
      // Nobody knows whether it still lasts.
      if (lost && element.classList.contains("lasting")) continue;
      const moment = Date.parse(element.dateTime);
      write(element, element.classList.contains("since") ? since(moment) : length((now() - moment) / 1000));
      if (!element.title) element.title = full.format(moment);
    }
  };
  const localTimes = (within) => {
    for (const element of within.querySelectorAll("time.at")) {
      const moment = Date.parse(element.dateTime);
      const date = new Date(moment);
      const today = date.toDateString() === new Date().toDateString();
      write(element, today ? second.format(date) : `${day.format(date)} ${second.format(date)}`);
      element.title = full.format(date);
    }
    for (const text of within.querySelectorAll("text[data-at]")) {
      const span = Number(text.dataset.span), step = Number(text.dataset.step);
      if (span < 60) continue;
      const date = new Date(Number(text.dataset.at) * 1000);
      const ofDay = step >= 86400 || (span > 86400 && !date.getHours() && !date.getMinutes());
      write(text, (ofDay ? day : step >= 60 ? minute : second).format(date));
    }
  };

  // Live: a stream that says "something changed", whereupon the page fetches its live part again. A hidden page has no
  // stream (a browser has only a handful for a host) and fetches nothing; without a stream the page asks by itself.
  const POLL = 10000, SETTLE = 4000;
  let stream = null, feed = "", poll = 0, settle = 0, later = 0, last = 0, waiting = false, news = 0;
  const pulse = (state, words) => {
    const element = document.getElementById("pulse");
    if (!element) return;
    if (element.dataset.state !== state) element.dataset.state = state;
    write(document.getElementById("pulse-text"), words);
  };
  // The service does not answer: the page says so, and since when, until it does again.
  const outOfReach = () => {
    lost ||= Date.now();
    pulse("lost", "not connected");
    const stale = document.getElementById("stale");
    if (!stale || !stale.hidden) return;
    stale.textContent = `Not connected since ${second.format(lost)}: this page shows what was known then.`;
    stale.hidden = false;
  };
  const withinReach = () => {
    if (!lost) return;
    lost = 0;
    document.getElementById("stale")?.setAttribute("hidden", "");
    if (stream?.readyState !== 1) pulse("polling", "every 10 s");
  };
  // A stream may break though the service answers, as where a proxy allows none.
  const probe = async () => {
    try {
      await fetch("/health/live", { cache: "no-store" });
    } catch {
      if (stream?.readyState !== 1) outOfReach();
      return;
    }
    if (stream?.readyState === 1) return;
    const was = lost;
    withinReach();
    pulse("polling", "every 10 s");
    if (was) { refresh(); listen(); }
  };
  const live = () => document.getElementById("live");
  // While somebody selects text, answers a dialog or fills a field, nothing is swapped under their hands.
  const busy = () => {
    const selected = getSelection();
    return Boolean(document.querySelector("dialog[open]"))
      || (!selected.isCollapsed && live().contains(selected.anchorNode))
      || Boolean(document.activeElement?.matches("#live input:not([type=checkbox], [type=range]), #live select"));
  };
  const refresh = () => {
    const part = live();
    if (!part || !window.htmx) return;
    if (document.hidden) { waiting = true; return; }
    if (busy()) { waiting = true; if (stream?.readyState === 1) pulse("polling", "held"); return; }
    if (waiting && stream?.readyState === 1) pulse("live", "live");
    const early = last + Number(part.dataset.every || 1000) - Date.now();
    if (early > 0) { later ||= setTimeout(() => { later = 0; refresh(); }, early); return; }
    waiting = false;
    last = Date.now();
    window.htmx.trigger(part, "penstock:changed", {});
  };
  // What changes without any job changing, such as the age of a heartbeat, is looked at after so many seconds.
  const loaded = Date.now();
  const lookAgain = () => {
    const after = live()?.querySelector("[data-again]")?.dataset.again;
    if (after && Date.now() - Math.max(last, loaded) >= Number(after) * 1000) refresh();
  };
  const changed = () => {
    pulse("news", "live");
    refresh();
    clearTimeout(settle);
    settle = setTimeout(refresh, SETTLE);
    clearTimeout(news);
    news = setTimeout(() => { if (stream?.readyState === 1 && !waiting) pulse("live", "live"); }, 600);
  };
  const listen = () => {
    const wanted = live()?.dataset.feed || "";
    if (stream && wanted === feed && stream.readyState !== 2) return;
    hush();
    feed = wanted;
    if (!wanted || document.hidden) { pulse("off", "not live"); return; }
    stream = new EventSource(wanted);
    stream.addEventListener("open", (event) => {
      const was = lost;
      withinReach();
      pulse("live", "live");
      if (was && !event.data) refresh();
    });
    // Only then: a stream that opens and breaks off again and again tells nothing, and the page goes on asking.
    stream.addEventListener("changed", () => { clearInterval(poll); poll = 0; changed(); });
    stream.addEventListener("error", () => {
      if (stream?.readyState === 1) return;
      probe();
      if (!poll) poll = setInterval(() => { if (lost) probe(); else refresh(); if (stream?.readyState === 2) listen(); }, POLL);
    });
  };
  const hush = () => { stream?.close(); stream = null; clearInterval(poll); poll = 0; };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { hush(); waiting = true; } else { refresh(); listen(); }
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) { refresh(); listen(); } });
  window.addEventListener("pagehide", hush);

  // What stays as the reader left it when the live part is swapped: open folds. Boxes and fields htmx keeps itself.
  const keepFolds = () => window.htmx?.registerExtension("penstock", {
    htmx_before_morph_attr: (element, detail) => !(detail.attrName === "open" && element.tagName === "DETAILS"),
  });

  const afterSwap = () => {
    takeClock(live()?.dataset.now);
    localTimes(document);
    tick();
    chosen();
    toasts();
    listen();
  };

  // Boxes: one for all, and how many are chosen.
  const boxes = () => [...document.querySelectorAll('.pick input[name="id"]')];
  const chosen = () => {
    const all = boxes(), on = all.filter((box) => box.checked).length;
    for (const text of document.querySelectorAll("[data-chosen]")) write(text, `${on} chosen`);
    const master = document.querySelector("[data-all]");
    if (master) { master.checked = on > 0 && on === all.length; master.indeterminate = on > 0 && on < all.length; }
  };

  const toasts = () => {
    for (const toast of document.querySelectorAll("#said .toast:not([data-seen])")) {
      toast.dataset.seen = "";
      if (toast.classList.contains("done")) setTimeout(() => toast.remove(), 6000);
    }
  };

  // A request that no service answers, or that a newer one replaced, swaps nothing. Who pressed a button is told.
  const fetched = (ctx) => async (url, options) => {
    try {
      const answer = await fetch(url, options);
      withinReach();
      return answer;
    } catch (error) {
      if (error.name !== "AbortError") {
        outOfReach();
        if (ctx.request.method !== "GET") sayUnreachable();
      }
      return new Response(null, { status: 204 });
    }
  };
  const sayUnreachable = () => {
    const toast = document.createElement("div"), words = document.createElement("p");
    toast.className = "toast refused";
    words.textContent = "The service does not answer: nothing was changed, or nobody knows yet. Look again when it does.";
    toast.append(words);
    document.getElementById("said").append(toast);
    setTimeout(() => toast.remove(), 12000);
  };

  // Asking first.
  const ask = (words, does) => new Promise((resolve) => {
    const dialog = document.getElementById("confirm");
    document.getElementById("confirm-text").textContent = words;
    document.getElementById("confirm-yes").textContent = does || "Yes";
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });

  const copy = async (button) => {
    const text = button.dataset.copy ?? button.closest(".code-box").querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1200);
  };

  // A strip of cells, each a page: the name of the one under the pointer, and the way to it. Its list has them as links.
  const pageAt = (event) => {
    const stretch = event.target.closest?.("[data-strip] rect[data-first]");
    if (!stretch) return null;
    const box = stretch.getBoundingClientRect(), { first, count } = stretch.dataset;
    const within = Math.floor((event.clientX - box.left) / box.width * count);
    const name = String(Number(first) + Math.min(Math.max(within, 0), count - 1)).padStart(first.length, "0");
    return { stretch, name };
  };
  document.addEventListener("pointermove", (event) => {
    const found = pageAt(event), title = found?.stretch.querySelector("title");
    if (title) write(title, `page ${found.name}: ${title.textContent.split(": ").pop()}`);
  });
  document.addEventListener("click", (event) => {
    const found = pageAt(event);
    if (found) location.href = found.stretch.closest("[data-strip]").dataset.strip + found.name;
  });

  // Keys: `g` and a letter go somewhere, `j` and `k` walk the rows.
  let leader = 0;
  const step = (by) => {
    const links = [...document.querySelectorAll("main .row .row-link")].filter((link) => link.offsetParent);
    if (!links.length) return;
    const at = links.findIndex((link) => link.closest(".row").contains(document.activeElement));
    const next = links[Math.min(Math.max(at + by, 0), links.length - 1)];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (typing) { if (event.key === "Escape") event.target.blur(); return; }
    if (leader) {
      clearTimeout(leader); leader = 0;
      const place = event.key.length === 1 && document.querySelector(`#nav a[data-key="${CSS.escape(event.key)}"]`);
      if (place) { event.preventDefault(); location.href = place.href; }
      return;
    }
    const does = {
      g: () => { leader = setTimeout(() => { leader = 0; }, 1200); },
      // A page with a search box of its own has it first.
      "/": () => (document.querySelector("[data-find]") ?? document.getElementById("find"))?.focus(),
      "?": () => document.getElementById("help")?.showModal(),
      j: () => step(1),
      k: () => step(-1),
      t: nextTheme,
      n: () => { if (root.dataset.new) location.href = root.dataset.new; },
      x: () => {
        const box = document.activeElement?.closest(".row")?.querySelector(".pick input");
        if (box) { box.checked = !box.checked; chosen(); }
      },
    }[event.key];
    if (does) { event.preventDefault(); does(); }
  };

  document.addEventListener("click", async (event) => {
    const target = event.target.closest("button, [data-close]");
    if (!target) return;
    if (target.id === "theme") nextTheme();
    else if (target.id === "help-button") document.getElementById("help").showModal();
    else if (target.matches("[data-copy], [data-copy-box]")) copy(target);
    else if (target.matches("[data-close]")) target.closest(".toast").remove();
    else if (target.dataset.ask && !target.dataset.sure) {
      event.preventDefault();
      event.stopPropagation();
      if (!await ask(target.dataset.ask, target.textContent.trim())) return;
      target.dataset.sure = "yes";
      target.form.requestSubmit(target);
      delete target.dataset.sure;
    }
  }, true);
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches(".pick input")) chosen();
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });
  document.addEventListener("keydown", onKey);
  // What another script of ours knows to have changed.
  document.addEventListener("penstock:refresh", refresh);
  document.addEventListener("focusout", () => setTimeout(() => { if (waiting && !document.hidden) refresh(); }, 50));
  document.addEventListener("selectionchange", () => { if (waiting && !document.hidden && getSelection().isCollapsed) refresh(); });
  document.addEventListener("close", () => { if (waiting) refresh(); }, true);
  document.addEventListener("htmx:confirm", (event) => {
    event.preventDefault();
    const { ctx, issueRequest, dropRequest } = event.detail;
    ask(ctx.confirm, ctx.sourceElement.dataset.does).then((sure) => (sure ? issueRequest() : dropRequest()));
  });
  document.addEventListener("htmx:config:request", (event) => {
    const { ctx } = event.detail;
    ctx.fetch = fetched(ctx);
    // A page that fetches itself again must not take what is said to who pressed a button at the same moment.
    if (ctx.sourceElement?.id === "live") ctx.request.headers["Penstock-Refresh"] = "true";
  });
  document.addEventListener("htmx:after:swap", afterSwap);

  document.addEventListener("DOMContentLoaded", () => {
    showTheme();
    takeClock(root.dataset.now);
    keepFolds();
    afterSwap();
    setInterval(() => { if (!document.hidden) { tick(); lookAgain(); } }, 1000);
  });
})();

"""The sample site as a website: every page with a header, navigation and footer around its article, a sitemap and a
robots.txt. Rendered from the files as they are, so that a page that is changed changes here too."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import escape

from penstock.pipelines.ingestion.samples.sites import PRODUCT, Site, SitePage, url_path

PRIVATE = "/private/"
"""Where robots.txt lets nobody in. A page there is linked from every footer."""

_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\(([^)\s]+)\)", re.DOTALL)
_ITEM = re.compile(r"(?:-|\d+\.) +")


def render_html(site: Site, *, base: str = "http://localhost") -> dict[str, bytes]:
    """What is at which path. `base` is the address under which it is served; the sitemap has it."""
    pages = {page.url_path: _page(site, page).encode() for page in site.pages}
    told = "".join(f"<url><loc>{escape(base + path)}</loc></url>" for path in pages)
    sitemap = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{told}</urlset>\n'
    )
    robots = f"User-agent: *\nDisallow: {PRIVATE}\nSitemap: {base}/sitemap.xml\n"
    drafts = _shell(site, "Drafts", "<h1>Drafts</h1><p>Nobody who obeys robots.txt reads this.</p>")
    return {
        **pages,
        f"{PRIVATE}drafts/": drafts.encode(),
        "/sitemap.xml": sitemap.encode(),
        "/robots.txt": robots.encode(),
    }


def _page(site: Site, page: SitePage) -> str:
    text = (site.folder / page.path).read_text("utf-8")
    return _shell(site, page.title, _article(_FRONT.sub("", text, count=1), page.path), page.url_path)


def _shell(site: Site, title: str, article: str, here: str = "") -> str:
    links = "".join(
        f'<li><a href="{page.url_path}"{" aria-current=page" if page.url_path == here else ""}>{escape(page.title)}</a>'
        for page in site.pages
    )
    canonical = f'<link rel="canonical" href="{here}">' if here else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(title)} | {PRODUCT}</title>{canonical}
<style>body {{ font-family: sans-serif }} nav {{ float: left }}</style></head>
<body>
<header><a href="/">{PRODUCT}</a> <form><input type="search" placeholder="Search the docs"></form></header>
<nav aria-label="Pages"><ul>{links}</ul></nav>
<main><article>
{article}
</article></main>
<footer><p>© The {PRODUCT} authors. All rights reserved. <a href="{PRIVATE}drafts/">Drafts</a></p></footer>
<script>document.body.dataset.ready = "yes"</script>
</body>
</html>
"""


def _article(text: str, path: str) -> str:
    return "\n".join(_blocks(text.split("\n"), path))


def _blocks(lines: list[str], path: str) -> Iterator[str]:
    """As much Markdown as the sample pages have."""
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if line.startswith("```"):
            while not lines[end].startswith("```"):
                end += 1
            yield f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}\n</code></pre>"
            at = end + 1
            continue
        while line and end < len(lines) and lines[end] and not lines[end].startswith("```"):
            end += 1
        block = lines[at:end]
        at = end
        if not line:
            continue
        if line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            yield f"<h{level}>{_inline(line.lstrip('# '), path)}</h{level}>"
        elif line.startswith("|"):
            yield _table(block, path)
        elif line.startswith("> "):
            quoted = " ".join(each.removeprefix("> ") for each in block)
            yield f"<blockquote><p>{_inline(quoted, path)}</p></blockquote>"
        elif _ITEM.match(line):
            yield _list(block, path)
        else:
            yield f"<p>{_inline(' '.join(block), path)}</p>"


def _table(block: list[str], path: str) -> str:
    rows = [[_inline(cell.strip(), path) for cell in row.strip("|").split("|")] for row in block]
    head = "".join(f"<th>{cell}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[2:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _list(block: list[str], path: str) -> str:
    items: list[str] = []
    for line in block:
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        else:
            items[-1] += f" {line.strip()}"
    kind = "ol" if block[0][0].isdigit() else "ul"
    return f"<{kind}>" + "".join(f"<li>{_inline(item, path)}</li>" for item in items) + f"</{kind}>"


def _inline(text: str, path: str) -> str:
    out, at = "", 0
    for found in _INLINE.finditer(text):
        out += escape(text[at : found.start()], quote=False)
        code, bold, words, target = found.groups()
        if code is not None:
            out += f"<code>{escape(code, quote=False)}</code>"
        elif bold is not None:
            out += f"<strong>{escape(bold, quote=False)}</strong>"
        else:
            place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            out += f'<a href="{escape(url_path(place))}">{escape(words, quote=False)}</a>'
        at = found.end()
    return out + escape(text[at:], quote=False)

"""How many pages the call at hand has processed. Functions that run in the pool call `page_done` for each; outside a
pool it counts nothing, so the same function can be called directly."""

from __future__ import annotations

from penstock.remote.pool.errors import TooManyPages

_most: int | None = None
_done = 0


def page_done(pages: int = 1) -> None:
    """Count `pages` more; `TooManyPages` past the limit. Call it before the work on a page, not after."""
    global _done
    _done += pages
    check_pages()


def pages_left() -> int | None:
    """How many more there may be; None: no limit."""
    return None if _most is None else max(_most - _done, 0)


def begin_pages(most: int | None) -> None:
    global _most, _done
    _most, _done = most, 0


def check_pages() -> None:
    """Asked once more when a function returns: one that swallowed the exception is not let off."""
    if _most is not None and _done > _most:
        raise TooManyPages(f"more than the {_most} pages this call may process")

"""The pipeline as programs use it: `penstock.documents`. That it works is shown by `examples/documents.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Penstock
from penstock.config import Settings
from penstock.documents import PIPELINE, add_files, documents
from penstock.paper.unreadable import Unreadable


@pytest.mark.anyio
async def test_all_files_are_taken_in_or_none_and_nothing_is_left_of_those(tmp_path: Path) -> None:
    good = tmp_path / "good.pdf"
    good.write_bytes(b"%PDF-1.4 not looked at before its job runs")
    settings = Settings(home=tmp_path / "home")
    app = Penstock(workflows=PIPELINE)
    await app.open(store=f"sqlite:///{tmp_path}/penstock.db", settings=settings)
    try:
        with pytest.raises(Unreadable, match=r"missing\.pdf cannot be read"):
            await add_files(app, [good, tmp_path / "missing.pdf"], settings=settings)
        assert await documents(app.engine) == []
        assert [path for path in (app.engine.home / "documents").rglob("*") if path.is_file()] == []
        added = await add_files(app, [good, str(good)], settings=settings)
        assert added.batch_id is not None
        assert [found.filename for found in await documents(app.engine)] == ["good.pdf", "good.pdf"]
    finally:
        await app.close()

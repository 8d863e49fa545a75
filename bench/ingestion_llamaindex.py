"""`python -m bench.ingestion_llamaindex CORPUS HOME TOKENIZER WARM`, in LlamaIndex's own interpreter: the same folder
through an IngestionPipeline into LanceDB, with docstore and cache, which are persisted at the end, as its documentation
has it for runs that begin again. Prints what each of two runs took as a line of JSON.

`four-bytes` counts tokens as the others do; `own` is the tokenizer that it takes when it is told of none.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llama_index.core import SimpleDirectoryReader
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.vector_stores.lancedb import LanceDBVectorStore

from bench.ingestion_wordllama import AT_ONCE, vectors
from bench.pages_memory import peak_megabytes

SIZE, OVERLAP = 800, 150
BYTES_A_TOKEN = 4


class WordLlama(BaseEmbedding):
    """The embedder that everybody has here."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found: list[list[float]] = vectors(texts).tolist()
        return found

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def four_bytes(text: str) -> range:
    return range(len(text.encode()) // BYTES_A_TOKEN)


def pipeline(home: Path, tokenizer: str) -> IngestionPipeline:
    counting = {"tokenizer": four_bytes} if tokenizer == "four-bytes" else {}
    kept = home / "pipeline"
    mode = "append" if kept.exists() else "create"
    made = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP, **counting),
            WordLlama(embed_batch_size=AT_ONCE, model_name="wordllama"),
        ],
        docstore=SimpleDocumentStore(),
        vector_store=LanceDBVectorStore(uri=str(home / "lance"), table_name="chunks", mode=mode),
        cache=IngestionCache(),
    )
    if kept.exists():
        made.load(str(kept))
    return made


def run(corpus: Path, home: Path, tokenizer: str) -> dict[str, Any]:
    before, began = os.times(), time.perf_counter()
    documents = SimpleDirectoryReader(
        str(corpus), recursive=True, required_exts=[".md"], filename_as_id=True
    ).load_data()
    loaded = time.perf_counter()
    made = pipeline(home, tokenizer)
    nodes = made.run(documents=documents)
    ran = time.perf_counter()
    made.persist(str(home / "pipeline"))
    done, after = time.perf_counter(), os.times()
    return {
        "seconds": done - began,
        "cpu": after.user + after.system - before.user - before.system,
        "chunks": len(nodes),
        "phases": {"load": loaded - began, "run": ran - loaded, "persist": done - ran},
        "megabytes": peak_megabytes(),
        "version": version("llama-index-core"),
    }


def main(corpus: Path, home: Path, tokenizer: str, beforehand: Path) -> list[dict[str, Any]]:
    # It warns for each document that readers of other formats are not installed.
    logging.disable(logging.WARNING)
    run(beforehand, home / "warm", tokenizer)
    return [run(corpus, home, tokenizer) for _ in range(2)]


if __name__ == "__main__":
    source, place, counted, small = sys.argv[1:]
    print(json.dumps(main(Path(source).resolve(), Path(place).resolve(), counted, Path(small).resolve())))

"""`python -m bench.ingestion_llamaindex CORPUS HOME STORE TOKENIZER`, in LlamaIndex's own interpreter: the same folder
through an IngestionPipeline with docstore and cache, which are persisted at the end, as its documentation has it for
runs that begin again. The store is LanceDB, or its own vector store in JSON. Prints what each of two runs took as a
line of JSON.

`four-bytes` counts tokens as the others do; `own` is the tokenizer it takes when it is told of none.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from llama_index.core import SimpleDirectoryReader
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from bench.ingestion_wordllama import AT_ONCE, vectors
from bench.pages_memory import peak_megabytes

SIZE, OVERLAP = 800, 150
BYTES_A_TOKEN = 4

CORPUS, HOME, STORE, TOKENIZER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4]


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


def vector_store() -> Any:
    if STORE == "json":
        kept = HOME / "vectors.json"
        return SimpleVectorStore.from_persist_path(str(kept)) if kept.exists() else SimpleVectorStore()
    from llama_index.vector_stores.lancedb import LanceDBVectorStore

    exists = (HOME / "lance" / "chunks.lance").exists()
    return LanceDBVectorStore(
        uri=str(HOME / "lance"), table_name="chunks", mode="append" if exists else "create"
    )


def pipeline() -> IngestionPipeline:
    counting = {"tokenizer": four_bytes} if TOKENIZER == "four-bytes" else {}
    made = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP, **counting),
            WordLlama(embed_batch_size=AT_ONCE, model_name="wordllama"),
        ],
        docstore=SimpleDocumentStore(),
        vector_store=vector_store(),
        cache=IngestionCache(),
    )
    if (HOME / "pipeline").exists():
        made.load(str(HOME / "pipeline"))
    return made


def run() -> dict[str, Any]:
    before, began = os.times(), time.perf_counter()
    documents = SimpleDirectoryReader(
        str(CORPUS), recursive=True, required_exts=[".md"], filename_as_id=True
    ).load_data()
    loaded = time.perf_counter()
    made = pipeline()
    nodes = made.run(documents=documents)
    ran = time.perf_counter()
    made.persist(str(HOME / "pipeline"))
    if STORE == "json":
        made.vector_store.persist(str(HOME / "vectors.json"))
    done, after = time.perf_counter(), os.times()
    return {
        "seconds": done - began,
        "cpu": after.user + after.system - before.user - before.system,
        "chunks": len(nodes),
        "phases": {"load": loaded - began, "run": ran - loaded, "persist": done - ran},
        "megabytes": peak_megabytes(),
    }


if __name__ == "__main__":
    vectors(["warm"])
    print(json.dumps([run() for _ in range(2)]))

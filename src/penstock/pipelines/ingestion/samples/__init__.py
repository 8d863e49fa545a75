"""Things to ingest, made up for trying out: a documentation site as Markdown and as a website, PDFs, and as many files
as a measurement needs; with questions whose answers are known."""

from penstock.pipelines.ingestion.samples.corpora import make_corpus
from penstock.pipelines.ingestion.samples.pdfs import PdfQuestion, SamplePdf, make_pdfs
from penstock.pipelines.ingestion.samples.sites import Question, Site, SitePage, make_site
from penstock.pipelines.ingestion.samples.websites import render_html

__all__ = [
    "PdfQuestion",
    "Question",
    "SamplePdf",
    "Site",
    "SitePage",
    "make_corpus",
    "make_pdfs",
    "make_site",
    "render_html",
]

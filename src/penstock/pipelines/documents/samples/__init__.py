"""Invoices made up for trying out: text, e-invoices, scans and files that must be refused, and what is true of each."""

from penstock.pipelines.documents.samples.making import TRUTH, bulk, make_samples, read_truth
from penstock.pipelines.documents.samples.sampling import KINDS, LANGUAGES, Kind, Sample, sample

__all__ = ["KINDS", "LANGUAGES", "TRUTH", "Kind", "Sample", "bulk", "make_samples", "read_truth", "sample"]

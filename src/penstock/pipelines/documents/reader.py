"""Answers for the local Gemini when the data of an invoice are asked for: by the page's words, its layout and rules,
without a model. What the rules cannot tell is null; nothing is answered that is not printed on the document."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt
from penstock.gemini_local.readers import Documents, Page, Reader, attachments, paged
from penstock.pipelines.documents.prompt import AskedInvoice
from penstock.pipelines.documents.reader_currency import currency
from penstock.pipelines.documents.reader_fields import dates_of, invoice_number
from penstock.pipelines.documents.reader_labels import labels
from penstock.pipelines.documents.reader_layout import sheet
from penstock.pipelines.documents.reader_money import labelled, totals
from penstock.pipelines.documents.reader_table import headers, line_items, plain
from penstock.pipelines.documents.reader_values import decimal_mark
from penstock.pipelines.documents.reader_vendor import vendor


async def read_invoice(prompt: Prompt, documents: Documents) -> Answer:
    parts = attachments(prompt)
    if not parts or not all(paged(part) for part in parts):
        raise CannotAnswer("An invoice is read from its pages: send a PDF, or an image of each page.")
    pages = [page for part in parts for page in await documents.pages(part)]
    found = await asyncio.to_thread(invoice_on, pages)
    return Answer(found.model_dump_json())


def invoice_on(pages: Sequence[Page]) -> AskedInvoice:
    """What the rules make of a document, in the forms that the answer asks for."""
    whole = sheet(pages)
    found = tuple(labels(whole))
    mark = decimal_mark(whole.text)
    heads = headers(whole)
    money = labelled(whole, found, heads, mark)
    sums = totals(whole, money, heads, found)
    issued, due = dates_of(whole, found)
    return AskedInvoice(
        vendor=vendor(whole, found, heads),
        invoice_number=invoice_number(whole, found),
        date=issued.isoformat() if issued else None,
        due_date=due.isoformat() if due else None,
        subtotal=None if sums.subtotal is None else plain(sums.subtotal),
        tax_rate=None if sums.tax_rate is None else plain(sums.tax_rate),
        tax_amount=None if sums.tax_amount is None else plain(sums.tax_amount),
        total=None if sums.total is None else plain(sums.total),
        currency=currency(whole, found, mark),
        line_items=line_items(whole, heads, mark),
    )


READERS = (Reader("invoice", read_invoice, schemas=(AskedInvoice.model_json_schema(),)),)

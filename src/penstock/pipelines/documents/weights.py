"""How much each check counts: what a check that speaks for a value leaves of the doubt in it, and the bound that one
that speaks against it sets. Held against invoices with truth by `python -m bench.documents_calibration`."""

from __future__ import annotations

from datetime import date

FOUND = 0.45
"""What is left of the doubt once the value stands on the page."""
FOUND_NEARLY = 0.75
"""The same where letters or the sign differ."""
OCR_WEIGHT = 2.0
"""How much of OCR's own doubt in a word comes back."""
LABELLED = 0.3
"""What a label of the field leaves of the doubt."""
LABELLED_MAYBE = 0.5
"""The same for a label that may also announce something else."""
TITLED = 0.4
"""The same for a number right behind the word “invoice”."""
SUM_EXACT = 0.12
"""What a sum that is right to the cent leaves."""
SUM_SAME = 0.6
"""The same for a sum of one value only: a total that is its subtotal."""
SHOWN_TWICE = 0.7
"""What a second place leaves."""
ONLY_ONE = 0.7
"""The same for the only value of its kind."""

NOT_ON_PAGE = 0.45
WORKED_OUT = 0.60
"""Not on the page, but its sums are right."""
OTHER_LABEL = 0.50
"""The value stands on the page only as something else."""
RIVAL = 0.60
"""A label of the field has another value beside it, and this one has none."""
RIVALS = 0.80
"""Several values stand beside labels of the field, and this is one of them."""
SUM_OFF = 0.55
SUM_OFF_AND_EXACT = 0.85
"""One sum is wrong, another one right."""
WRONG_ORDER = 0.65
UNUSUAL = 0.85
AMBIGUOUS = 0.85
GUESSED_CURRENCY = 0.70
SCANNED_ONCE = 0.88
"""A scanned value that nothing repeats: OCR is sure of many a wrong letter."""
SCANNED_WELL = 0.93
"""From this certainty of OCR on, days and amounts are believed that far without being repeated."""

IN_E_INVOICE = 0.99
IN_E_INVOICE_ALONE = 0.95
"""Of an e-invoice's value that its page does not show."""
CONTRADICTED = 0.30
MISSING_BUT_SHOWN = 0.40
"""Of a field without a value although the page has one beside its label."""

FIRST_DAY = date(1990, 1, 1)
LAST_DAY = date(2100, 1, 1)
LONGEST_TERM = 400
"""Days between an invoice and its due date that are usual at most."""

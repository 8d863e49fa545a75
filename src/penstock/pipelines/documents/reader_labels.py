"""The words that say what stands beside or below them, in English, German, French and Dutch. A longer label wins over
a shorter one inside it: `Total tax` is no total, `Invoice due date` no invoice date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from penstock.paper.page import Box
from penstock.pipelines.documents.reader_layout import Cell, Sheet

Kind = Literal[
    "number", "title", "date", "due_date", "other_date", "total", "due", "net", "tax", "rate", "paid", "before",
    "other_amount", "rounding", "tendered", "change", "seller", "buyer", "other", "currency",
    "item", "quantity", "unit_price", "line_total",
]  # fmt: skip

_NO = r"(?:\s?(?:no|nr|num|number|nummer|numéro|numero|n[°ºo]|nunber|nurnber|#)\b[.:]?|\s?#|\s?n[°º])"
_VAT = r"(?:vat|tax(?:es)?|gst|sst|hst|ust|mwst|umsatzsteuer|mehrwertsteuer|tva|btw|steuer(?:n)?|taxes?)\.?"
_EXCL = rf"(?:excl(?:uding|uded|usive|usief|\.)?|ex\.?|exkl\.?|ohne|hors|without|before|zonder)\s?(?:of\s)?{_VAT}"
_INCL = rf"(?:incl(?:uding|usive|usief|\.)?|inc[il]?\.?|inkl\.?|einschl\.?|mit|with)\s?(?:of\s)?(?:\d+\s?%\s?)?{_VAT}"

_LABELS: tuple[tuple[Kind, int, str], ...] = (
    # The number of the document.
    ("number", 6, rf"(?:tax\s)?invoice:?{_NO}(?:\s?{_NO})?|invoice\s(?:id|reference|ref)\b"),
    ("number", 6, r"rechnungs?\s?-?\s?(?:nr|nummer|no|num)\b\.?|\w*rechnung\s?(?:\(\w+\)\s?)?(?:nr|nummer|no)\b\.?|\w*rechnung\s?#"),
    ("number", 6, r"(?:gutschrift|beleg|storno)s?\s?-?\s?(?:nr|nummer)\b\.?"),
    ("number", 6, rf"facture\s?{_NO}|(?:num[ée]ro|n[°ºo]\.?)\s(?:de\s)?(?:la\s)?(?:facture|avoir)\b(?!\sassoci)|avoir\s?{_NO}"),
    ("number", 6, r"factuur\s?-?\s?(?:nummer|nr)\b\.?"),
    ("number", 5, rf"credit\s(?:note|memo){_NO}|(?:cash\s)?(?:bill|memo){_NO}"),
    ("number", 4, rf"receipt{_NO}(?:\s?{_NO})?|(?:document|doc|slip|ticket)\s?{_NO}|(?:inv|rcpt|trx|in){_NO}"),
    ("title", 2, r"(?:tax\s|sales\s|commercial\s|proforma\s)?invoice\b:?|(?:handels|schluss|teil|abschlags)?rechnung\b:?(?!s)"),
    ("title", 2, r"facture\b:?|factuur\b:?|avoir\b:?|credit\s(?:note|memo)\b:?|gutschrift\b:?|receipt\b:?|creditnota\b:?"),
    # Numbers that are not the document's own.
    ("other", 3, rf"(?:order|po|p\.o\.|purchase\sorder|customer|client|account|acct|vat|tax|gst|delivery|job|reg|register|"
                 rf"registration|co|company|table|terminal|phone|tel|fax|item|article|art|reference|ref|member|batch|"
                 rf"auth|approval|policy|claim|contract|project|vendor|supplier|staff|shop|store|check|cheque)\.?\s?"
                 rf"(?:id\s?)?{_NO}|(?:customer|client|order|vat|tax|gst|account|member)\sid\b|your\sorder\b"),
    ("other", 3, r"(?:kunden|auftrags?|bestell|liefer(?:schein)?|steuer|konto|vertrags?|artikel|projekt|mandats|angebots?|"
                 r"handelsregister|identifikations|debitoren|personal|lieferanten|positions?)\s?-?\s?(?:nr|nummer|no|referenz)\b\.?"
                 r"|u?ust\.?\s?-?\s?id(?:ent)?\.?\s?-?\s?(?:nr\.?|nummer)?|ust-?idnr\.?|kundennr\.?|ihre?\szeichen|bestellung\b"),
    ("other", 3, r"n[°ºo]\.?\s(?:de\s)?(?:client|commande|tva|contrat|bon|siret|facture\sassoci[ée]e)\b[\w\s]*?(?=:|$|\s\S*\d)|"
                 r"(?:votre\s)?r[ée]f[ée]rence\b|n[°ºo]\s(?:tva|siret)|siren|siret\b|num[ée]ro\sde\s(?:client|commande|tva)"),
    ("other", 1, r"[^\W\d_]{2,}-?\s?(?:nr|nummer)\b\.?"),
    ("other", 3, r"(?:klant|order|bestel|debiteur)\s?-?\s?(?:nummer|nr)\b\.?|kvk\b|btw[\s-]?(?:nr|nummer|id)\b"),
    # Dates.
    ("date", 6, r"(?:invoice|bill|billing|issue|receipt|document|statement|inv)\s?date\b|date\s(?:of\s(?:issue|invoice)|issued)|"
                r"issued?\s(?:on|at|date)\b|inv\sdt\b"),
    ("date", 6, r"rechnungs-?\s?datum|ausstellungs-?datum|beleg-?datum|datum\sder\srechnung|gutschriftsdatum"),
    ("date", 6, r"date\s(?:de\s)?(?:la\s)?(?:facture|facturation|l['’]avoir)\b(?!\sassoci)|date\sd['’]\s?[ée]mission|factuurdatum"),
    ("date", 4, r"date\b|datum\b|dated\b"),
    ("due_date", 6, r"(?:invoice\s|payment\s)?due\s(?:date|on|by)\b|(?:payment|payable|remit|pay)\s(?:is\s)?(?:due|until|by|before)\b|"
                    r"date\sdue\b|due(?=:\s?\d)"),
    ("due_date", 6, r"f[äa]llig(?:keit(?:sdatum)?)?\b(?:\s(?:am|bis|zum))?|zahlbar\s?(?:netto\s)?(?:bis|am|innerhalb)\b(?:[^\d]*\d+\stagen?\s(?:netto\s)?bis\b)?|"
                    r"zahlungsziel|zu\szahlen\sbis|(?:überweisen|zahlen)\sSie[^\d]{0,40}bis(?:\szum)?|zahlung\sbis"),
    ("due_date", 6, r"(?:date\s(?:d['’]\s?[ée]ch[ée]ance|limite)|[ée]ch[ée]ance|[àa]\spayer\savant(?:\sle)?|verval-?datum|te\sbetalen\svoor|payable\savant)\b"),
    ("other_date", 6, r"(?:order|ship(?:ping|ment|ped)?|delivery|service|training|start|end|print(?:ed)?|period|expiry|visit|check|paid|payment)"
                      r"\s(?:date|period)\b|date\sof\s(?:delivery|service|order|supply|shipment)|billing\speriod"),
    ("other_date", 6, r"(?:liefer|leistungs?|bestell|auftrags|versand|buchungs|druck|eingangs)-?(?:\sund\sleistungs)?-?\s?(?:datum|zeitraum|termin)|"
                      r"(?:liefer-\sund\s)?leistungsdatum|abrechnungszeitraum|zeitraum"),
    ("other_date", 3, r"[^\W\d_]{2,}-datum(?:-\w+)?\b"),
    ("other_date", 6, r"(?:bestellung|auftrag|lieferung|angebot|lieferschein|order|commande|devis|bestelling|fahrt|taxifahrt)\s(?:vom|of|du|dated|van)\b"),
    ("other_date", 6, r"date\s(?:de\s)?(?:la\s)?(?:livraison|commande|paiement|d[ée]but|fin|prestation|facture\sassoci[ée]e|valeur)[\w\s]*?(?=:|\d|$)|"
                      r"date\s(?:d[ée]but|fin)|p[ée]riode\b|(?:order|lever|bestel)datum"),
    # Amounts.
    ("total", 7, rf"(?:grand|invoice|final)\stotal\b|total\s(?:for\s(?:this|the)\sinvoice|(?:sales?\s)?(?:amount\s|amt\s|sales\s)?[\[(]?\s?{_INCL})[^\d]{{0,12}}?\)?|"
                 r"total\s(?:amt\s|amount\s)?(?:rounded|payable)\b|rounded\stotal\b|total\samt\spayable\b|total\s(?:invoice\s)?(?:amount|value)\b"),
    ("total", 7, rf"(?:rechnungs|brutto|gesamt|end)-?(?:summe|betrag)(?:\s\w+)?\s?\(?(?:brutto|{_INCL})\)?|brutto-?(?:summe|betrag)|"
                 r"(?:rechnungs|end|gesamt|auszahlungs|gutschrifts?)-?(?:endbetrag|betrag|summe)\b|gesamt\s?(?:brutto|preis\sbrutto)|rechnungssumme\sbrutto(?:\s\([^)]*\))?"),
    ("total", 7, r"(?:montant\s)?(?:total\s)?t\.?t\.?c\.?(?!\w)|total\s(?:de\sla\sfacture|g[ée]n[ée]ral)|montant\stotal\b(?!\sh)|"
                 rf"totaal(?:bedrag)?\s(?:{_INCL}|te\sbetalen)|eindtotaal|factuurbedrag"),
    ("total", 5, r"total\b|totaal\b|summe\b|gesamt\b|tota\b"),
    ("total", 3, r"net(?:t)?\s?(?:amt|total|amount)\b|charges\b|total\ssales\b|totaalbedrag"),
    ("due", 6, r"(?:total\s)?(?:amount|balance|total)\s(?:now\s)?(?:due|owing|outstanding|to\spay)\b|(?:due|amount)\spayable|balance\b(?=\s?:?\s?[$€£])|"
               r"amount\sto\s(?:be\spaid|pay)|please\spay\b"),
    ("due", 6, r"zahlbetrag|zahlungsbetrag|zu\szahlen(?:der\sbetrag)?(?!\sbis)|offener\sbetrag|restbetrag|fälliger\sbetrag|zahllast|noch\szu\szahlen"),
    ("due", 6, r"(?:net|solde|reste|montant|somme)\s[àa]\s(?:payer|r[ée]gler|devoir)|montant\sdû|te\sbetalen(?:\sbedrag)?(?!\svoor)|openstaand(?:\sbedrag)?"),
    ("net", 6, rf"(?:total|amount|price|montant|prix)\s(?:amount\s|sales\s|amt\s)?[\[(]?\s?{_EXCL}\)?|total\s(?:net\s)?h\.?\s?t\.?(?!\w)|montant\sh\.?t\.?(?!\w)|"
               r"total\snet(?:\sht)?\b|base\sh\.?t\.?(?!\w)|taxable\s(?:amount|value)|nett?\sof\stax"),
    ("net", 6, rf"(?:rechnungs)?summe\s(?:netto|{_EXCL})(?:\s\([^)]*\))?|netto-?(?:summe|betrag|gesamt|rechnungsbetrag)|rechnungssumme\s(?:netto|{_EXCL})(?:\s\([^)]*\))?|"
               rf"gesamt\s?-?netto|gesamtsumme\snetto|summe\snetto|(?:{_EXCL})|betrag\snetto|warenwert\snetto"),
    ("net", 5, r"sub\s?-?s?\s?tota[l:]?\b|sous[\s-]?total(?:\sht)?|zwischensumme|positionssumme|subtotaal|subs?total(?:\s\w+)?\sless\sdiscount|less\sdiscount"),
    ("net", 4, r"net\s(?:total|amount|amt|value|price)\b|gross\sam(?:oun)?t\b"),
    ("tax", 6, rf"(?:total|summe|gesamt)\s?{_VAT}(?!\w)(?!\s?(?:id|invoice|no\b|reg|summary|code))|{_VAT}\s?-?\s?(?:total|gesamt|betrag|bedrag|amount)\b|steuerbetrag|montant\s(?:de\sla\s)?tva|(?:sales|service)\stax"),
    ("tax", 4, rf"(?:zzgl\.?|plus|add|\+|davon|including|enthaltene|incl\.?)?\s?\b{_VAT}(?![\w-])(?!\s?(?:-?\s?id\b|invoice|no\b|n[°º]|nr|reg|summary|code|\#|ident|analysis|exempt|on\b))"),
    ("rate", 6, rf"(?:tax|vat|gst|ust\.?|mwst\.?|steuer)-?\s?(?:rate|satz)\b|taux(?:\s(?:de\s)?tva)?|btw-?\s?tarief|(?:ust|mwst)\.?\s?(?:in\s)?%"),
    ("paid", 6, r"(?:amount|already|total|pre)-?\s?paid\b|payments?\s(?:received|made|credits?)\b|deposit\b|less\spayment|bereits\s(?:be|ge)zahlt|anzahlung(?:en)?|"
                r"gezahlter?\sbetrag|vorauszahlung(?:en)?|acompte|d[ée]j[àa]\s(?:pay[ée]|r[ée]gl[ée])|aanbetaling|voldaan|r[èe]glement\b"),
    ("before", 6, r"(?:previous|prior|opening|old|unpaid|outstanding)\s(?:unpaid\s)?balance|balance\s(?:brought\s)?forward|alter\ssaldo|solde\s(?:pr[ée]c[ée]dent|ant[ée]rieur)|vorsaldo"),
    ("other_amount", 6, r"discounts?\b|rabatt\b|nachlass|skonto|remise|korting|shipping\b|freight|versand(?:kosten)?|porto\b|frais\sde\s\w+|handling|credits\b|"
                        r"gesamtbetrag\sder\s\w+|service\scharge|serv\scharge|total\s(?:discount|saving|savings)|verzendkosten|zuschl[äa]ge|abschl[äa]ge|tip\b"),
    ("other_amount", 6, r"total\s(?:qty|quantity|items?|points?|pcs|pieces|hours|units|weight|due\sdate|number|no|savings?|balance)\b|accepted\stotal|total\sitem|"
                        r"total\stender(?:ed)?|sub\s?total\sof|page\stotal|(?:summe|gesamt)\s(?:menge|anzahl|gewicht)|total\sof\s\d"),
    ("rounding", 6, r"round\s?ing(?:\sadj\w*)?\b|rundung(?:sdifferenz)?|arrondi"),
    ("tendered", 6, r"(?:cash|tender(?:ed)?|visa|master(?:card)?|credit\scard|debit\scard|amount\stendered|paid\scash|bar|ec-?karte|esp[èe]ces)\b(?!\s(?:bill|sale|change|refund))"),
    ("change", 6, r"(?:cash\s)?change(?:\s(?:due|amt|amount))?\b|rückgeld|monnaie\srendue|wisselgeld"),
    # Who.
    ("seller", 6, r"(?:sold|issued|supplied|invoiced|provided)\sby\b|service\sprovider|(?:verk[äa]ufer|lieferant|rechnungs(?:er)?steller|leistungserbringer|aussteller|verkoper|leverancier)(?=\s?:|$)|"
                  r"(?:seller|vendor|supplier|merchant|biller|vendeur|fournisseur|[ée]metteur|prestataire)(?:\sname)?(?=\s?:|$)|from(?=\s?:|$)|von(?=\s?:)|de(?=\s?:)"),
    ("buyer", 6, r"(?:bill(?:ed|ing)?|ship(?:ped|ping)?|sold|deliver(?:ed|y)?|invoiced?|sent|charge|service|mail(?:ing)?|remit)\s?-?\s?(?:to|for|address)(?:\saddress)?\b|"
                 r"(?:customer|client|buyer|purchaser|attn|attention|recipient)(?:\s(?:name|address|information|details))?(?=\s?:|$)|to(?=\s?:)|insured\sname|adresse\sde\s(?:livraison|facturation)|"
                 r"adresse\sdu\sclient|factur[ée]\s[àa]|livr[ée]\s[àa]|destinataire|acheteur|(?:k[äa]ufer|kunde|empf[äa]nger|auftraggeber|leistungsempf[äa]nger|rechnungsempf[äa]nger)(?:/\w+)?(?=\s?:|$)|"
                 r"(?:liefer|rechnungs)-?(?:adresse|anschrift)|lieferung\san|rechnung\san|klant(?=\s?:|$)|factuuradres|afleveradres|contact\scommercial|kontoinhaber|account\sholder|abweichender\s\w+"),
    ("currency", 6, r"(?:invoice\s)?currency|(?:rechnungs|beleg)?w[äa]hrung|devise|monnaie\sde\sfacturation|valuta"),
    # Columns.
    ("item", 5, r"(?:item\s|product\s)?descriptions?\b|items?\b|products?\b|title\b|particulars|beschreibung|bezeichnung|produkt\b|artikel(?:bezeichnung)?\b|leistung\b|d[ée]signation|libell[ée]|"
                r"omschrijving|details\b|service\b|text\b|name\b|artikelbeschreibung|prestation"),
    ("quantity", 5, r"(?:qty|quantity|menge|anzahl|quantit[ée]|qt[ée]|aantal|hours|stk|st[üu]ck(?:zahl)?|units|hrs|stunden)(?:\s?/\s?\w+)?\b\.?|qty\.?"),
    ("unit_price", 5, r"(?:unit|einzel|vk|st[üu]ck|netto)\s?-?\s?(?:price|preis|cost)|prix(?:\sunitaire)?\b(?!\sh)|p\.?u\.?(?:\sht)?\b|u\.?\s?price|s/price|(?:unit\s)?price(?:\seach)?\b|preis\b(?!\sincl)|rate\b|e-?preis|"
                      r"prijs(?:\sper\sstuk)?\b(?!\sincl)|price/unit|cost\b|nettopreis|einzelpr\.?"),
    ("line_total", 5, r"(?:line|item)\stotal|amount\b|zeilenbetrag|positions?-?\s?betrag|gesamtpreis|betrag\b|montant(?:\sht)?\b|prix\sh\.?t\.?|prijs\sincl\.?\s?btw|bedrag\b|total\sh\.?t\.?|value\b|extended\b|amt\b"),
)  # fmt: skip

_BOUND = r"(?<!\w)(?<!\w-)"
_COMPILED = tuple((kind, strength, re.compile(_BOUND + f"(?:{pattern})", re.I)) for kind, strength, pattern in _LABELS)
_COLUMNS: frozenset[Kind] = frozenset({"item", "quantity", "unit_price", "line_total"})


@dataclass(frozen=True)
class Mention:
    """A label in a text, from `start` to `end`."""

    kind: Kind
    strength: int
    start: int
    end: int


@dataclass(frozen=True)
class Label:
    """A label on the page: the cell that holds it, and the text up to the next label in the same cell."""

    kind: Kind
    strength: int
    cell: Cell
    place: int
    start: int
    end: int
    rest: str
    box: Box


@lru_cache(maxsize=4096)
def mentions(text: str, *, columns: bool = False) -> tuple[Mention, ...]:
    """The labels in a text that do not overlap: of two that do, the longer one, then the stronger. Names of columns
    are common words, and are looked for only where a table may begin."""
    found = [
        Mention(kind, strength, *match.span())
        for kind, strength, pattern in _COMPILED
        if columns or kind not in _COLUMNS
        for match in pattern.finditer(text[:2000])
        if match[0].strip()
    ]
    found.sort(key=lambda one: (one.start - one.end, -one.strength))
    kept: list[Mention] = []
    for one in found:
        if not any(one.start < other.end and other.start < one.end for other in kept):
            kept.append(one)
    return tuple(sorted(kept, key=lambda one: one.start))


def labels(sheet: Sheet) -> Iterator[Label]:
    """Every label on the sheet, in reading order."""
    for row in sheet.rows:
        for place, cell in enumerate(row.cells):
            found = mentions(cell.text)
            for at, one in enumerate(found):
                until = found[at + 1].start if at + 1 < len(found) else len(cell.text)
                rest = cell.text[one.end : until]
                box = cell.part(one.start, one.end)
                yield Label(one.kind, one.strength, cell, place, one.start, one.end, rest, box)

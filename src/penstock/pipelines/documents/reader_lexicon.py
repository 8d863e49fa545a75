"""The words that say what stands beside or below them, in English, German, French and Dutch, each with what it names
and how strongly it says so. A label that holds another one wins over it, so that
`Total tax` is no total."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "number", "title", "date", "due_date", "other_date", "total", "due", "net", "tax", "rate", "paid", "before",
    "other_amount", "rounding", "tendered", "change", "seller", "buyer", "other", "currency",
    "item", "quantity", "unit_price", "line_total",
]  # fmt: skip

_NO = r"(?:\s?(?:no|nr|num|number|nummer|numéro|numero|n[°ºo]|nunber|nurnber|#)\b[.:]?|\s?#|\s?n[°º])"
_VAT = r"(?:vat|tax(?:es)?|gst|sst|hst|ust|mwst|umsatzsteuer|mehrwertsteuer|tva|btw|steuer(?:n)?|taxes?)\.?"
_EXCL = rf"(?:excl(?:uding|uded|usive|usief|\.)?|ex\.?|exkl\.?|ohne|hors|without|before|zonder)\s?(?:of\s)?{_VAT}"
_INCL = rf"(?:incl(?:uding|usive|usief|\.)?|inc[il]?\.?|inkl\.?|einschl\.?|mit|with)\s?(?:of\s)?(?:\d+\s?%\s?)?{_VAT}"

LABELS: tuple[tuple[Kind, int, str], ...] = (
    # The number of the document.
    ("number", 6, rf"(?:tax\s)?invoice:?{_NO}(?:\s?{_NO})?|invoice\s(?:id|reference|ref)\b"),
    (
        "number",
        6,
        r"rechnungs?\s?-?\s?(?:nr|nummer|no|num)\b\.?|\w*rechnung\s?(?:\(\w+\)\s?)?(?:nr|nummer|no)\b\.?|"
        r"\w*rechnung\s?#",
    ),
    ("number", 6, r"(?:gutschrift|beleg|storno)s?\s?-?\s?(?:nr|nummer)\b\.?"),
    (
        "number",
        6,
        rf"facture\s?{_NO}|(?:num[ée]ro|n[°ºo]\.?)\s(?:de\s)?(?:la\s)?(?:facture|avoir)\b(?!\sassoci)|"
        rf"avoir\s?{_NO}",
    ),
    (
        "number",
        7,
        r"(?:num[ée]ro|n[°º])\s?(?:d['’]avoir|de\sl['’]avoir)\b|(?:credit\s(?:note|memo)|gutschrift)s?-?\s?nummer",
    ),
    (
        "other",
        5,
        r"refers?\sto\s(?:our\s)?invoice(?:\s(?:no|number)\b\.?)?|(?:concerne|corrige|relati[fv]e?\s[àa])\s(?:la\s)?facture(?:\sn[°º])?|(?:original|corrected|related)\sinvoice"
        r"(?:\s(?:no|number)\b\.?)?|(?:zu|betrifft|korrigiert)\s(?:der\s)?rechnung(?:\s(?:nr|nummer)\b\.?)?|"
        r"(?:for|corrects|re)\sinvoice(?:\s(?:no|number)\b\.?)?|ursprungsrechnung|bezug\srechnung",
    ),
    ("number", 6, r"factuur\s?-?\s?(?:nummer|nr)\b\.?"),
    ("number", 4, r"(?:kassen)?bon-?\s?(?:nr|nummer)\b\.?"),
    ("number", 5, rf"credit\s(?:note|memo){_NO}|(?:cash\s)?(?:bill|memo){_NO}"),
    ("number", 4, rf"receipt{_NO}(?:\s?{_NO})?|(?:document|doc|slip|ticket)\s?{_NO}|(?:inv|rcpt|trx|in){_NO}"),
    (
        "title",
        2,
        r"(?:tax\s|sales\s|commercial\s|proforma\s)?invoice\b:?|(?:handels|schluss|teil|"
        r"abschlags)?rechnung\b:?(?!s)",
    ),
    (
        "title",
        2,
        r"facture\b:?|factuur\b:?|avoir\b:?|credit\s(?:note|memo)\b:?|gutschrift\b:?|receipt\b:?|"
        r"creditnota\b:?",
    ),
    # Numbers that are not the document's own.
    (
        "other",
        3,
        r"(?:order|po|p\.o\.|purchase\sorder|customer|client|account|acct|vat|tax|gst|delivery|job|reg|"
        r"register|"
        r"registration|co|company|table|terminal|phone|tel|fax|item|article|art|reference|ref|member|batch|"
        r"auth|approval|policy|claim|contract|project|vendor|supplier|staff|shop|store|check|cheque)\.?\s?"
        rf"(?:id\s?)?{_NO}|(?:customer|client|order|vat|tax|gst|account|member)\sid\b|your\sorder\b",
    ),
    (
        "other",
        3,
        r"(?:kunden|auftrags?|bestell|liefer(?:schein)?|steuer|konto|vertrags?|artikel|projekt|mandats|"
        r"angebots?|"
        r"handelsregister|identifikations|debitoren|personal|lieferanten|positions?)\s?-?\s?(?:nr|nummer|no|"
        r"referenz)\b\.?"
        r"|u?ust\.?\s?-?\s?id(?:ent)?\.?\s?-?\s?(?:nr\.?|nummer)?|ust-?idnr\.?|kundennr\.?|ihre?\szeichen|"
        r"bestellung\b",
    ),
    (
        "other",
        3,
        r"n[°ºo]\.?\s(?:de\s)?(?:client|commande|tva|contrat|bon|siret|facture\sassoci[ée]e)\b[\w\s]*?(?=:|$|"
        r"\s\S*\d)|"
        r"(?:votre\s)?r[ée]f[ée]rence\b|n[°ºo]\s(?:tva|siret)|siren|siret\b|num[ée]ro\sde\s(?:client|commande|"
        r"tva)",
    ),
    ("other", 1, r"[^\W\d_]{2,}-?\s?(?:nr|nummer)\b\.?"),
    ("other", 3, r"(?:klant|order|bestel|debiteur)\s?-?\s?(?:nummer|nr)\b\.?|kvk\b|btw[\s-]?(?:nr|nummer|id)\b"),
    # Dates.
    (
        "date",
        6,
        r"(?:invoice|bill|billing|issue|receipt|document|statement|inv)\s?date\b|date\s(?:of\s(?:issue|"
        r"invoice)|issued)|issued?\s(?:on|at|date)\b|inv\sdt\b",
    ),
    ("date", 6, r"rechnungs-?\s?datum|ausstellungs-?datum|beleg-?datum|datum\sder\srechnung|gutschriftsdatum"),
    (
        "date",
        6,
        r"date\s(?:de\s)?(?:la\s)?(?:facture|facturation|l['’]avoir)\b(?!\sassoci)|date\sd['’]\s?[ée]mission|"
        r"factuurdatum",
    ),
    ("date", 4, r"date\b|datum\b|dated\b"),
    (
        "due_date",
        6,
        r"(?:invoice\s|payment\s)?due\s(?:date|on|by)\b|(?:please\s)?(?:payment|payable|remit|pay)\s(?:is\s)?(?:due|until|"
        r"by|before)\b|date\sdue\b|due(?=:\s?\d)",
    ),
    (
        "due_date",
        6,
        r"f[äa]llig(?:keit(?:sdatum)?)?\b(?:\s(?:am|bis|zum))?|zahlbar\s?(?:netto\s)?(?:bis|am|"
        r"innerhalb)\b(?:[^\d]*\d+\stagen?\s(?:netto\s)?bis\b)?|"
        r"zahlungsziel|zu\szahlen\sbis|(?:überweisen|zahlen)\sSie[^\d]{0,40}bis(?:\szum)?|zahlung\sbis",
    ),
    (
        "due_date",
        6,
        r"(?:date\s(?:d['’]\s?[ée]ch[ée]ance|limite)|[ée]ch[ée]ance|[àa]\spayer\savant(?:\sle)?|verval-?datum|"
        r"te\sbetalen\svoor|payable\savant)\b",
    ),
    (
        "other_date",
        6,
        r"(?:order|ship(?:ping|ment|ped)?|delivery|service|training|start|end|print(?:ed)?|period|expiry|"
        r"visit|check|paid|payment)"
        r"\s(?:date|period)\b|date\sof\s(?:delivery|service|order|supply|shipment)|billing\speriod",
    ),
    (
        "other_date",
        6,
        r"(?:liefer|leistungs?|bestell|auftrags|versand|buchungs|druck|"
        r"eingangs)-?(?:\sund\sleistungs)?-?\s?(?:datum|zeitraum|termin)|"
        r"(?:liefer-\sund\s)?leistungsdatum|abrechnungszeitraum|zeitraum",
    ),
    ("other_date", 3, r"[^\W\d_]{2,}-datum(?:-\w+)?\b"),
    (
        "other_date",
        6,
        r"(?:bestellung|auftrag|lieferung|angebot|lieferschein|order|commande|devis|bestelling|fahrt|"
        r"taxifahrt)\s(?:vom|of|du|dated|van)\b",
    ),
    (
        "other_date",
        6,
        r"date\s(?:de\s)?(?:la\s)?(?:livraison|commande|paiement|d[ée]but|fin|prestation|facture\sassoci[ée]e|"
        r"valeur)[\w\s]*?(?=:|\d|$)|date\s(?:d[ée]but|fin)|p[ée]riode\b|(?:order|lever|bestel)datum",
    ),
    # Amounts.
    (
        "total",
        7,
        r"(?:grand|invoice|final|credit)\stotal\b|total\s(?:for\s(?:this|the)\sinvoice|(?:sales?\s)?(?:amount\s|"
        rf"amt\s|sales\s)?[\[(]?\s?{_INCL})[^\d]{{0,12}}?\)?|"
        r"total\s(?:amt\s|amount\s)?(?:rounded|payable)\b|rounded\stotal\b|\w+\srounded\b|"
        r"total\samt\spayable\b|total\s(?:invoice\s)?(?:amount|value)\b",
    ),
    (
        "total",
        7,
        rf"(?:rechnungs|brutto|gesamt|end)-?(?:summe|betrag)(?:\s\w+)?\s?\(?(?:brutto|{_INCL})\)?|"
        r"brutto-?(?:summe|betrag)|"
        r"(?:rechnungs|end|gesamt|auszahlungs|gutschrifts?)-?(?:endbetrag|betrag|summe)\b|gesamt\s?(?:brutto|"
        r"preis\sbrutto)|rechnungssumme\sbrutto(?:\s\([^)]*\))?",
    ),
    (
        "total",
        7,
        r"(?:montant\s)?(?:total\s)?t\.?t\.?c\.?(?!\w)|total\s(?:de\sla\sfacture|de\sl['’]avoir|du\sdocument|g[ée]n[ée]ral)|"
        r"montant\stotal\b(?!\sh)|"
        rf"totaal(?:bedrag)?\s(?:{_INCL}|te\sbetalen)|eindtotaal|factuurbedrag",
    ),
    ("total", 5, r"total\b|totaal\b|summe\b|gesamt\b|tota\b"),
    ("total", 3, r"net(?:t)?\s?(?:amt|total|amount)\b|charges\b|total\ssales\b|totaalbedrag"),
    (
        "due",
        6,
        r"(?:total\s)?(?:amount|balance|total)\s(?:now\s)?(?:due|owing|outstanding|to\spay)\b|(?:due|"
        r"amount)\spayable|balance\b(?=\s?:?\s?[$€£])|amount\sto\s(?:be\spaid|pay)|please\spay\b(?!\sby)",
    ),
    (
        "due",
        6,
        r"zahlbetrag|zahlungsbetrag|zu\szahlen(?:der\sbetrag)?(?!\sbis)|offener\sbetrag|restbetrag|"
        r"fälliger\sbetrag|zahllast|noch\szu\szahlen",
    ),
    (
        "due",
        6,
        r"(?:net|solde|reste|montant|somme)\s[àa]\s(?:payer|r[ée]gler|devoir)|montant\sdû|"
        r"te\sbetalen(?:\sbedrag)?(?!\svoor)|openstaand(?:\sbedrag)?",
    ),
    (
        "net",
        6,
        rf"(?:total|amount|price|montant|prix)\s(?:amount\s|sales\s|amt\s)?[\[(]?\s?{_EXCL}\)?|"
        r"total\s(?:net\s)?h\.?\s?t\.?(?!\w)|montant\sh\.?t\.?(?!\w)|"
        r"total\snet(?:\sht)?\b|base\sh\.?t\.?(?!\w)|taxable\s(?:amount|value)|nett?\sof\stax",
    ),
    (
        "net",
        6,
        rf"(?:rechnungs)?summe\s(?:netto|{_EXCL})(?:\s\([^)]*\))?|netto-?(?:summe|betrag|gesamt|"
        rf"rechnungsbetrag)|rechnungssumme\s(?:netto|{_EXCL})(?:\s\([^)]*\))?|"
        rf"gesamt\s?-?netto|gesamtsumme\snetto|summe\snetto|(?:{_EXCL})|betrag\snetto|warenwert\snetto",
    ),
    (
        "net",
        5,
        r"sub\s?-?s?\s?tota[l:]?\b|sous[\s-]?total(?:\sht)?|zwischensumme|positionssumme|subtotaal|"
        r"subs?total(?:\s\w+)?\sless\sdiscount|less\sdiscount",
    ),
    ("net", 4, r"nett?o?(?=\s?:|$)"),
    (
        "net",
        3,
        r"warenwert|(?:sum\sof|total\sof)\sitems|goods\stotal|items?\stotal|warensumme|summe\s(?:der\s)?positionen|total\s(?:des\s)?(?:articles|marchandises)",
    ),
    ("net", 4, r"net\s(?:total|amount|amt|value|price)\b|gross\sam(?:oun)?t\b"),
    (
        "tax",
        6,
        rf"(?:total|summe|gesamt)\s?{_VAT}(?!\w)(?!\s?(?:id|invoice|no\b|reg|summary|code))|"
        rf"{_VAT}\s?-?\s?(?:total|gesamt|betrag|bedrag|amount)\b|steuerbetrag|montant\s(?:total\s)?(?:de\sla\s)?tva|"
        r"(?:sales|service)\stax",
    ),
    (
        "tax",
        4,
        rf"(?:zzgl\.?|plus|add|\+|davon|including|enthaltene|incl\.?)?\s?\b{_VAT}(?![\w-])(?!\s?(?:-?\s?id\b|"
        r"invoice|no\b|n[°º]|nr|reg|summary|code|\#|ident|analysis|exempt|on\b))",
    ),
    (
        "rate",
        6,
        r"(?:tax|vat|gst|ust\.?|mwst\.?|steuer)-?\s?(?:rate|satz)\b|taux(?:\s(?:de\s)?tva)?|btw-?\s?tarief|"
        r"(?:ust|mwst)\.?\s?(?:in\s)?%",
    ),
    (
        "paid",
        6,
        r"(?:amount|already|total|pre)-?\s?paid\b|payments?\s(?:received|made|credits?)\b|deposit\b|"
        r"less\spayment|bereits\s(?:be|ge)zahlt|anzahlung(?:en)?|"
        r"gezahlter?\sbetrag|vorauszahlung(?:en)?|acompte|d[ée]j[àa]\s(?:pay[ée]|r[ée]gl[ée])|aanbetaling|"
        r"voldaan|r[èe]glement\b",
    ),
    (
        "before",
        6,
        r"(?:previous|prior|opening|old|unpaid|outstanding)\s(?:unpaid\s)?balance|"
        r"balance\s(?:brought\s)?forward|alter\ssaldo|solde\s(?:pr[ée]c[ée]dent|ant[ée]rieur)|vorsaldo",
    ),
    (
        "other_amount",
        6,
        r"discounts?\b|rabatt\b|nachlass|skonto|remise|korting|shipping\b|carriage|postage|delivery(?=\s?:|$)|fracht(?:kosten)?|livraison(?=\s?:|$)|freight|versand(?:kosten)?|porto\b|"
        r"frais\sde\s\w+|handling|credits\b|"
        r"gesamtbetrag\sder\s\w+|service\scharge|serv\scharge|total\s(?:discount|saving|savings)|"
        r"verzendkosten|zuschl[äa]ge|abschl[äa]ge|tip\b",
    ),
    (
        "other_amount",
        6,
        r"total\s(?:qty|quantity|items?|points?|pcs|pieces|hours|units|weight|due\sdate|number|no|savings?|"
        r"balance)\b|accepted\stotal|total\sitem|"
        r"total\stender(?:ed)?|sub\s?total\sof|page\stotal|(?:summe|gesamt)\s(?:menge|anzahl|gewicht)|"
        r"total\sof\s\d",
    ),
    ("rounding", 6, r"round\s?ing(?:\sadj\w*)?\b|rundung(?:sdifferenz)?|arrondi"),
    (
        "tendered",
        6,
        r"(?:cash|tender(?:ed)?|visa|master(?:card)?|credit\scard|debit\scard|amount\stendered|paid\scash|bar|"
        r"ec-?karte|esp[èe]ces)\b(?!\s(?:bill|sale|change|refund))",
    ),
    ("change", 6, r"(?:cash\s)?change(?:\s(?:due|amt|amount))?\b|rückgeld|monnaie\srendue|wisselgeld"),
    # Who.
    (
        "seller",
        6,
        r"(?:sold|issued|supplied|invoiced|provided)\sby\b|service\sprovider|(?:verk[äa]ufer|lieferant|"
        r"rechnungs(?:er)?steller|leistungserbringer|aussteller|verkoper|leverancier)(?=\s?:|$)|"
        r"(?:seller|vendor|supplier|merchant|biller|vendeur|fournisseur|[ée]metteur|"
        r"prestataire)(?:\sname)?(?=\s?:|$)|from(?=\s?:|$)|von(?=\s?:)|de(?=\s?:)",
    ),
    (
        "buyer",
        6,
        r"(?:bill(?:ed|ing)?|ship(?:ped|ping)?|sold|deliver(?:ed|y)?|invoiced?|sent|charge|service|"
        r"mail(?:ing)?|remit)\s?-?\s?(?:to|for|address)(?:\saddress)?\b|"
        r"(?:customer|client|buyer|purchaser|attn|attention|recipient)(?:\s(?:name|address|information|"
        r"details))?(?=\s?:|$)|to(?=\s?:)|insured\sname|adresse\sde\s(?:livraison|facturation)|"
        r"adresse\sdu\sclient|factur[ée]\s[àa]|livr[ée]\s[àa]|destinataire|acheteur|(?:k[äa]ufer|kunde|"
        r"empf[äa]nger|auftraggeber|leistungsempf[äa]nger|rechnungsempf[äa]nger)(?:/\w+)?(?=\s?:|$)|"
        r"(?:liefer|rechnungs)-?(?:adresse|anschrift)|lieferung\san|rechnung\san|klant(?=\s?:|$)|factuuradres|"
        r"afleveradres|contact\scommercial|kontoinhaber|account\sholder|abweichender\s\w+",
    ),
    ("currency", 6, r"(?:invoice\s)?currency|(?:rechnungs|beleg)?w[äa]hrung|devise|monnaie\sde\sfacturation|valuta"),
    # Columns.
    (
        "item",
        5,
        r"(?:item\s|product\s)?descriptions?\b|items?\b|products?\b|title\b|particulars|beschreibung|"
        r"bezeichnung|produkt\b|artikel(?:bezeichnung)?\b|leistung\b|d[ée]signation|libell[ée]|"
        r"omschrijving|details\b|service\b|text\b|name\b|artikelbeschreibung|prestation",
    ),
    (
        "quantity",
        5,
        r"(?:qty|quantity|menge|anzahl|quantit[ée]|qt[ée]|aantal|hours|stk|st[üu]ck(?:zahl)?|units|hrs|"
        r"stunden)(?:\s?/\s?\w+)?\b\.?|qty\.?",
    ),
    (
        "unit_price",
        5,
        r"(?:unit|einzel|vk|st[üu]ck|netto)\s?-?\s?(?:price|preis|cost)|prix(?:\sunitaire)?\b(?!\sh)|"
        r"p\.?u\.?(?:\sht)?\b|u\.?\s?price|s/price|(?:unit\s)?price(?:\seach)?\b|preis\b(?!\sincl)|rate\b|"
        r"e-?preis|prijs(?:\sper\sstuk)?\b(?!\sincl)|price/unit|cost\b|nettopreis|einzelpr\.?",
    ),
    (
        "line_total",
        5,
        r"(?:line|item)\stotal|amount\b|zeilenbetrag|positions?-?\s?betrag|gesamtpreis|betrag\b|"
        r"montant(?:\sht)?\b|prix\sh\.?t\.?|prijs\sincl\.?\s?btw|bedrag\b|total\sh\.?t\.?|value\b|extended\b|"
        r"amt\b|(?:netto|waren|gesamt)wert\b|gesamt\b",
    ),
)

"""The words that stand beside values on invoices, in English, German, French and Dutch. Each means one kind of value;
kinds that are no field (what is left to pay, the order's date, the customer's number) are listed too, because a value
beside one of them is not the field's."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.pipelines.documents.values import fold

_PHRASES = """
total: total | grand total | total amount | amount total | invoice total | total invoice | total ttc | montant ttc
total: total incl vat | total inc vat | total incl tax | total including vat | total (incl. vat) | total incl gst
total: total inclusive of gst | total sales inclusive of gst | total sales (inclusive of gst) | net total
total: nett total | total for this invoice | invoice amount | total rm | tota | gesamtbetrag | gesamtsumme
total: rechnungsbetrag | bruttosumme | bruttobetrag | endbetrag | rechnungssumme brutto | gesamt brutto
total: summe brutto | rechnungsendbetrag | total brutto | rechnungsbetrag brutto | gesamtbetrag brutto
total: rechnungssumme | gutschriftsbetrag | gesamtbetrag inkl | totaal | totaalbedrag | factuurbedrag | totaal incl
total: totaal incl btw | totaal inclusief btw | bedrag incl btw | montant total | total general | net a payer ttc
total: total de la facture | total facture | total t.t.c | total inkl mwst | total due inclusive | credit total
total: total credit | rounded total | total rounded | rounded total rm | total amount rm | total (rm
total: total inclusive gst | total incl. vat | total incl. gst | totaal te betalen | total after rounding
total: gesamtbetrag eur | total eur | total usd | total gbp | total chf
total_word: charges | summe | gesamt | brutto | total sales | total charges | total amt | gesamtpreis | total value
total_word: total price
due_amount: amount due | balance due | total due | balance | outstanding | amount payable | total payable | payable
due_amount: total amount due | please pay | offener betrag | zahlbetrag | zu zahlen | zu zahlender betrag
due_amount: restbetrag | solde a payer | net a payer | reste a payer | montant du | te betalen | openstaand
due_amount: openstaand bedrag | total amount payable | total a payer | fälliger betrag | montant a payer
due_amount: noch zu zahlen | zahlungsbetrag
paid: paid | amount paid | bereits bezahlt | anzahlung | anzahlungen | erhaltene anzahlungen | deja paye | acompte
paid: deposit | previous balance | previous unpaid balance | voldaan | betaald | change | cash | tendered
paid: change due | cash tendered | prepaid | payment | payments | visa | mastercard | wechselgeld | gegeben | bar
paid: acomptes | cash received | amount tendered
rounding: rounding | rounding adj | rounding adjustment | round adj | rundung | rundungsdifferenz | arrondi
adjust: discount | discounts | rabatt | nachlass | skonto | remise | korting | abschlag | abschläge | less discount
adjust: gesamtbetrag der abschläge | gesamtbetrag der zuschläge | zuschlag | zuschläge | sondernachlass | rebate
adjust: escompte | shipping | delivery charge | freight | versand | versandkosten | porto | frais de port
adjust: verzendkosten | fracht | shipping & handling | shipping and handling | handling | service charge | tip
adjust: pfand | port | surcharge | credits
subtotal: subtotal | sub total | sub-total | subtota | net amount | total net | net | total before tax
subtotal: taxable amount | total excl vat | total excl tax | total excluding vat | total ex vat | amount before tax
subtotal: net subtotal | nett | total excl gst | total excluding gst | total sales (excluding gst)
subtotal: total sales excluding gst | total excl. gst | nettobetrag | nettosumme | netto | summe netto
subtotal: zwischensumme | gesamt netto | rechnungssumme netto | warenwert | rechnungssumme ohne ust | positionssumme
subtotal: netto gesamt | gesamtbetrag netto | total netto | summe positionen | summe ohne mwst
subtotal: rechnungsbetrag netto | nettowert | gesamt ohne mwst | gesamtnetto | gesamt (netto | total ht | montant ht
subtotal: sous-total | sous total | total hors taxe | total hors taxes | total h.t | base ht | total net ht
subtotal: subtotaal | totaal excl | totaal excl btw | totaal exclusief btw | exclusief btw | bedrag excl btw
subtotal: excl btw | total excl. vat | net total before tax | total (excl. vat | subtotal excl | montant net
subtotal: total before vat
tax_amount: tax | vat | gst | sales tax | total tax | tax total | vat amount | tax amount | vat total | total vat
tax_amount: total taxes | total gst | gst amount | cgst | sgst | igst | hst | pst | tax (gst | gst payable | mwst
tax_amount: ust | umsatzsteuer | mehrwertsteuer | ust gesamt | summe umsatzsteuer | steuerbetrag | mwst-betrag
tax_amount: ust.-betrag | ust-betrag | zzgl mwst | zzgl ust | zzgl umsatzsteuer | gesamt ust | summe mwst
tax_amount: summe ust | zuzüglich umsatzsteuer | enthaltene mwst | steuer | ust betrag | mwst betrag
tax_amount: enthaltene umsatzsteuer | tva | total tva | montant tva | taxe | taxes | total taxe | montant de la tva
tax_amount: dont tva | btw | btw bedrag | btw-bedrag | totaal btw | btw totaal
tax_rate: tax rate | vat rate | steuersatz | mwst-satz | taux | taux tva | taux de tva | btw-tarief | ust satz
tax_rate: ust.-satz
tax_id: vat id | vat no | vat number | vat reg no | vat registration | ust-id | ust-idnr | ust-id-nr | ust.-id.-nr
tax_id: gst no | ust-identnr | ust.-identnr | steuernummer | steuernr | steuer-nr | ustid | ustidnr | n° tva
tax_id: tva intracommunautaire | btw nr | btw-nummer | btw nummer | tax id | gst id | gst id no | gst reg no | gstin
tax_id: tin | kvk | siret | umsatzsteuer-id | ust.-id-nr | ust-ident-nr | ust-id nr | tva intra | n° tva client
tax_id: vat/tin | service tax | gst reg | uid
invoice_number: invoice no | invoice number | invoice nr | invoice num | invoice id | inv no | inv. no | invoice #
invoice_number: no invoice | receipt no | receipt number | receipt # | bill no | bill number | bill # | document no
invoice_number: document number | tax invoice no | credit note no | credit note number | credit note # | doc no
invoice_number: slip no | receipt # no | rechnungsnummer | rechnungsnr | rechnungs-nr | rechnung nr | rechnung nr.
invoice_number: rechnungs nr | rechnung-nr | re-nr | rechnung nummer | belegnummer | belegnr | beleg-nr
invoice_number: gutschriftsnummer | gutschrift nr | beleg nr | gutschriftnummer | gutschriftsnr | gutschrift-nr
invoice_number: rechnungs-nummer | rechnung # | invoice: no | numero de facture | n° de facture | n° facture
invoice_number: facture n° | facture no | no de facture | facture numero | avoir n° | numéro facture | facture nº
invoice_number: n° d'avoir | numero d'avoir | n° avoir | facture # | nº de facture | nº facture | factuurnummer
invoice_number: factuurnr | factuur nr | factuur nummer | creditnotanummer | factuur-nr | creditfactuurnummer
title: invoice | rechnung | facture | factuur | avoir | gutschrift | credit note | receipt | tax invoice
title: creditnota | handelsrechnung | creditfactuur | bill | proforma | rechnungskorrektur | korrekturrechnung
title: stornorechnung | quittung | kassenbon | ticket | recu
number_word: # | no | nr | n° | number | nummer | numero | inv | nº
other_number: order no | order number | order id | order # | customer no | customer number | customer id
other_number: account number | account no | po number | p.o. number | po no | po # | p.o. no | delivery note no
other_number: job no | quote no | member no | kundennummer | kundennr | kunden-nr | bestellnummer | bestell-nr
other_number: auftragsnummer | auftrags-nr | lieferschein | lieferscheinnummer | bestellung | bestellung nr
other_number: kunden nr | kontonr | blz | iban | bic | swift | gln | gtin | numero client | n° client
other_number: n° de commande | commande n° | code client | numero de commande | bon de commande | klantnummer
other_number: klantnr | ordernummer | bestelnummer | projectnummer | project no | reference | referenz | your ref
other_number: votre reference | uw referentie | ihr zeichen | unser zeichen | account | phone | tel | fax | telefon
other_number: mobile | ref | id# | id # | reg no | company no | co reg no | serienummer | seite | page | pagina
other_number: vertrag | contract no | roc no | payment reference | order | purchase order | kreditkarte | serial no
other_number: po | till no | table no | kto | lieferung nr | rc no | registration no | cashier | counter | terminal
other_number: hrb | hra | siren | auftragsnr | bestellnr | ihre bestellung | reservation no | ticket no | trans no
other_number: transaction no | handelsregister | hrb-nr | leveranciersnummer | dossier
date: invoice date | date of invoice | date of issue | issue date | issued | issued on | bill date | billing date
date: date issued | rechnungsdatum | belegdatum | rechnung vom | ausstellungsdatum | datum der rechnung
date: gutschriftsdatum | receipt date | date de facture | date de la facture | date facture | date d'emission
date: emise le | facture du | date de facturation | factuurdatum | datum factuur | credit note date | tax point
date: date d'avoir | avoir du | ausgestellt am | tax date
date_word: date | datum | dated | vom | le | von | doc date | document date | date & time | date/time | du
date_word: printed date
due_date: due date | due | payment due | due on | pay by | payable by | due by | payment due date | invoice due date
due_date: date due | fällig | fällig am | fälligkeit | fälligkeitsdatum | zahlbar bis | zahlungsziel
due_date: zahlbar bis zum | zahlbar | bis zum | fällig bis | bezahlen bis | überweisen sie bis
due_date: überweisen sie bis zum | zahlung bis | zahlungstermin | date d'echeance | echeance | echeance le
due_date: a payer avant | a regler avant | date limite de paiement | payable le | vervaldatum | uiterste betaaldatum
due_date: te betalen voor | betaaldatum | betalen voor | payable before | due before
other_date: order date | delivery date | ship date | service date | training date | service period | period
other_date: billing period | leistungsdatum | lieferdatum | bestelldatum | leistungszeitraum
other_date: liefer- und leistungsdatum | lieferung am | date de livraison | date de commande | orderdatum
other_date: leverdatum | bestellung vom | auftragsdatum | date of birth | skonto bis | paid on | payment date
other_date: date de paiement | besteldatum | buchungsdatum | date of supply | supply date | date de prestation
other_date: periode | valid until | gültig bis | statement date | print date
vendor: from | seller | sold by | vendor | supplier | service provider | remit to | issued by | billed by | biller
vendor: issuer | verkäufer | lieferant | rechnungsersteller | rechnungssteller | absender | aussteller | von firma
vendor: leistungserbringer | vendeur | fournisseur | emetteur | verkoper | leverancier | afzender
vendor: make checks payable to | payable to | account holder | kontoinhaber | titulaire | rekeninghouder
vendor: beneficiary | zahlungsempfänger | account name | van
customer: bill to | billed to | sold to | ship to | invoice to | invoice for | customer | customer name | client
customer: buyer | to | bill to address | billing address | shipping address | deliver to | delivery address
customer: service address | attn | for | käufer | rechnungsempfänger | kunde | empfänger | rechnung an
customer: lieferadresse | rechnungsadresse | kunden | lieferanschrift | warenempfänger | käufer/leistungsempfänger
customer: leistungsempfänger | rechnungsanschrift | z.hd | acheteur | destinataire | adresse de livraison
customer: adresse de facturation | facture a | livre a | factuur aan | klant | facturer a | afleveradres
customer: factuuradres | aan | t.a.v | attention | member | prepared for | tenant | customer/ship to
currency: currency | währung | devise | valuta | beträge in | amounts in | all amounts in | alle beträge in
currency: montants en | monnaie
items: description | qty | quantity | unit price | price | amount | item | rate | hours | units | disc | disc.%
items: u/price | menge | beschreibung | bezeichnung | artikel | preis | einzelpreis | pos | position | produkt
items: einheit | zeilenbetrag | quantite | designation | prix | prix unitaire | montant | p.u | pu ht | unite
items: nettopreis | entgelt | aantal | omschrijving | prijs | stuksprijs | bedrag | prijs per stuk | item code
items: line total | training | stückpreis | quantité | libelle | artikelbeschreibung | art.nr | art-nr | unit | um
items: product | product title | leistung | service | code | details | particulars | e-preis | g-preis | ep | gp
items: eenheidsprijs | reference article | article
"""

_ENDS = ".,:;*()[]|\"'„“”«»-–—_!?=<>"


def plain(word: str) -> str:
    """A folded word without the punctuation around it; punctuation alone stays as it is."""
    return word.strip(_ENDS) or word


def _table() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    by_first: dict[str, dict[tuple[str, ...], str]] = {}
    for line in _PHRASES.strip().splitlines():
        kind, _, phrases = line.partition(":")
        for phrase in phrases.split("|"):
            words = tuple(plain(word) for word in fold(phrase).split())
            # The first kind that names a phrase keeps it; the items of a table say less than anything else.
            by_first.setdefault(words[0], {}).setdefault(words, kind)
    return {first: sorted(phrases.items(), key=lambda phrase: -len(phrase[0])) for first, phrases in by_first.items()}


PHRASES = _table()
"""By its first word: every phrase, the longest first, and its kind."""

_NEED_COLON = frozenset(
    {"to", "for", "from", "van", "aan", "attention", "change", "customer", "client", "kunde", "account"}
)
"""Words that begin sentences as often as they name what follows."""


_AROUND_TAX = "inkl incl inc including inclusive inclusief exkl excl ex excluding exclusief ohne without before hors"
_WITH_OR_WITHOUT = frozenset(_AROUND_TAX.split())


def label_at(words: Sequence[str], start: int, end: int, *, colon: bool) -> tuple[str, int] | None:
    """The kind of the label that begins at this (plain, folded) word and goes no further than `end`, and how many words
    it takes; the longest wins. `colon` says whether the word itself ends in one."""
    for phrase, kind in PHRASES.get(words[start], ()):
        if len(phrase) == 1:
            if not colon and phrase[0] in _NEED_COLON:
                return None
            # `Total (incl. VAT)` is a total, and announces no tax.
            return None if kind == "tax_amount" and start and words[start - 1] in _WITH_OR_WITHOUT else (kind, 1)
        if start + len(phrase) <= end and tuple(words[start : start + len(phrase)]) == phrase:
            return kind, len(phrase)
    return None


def is_head_of_items(kinds: Sequence[str]) -> bool:
    """Whether the labels of a row are the heads of a table of items: what stands below them belongs to lines."""
    return sum(kind == "items" for kind in kinds) >= 2

"""What the invented invoices are made of: names, places and goods by language, and the words that stand beside the
values. No business here is a real one; every name is put together by chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Good:
    """`price` is in euros, before tax. `reduced` goods have the lower tax rate where there is one."""

    name: str
    unit: str
    price: tuple[int, int]
    reduced: bool = False


@dataclass(frozen=True)
class Vocabulary:
    """The names of one language. A vendor is `{front} {trade} {form}`; forms belong to the country."""

    fronts: tuple[str, ...]
    trades: tuple[str, ...]
    people: tuple[str, ...]
    streets: tuple[str, ...]
    goods: tuple[Good, ...]
    banks: tuple[str, ...]
    months: tuple[str, ...]
    short_months: tuple[str, ...]


ENGLISH = Vocabulary(
    fronts=(
        "Brackwell", "Thornlea", "Oakmere", "Hollis & Penn", "Quillfeather", "Marlowick", "Ashgrove Hill", "Tarnbeck",
        "Pellworth", "Drumgate", "Windlesea", "Cobbleton", "Larkmoor", "Fenwright", "Silverhythe", "Greymantle",
    ),
    trades=(
        "Office Supplies", "Joinery", "Print Works", "Catering", "Networks", "Garden Design", "Tools & Fixings",
        "Consulting", "Electrical", "Stationery", "Timber", "Cleaning Services", "Media", "Workwear", "Logistics",
    ),
    people=(
        "Harriet Coombes", "Daniel Ashby", "Priya Nandal", "Owen Tredway", "Lucy Farrant", "Miles Okafor",
        "Grace Wetherley", "Tom Hallam", "Nora Quickfall", "Samuel Pryde",
    ),
    streets=("High Street", "Mill Lane", "Station Road", "Chapel Walk", "Harbour View", "Orchard Way", "Kiln Close"),
    goods=(
        Good("Copy paper A4 80 g, box of 5 reams", "pcs", (18, 32)), Good("Oak desk 160 x 80 cm", "pcs", (240, 520)),
        Good("Toner cartridge black", "pcs", (48, 140)), Good("On-site installation", "h", (45, 110)),
        Good("Network cable Cat 6, 10 m", "pcs", (6, 19)), Good("Project management", "h", (70, 150)),
        Good("LED panel 40 W", "pcs", (24, 62)), Good("Safety boots S3", "pair", (55, 120)),
        Good("Ground coffee, 1 kg", "kg", (9, 22), reduced=True),
        Good("Herbal tea selection", "box", (4, 12), reduced=True),
        Good("Handbook of joinery", "pcs", (25, 60), reduced=True),
        Good("Sandwich platter", "pcs", (28, 70), reduced=True),
        Good("Annual maintenance contract", "pcs", (300, 1900)), Good("Cordless drill 18 V", "pcs", (90, 260)),
        Good("Wood screws 4 x 40, box of 200", "box", (5, 14)), Good("Filing cabinet, four drawers", "pcs", (120, 310)),
        Good("Whiteboard 120 x 90 cm", "pcs", (60, 150)), Good("Travel expenses", "pcs", (20, 240)),
        Good("Graphic design, flyer", "h", (50, 95)), Good("Cleaning, weekly", "pcs", (80, 260)),
        Good("Recycled envelopes C5, 500 pcs", "box", (14, 29)), Good("Ergonomic office chair", "pcs", (150, 420)),
    ),
    banks=("Harbour & Vale Bank", "Northmere Savings", "Tideway Bank", "Bank of Ellsmoor"),
    months=(
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ),
    short_months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)  # fmt: skip

GERMAN = Vocabulary(
    fronts=(
        "Tannhofer", "Lindberger", "Grünwälder", "Kesselmann", "Brückfeld", "Wiesenthaler", "Möhrlein", "Haselböck",
        "Steinkamper", "Vogelsanger", "Eichrodter", "Quellmeier", "Rübsamer", "Altenbrucker", "Förstinger",
    ),
    trades=(
        "Bürobedarf", "Werkstatttechnik", "Elektro", "Druckerei", "Gebäudereinigung", "Gartenbau", "Metallbau",
        "IT-Service", "Großhandel", "Tischlerei", "Verpackungen", "Messtechnik", "Küchentechnik",
        "Unternehmensberatung",
    ),
    people=(
        "Annegret Holzner", "Jürgen Pfähler", "Sabine Kröll", "Matthias Oster", "Birgit Wallner", "Torsten Hübsch",
        "Ulrike Senfft", "Klaus-Dieter Raab", "Änne Grosser", "Moritz Zeidler",
    ),
    streets=("Hauptstraße", "Mühlweg", "Bahnhofstraße", "Am Kirchplatz", "Lindenallee", "Gewerbepark", "Schlossgasse"),
    goods=(
        Good("Kopierpapier A4 80 g, Karton", "Stk", (18, 32)),
        Good("Schreibtisch Eiche 160 x 80 cm", "Stk", (240, 520)),
        Good("Tonerkartusche schwarz", "Stk", (48, 140)), Good("Montage vor Ort", "Std", (45, 110)),
        Good("Netzwerkkabel Cat 6, 10 m", "Stk", (6, 19)), Good("Projektleitung", "Std", (70, 150)),
        Good("LED-Leuchte 40 W", "Stk", (24, 62)), Good("Sicherheitsschuhe S3", "Paar", (55, 120)),
        Good("Röstkaffee gemahlen, 1 kg", "kg", (9, 22), reduced=True),
        Good("Kräutertee", "Pkg", (4, 12), reduced=True),
        Good("Fachbuch Möbelbau", "Stk", (25, 60), reduced=True), Good("Obstkorb groß", "Stk", (28, 70), reduced=True),
        Good("Wartungsvertrag jährlich", "Stk", (300, 1900)), Good("Akku-Bohrschrauber 18 V", "Stk", (90, 260)),
        Good("Holzschrauben 4 x 40, 200 Stück", "Pkg", (5, 14)), Good("Aktenschrank, vier Fächer", "Stk", (120, 310)),
        Good("Weißwandtafel 120 x 90 cm", "Stk", (60, 150)), Good("Anfahrtspauschale", "Stk", (20, 90)),
        Good("Gestaltung Faltblatt", "Std", (50, 95)), Good("Unterhaltsreinigung, Woche", "Stk", (80, 260)),
        Good("Briefumschläge C5, 500 Stück", "Pkg", (14, 29)), Good("Bürodrehstuhl", "Stk", (150, 420)),
    ),
    banks=("Sparbank Oberwald", "Volkskasse Lindtal", "Handelsbank am Markt", "Regiobank Süd"),
    months=(
        "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
        "Dezember",
    ),
    short_months=("Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."),
)  # fmt: skip

FRENCH = Vocabulary(
    fronts=(
        "Morvaux", "Belcastel", "Trévignon", "Lavergnac", "Rochebrune", "Fontaubert", "Clairmarais", "Hautecombe",
        "Vaudreuil", "Pérignac", "Sauvelade", "Maréchaux", "Bourdelières", "Garancière", "Montfrain",
    ),
    trades=(
        "Fournitures", "Menuiserie", "Imprimerie", "Traiteur", "Informatique", "Paysages", "Outillage", "Conseil",
        "Électricité", "Papeterie", "Emballages", "Nettoyage", "Équipements", "Librairie", "Métallerie",
    ),
    people=(
        "Hélène Garrigou", "François Delmarre", "Amélie Roussin", "Benoît Castaing", "Odile Ferrand", "Jérôme Vasseur",
        "Chloé Martinage", "Rémi Tournelle", "Gaëlle Brissac", "Noël Aubertin",
    ),
    streets=("rue de la Fontaine", "avenue des Tilleuls", "place du Marché", "chemin Vert", "quai des Brumes",
             "rue Neuve", "boulevard du Moulin"),
    goods=(
        Good("Papier A4 80 g, carton de 5 ramettes", "pce", (18, 32)),
        Good("Bureau chêne 160 x 80 cm", "pce", (240, 520)),
        Good("Cartouche de toner noir", "pce", (48, 140)), Good("Pose sur site", "h", (45, 110)),
        Good("Câble réseau Cat 6, 10 m", "pce", (6, 19)), Good("Gestion de projet", "h", (70, 150)),
        Good("Dalle LED 40 W", "pce", (24, 62)), Good("Chaussures de sécurité S3", "paire", (55, 120)),
        Good("Café moulu, 1 kg", "kg", (9, 22), reduced=True), Good("Tisane assortie", "bte", (4, 12), reduced=True),
        Good("Manuel de menuiserie", "pce", (25, 60), reduced=True),
        Good("Plateau repas", "pce", (12, 28), reduced=True),
        Good("Contrat de maintenance annuel", "pce", (300, 1900)), Good("Perceuse sans fil 18 V", "pce", (90, 260)),
        Good("Vis à bois 4 x 40, boîte de 200", "bte", (5, 14)), Good("Armoire à dossiers", "pce", (120, 310)),
        Good("Tableau blanc 120 x 90 cm", "pce", (60, 150)), Good("Frais de déplacement", "pce", (20, 240)),
        Good("Création graphique, dépliant", "h", (50, 95)), Good("Nettoyage hebdomadaire", "pce", (80, 260)),
        Good("Enveloppes C5, lot de 500", "bte", (14, 29)), Good("Fauteuil de bureau", "pce", (150, 420)),
    ),
    banks=("Banque du Grand Val", "Crédit des Collines", "Caisse de l'Estuaire", "Banque Clairval"),
    months=(
        "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
        "décembre",
    ),
    short_months=("janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."),
)  # fmt: skip

VOCABULARIES = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH}

LABELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "en": {
        "invoice": ("Invoice", "Tax invoice", "INVOICE"), "credit_note": ("Credit note", "CREDIT NOTE"),
        "receipt": ("Receipt", "Sales receipt"),
        "number": ("Invoice number", "Invoice no.", "Invoice #", "Invoice No"),
        "credit_number": ("Credit note no.", "Credit note number"), "receipt_number": ("Receipt no.", "Receipt #"),
        "date": ("Invoice date", "Date", "Date of issue"), "plain_date": ("Date",),
        "due": ("Due date", "Payment due", "Please pay by"),
        "order": ("Order no.", "Your order", "PO number"), "customer_number": ("Customer no.", "Account no."),
        "delivery_number": ("Delivery note",), "delivery_date": ("Date of supply", "Delivery date"),
        "order_date": ("Order date",), "bill_to": ("Bill to", "Invoice to", "Customer"),
        "page": ("Page {page} of {pages}",),
        "position": ("No.", "#"), "item": ("Description", "Item"), "quantity": ("Qty", "Quantity"),
        "unit_price": ("Unit price", "Price"), "rate": ("Tax",), "amount": ("Amount", "Line total"),
        "line_sum": ("Sum of items", "Goods total"), "discount": ("Discount {rate}",),
        "shipping": ("Shipping", "Carriage", "Delivery charge"),
        "subtotal": ("Subtotal", "Net amount", "Total excl. {tax}"),
        "tax": ("{tax} {rate}", "{tax} ({rate})", "{tax} @ {rate}"), "tax_sum": ("Total {tax}", "{tax} total"),
        "total": ("Total", "Invoice total", "Grand total", "Total amount"),
        "credit_total": ("Total credit", "Credit total"), "paid": ("Payment received", "Less deposit paid"),
        "amount_due": ("Amount due", "Balance due"), "carried": ("Carried forward",), "brought": ("Brought forward",),
        "included": ("incl. {tax} {rate}", "of which {tax} {rate}"), "net": ("Net",),
        "terms": ("Payment within {days} days.", "Terms: {days} days net.", "Net {days}"),
        "exempt": ("The supplier is not registered for {tax}: no {tax} is charged.",),
        "bank": ("Bank details",), "phone": ("Tel.",), "tax_id": ("VAT reg. no.",),
        "thanks": ("Thank you for your business.", "We thank you for your order."), "cash": ("Cash",),
        "change": ("Change",),
        "card": ("Card payment",), "till": ("Till",), "time": ("Time",),
        "currency": ("All amounts in {currency}.",), "credits": ("Refers to invoice",),
        "stamp": ("RECEIVED", "PAID", "ENTERED"),
    },
    "de": {
        "invoice": ("Rechnung", "RECHNUNG"), "credit_note": ("Gutschrift", "Rechnungskorrektur"),
        "receipt": ("Kassenbon", "Quittung"),
        "number": ("Rechnungsnummer", "Rechnungs-Nr.", "Rechnung Nr.", "Rechnungsnr."),
        "credit_number": ("Gutschrift-Nr.", "Gutschriftsnummer"), "receipt_number": ("Bon-Nr.", "Beleg-Nr."),
        "date": ("Rechnungsdatum", "Datum", "Belegdatum"), "plain_date": ("Datum", "Belegdatum"),
        "due": ("Fällig am", "Zahlbar bis", "Fälligkeitsdatum"),
        "order": ("Bestell-Nr.", "Auftragsnummer", "Ihre Bestellung"),
        "customer_number": ("Kundennummer", "Kunden-Nr."),
        "delivery_number": ("Lieferschein-Nr.",), "delivery_date": ("Lieferdatum", "Leistungsdatum"),
        "order_date": ("Bestelldatum",), "bill_to": ("Rechnungsempfänger", "Rechnung an", "Kunde"),
        "page": ("Seite {page} von {pages}", "Seite {page}/{pages}"),
        "position": ("Pos.",), "item": ("Bezeichnung", "Artikel", "Beschreibung"), "quantity": ("Menge", "Anzahl"),
        "unit_price": ("Einzelpreis", "E-Preis"), "rate": ("MwSt", "USt"), "amount": ("Gesamtpreis", "Betrag"),
        "line_sum": ("Summe Positionen", "Warenwert"), "discount": ("Rabatt {rate}", "abzgl. {rate} Rabatt"),
        "shipping": ("Versandkosten", "Porto und Verpackung"),
        "subtotal": ("Nettobetrag", "Zwischensumme netto", "Summe netto", "Gesamt netto"),
        "tax": ("{tax} {rate}", "zzgl. {rate} {tax}", "{rate} {tax}"), "tax_sum": ("{tax} gesamt", "Summe {tax}"),
        "total": ("Gesamtbetrag", "Rechnungsbetrag", "Bruttobetrag", "Endbetrag", "Gesamt brutto"),
        "credit_total": ("Gutschriftsbetrag", "Gesamtbetrag"), "paid": ("abzgl. Anzahlung", "Bereits gezahlt"),
        "amount_due": ("Zahlbetrag", "Offener Betrag", "Noch zu zahlen"), "carried": ("Übertrag",),
        "brought": ("Übertrag von Vorseite",), "included": ("enth. {tax} {rate}", "inkl. {rate} {tax}"),
        "net": ("Netto",),
        "terms": ("Zahlbar innerhalb von {days} Tagen ohne Abzug.", "Zahlungsziel: {days} Tage netto."),
        "exempt": ("Gemäß § 19 UStG wird keine Umsatzsteuer berechnet.",),
        "bank": ("Bankverbindung",), "phone": ("Tel.", "Telefon"), "tax_id": ("USt-IdNr.", "USt-ID"),
        "thanks": ("Vielen Dank für Ihren Auftrag.", "Wir danken für Ihr Vertrauen."), "cash": ("Bar",),
        "change": ("Rückgeld",), "card": ("Kartenzahlung",), "till": ("Kasse",),
        "time": ("Uhrzeit",), "currency": ("Alle Beträge in {currency}.",), "credits": ("zu Rechnung",),
        "stamp": ("EINGEGANGEN", "BEZAHLT", "GEBUCHT"),
    },
    "fr": {
        "invoice": ("Facture", "FACTURE"), "credit_note": ("Avoir", "AVOIR", "Facture d'avoir"),
        "receipt": ("Ticket de caisse", "Reçu"),
        "number": ("Numéro de facture", "Facture n°", "N° de facture", "N° facture"),
        "credit_number": ("Avoir n°", "Numéro d'avoir"), "receipt_number": ("Ticket n°", "N° de ticket"),
        "date": ("Date de facture", "Date", "Date d'émission", "Date de facturation"), "plain_date": ("Date",),
        "due": ("Date d'échéance", "Échéance", "À payer avant le"), "order": ("N° de commande", "Votre commande"),
        "customer_number": ("N° client", "Code client"), "delivery_number": ("Bon de livraison",),
        "delivery_date": ("Date de livraison",), "order_date": ("Date de commande",),
        "bill_to": ("Facturé à", "Client", "Adresse de facturation"),
        "page": ("Page {page}/{pages}", "Page {page} sur {pages}"),
        "position": ("N°",), "item": ("Désignation", "Description"), "quantity": ("Quantité", "Qté"),
        "unit_price": ("Prix unitaire", "P.U. HT"), "rate": ("TVA",), "amount": ("Montant HT", "Total HT"),
        "line_sum": ("Total des articles", "Total brut HT"), "discount": ("Remise {rate}",),
        "shipping": ("Frais de port", "Livraison"),
        "subtotal": ("Total HT", "Montant HT", "Sous-total HT", "Total net HT"),
        "tax": ("{tax} {rate}", "{tax} à {rate}", "{tax} ({rate})"), "tax_sum": ("Total {tax}", "Montant total {tax}"),
        "total": ("Total TTC", "Montant TTC", "Montant total TTC"), "credit_total": ("Total de l'avoir", "Total TTC"),
        "paid": ("Acompte versé", "Déjà réglé"), "amount_due": ("Net à payer", "Reste à payer", "Solde dû"),
        "carried": ("À reporter",), "brought": ("Report",), "included": ("dont {tax} {rate}",), "net": ("Total HT",),
        "terms": ("Paiement à {days} jours.", "Conditions de règlement : {days} jours net."),
        "exempt": ("TVA non applicable, art. 293 B du CGI.",), "bank": ("Coordonnées bancaires",), "phone": ("Tél.",),
        "tax_id": ("N° TVA", "TVA intracom."),
        "thanks": ("Merci de votre confiance.", "Nous vous remercions de votre commande."),
        "cash": ("Espèces",), "change": ("Rendu",), "card": ("Carte bancaire",), "till": ("Caisse",),
        "time": ("Heure",), "currency": ("Tous les montants sont en {currency}.",), "credits": ("Concerne la facture",),
        "stamp": ("RECU LE", "PAYE LE", "COMPTABILISE"),
    },
}  # fmt: skip

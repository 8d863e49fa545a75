"""What the invented catalogues are made of. Schools, people and textbooks are made up; any likeness is chance."""

from __future__ import annotations

STATES = ("Ohio", "Vermont", "Illinois", "Maine", "Iowa", "Virginia")

SCHOOLS = (
    "Marrow Hill College", "St. Aldwin's Seminary", "Tessingham Institute", "Calder Falls College",
    "Northmere Female College", "Ellery Grove University", "Haddon Creek College", "Port Ferris Academy",
)  # fmt: skip

TOWNS = ("Marrow Hill", "Aldwin", "Tessingham", "Calder Falls", "Northmere", "Ellery", "Haddon", "Port Ferris")

FIRST_NAMES = (
    "Amos", "Josiah", "Ephraim", "Lydia", "Nathan", "Cornelia", "Silas", "Harriet", "Elihu", "Abigail", "Thaddeus",
    "Reuben",
)  # fmt: skip

LAST_NAMES = (
    "Harkwell", "Tobin", "Orcutt", "Fanshaw", "Merriden", "Pell", "Stoddert", "Wyndam", "Lathe", "Corbin", "Ashby",
    "Grenfell", "Tarrant", "Millbank",
)  # fmt: skip

PRINTERS = ("Ashby and Pell, Printers", "Press of the Weekly Herald", "Stoddert and Sons, Book and Job Printers")

CHAIRS = (
    "President, and Professor of Moral Philosophy", "Professor of the Latin Language", "Professor of Mathematics",
    "Professor of Natural Science", "Instructor in Modern Languages", "Instructor in Vocal Music",
    "Principal of the Preparatory Department", "Librarian, and Tutor in Greek", "Lecturer on Anatomy",
)  # fmt: skip

CALENDAR = (
    ("September 6", "Examination of candidates for admission"),
    ("September 7", "First Term begins"),
    ("October 20", "Public declamations of the Senior Class"),
    ("November 30", "Thanksgiving recess, two days"),
    ("December 21", "First Term ends"),
    ("January 4", "Second Term begins"),
    ("January 26", "Day of Prayer for Colleges"),
    ("February 22", "Exhibition of the literary societies"),
    ("March 28", "Second Term ends"),
    ("April 12", "Third Term begins"),
    ("May 30", "Examination of the Senior Class"),
    ("June 25", "Address before the societies"),
    ("June 28", "Annual meeting of the Trustees"),
    ("June 29", "Commencement"),
)

ADMISSION = (
    "Candidates for the lowest class are examined in common arithmetic, English grammar, modern geography, and the"
    " history of the United States. They must be at least fourteen years of age, and must bring with them sufficient"
    " testimonials of good character.",
    "Those who seek a place in one of the higher classes are examined in all that the class has already gone over, or"
    " in studies that are held to be equivalent. A student who comes from another institution is required to show a"
    " certificate of honorable dismissal.",
    "The regular time for the examination is the day before the opening of the year. Candidates may be received at any"
    " other time, provided that they are prepared to go on with the recitations of the class without hindrance to it.",
    "No student is enrolled until the dues of the term have been paid to the Treasurer, and his receipt has been laid"
    " before the Registrar. Absence from the first recitation is entered against the student unless it is excused.",
    "Young men of small means who look forward to teaching may be relieved of one half of their dues, upon the written"
    " recommendation of two of the instructors and with the consent of the Executive Committee.",
)

EXPENSES = (
    ("Tuition in the College, a term", "$12 00"),
    ("Tuition in the Preparatory Department, a term", "8 00"),
    ("Incidental charges, a term", "1 50"),
    ("Instrumental music, twenty lessons", "10 00"),
    ("Use of the piano one hour daily", "2 00"),
    ("Room in the College building, a term", "4 00"),
    ("Board in the hall, a week", "2 25"),
    ("Washing, a dozen pieces", "40"),
    ("Chemicals for the laboratory, a term", "1 00"),
    ("Diploma", "5 00"),
)

EXPENSES_PROSE = (
    "All charges are payable in advance, and no deduction is made for absence except in case of illness that lasts"
    " longer than four weeks. Students who board themselves may reduce the cost of the year very considerably.",
    "Rooms are furnished with a stove, a table, and two chairs. Whatever else is wanted the occupants bring with them,"
    " and damage to the furniture is charged to those who are answerable for it.",
)

# Subjects by class; each with the titles of books that may be named for it. Authors are drawn from LAST_NAMES.
STUDIES: dict[str, tuple[tuple[str, str], ...]] = {
    "Freshman Class": (
        ("Higher Algebra", "University Algebra"), ("Livy", "Latin Lessons"), ("Greek Prose Composition", "Exercises"),
        ("Plane Geometry", "Geometry"), ("Xenophon's Memorabilia", "Greek Reader"), ("Roman Antiquities", "Manual"),
        ("English Analysis", "Grammar of English"), ("Elocution", ""), ("Solid Geometry", "Geometry"),
        ("Physical Geography", "Physical Geography"), ("Horace", "Latin Poets"), ("Ancient History", "Outlines"),
        ("Botany", "Lessons in Botany"), ("Declamation", ""), ("Drawing", ""),
    ),
    "Sophomore Class": (
        ("Plane Trigonometry", "Trigonometry"), ("Cicero on Old Age", "Latin Prose"), ("Homer's Iliad", "Greek Poets"),
        ("Rhetoric", "Elements of Rhetoric"), ("Surveying", "Surveying and Navigation"), ("French", "French Course"),
        ("Zoology", "Principles of Zoology"), ("Conic Sections", "Analytical Geometry"), ("Tacitus", "Latin Annals"),
        ("Modern History", "Outlines"), ("German", "German Course"), ("Herodotus", "Greek Historians"),
        ("Navigation", ""), ("Essays", ""), ("Physiology", "Hygiene and Physiology"),
    ),
    "Junior Class": (
        ("Natural Philosophy", "Mechanics"), ("Chemistry", "Elements of Chemistry"), ("Logic", "Elements of Logic"),
        ("Mineralogy", "Manual of Minerals"), ("Differential Calculus", "Calculus"), ("Plato's Apology", "Greek Prose"),
        ("English Literature", "Hand-book of Literature"), ("Astronomy", "Treatise on Astronomy"), ("Optics", ""),
        ("Demosthenes on the Crown", "Greek Orators"), ("Forensics", ""), ("Integral Calculus", "Calculus"),
        ("Organic Chemistry", "Elements of Chemistry"), ("Acoustics", ""), ("Quintilian", "Latin Prose"),
    ),
    "Senior Class": (
        ("Mental Philosophy", "Intellectual Powers"), ("Geology", "Text-book of Geology"), ("Butler's Analogy", ""),
        ("Political Economy", "Wealth of States"), ("Moral Philosophy", "Moral Science"), ("Original Orations", ""),
        ("International Law", "Law of Nations"), ("Evidences of Christianity", "Lectures on the Evidences"),
        ("Constitution of the United States", "Commentaries"), ("History of Philosophy", "Outlines"),
        ("Science of Government", "Civil Polity"), ("Art Criticism", ""), ("Meteorology", "Weather and Climate"),
        ("Civil Engineering", ""), ("Theses", ""),
    ),
}  # fmt: skip

# Departments: heading, what is said of it, and its courses: name, what is done there, book.
DEPARTMENTS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Department of Chemistry",
        "The laboratory occupies the ground floor of the north building, and is furnished with tables for twenty-four"
        " students, who work under the direction of the professor on four afternoons of the week.",
        (
            ("General Chemistry", "Lectures and recitations upon the laws of combination and the non-metallic elements,"
             " with experiments before the class", "Elements of Chemistry"),
            ("Qualitative Analysis", "Practice in the separation of the common metals and acids; each student receives"
             " unknown substances for determination", "Tables for Analysis"),
            ("Quantitative Analysis", "Determinations by weight and by measure of ores, soils and mineral waters, with"
             " attention to the care of the balance", "Quantitative Methods"),
            ("Organic Chemistry", "A short course upon the compounds of carbon, their preparation, and their uses in"
             " dyeing and in medicine", "Compounds of Carbon"),
            ("Agricultural Chemistry", "The composition of plants and soils, manures, and the feeding of animals,"
             " illustrated from the farms of the neighborhood", ""),
        ),
    ),
    (
        "Department of Mathematics",
        "The studies of this department run through three years. The aim is less to carry the student far than to give"
        " him the habit of exact statement and of confidence in what has once been proved.",
        (
            ("University Algebra", "The theory of equations, series and logarithms, with many examples to be solved at"
             " the blackboard", "University Algebra"),
            ("Analytical Geometry", "The straight line and the conic sections referred to rectangular axes; general"
             " properties of curves of the second degree", "Analytical Geometry"),
            ("Differential and Integral Calculus", "Rates, maxima and minima, areas and volumes, with applications to"
             " questions taken from mechanics", "Calculus"),
            ("Surveying and Leveling", "Field practice with chain, compass and level; every student plots a farm from"
             " his own notes", "Surveying"),
            ("Theoretical Astronomy", "The figure and motions of the earth, the measure of time, eclipses, and the use"
             " of the transit instrument", "Treatise on Astronomy"),
        ),
    ),
    (
        "School of Modern Languages",
        "French and German are taught by natives of those countries. Students are expected to converse from the first"
        " week, and the grammar is learned by the way.",
        (
            ("Elementary French", "Pronunciation, the regular verbs, and easy reading with daily dictation",
             "First French Book"),
            ("French Drama", "Reading of comedies of the classical period, with composition and conversation upon what"
             " has been read", "French Theatre"),
            ("Elementary German", "The declensions and the order of words; translation of tales and ballads",
             "German Course"),
            ("Scientific German", "Reading at sight from journals and treatises in natural science, for those who wish"
             " to study abroad", ""),
            ("Spanish", "A class is formed whenever six students ask for it, and continues for one year",
             "Spanish Grammar"),
        ),
    ),
    (
        "Department of Natural History",
        "The cabinet contains above four thousand specimens, arranged and labeled for reference, and is open to"
        " students at all hours of daylight.",
        (
            ("Structural Botany", "The organs of plants and the principles of classification; each member of the class"
             " prepares fifty specimens", "Lessons in Botany"),
            ("Comparative Zoology", "The great divisions of the animal kingdom, studied from specimens, with drawings"
             " made by the student", "Principles of Zoology"),
            ("Human Physiology", "Structure and functions of the body, and the preservation of health, with the aid of"
             " models and the skeleton", "Hygiene and Physiology"),
            ("Lithological Geology", "Rocks and the minerals that compose them; excursions to the quarries on Saturday"
             " afternoons", "Text-book of Geology"),
            ("Historical Geology", "The succession of life upon the globe, so far as it is made out from fossils, with"
             " special reference to the West", ""),
        ),
    ),
    (
        "Department of Mental and Moral Science",
        "Instruction is given by recitation and by familiar lecture. Discussion is encouraged, and written summaries"
        " are required at the end of each subject.",
        (
            ("Intellectual Philosophy", "The faculties of perception, memory and reason, examined in the light of"
             " consciousness", "Intellectual Powers"),
            ("Ethics", "The grounds of obligation, and the duties of man to himself, to society and to his Maker",
             "Moral Science"),
            ("Elements of Logic", "The term, the proposition and the syllogism; fallacies, with examples collected by"
             " the class", "Elements of Logic"),
            ("Political Economy", "Production, exchange and taxation; debates upon the tariff and the currency",
             "Wealth of States"),
            ("History of Education", "Schools of the ancients and of modern Europe, for those who intend to teach", ""),
        ),
    ),
)  # fmt: skip

HOURS = ("Two hours a week", "Three hours a week", "Four hours a week", "Five hours a week")
LEVELS = ("Freshman year", "Sophomore year", "Junior year", "Senior year")
TERMS = ("first term", "second term", "third term")

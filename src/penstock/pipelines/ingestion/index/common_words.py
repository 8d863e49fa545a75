"""Words that nearly every text of a language has, so that they tell no text from another."""

from __future__ import annotations

_ENGLISH = """
a about after again all also am an and any are as at be because been before being between both but by can could d did
do does doing down during each few for from further get give had has have having he her here hers him his how i if in
into is it its just ll m many me more most much my no nor not of off on once only or other our out over own re s same
she should so some such t than that the their them then there these they this those through to too under until up ve
very was we were what when where which while who whom whose why will with would you your
"""
_GERMAN = """
aber alle allem allen aller alles als also am an andere auch auf aus bei beim bin bis da damit dann das dass dein dem
den denn der des dessen deren die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer
eines er es für gegen hat hatte hatten haben hier ich ihm ihn ihr ihre ihrem ihren ihrer im in ins ist ja jede jeder
jedes kann kein keine können man mehr mein mit nach nicht noch nur ob oder ohne sehr sein seine seinem seinen seiner
seit sich sie sind so über um und uns unter viel viele vom von vor wann war waren warum was welche welchem welchen
welcher welches wem wen wenn wer werden wessen weshalb wie wieso wieviel wir wird wo wodurch woher wohin womit wurde
wurden zu zum zur zwischen
"""
_FRENCH = """
a à ai as au aucun aux avec avez avons c ce ceci cela celle celui ces cet cette ceux chez comme comment d dans de
depuis des dont du elle elles en entre es est et était étaient été être eu fait il ils j je l la là laquelle le lequel
les lesquels leur leurs lui m ma mais me même mes mon n ne ni nos notre nous on ont ou où par pas pendant plus pour
pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se selon ses si son sont sous sur t ta te tes toi
ton tous tout toute toutes très tu un une vers vos votre vous y
"""

LANGUAGES = tuple(frozenset(words.split()) for words in (_ENGLISH, _GERMAN, _FRENCH))

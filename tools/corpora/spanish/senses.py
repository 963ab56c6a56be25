"""English words with several translations, and the sentences that decide between them.

A block opens with the word and the Spanish forms of one sense. Its lines are frames: verbs (or "-" for a sentence written
out, "be/ser" and the like for a form of to be), English, Spanish. A slot in braces is filled alike on both sides from
`slots.py`; {to}, {with} and {whom} are people. A plus after the verb allows a time. A written sentence ends in "." or "?".
"""

FRAMES = """
= letter: carta cartas
write send write         | {carta} {to}                                      | {carta} {to}
write                    | the {rankf} letter {to}                           | la {rankf} carta {to}
read look_for have find  | the letter from {person}                          | la carta de {person}
have read want           | {carta} from {person}                             | {carta} de {person}
-                        | there is a letter for {person} on {surface}.      | hay una carta para {person} en {surface}
-                        | the letter from {person} is on {surface}.         | la carta de {person} está en {surface}
-                        | {carta_the} is for {person}.                      | {carta_the} es para {person}
-                        | where is the letter from {person}?                | dónde está la carta de {person}
-                        | the letter from {person}                          | la carta de {person}

= letter: letra letras
-                        | the {rankf} letter of {word}                      | la {rankf} letra de {word}
write read look_at paint | the {rankf} letter of {word}                      | la {rankf} letra de {word}
learn study              | the letters of the alphabet                       | las letras del alfabeto
-                        | {word} has {n} letters.                           | {word} tiene {n} letras
-                        | there are {n} letters in {word}.                  | hay {n} letras en {word}
- -                      | what is the {rankf} letter of {word}?             | cuál es la {rankf} letra de {word}
-                        | how many letters does {word} have?                | cuántas letras tiene {word}
-                        | the {rankf} letter of {word} is {colorf}.         | la {rankf} letra de {word} es {colorf}
know/saber               | the letters of {word}                             | las letras de {word}

= bank: banco
work+                    | at the bank                                       | en el banco
have                     | money in the bank                                 | dinero en el banco
need                     | money from the bank                               | dinero del banco
have need                | a letter from the bank                            | una carta del banco
- -                      | {banco} opens at {hour}.                          | {banco} abre a {hour}
- -                      | {banco} closes at {hour}.                         | {banco} cierra a {hour}
-                        | the bank is closed {day}.                         | el banco está cerrado {day}
-                        | is the bank open {day}?                           | está abierto el banco {day}
-                        | {banco} is {near} {landmark}.                     | {banco} está {near} {landmark}
-                        | there is a bank {near} {landmark}.                | hay un banco {near} {landmark}
-                        | {woman} is going to the bank because she needs money. | {woman} va al banco porque necesita dinero
-                        | {man} is going to the bank because he needs money. | {man} va al banco porque necesita dinero

= bank: orilla
walk+ run+               | along the bank of {river}                         | por la orilla de {river}
sleep eat sing fish+     | on the bank of {river}                            | en la orilla de {river}
live                     | near the bank of {river}                          | cerca de la orilla de {river}
swim swim                | to the bank of {river}                            | hasta la orilla de {river}
see look_at              | the river from the bank                           | el río desde la orilla
see                      | {animals} on the bank of {river}                  | {animals} en la orilla de {river}
-                        | the bank of {river} is {bankadj}.                 | la orilla de {river} es {bankadj}
-                        | the river is {riveradj} and the bank is {bankside}. | el río es {riveradj} y la orilla es {bankside}
-                        | there are {n} {onbank} on the bank of {river}.    | hay {n} {onbank} en la orilla de {river}
-                        | {person} is on the bank of {river}.               | {person} está en la orilla de {river}
-                        | the bank of {river}                               | la orilla de {river}

= bat: murciélago murciélagos
- -                      | {murcielago} flies {flying}.                      | {murcielago} vuela {flying}
-                        | {murcielago} sleeps in {cave}.                    | {murcielago} duerme en {cave}
-                        | {murcielago} eats insects {flying}.               | {murcielago} come insectos {flying}
-                        | {murcielagos} eat insects {flying}.               | {murcielagos} comen insectos {flying}
- -                      | {murcielago} has {wings}.                         | {murcielago} tiene {wings}
- -                      | {murcielagos} fly {flying}.                       | {murcielagos} vuelan {flying}
-                        | {murcielagos} sleep in {cave}.                    | {murcielagos} duermen en {cave}
-                        | there are {n} bats in {cave}.                     | hay {n} murciélagos en {cave}
-                        | there is {murcielago_a} in {cave}.                | hay {murcielago_a} en {cave}
see look_for             | {murcielago_a} in {cave}                          | {murcielago_a} en {cave}
be/tener                 | afraid of bats                                    | miedo a los murciélagos

= bat: bate
hit hit hit hit          | the ball with {bate}                              | la pelota con {bate}
play/jugar               | baseball with {bate}                              | al béisbol con {bate}
buy need look_for want   | {bate_a} to play baseball                         | {bate_a} para jugar al béisbol
buy want have            | {bate_a} and a ball                               | {bate_a} y una pelota
lose find look_for       | {bate_baseball}                                   | {bate_baseball}
-                        | the bat and the ball are {spot}.                  | el bate y la pelota están {spot}
-                        | {bate_baseball} is {spot}.                        | {bate_baseball} está {spot}
-                        | where is {bate_baseball}?                         | dónde está {bate_baseball}

= watch: reloj relojes
buy need have want       | {reloj}                                           | {reloj}
look_for lose find       | {reloj_the}                                       | {reloj_the}
look_at                  | {reloj_the}                                       | {reloj_the}
give show                | {reloj} {to}                                      | {reloj} {to}
-                        | {reloj_the} is {watchadj}.                        | {reloj_the} es {watchadj}
-                        | {person}'s watch is {watchadj}.                   | el reloj de {person} es {watchadj}
-                        | {person}'s watch is broken.                       | el reloj de {person} está roto
-                        | {reloj_the} is {spot}.                            | {reloj_the} está {spot}
-                        | where is {reloj_the}?                             | dónde está {reloj_the}

= watch: @watch
watch+                   | {show}                                            | {show}
watch                    | {show} {with}                                     | {show} {with}
watch                    | {show} in {room}                                  | {show} en {room}
-                        | {liker} to watch {shows}.                         | {liker} ver {shows}

= light: luz
turn_on turn_off turn_on:g turn_off:g | the light in {room}                               | la luz de {room}
turn_on turn_off         | the light of {lamp}                               | la luz de {lamp}
need                     | more light to {task}                              | más luz para {task}
see look_at see -        | the light of {shining}                           | la luz de {shining}
- -                      | the light of {shining} is {colorf}.               | la luz de {shining} es {colorf}
-                        | there is not much light in {room}.                | no hay mucha luz en {room}
-                        | there is a light in {room}.                       | hay una luz en {room}
-                        | the light in {room} is {onoff}.                   | la luz de {room} está {onoff}
-                        | the light of {lamp} is {onoff}.                   | la luz de {lamp} está {onoff}
-                        | the light in {room} is not {onoff}.               | la luz de {room} no está {onoff}
-                        | is the light in {room} {onoff}?                   | está {onoff} la luz de {room}
-                        | {liker} the light of {shining}.                   | {liker} la luz de {shining}

= light: ligero ligera ligeros ligeras
-                        | {ligero}                                          | {ligero}
-                        | {ligero_is}.                                      | {ligero_is}
-                        | {ligero_ask}?                                     | {ligero_ask}
buy need want look_for   | {ligero}                                          | {ligero}
-                        | {person}'s suitcase is very light.                | la maleta de {person} es muy ligera
-                        | {person}'s coat is very light.                    | el abrigo de {person} es muy ligero

= light: claro
buy need want look_for   | {claro}                                           | {claro}
wash see                 | {claro}                                           | {claro}
-                        | {claro}                                           | {claro}
-                        | {claro_is}.                                       | {claro_is}
-                        | {person}'s {claro_of}                             | {claro_of} de {person}

= right: derecha derecho
turn turn turn turn      | right at {corner}                                 | a la derecha en {corner}
write eat                | with the right hand                               | con la mano derecha
-                        | {landmark} is on the right.                       | {landmark} está a la derecha
-                        | {landmark} is to the right of {landmark2}.        | {landmark} está a la derecha de {landmark2}
-                        | {person} is to the right of {person2}.            | {person} está a la derecha de {person2}
-                        | {person}'s right hand is {handadj}.               | la mano derecha de {person} está {handadj}
- -                      | {person}'s right foot is {footadj}.               | el pie derecho de {person} está {footadj}

= right: razón
be/tener                 | right                                             | razón
be/tener                 | right about {topic}                               | razón sobre {topic}
-                        | {think} {person} is right.                        | {think} {person} tiene razón
-                        | {person} is always right.                         | {person} siempre tiene razón
-                        | is {person} right about {topic}?                  | {person} tiene razón sobre {topic}

= right: correcto correcta
-                        | {correcto}                                        | {correcto}
write                    | {correcto_word}                                   | {correcto_word}
look_for need find       | {correcto}                                        | {correcto}
know/saber               | the right answer                                  | la respuesta correcta
-                        | {correcto_this}.                                  | {correcto_this}
-                        | {answer} is right.                                | {answer} es correcta
-                        | is {answer} right?                                | es correcta {answer}
-                        | {person}'s answer is right.                       | la respuesta de {person} es correcta

= glass: vaso vasos
drink+ want need         | {vaso} of {drink}                                 | {vaso} de {drink}
give                     | a glass of {drink} {to}                           | un vaso de {drink} {to}
-                        | {vaso} of {drink}                                 | {vaso} de {drink}
-                        | there is a glass of {drink} on {surface}.         | hay un vaso de {drink} en {surface}
-                        | {vaso_the} is {fullm}.                            | {vaso_the} está {fullm}
-                        | {person}'s glass is {fullm}.                      | el vaso de {person} está {fullm}
-                        | the glass of {drink} is on {surface}.             | el vaso de {drink} está en {surface}

= glass: vidrio
buy want see look_at     | {vidrio}                                          | {vidrio}
open close clean         | {vidrio_door}                                     | {vidrio_door}
-                        | {vidrio}                                          | {vidrio}
-                        | {made} is made of glass.                          | {made} es de vidrio
-                        | {made} is not made of glass.                      | {made} no es de vidrio
-                        | is {made} made of glass?                          | es de vidrio {made}
-                        | {person} has a table that is made of glass.       | {person} tiene una mesa que es de vidrio
"""

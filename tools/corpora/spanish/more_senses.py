"""More words with several translations, in the form of `senses.py`."""

FRAMES = """
= time: vez veces
visit:pfm                | {place} for the {rankv} time                      | {place} por {rankv} vez
see:p call:f             | {person} {times}                                  | a {person} {times}
read:pf                  | {reading} {times}                                 | {reading} {times}
eat:sm                   | {food} {times} a {period}                         | {food} {times} {period}
clean:m                  | {cleaned} {times} a {period}                      | {cleaned} {times} {period}
listen_to:fm             | {song} {times}                                    | {song} {times}

= time: hora
-                        | what time is it {where}?                          | qué hora es {where}
- -                      | what time does {ride} {ridden}?                   | a qué hora {ridden} {ride}
-                        | what time does {person} {daily}?                  | a qué hora {daily} {person}
-                        | what time do you {dailyyou}?                      | a qué hora {dailyyou}
- -                      | what time does {ride} {ridden} {day}?             | a qué hora {ridden} {ride} {day}
know/saber               | what time {ride} {leaves}                         | a qué hora {leaves} {ride}
-                        | it is time to {task}.                             | es hora de {task}
-                        | {think} it is time to {task}.                     | {think} es hora de {task}

= time: tiempo
have                     | time to {task}                                    | tiempo para {task}
need                     | more time to {task}                               | más tiempo para {task}
- -                      | there is no time to {task} {soon}.                | no hay tiempo para {task} {soon}
-                        | {person} never has time to {task}.                | {person} nunca tiene tiempo para {task}

= play: @play/jugar
play/jugar+ play/jugar:s+ play/jugar:s+ play/jugar:s+ | {sport}                                           | {sport}
play/jugar               | {sport} {with}                                    | {sport} {with}
play/jugar               | {sport} in {outdoor}                              | {sport} en {outdoor}
-                        | {liker} to play {sport}.                          | {liker} jugar {sport}

= play: @play/tocar
play/tocar+ play/tocar:s+ play/tocar:s+ play/tocar:s+ | {instrument}                                      | {instrument}
play/tocar               | {instrument} {with}                               | {instrument} {with}
play/tocar               | {instrument} in {room}                            | {instrument} en {room}
-                        | {liker} to play {instrument}.                     | {liker} tocar {instrument}

= play: obra obras
watch                    | {obra} at the theater                             | {obra} en el teatro
write                    | {obra} for the theater                            | {obra} para el teatro
-                        | {obra_the} starts at {hour}.                      | {obra_the} empieza a {hour}
-                        | {obra_the} at the theater is {playadj}.           | {obra_the} del teatro es {playadj}
-                        | {person}'s play is {playadj}.                     | la obra de {person} es {playadj}
-                        | {person} is going to the theater to watch {obra}. | {person} va al teatro a ver {obra}
- - -                    | there are {n} {obras} at the theater.             | hay {n} {obras} en el teatro

= know: @know/saber
know/saber               | the answer                                        | la respuesta
know/saber               | the name of {named}                               | el nombre de {named}
know/saber               | how to {skill}                                    | {skill}
know/saber               | where {thing} is                                  | dónde está {thing}
know/saber               | that {closed}                                     | que {closed}
know/saber               | that {person} is {stay}                           | que {person} está {stay}

= know: @know/conocer
know/conocer             | {person}                                          | a {person}
know/conocer             | {whom}                                            | {whom}
know/conocer             | {place}                                           | {place}
know/conocer             | {goodplace}                                       | {goodplace}

= spring: primavera
visit:fm                 | {place} in spring                                 | {place} en primavera
go:pm                    | to {going} in spring                              | a {going} en primavera
-                        | {placeis} in spring.                              | {placeis} en primavera
-                        | it is {weather} in {land} in spring.              | hace {weather} en {land} en primavera
-                        | the {day1} day of spring                          | el {day1} día de la primavera
-                        | there are many flowers in {land} in spring.       | hay muchas flores en {land} en primavera
walk:fm swim:fm          | with {person} in spring                           | con {person} en primavera
-                        | {liker} to visit {place} in spring.               | {liker} visitar {place} en primavera

= spring: resorte resortes
need buy look_for find   | {resorte} for {device}                            | {resorte} para {device}
look_at                  | the spring of {device}                            | el resorte de {device}
-                        | the spring of {device}                            | el resorte de {device}
-                        | the spring of {device} is broken.                 | el resorte de {device} está roto
-                        | the spring of {device} is {springadj}.            | el resorte de {device} es {springadj}
-                        | {device} has {n} springs.                         | {device} tiene {n} resortes
-                        | {device} needs {resorte}.                         | {device} necesita {resorte}

= match: partido partidos
watch                    | the match on television                           | el partido en la televisión
watch win lose           | {partido}                                         | {partido}
watch                    | {partido} {with}                                  | {partido} {with}
go:pm                    | to {partido}                                      | a {partido}
-                        | {partido} starts at {hour}.                       | {partido} empieza a {hour}
-                        | there is a {matchkind} match {day}.               | hay un partido {matchkind} {day}
-                        | {liker} the {matchkind} match.                    | {liker} el partido {matchkind}

= match: fósforo fósforos
need look_for want       | {fosforo} for {candle}                            | {fosforo} para {candle}
buy need have            | a box of matches                                  | una caja de fósforos
-                        | there are {n} matches in {matchbox}.              | hay {n} fósforos en {matchbox}
-                        | the matches are {near} {candle}.                  | los fósforos están {near} {candle}
-                        | {person} needs {fosforo} for {candle}.            | {person} necesita {fosforo} para {candle}
-                        | there is a box of matches on {surface}.           | hay una caja de fósforos en {surface}

= key: llave llaves
look_for need have find  | {llave} to {lock}                                 | {llave} de {lock}
lose                     | {llave} to {lock}                                 | {llave} de {lock}
open close               | {lock} with {llave}                               | {lock} con {llave}
give show                | {llave} to {lock} {to}                            | {llave} de {lock} {to}
-                        | {llave} to {lock} is on {surface}.                | {llave} de {lock} está en {surface}
-                        | where is {llave} to {lock}?                       | dónde está {llave} de {lock}
-                        | {llave} to {lock}                                 | {llave} de {lock}

= key: tecla teclas
clean look_at see        | {teclas} of {piano}                               | {teclas} de {piano}
-                        | {teclas} of {piano}                               | {teclas} de {piano}
-                        | {teclas} of {piano} are {keysadj}.                | {teclas} de {piano} están {keysadj}
-                        | {piano} has {n} broken keys.                      | {piano} tiene {n} teclas rotas
-                        | the {rankf} key of {piano} is broken.             | la {rankf} tecla de {piano} está rota
-                        | how many keys does {piano} have?                  | cuántas teclas tiene {piano}
-                        | {person}'s piano has {n} broken keys.             | el piano de {person} tiene {n} teclas rotas

= fish: pez peces
see look_at look_for     | {pez_a} in {waters}                               | {pez_a} en {waters}
-                        | {pez} swims in {waters}.                          | {pez} nada en {waters}
-                        | {pez} lives in {waters}.                          | {pez} vive en {waters}
-                        | {peces} swim in {waters}.                         | {peces} nadan en {waters}
-                        | {peces} live in {waters}.                         | {peces} viven en {waters}
-                        | there are {n} fish in {waters}.                   | hay {n} peces en {waters}

= fish: pescado
eat+ cook+ buy+ want     | {pescado}                                         | {pescado}
eat cook buy             | {pescado} with {side}                             | {pescado} con {side}
-                        | {liker} {fishliked}.                              | {liker} {fishliked}
-                        | the fish with {side} is {fishadj}.                | el pescado con {side} está {fishadj}
-                        | {person} is going to the market to buy fish.      | {person} va al mercado a comprar pescado
-                        | the fish on {plate} is {fishadj}.                 | el pescado de {plate} está {fishadj}

= fish: @fish
fish+                    | in {waters}                                       | en {waters}
fish                     | {with}                                            | {with}
fish                     | in {waters} {with}                                | en {waters} {with}
-                        | {liker} to fish in {waters}.                      | {liker} pescar en {waters}

= leg: pierna piernas
look_at:gf               | {person}'s leg                                    | la pierna de {person}
-                        | {person}'s {which} leg is {legadj}.               | la pierna {which} de {person} está {legadj}
-                        | {person} has a broken leg.                        | {person} tiene una pierna rota
-                        | {person} has {long} legs.                         | {person} tiene las piernas {long}
-                        | {person}'s legs are {long}.                       | las piernas de {person} son {long}
-                        | {person}'s {which} leg                            | la pierna {which} de {person}

= leg: pata patas
paint clean look_at      | the legs of {furniture}                           | las patas de {furniture}
-                        | {furniture} has {legs} legs.                      | {furniture} tiene {legs} patas
- -                      | one leg of {furniture} is {legstate}.             | una pata de {furniture} {legstate}
-                        | the legs of {furniture} are {long}.               | las patas de {furniture} son {long}
-                        | {beast} has {long} legs.                          | {beast} tiene las patas {long}
-                        | the legs of {beast}                               | las patas de {beast}
-                        | {beast} has a broken leg.                         | {beast} tiene una pata rota

= short: corto corta cortos cortas
buy want need            | {corto_clothes}                                   | {corto_clothes}
read write               | {corto_text}                                      | {corto_text}
-                        | {corto_clothes}                                   | {corto_clothes}
-                        | {corto_is}.                                       | {corto_is}
-                        | {corto_ask}?                                      | {corto_ask}

= short: bajo baja bajos bajas
be/ser                   | short                                             | ~bajo
be/ser                   | very short                                        | muy ~bajo
see help call wait_for   | {bajo}                                            | a {bajo}
-                        | {bajo}                                            | {bajo}
-                        | {bajo} is {near} {landmark}.                      | {bajo} está {near} {landmark}

= is: es
-                        | {ser_is}.                                         | {ser_is}

= is: está
-                        | {estar_is}.                                       | {estar_is}
"""

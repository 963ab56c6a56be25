"""What fills the slots of the frames in `senses.py`: the same choice in both languages."""

# slot | noun, a hyphen for each space inside | determiners | adjectives, "-" for none
PHRASES = """
carta         | letter carta f               | a the this two some    | - long short important beautiful
carta_the     | letter carta f               | the this that          | - long short important
banco         | bank banco m                 | the this that our      | - big small new modern
river         | river río m                  | the this that          | - long dangerous beautiful
murcielago    | bat murciélago m             | the this that          | - small big black
murcielago_a  | bat murciélago m             | a                      | - small big black
bate          | bat bate m                   | the this my a your     | - new big old
bate_a        | bat bate m                   | a                      | - new big cheap old
bate_baseball | baseball-bat bate-de-béisbol m | the my your          | - new old
reloj         | watch reloj m                | a the this that        | - new old expensive cheap beautiful
reloj_the     | watch reloj m                | the this my your       | - new old expensive
vaso          | glass vaso m                 | a the this two three   | - big small
vaso_the      | glass vaso m                 | the this that my your  | - big small
obra          | play obra f                  | a the this             | - new long good interesting short
obra_the      | play obra f                  | the this that          | - new
resorte       | spring resorte m             | a two some             | - new strong
fosforo       | match fósforo m              | a some two many        | -
llave         | key llave f                  | the                    | - new small old
pez           | fish pez m                   | the this that          | - red big small yellow
pez_a         | fish pez m                   | a                      | - red big small yellow black
word          | word palabra f               | the this that          | - long difficult
cave          | cave cueva f                 | the this that a        | - big small
candle        | candle vela f                | the this that          | - small white red
piano         | piano piano m                | the this that my your  | - old new
device        | bed cama f                   | the this my            | - old
device        | machine máquina f            | the this that          | - old new
device        | watch reloj m                | the this your          | - old
lock          | house casa f                 | the my this            | -
lock          | car coche m                  | the my your            | -
lock          | suitcase maleta f            | the my your            | - red
lock          | door puerta f                | this that              | -
matchbox      | box caja f                   | the this that          | - small red
furniture     | table mesa f                 | the this my            | - small white
furniture     | chair silla f                | the this that          | - old
furniture     | bed cama f                   | the my                 | -
beast         | dog perro m                  | the my that            | - black small
beast         | cat gato m                   | the my your            | - white
beast         | horse caballo m              | the this               | - black
beast         | cow vaca f                   | the that               | - white
vidrio        | glass-door puerta-de-vidrio f | a the this            | - big
vidrio        | glass-table mesa-de-vidrio f | a the that             | - new
vidrio        | glass-bottle botella-de-vidrio f | a the this         | - small
vidrio        | glass-box caja-de-vidrio f   | a the that             | - beautiful
vidrio        | glass-lamp lámpara-de-vidrio f | a the this           | - expensive
vidrio_door   | glass-door puerta-de-vidrio f | the this that         | - big small
vidrio_door   | glass-box caja-de-vidrio f   | the this that          | - small
made          | door puerta f                | the this that          | -
made          | table mesa f                 | the this our           | - big small
made          | bottle botella f             | the this that          | - small
made          | lamp lámpara f               | the my that            | - old
made          | window ventana f             | the that               | - small
place         | museum museo m               | the this that          | - new famous
place         | city ciudad f                | the this that          | - beautiful
place         | village pueblo m             | the this               | - small
place         | island isla f                | the this               | - beautiful
place         | church iglesia f             | the this that          | -
goodplace     | restaurant restaurante m     | a                      | good Mexican French
goodplace     | restaurant restaurante m     | the this that          | Mexican French
goodplace     | hotel hotel m                | a                      | good modern
goodplace     | hotel hotel m                | the this               | modern
reading       | book libro m                 | the this that my       | - long
reading       | poem poema m                 | the this that          | - short
song          | song canción f               | the this that          | - beautiful
cleaned       | kitchen cocina f             | the my                 | -
cleaned       | room habitación f            | the my your            | -
cleaned       | house casa f                 | the our                | -
answer        | answer respuesta f           | the this that my your  | -
answer        | word palabra f               | the this that          | -
partido       | soccer-match partido-de-fútbol m | the this a         | - important
partido       | tennis-match partido-de-tenis m | the this a          | - important
partido       | baseball-match partido-de-béisbol m | the a           | - important
"""

# slot | english = spanish, ...
LISTS = """
rankf     | first = primera, second = segunda, third = tercera, last = última
rankv     | first = primera, last = última
day1      | first = primer, last = último
n         | two = dos, three = tres, four = cuatro, five = cinco, six = seis, seven = siete, eight = ocho, ten = diez
times     | two times = dos veces, three times = tres veces, four times = cuatro veces, many times = muchas veces
period    | day = al día, week = a la semana
word      | my name = mi nombre, your name = tu nombre, this name = este nombre, the last word = la última palabra
hour      | seven = las siete, eight = las ocho, nine = las nueve, ten = las diez, four = las cuatro, five = las cinco
day       | today = hoy, on Sunday = el domingo, on Saturday = el sábado, tomorrow = mañana
surface   | the table = la mesa, my bed = mi cama, the chair = la silla, the bed = la cama, my table = mi mesa
spot      | in the box = en la caja, in my bag = en mi bolsa, under the bed = debajo de la cama, in the car = en el coche
spot      | on the chair = en la silla, on the table = en la mesa, in your room = en tu habitación
room      | the kitchen = la cocina, my room = mi habitación, the house = la casa, the office = la oficina
room      | this room = esta habitación, the room = la habitación, your room = tu habitación
colorf    | red = roja, white = blanca, yellow = amarilla, blue = azul, green = verde
bankadj   | beautiful = hermosa, dangerous = peligrosa, quiet = tranquila, green = verde, long = larga
riveradj  | dangerous = peligroso, very dangerous = muy peligroso, long = largo, very long = muy largo, big = grande
bankside  | beautiful = hermosa, quiet = tranquila, green = verde
onbank    | trees = árboles, houses = casas, horses = caballos, cows = vacas, dogs = perros, boats = barcos
animals   | a horse = un caballo, two cows = dos vacas, a dog = un perro, many birds = muchos pájaros, a boat = un barco
flying    | at night = por la noche, in the cave = en la cueva, in this cave = en esta cueva, in the forest = en el bosque
murcielagos | the bats = los murciélagos, these bats = estos murciélagos, many bats = muchos murciélagos
murcielagos | those bats = esos murciélagos, the small bats = los murciélagos pequeños, two bats = dos murciélagos
murcielagos | the black bats = los murciélagos negros, some bats = unos murciélagos
wings     | big wings = alas grandes, black wings = alas negras, long wings = alas largas, small wings = alas pequeñas
watchadj  | expensive = caro, cheap = barato, new = nuevo, old = viejo, small = pequeño, beautiful = hermoso
show      | television = la televisión, the film = la película, this film = esta película, a film = una película
shows     | television = la televisión, films = películas, French films = películas francesas
shows     | Mexican films = películas mexicanas, long films = películas largas
show      | a French film = una película francesa, the new film = la película nueva, that film = esa película
show      | a Mexican film = una película mexicana, a long film = una película larga
task      | read = leer, write = escribir, eat = comer, cook = cocinar, study = estudiar, work = trabajar, paint = pintar
task      | read the book = leer el libro, wash the car = lavar el coche, study the lesson = estudiar la lección
task      | clean the kitchen = limpiar la cocina, look for the book = buscar el libro
task      | read the newspaper = leer el periódico, cook the meat = cocinar la carne, read this story = leer esta historia
lamp      | the lamp = la lámpara, this lamp = esta lámpara, that lamp = esa lámpara, my lamp = mi lámpara
shining   | the moon = la luna, the sun = el sol, the lamp = la lámpara, the candle = la vela, that lamp = esa lámpara
onoff     | on = encendida, off = apagada
corner    | the corner = la esquina, this corner = esta esquina, the square = la plaza, the church = la iglesia
corner    | the station = la estación
handadj   | cold = fría, dirty = sucia, clean = limpia
footadj   | cold = frío, dirty = sucio, clean = limpio
topic     | the film = la película, the book = el libro, the problem = el problema, the museum = el museo
topic     | this story = esta historia, the hotel = el hotel, the lesson = la lección
think     | I think that = creo que, we think that = creemos que, I know that = sé que, Ana thinks that = Ana cree que
think     | you think that = crees que, they think that = ellos creen que, Luis knows that = Luis sabe que
drink     | water = agua, milk = leche, cold water = agua fría, tea = té, cold milk = leche fría, hot milk = leche caliente
fullm     | full = lleno, empty = vacío, clean = limpio, dirty = sucio
food      | meat = carne, rice = arroz, bread = pan, apples = manzanas, cheese = queso, fish = pescado, salad = ensalada
where     | = , in this city = en esta ciudad, in the village = en el pueblo, at school = en la escuela, now = ahora
where     | in your city = en tu ciudad, at the hotel = en el hotel, in the city = en la ciudad, on the island = en la isla
ride      | my train = mi tren, your bus = tu autobús, this boat = este barco, your train = tu tren, that train = ese tren
ride      | the train = el tren, the bus = el autobús, this train = este tren, that bus = ese autobús, the boat = el barco
ride      | the last bus = el último autobús, the first train = el primer tren
leaves    | arrives = llega, leaves = sale
soon      | = , today = hoy, now = ahora, tomorrow = mañana
obras     | plays = obras, new plays = obras nuevas, long plays = obras largas, good plays = buenas obras
ridden    | arrive = llega, leave = sale
daily     | eat = come, work = trabaja, study = estudia, sleep = duerme, arrive = llega
dailyyou  | eat = comes, work = trabajas, study = estudias, sleep = duermes
sport     | soccer = al fútbol, tennis = al tenis, chess = al ajedrez, basketball = al baloncesto, baseball = al béisbol
outdoor   | the park = el parque, the garden = el jardín, the street = la calle, the square = la plaza, this park = este parque
instrument | the guitar = la guitarra, the piano = el piano, the violin = el violín, this guitar = esta guitarra
instrument | the old piano = el piano viejo, that violin = ese violín
playadj   | long = larga, interesting = interesante, beautiful = hermosa, famous = famosa, short = corta
skill     | swim = nadar, cook = cocinar, dance = bailar, sing = cantar, read = leer, write = escribir, paint = pintar
skill     | play soccer = jugar al fútbol, play the piano = tocar el piano, play chess = jugar al ajedrez
skill     | play the guitar = tocar la guitarra
named     | the street = la calle, this street = esta calle, the song = la canción, the film = la película, the book = el libro
named     | the teacher = el profesor, your friend = tu amigo, that girl = esa niña, this village = este pueblo
thing     | the book = el libro, my hat = mi sombrero, the station = la estación, your bag = tu bolsa, the museum = el museo
thing     | the dog = el perro, Ana's hat = el sombrero de Ana, my suitcase = mi maleta, the newspaper = el periódico
going     | the beach = la playa, the village = el pueblo, the island = la isla, the forest = el bosque, this park = este parque
weather   | hot = calor, cold = frío, very hot = mucho calor, very cold = mucho frío
land      | this city = esta ciudad, the village = el pueblo, the forest = el bosque, my city = mi ciudad
land      | the garden = el jardín, this village = este pueblo, the park = el parque
springadj | new = nuevo, old = viejo, strong = fuerte, small = pequeño, big = grande
matchkind | soccer = de fútbol, tennis = de tenis, baseball = de béisbol, basketball = de baloncesto
matchbox  | the kitchen = la cocina, my bag = mi bolsa
lock      | the room = la habitación, your house = tu casa, the office = la oficina, my room = mi habitación
teclas    | the keys = las teclas, the white keys = las teclas blancas, the black keys = las teclas negras
teclas    | two keys = dos teclas, five black keys = cinco teclas negras, three white keys = tres teclas blancas
keysadj   | dirty = sucias, clean = limpias, broken = rotas
peces     | the fish = los peces, these fish = estos peces, many fish = muchos peces, those fish = esos peces
peces     | some fish = unos peces, two red fish = dos peces rojos, the small fish = los peces pequeños
waters    | the river = el río, the sea = el mar, this river = este río, that river = ese río, the cold water = el agua fría
pescado   | fish = pescado, fresh fish = pescado fresco, fish soup = sopa de pescado
fishliked | fish = el pescado, fresh fish = el pescado fresco, fish soup = la sopa de pescado
side      | rice = arroz, salad = ensalada, tomatoes = tomates
fishadj   | delicious = delicioso, cold = frío, hot = caliente
plate     | the plate = el plato, my plate = mi plato, your plate = tu plato, this plate = este plato, the table = la mesa
which     | right = derecha, left = izquierda
legstate  | broken = está rota, short = es corta, dirty = está sucia
legadj    | broken = rota, dirty = sucia, clean = limpia
legs      | three = tres, four = cuatro
long      | long = largas, strong = fuertes, short = cortas
"""

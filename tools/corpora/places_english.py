"""Short stories about places, in English."""

from random import Random

from tools.corpora.places_story import Errand, Story, Venue, Who, draw_who, people, venue

PEOPLE = people(
    "Ana Mary Lucy Emma Helen Sophie Laura Martha Paula Alice Rose Julia Clara Grace Nora Amy Irene Susan Sylvia Kate "
    "Olivia Rachel Valerie Megan",
    "Louis Charles Peter John Michael Adam Paul David George Andrew Simon Anthony Mark Ralph Thomas Hugh Oscar Daniel "
    "Henry Jack Oliver Ian Matthew Philip",
)
COMPANY = ("{own} sister", "{own} brother", "{own} cousin", "a friend", "some friends", "a neighbor")

CINEMA = venue(
    "to the cinema",
    "see: a film*+, a film*+, a movie*+, a comedy*+, a comedy*+, a French film*+, a horror film*+, a documentary*+, "
    "a musical*+",
    "buy popcorn; sit down in the back row; watch the screen in silence",
    "talk about the final scene; read the credits on the screen; hum the soundtrack",
    often=True,
)
THEATER = venue(
    "to the theater",
    "see: a play*+, a tragedy*+, an opera*+, a ballet*+, a classical play+",
    "pick up a program; climb the stairs to the balcony; watch the curtain rise",
    "give a standing ovation; congratulate the artists backstage; throw flowers onto the stage",
)
MUSEUM = venue(
    "to the museum",
    "see: an exhibition*+, an exhibition*+, a sculpture*+, a collection of paintings*+, a portrait*+, a photo exhibition*+",
    "walk through the galleries; look at the paintings; listen to the tour guide",
    "draw a statue; buy a postcard of a painting; take notes on the paintings",
)
CENTER = venue(
    "downtown",
    "see: a store*+, a store*+, a shoe store*+, a bookstore*+, a square*+, a skyscraper*+, a fountain*+",
    "cross the avenue; look at the shop windows; look for a street on the map",
    "stroll along the pedestrian streets; rest outside a street café; take a picture of the streetcars",
)
OTHERS = (
    venue(
        "to the library",
        "read: a novel*+, a magazine*+, a history book+, a short story+; look for: an encyclopedia, a dictionary",
        "show a library card; search the shelves; sit down in the reading room",
        "return two books; borrow a book; thank the librarian",
        often=True,
    ),
    venue(
        "to the restaurant",
        "eat: a steak+, a fish soup+, a salad+, a pizza+; try: a dish*+, a recipe*+",
        "choose a table near the window; read the menu; call the waiter",
        "have dessert; pay the bill; leave a tip for the waiter",
        often=True,
    ),
    venue(
        "to the café",
        "drink: a coffee, a cup of tea, a hot chocolate+; try: a cheesecake+, a herbal tea*+",
        "leaf through the newspaper at the counter; ask for two lumps of sugar; stir the drink with a spoon",
        "dip a cookie in the cup; chat with the waitress; leave the empty cup on the counter",
        often=True,
    ),
    venue(
        "to the beach",
        "build: a sandcastle; watch: a sunset+; play with: a ball*; look for: some shells, a crab",
        "open the beach umbrella; put on sunscreen; lie down on a towel",
        "swim in the sea; jump over the waves; shake the sand off the towel",
        often=True,
    ),
    venue(
        "to the park",
        "play: a game of chess+, a game of badminton+; ride: a bicycle*; fly: a kite*; draw: a bridge, some flowers",
        "greet the gardener; walk across the lawn; look for a bench in the shade",
        "feed the pigeons; drink from the fountain; rest under a tree",
        often=True,
    ),
    venue(
        "to the stadium",
        "watch: a soccer match+, a rugby match+, a friendly match+, a youth tournament+, a derby+",
        "put on a team scarf; look for a seat in the stands; sing the club anthem",
        "celebrate the victory; boo the referee; cheer the players",
        often=True,
    ),
    venue(
        "to the bakery",
        "buy: a loaf of bread, an apple pie+, a meat pie+, some muffins, some rolls, a rye loaf+",
        "greet the baker; smell the fresh bread; choose a croissant",
        "put the bread in a paper bag; eat a bun on the way; ask for some doughnuts too",
        often=True,
    ),
    venue(
        "to the pharmacy",
        "buy: a cough syrup, an ointment, a box of aspirin, some vitamins, some bandages, a thermometer*",
        "show the doctor's prescription; describe {their} symptoms to the pharmacist; ask for a remedy for a cough",
        "read the leaflet; take a pill with some water; put the medicine in a bag",
    ),
    venue(
        "to school",
        "learn: a song*+, a poem*+; study: a lesson*; take: an exam, a spelling test; finish: a science project",
        "say hello to the teacher; take a notebook out of the backpack; write on the blackboard; play at recess",
        "correct the homework; put {their} pencils in the pencil case; say goodbye to the teacher",
    ),
    venue(
        "to the hospital",
        "visit: a sick friend, a sick aunt, a sick neighbor; have: an X-ray, a blood test, a checkup",
        "ask at the emergency desk; talk to a nurse; wait for the doctor in the hallway",
        "listen to the doctor's advice; thank the nurse; say goodbye to the patients",
    ),
    venue(
        "to the airport",
        "pick up: a guest, a client, a colleague, a visitor; welcome: a group of tourists, a delegation",
        "check the arrivals board; watch the planes land; look for the arrivals gate",
        "load the suitcases into a taxi; change money in the terminal; take a picture of the planes",
    ),
    venue(
        "to the market",
        "buy: a kilo of tomatoes, a head of lettuce, a watermelon+, a melon+, some oranges, a trout+",
        "compare the prices of the fruit; taste an olive; choose the ripest tomatoes",
        "haggle with the fruit seller; fill the basket with vegetables; put the potatoes in the basket",
        often=True,
    ),
    venue(
        "to the store",
        "buy: a shirt*+, a jacket*+, a T-shirt*+, a coat*+, a scarf*+, some pants",
        "look through the clothes racks; go into the fitting room; look in the mirror",
        "take off the price tag; choose a belt too; put the clothes in a bag",
    ),
    venue(
        "to the pool",
        "take: a swimming lesson+, a diving lesson+; swim: a relay race; practice: a swimming stroke*, a dive*",
        "put on a swimming cap; jump into the water; float in the water",
        "swim ten laps; dry {their} hair in the locker room; get {their} clothes from the locker",
        often=True,
    ),
    venue(
        "to the zoo",
        "see: a giraffe*+, a tiger*+, a baby elephant*+, a panda*+, a penguin*+",
        "follow the path along the cages; watch the monkeys play; photograph the lions",
        "feed the goats; listen to the lion's roar; imitate the monkeys",
    ),
    venue(
        "to the bank",
        "open: an account*; ask for: a loan*; cash: a check; exchange: some dollars; request: a credit card*",
        "talk to the cashier; ask about the interest; sign some papers",
        "count the bills; put away the money; check the balance of {their} account",
    ),
    venue(
        "to the post office",
        "send: a letter, a parcel, a postcard, a telegram; pick up: a parcel, a registered letter",
        "stand in line at the window; write the address on an envelope; stick a stamp on an envelope",
        "keep the postal receipt; buy more stamps; say goodbye to the mail carrier",
    ),
    venue(
        "to the gym",
        "try: a yoga class*+, a machine*+; learn: an exercise*+; lift: some dumbbells; practice: a dance*+",
        "run on the treadmill; warm up {their} muscles; jump rope",
        "stretch {their} legs; put away the weights; say goodbye to the trainer",
        often=True,
    ),
)  # fmt: skip
# as in Spanish: where one sees something new, the place alone decides the word
PLACES = (CINEMA,) * 6 + (MUSEUM,) * 3 + (CENTER,) * 3 + (THEATER,) * 2 + OTHERS

NOW = ("Today", "In the afternoon", "Around noon", "After a short walk,")
LEAVING = ("leave home", "catch the bus", "take the subway", "get off the bus")
WEEKLY = ("On Saturdays", "On Sundays", "Every Friday", "Almost every week")
PAST = ("Yesterday", "Last Friday", "Last week", "Two days ago")
FUTURE = ("Tomorrow", "Next Friday", "Next week", "The day after tomorrow,")
THERE = ("There", "Once there,")
ARRIVED = ("On arrival,", "First of all,")
THEN = ("Then", "Afterwards,", "Later", "In the end,")
MOODS = ("happy", "very happy", "tired", "satisfied", "in a good mood")
KNOWN = {"a friend": "{own} friend", "some friends": "{own} friends", "a neighbor": "{own} neighbor"}

PASTS = {
    "buy": "bought", "catch": "caught", "choose": "chose", "draw": "drew", "drink": "drank", "eat": "ate", "feed": "fed",
    "get": "got", "give": "gave", "go": "went", "have": "had", "hum": "hummed", "keep": "kept", "leave": "left",
    "lie": "lay", "pay": "paid", "put": "put", "read": "read", "run": "ran", "say": "said", "shake": "shook",
    "sing": "sang", "sit": "sat", "stand": "stood", "stick": "stuck", "swim": "swam", "take": "took", "throw": "threw",
    "write": "wrote", "come": "came",
}  # fmt: skip
DOUBLED = ("chat", "dip", "hum", "stir", "swim")


def tell(rng: Random) -> Story:
    """A story about someone in a place."""
    who = draw_who(rng, PEOPLE, "and")
    place = rng.choice(PLACES)
    errand = rng.choice(place.errands)
    tense = rng.choice(("present",) * 7 + ("past",) * 2 + ("future",))
    company = rng.choice(COMPANY) if rng.random() < 0.2 and not who.several else ""
    first = _opening(rng, who, place, errand, tense, company)
    second = _sequel(rng, who, place, errand, tense, company)
    return Story(_spoken(first, who), _spoken(second, who), who.name, place.to, errand.thing)


def _opening(rng: Random, who: Who, place: Venue, errand: Errand, tense: str, company: str) -> str:
    """Who goes where for what."""
    when = {"past": rng.choice(PAST), "future": rng.choice(FUTURE)}.get(tense, "")
    leaving = ""
    if tense == "present" and rng.random() < 0.45:
        when = rng.choice(NOW + WEEKLY if place.often else NOW)
        if rng.random() < 0.25:
            when, leaving = "", rng.choice(LEAVING)
    thing = errand.thing
    # nobody tries the same new ball every week
    if errand.fresh and rng.random() < 0.7 and (errand.liked or when not in WEEKLY):
        thing = f"a new {thing.split(' ', 1)[1]}"
    go = conjugate("go", tense, who.several)
    if leaving:
        go = f"{conjugate(leaving, tense, who.several)} and {go}"
    return f"{when} {who.name} {go} {place.to}{company and ' with ' + company} to {errand.verb} {thing}".lstrip()


def _sequel(rng: Random, who: Who, place: Venue, errand: Errand, tense: str, company: str) -> str:
    """What the same people do next in the same place."""

    def do(act: str) -> str:
        return conjugate(act, tense, who.several)

    def also(act: str) -> str:
        return do(act).removeprefix("will ")

    pronoun = "they" if who.several else "she" if who.female else "he"
    i, j = sorted(rng.sample(range(len(place.early)), 2))
    early, late = place.early[i], rng.choice(place.late)
    home = rng.choice(("go home", "come back home", "go back home"))
    subject = who.name if rng.random() < 0.15 else pronoun
    there = f"{rng.choice(THERE + ARRIVED if i == 0 else THERE)} {subject}"
    thing = f"the {errand.thing.split(' ', 1)[1]}"
    if company and rng.random() < 0.6:
        both = conjugate(early, tense, several=True).replace("{their}", "their")
        return f"{there} and {KNOWN.get(company, company)} {both}"
    chance = rng.random()
    if chance < 0.15 and errand.liked and tense != "future":
        likes = rng.choice(("like", "really like", "love"))
        verb = f"really {do('like')}" if likes == "really like" else do(likes)
        return f"{subject} {verb} {thing} and {rng.choice(('then', 'afterwards', 'later'))} {also(late)}"
    if chance < 0.3:
        return f"after {gerund(errand.verb)} {thing}, {subject} {do(late)} and {also(home)}"
    if chance < 0.55:
        return f"{there} {do(early)} and {also(place.early[j])}"
    if chance < 0.75:
        return f"first {subject} {do(early)} and then {also(late)}"
    return f"{rng.choice(THEN)} {subject} {do(late)} and {also(home)} {rng.choice(MOODS)}"


def conjugate(act: str, tense: str, several: bool) -> str:
    """An act in the third person; its first word is the verb.

    >>> conjugate("cross the road", "present", False), conjugate("buy popcorn", "past", True)
    ('crosses the road', 'bought popcorn')
    """
    verb, _, rest = act.partition(" ")
    if tense == "future":
        verb = f"will {verb}"
    elif tense == "past":
        verb = PASTS.get(verb) or _past(verb)
    elif not several:
        verb = "has" if verb == "have" else _third(verb)
    return f"{verb} {rest}".rstrip()


def _third(verb: str) -> str:
    """The present of he and she.

    >>> _third("watch"), _third("carry"), _third("boo"), _third("go")
    ('watches', 'carries', 'boos', 'goes')
    """
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return verb + ("es" if verb.endswith(("s", "x", "ch", "sh", "go")) else "s")


def _past(verb: str) -> str:
    """The past of a regular verb.

    >>> _past("stir"), _past("carry"), _past("smell"), _past("close")
    ('stirred', 'carried', 'smelled', 'closed')
    """
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb}{verb[-1]}ed" if verb in DOUBLED else f"{verb}ed"


def gerund(act: str) -> str:
    """The "-ing" form; the first word of the act is the verb.

    >>> gerund("ride"), gerund("look for"), gerund("see"), gerund("swim")
    ('riding', 'looking for', 'seeing', 'swimming')
    """
    verb, _, rest = act.partition(" ")
    if verb in DOUBLED:
        verb += verb[-1]
    elif verb.endswith("e") and not verb.endswith("ee"):
        verb = verb[:-1]
    return f"{verb}ing {rest}".rstrip()


def _spoken(clause: str, who: Who) -> str:
    """A clause as a sentence about these people."""
    theirs = "their" if who.several else "her" if who.female else "his"
    clause = clause.replace("{their}", theirs).replace("{own}", theirs)
    return clause[0].upper() + clause[1:] + "."

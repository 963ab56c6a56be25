"""What will a user like? The preference is a dot product of the user's features with the movie's.

A user says how much they like comedy, action and romance (negative: dislike), a movie how much it has of each. The dot
product is the preference; a softmax over the movies turns a user's preferences into weights; the weighted mean of the movies
is the mixture that the user would watch. That is attention: users are queries, movies are keys and values. Lectures, row 2.3.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from mirada import Attention, look
from mirada.attention.heads import Split
from mirada.attention.scores import Dot

FEATURES = ("comedy", "action", "romance")
USERS = {"Ana": (2, -1, 1), "Luis": (0, 3, -1), "Eva": (-1, 0, 2)}
MOVIES = {
    "Risas en Madrid": (1.0, 0.0, 0.2),
    "La persecución": (0.1, 1.0, 0.0),
    "Cartas de amor": (0.0, 0.0, 1.0),
    "Boda con tiros": (0.6, 0.7, 0.6),
}


def features() -> tuple[Float[Tensor, "users features"], Float[Tensor, "movies features"]]:
    """The users and the movies as rows of features."""
    users, movies = (torch.tensor(list(named.values()), dtype=torch.float32) for named in (USERS, MOVIES))
    return users, movies


def preferences(users: Tensor, movies: Tensor) -> Float[Tensor, "users movies"]:
    """score(user, movie) = user . movie"""
    return Dot(scale=1.0)(users[None, None], movies[None, None])[0, 0]


def watch(users: Tensor, movies: Tensor) -> tuple[Float[Tensor, "users movies"], Float[Tensor, "users features"]]:
    """Cross-attention of users over movies: the weights, and the mixture of movies that each user gets."""
    layer = Attention(Split(width=len(FEATURES), heads=1), score=Dot(scale=1.0))
    with look(layer) as seen:
        mixture = layer(users[None], memory=movies[None])
    return seen[""].weights(head=0)[0], mixture[0]


def table(title: str, columns: tuple[str, ...], names: tuple[str, ...], rows: Tensor) -> str:
    """A titled matrix with a name before each row."""
    width = 2 + max(len(name) for name in columns)
    head = f"{title:17}" + "".join(f"{name:>{width}}" for name in columns)
    body = (f"{name:17}" + "".join(f"{x:{width}.2f}" for x in row) for name, row in zip(names, rows, strict=True))
    return "\n".join((head, *body, ""))


def main() -> None:
    users, movies = features()
    liked = preferences(users, movies)
    weights, mixture = watch(users, movies)
    names, titles = tuple(USERS), tuple(MOVIES)
    print(table("users", FEATURES, names, users))
    print(table("movies", FEATURES, titles, movies))
    print(table("user . movie", titles, names, liked))
    print(table("softmax", titles, names, weights))
    print(table("mixture", FEATURES, names, mixture))
    for name, row in zip(names, liked, strict=True):
        ranked = ", ".join(titles[i] for i in row.argsort(descending=True))
        print(f"{name} would watch: {ranked}")


if __name__ == "__main__":
    main()

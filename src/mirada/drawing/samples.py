"""Written texts, as they are."""

from dataclasses import dataclass

from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element


@dataclass(frozen=True)
class TextSample(Item):
    """A written text; `prompt` is the part that was given."""

    title: str
    text: str
    prompt: str = ""

    @property
    def empty(self) -> bool:
        return not (self.text or self.prompt)

    def draw(self) -> Markup:
        """A written text as it is, after what was given."""
        prompt = element("span", self.prompt, class_="prompt", title="given") if self.prompt else None
        return element(
            "figure",
            element("figcaption", element("h3", self.title, dir="auto")) if self.title else None,
            element("pre", prompt, self.text, dir="auto", lang="", translate="no", tabindex=0),
            class_="card sample",
        )

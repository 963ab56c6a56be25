"""The one interface between searches and models: whatever can take a step can be searched."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Stepper(Protocol):
    """A model that goes on token by token. `memory` is what it made of a source; `state` is its own affair.

    A step may reuse the room of the state it is given: go on from the state that it returns. Its scores belong to who asked
    for them: a search writes minus infinity over those of tokens that must not be written.
    """

    def start(self, memory: Any) -> Any:
        """The state before the first token."""

    def step(self, tokens: Int[Tensor, " batch"], state: Any) -> tuple[Float[Tensor, "batch vocab"], Any]:
        """The scores of every next token after these, and the state that leads on."""

    def reorder(self, state: Any, index: Int[Tensor, " entries"]) -> Any:
        """The state in which entry b goes on from what entry index[b] has: the step of a beam search.

        There may be more of them than before (a beam opens) or fewer (texts have ended).
        """

    def alignment(self, state: Any) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: weights over the places of the source."""

"""Graphs with labelled nodes from the places where people have them: an npz file, a folder of tables, arrays in memory."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mirada.data.graph_arrays import from_arrays, from_npz
from mirada.data.graph_tables import from_folder
from mirada.data.labelled_graph import FoundGraph
from mirada.data.node_features import KINDS
from mirada.data.options import TableOptions
from mirada.errors import require


@dataclass(frozen=True, kw_only=True)
class GraphOptions(TableOptions):
    """`directed`: an edge of a table leads from its source to its target only. `normalize` is how features are scaled: auto
    (by how they look), rows, standard or no. `balance` lets rare labels count as much as frequent ones.
    """

    of_files: ClassVar[tuple[str, ...]] = (*TableOptions.of_files, "balance")
    fixed: ClassVar[tuple[str, ...]] = ("normalize",)

    directed: bool = False
    balance: bool = False
    normalize: str = "auto"

    def check(self) -> None:
        super().check()
        self.one_of("normalize", *KINDS)
        require(not self.columns, "columns= is not used by graphs: name the columns in the first line of each table")


def read_graph(place: Any, options: GraphOptions) -> FoundGraph:
    """The graph of a place: FILE.npz, a folder of tables, or a dict with the arrays of the npz form."""
    if not isinstance(place, str):
        require(
            isinstance(place, Mapping),
            f"a graph in memory is a dict of arrays (edge_index, features, y, ...): got {type(place).__name__}",
        )
        return from_arrays(place, "data")
    path = os.path.expanduser(place)
    return from_folder(path, options, options.directed) if os.path.isdir(path) else from_npz(path)

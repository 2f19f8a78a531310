"""Boosted regression trees as plain arrays, which are validated before XGBoost loads them.

XGBoost does not validate the files that it loads: a child index out of range crashes the process, and a cycle makes
predictions never end. A model file therefore contains trees as plain columns, which ``Forest`` validates and converts
to the document that XGBoost loads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray, IntArray

MOST_TREES = 10_000
MOST_NODES = 4_000_000  # maximum number of nodes of all trees together
MOST_FEATURES = 100_000
MOST_VALUE = 1e4  # maximum output of a leaf; it is the logarithm of a ratio of times
MOST_COVER = 1e12  # maximum weight of the training rows that reach a node

_NO_PARENT = 2**31 - 1  # value that XGBoost writes as the parent of a root
_INTEGERS, _REALS = ("sizes", "left", "feature", "missing_left"), ("value", "gain", "cover")


class DamagedForest(ValueError):
    """The columns are not valid trees. The message is one line."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees whose outputs are added to ``base``.

    The columns hold the nodes of all trees, one tree after another.

    Attributes:
        sizes: Number of nodes of each tree.
        left: Index of a node's left child within the tree; the right child has the next index. -1 for a leaf.
        feature, value: A row goes to the left child if its feature is below the value. The value of a leaf is its
            output.
        missing_left: 1 if rows that lack the feature go to the left child, else 0.
        gain: Loss reduction by the split of a node.
        cover: Total weight of the training rows that reached the node.

    Raises:
        DamagedForest: A number is out of range. Or a node (except a root) has no parent or several parents, or precedes
            its parent.
    """

    features: int
    base: float
    sizes: IntArray
    left: IntArray
    feature: IntArray
    missing_left: IntArray
    value: FloatArray
    gain: FloatArray
    cover: FloatArray

    def __post_init__(self) -> None:
        nodes = len(self.left)
        columns = (self.feature, self.missing_left, self.value, self.gain, self.cover)
        _require(all(len(column) == nodes for column in columns), "the columns of a forest differ in length")
        _require(1 <= self.features <= MOST_FEATURES, f"a forest has an invalid number of features: {self.features}")
        _require(0 < len(self.sizes) <= MOST_TREES, f"a forest has {len(self.sizes)} trees, not 1 to {MOST_TREES}")
        _require(0 < nodes <= MOST_NODES, f"a forest has {nodes} nodes, not 1 to {MOST_NODES}")
        _require(bool((self.sizes > 0).all() and (self.sizes <= nodes).all()), "a tree has no nodes, or too many")
        _require(
            int(self.sizes.sum()) == nodes, "the sizes of a forest's trees do not add up to the length of its columns"
        )
        inner = self.left >= 0
        first = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)  # index of the root of each node's tree
        own, size = np.arange(nodes) - first, np.repeat(self.sizes, self.sizes)
        _require(bool((self.left >= -1).all()), "a child has a negative position")
        _require(bool((self.left[inner] > own[inner]).all()), "a child comes before its parent")
        _require(bool((self.left[inner] < size[inner] - 1).all()), "a child is outside its tree")
        children = first[inner] + self.left[inner]
        parents = np.bincount(np.concatenate([children, children + 1]), minlength=nodes)
        _require(bool((parents == (own > 0)).all()), "a node has no parent, or several")
        splits = self.feature[inner]
        _require(bool(((splits >= 0) & (splits < self.features)).all()), "the feature of a split is out of range")
        _require(bool(np.isin(self.missing_left, (0, 1)).all()), "missing_left is neither 0 nor 1")
        single = np.float32
        numbers = (self.value, self.gain, self.cover)
        with np.errstate(over="ignore"):
            finite = all(bool(np.isfinite(column.astype(single)).all()) for column in numbers)
        _require(finite, "a number is not finite")
        _require(bool((np.abs(self.value[~inner]) <= MOST_VALUE).all()), "a leaf is out of range")
        _require(abs(self.base) <= MOST_VALUE, "the base is out of range")
        _require(bool(((self.cover > 0) & (self.cover <= MOST_COVER)).all()), "a cover is out of range")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Forest) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.features, self.base, self.left.tobytes(), self.value.tobytes()))

    @classmethod
    def of(cls, booster: Any) -> Self:
        """Return the trees of an XGBoost regression model, which must have only numeric features."""
        learner = json.loads(bytes(booster.save_raw("json")))["learner"]
        trees = learner["gradient_booster"]["model"]["trees"]

        def column(name: str) -> npt.NDArray[Any]:
            return np.concatenate([np.asarray(tree[name], dtype=np.float64) for tree in trees])

        left, right = column("left_children").astype(np.int64), column("right_children").astype(np.int64)
        _require(
            bool((right[left >= 0] == left[left >= 0] + 1).all()),
            "unexpected XGBoost model: the children of a node are not adjacent",
        )
        return cls(
            features=int(learner["learner_model_param"]["num_feature"]),
            base=float(learner["learner_model_param"]["base_score"].strip("[]")),
            sizes=np.array([len(tree["left_children"]) for tree in trees], dtype=np.int64),
            left=left,
            feature=column("split_indices").astype(np.int64),
            missing_left=column("default_left").astype(np.int64),
            value=column("split_conditions"),
            gain=column("loss_changes"),
            cover=column("sum_hessian"),
        )

    def booster(self, threads: int) -> Any:
        """Return the trees as an XGBoost booster."""
        ends = np.cumsum(self.sizes)
        trees = [self._tree(i, int(end - self.sizes[i]), int(end)) for i, end in enumerate(ends)]
        counts = {"num_trees": str(len(trees)), "num_parallel_tree": "1"}
        model = {
            "gbtree_model_param": counts,
            "iteration_indptr": list(range(len(trees) + 1)),
            "tree_info": [0] * len(trees),
            "trees": trees,
        }
        shape = {"num_feature": str(self.features), "num_class": "0", "num_target": "1", "boost_from_average": "1"}
        learner = {
            "attributes": {},
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {"model": model, "name": "gbtree"},
            "learner_model_param": {"base_score": repr(self.base), **shape},
            "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
        }
        import xgboost  # the import takes a second

        booster = xgboost.Booster({"nthread": threads})
        booster.load_model(bytearray(json.dumps({"learner": learner, "version": [3, 0, 0]}).encode()))
        return booster

    def _tree(self, number: int, start: int, end: int) -> dict[str, Any]:
        left = self.left[start:end]
        inner = left >= 0
        parents = np.full(end - start, _NO_PARENT, dtype=np.int64)
        parents[left[inner]] = parents[left[inner] + 1] = np.flatnonzero(inner)
        value = self.value[start:end]
        shape = {"num_deleted": "0", "num_feature": str(self.features), "num_nodes": str(end - start)}
        return {
            "id": number,
            "left_children": left.tolist(),
            "right_children": np.where(inner, left + 1, -1).tolist(),
            "parents": parents.tolist(),
            "split_indices": np.where(inner, self.feature[start:end], 0).tolist(),
            "split_conditions": value.tolist(),
            "default_left": self.missing_left[start:end].tolist(),
            "loss_changes": self.gain[start:end].tolist(),
            "sum_hessian": self.cover[start:end].tolist(),
            "base_weights": np.where(inner, 0.0, value).tolist(),
            "split_type": [0] * (end - start),
            **{name: [] for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")},
            "tree_param": {**shape, "size_leaf_vector": "1"},
        }

    def to_json(self) -> dict[str, Any]:
        """Return the trees as JSON."""
        columns = {name: getattr(self, name).tolist() for name in (*_INTEGERS, *_REALS)}
        return {"features": self.features, "base": self.base, **columns}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the forest whose ``to_json()`` was ``data``.

        Raises:
            DamagedForest: The data are malformed.
        """
        _require(isinstance(data, Mapping), "a forest is not an object")
        features, base = data.get("features"), data.get("base")
        _require(type(features) is int and abs(features) < 2**31, "a forest's number of features is not an integer")
        _require(type(base) in (int, float) and abs(base) <= MOST_VALUE, "a forest's base is not a number")
        columns: dict[str, Any] = {name: _column(data, name, "iu").astype(np.int64) for name in _INTEGERS}
        columns |= {name: _column(data, name, "iuf").astype(np.float64) for name in _REALS}
        return cls(features, float(base), **columns)


def _column(data: Mapping[str, Any], name: str, kinds: str) -> npt.NDArray[Any]:
    values = data.get(name)
    _require(isinstance(values, list) and 0 < len(values) <= MOST_NODES, f"{name} is not a list of numbers")
    try:
        column = np.array(values)
    except (ValueError, OverflowError) as error:  # raised for nested lists of different lengths
        raise DamagedForest(f"{name} is not a list of numbers") from error
    _require(column.ndim == 1 and column.dtype.kind in kinds, f"{name} is not a list of numbers")
    return column


def _require(met: bool, otherwise: str) -> None:
    if not met:
        raise DamagedForest(otherwise)

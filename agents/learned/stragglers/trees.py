"""Validation of LightGBM's text format, whose reader does not check indices and sizes."""

from __future__ import annotations

import re

_WHOLE_PER_SPLIT = ("split_feature", "decision_type", "left_child", "right_child")


def checked_trees(text: str) -> str:
    """Return an untrusted model after checking that all indices are within their arrays.

    Args:
        text: Output of ``Booster.model_to_string``.

    Raises:
        ValueError: If the text is malformed, the model has several classes, categorical splits or linear
            leaves, or a tree refers to a missing element.
        KeyError: If a field is missing.
    """
    if re.search(r"[^\n -~]", text):
        raise ValueError("a character that LightGBM may take for the end of a line")
    # tree_sizes are offsets of trees in the text; without them, LightGBM reads the text sequentially.
    lines = [line for line in text.split("\n") if not line.startswith("tree_sizes=")]
    head, *trees = _blocks(lines)
    if _whole(head["num_class"]) != 1 or _whole(head["num_tree_per_iteration"]) != 1:
        raise ValueError("trees of several classes")
    for tree in trees:
        _check(tree, _whole(head["max_feature_idx"]) + 1)
    return "\n".join(lines)


def _blocks(lines: list[str]) -> list[dict[str, str]]:
    """Return the fields of the head and of each tree."""
    blocks: list[dict[str, str]] = [{}]
    for line in lines:
        key, equals, value = line.partition("=")
        if line == "end of trees":
            break
        if key == "Tree":
            blocks.append({})
        if equals and not re.fullmatch(r"\w+", key):
            raise ValueError(f"{key!r} is no name of a field")
        if equals and key in blocks[-1]:
            raise ValueError(f"{key} stands there twice")
        blocks[-1][key] = value
    return blocks


def _check(tree: dict[str, str], n_features: int) -> None:
    n_leaves = _whole(tree["num_leaves"])
    if n_leaves < 1 or _whole(tree["num_cat"]) != 0 or _whole(tree.get("is_linear", "0")) != 0:
        raise ValueError("a tree of another kind")
    if len(tree["leaf_value"].split()) != n_leaves:
        raise ValueError("a tree with another number of leaves than it says")
    if n_leaves == 1:
        return
    fields = {name: [_whole(value) for value in tree[name].split()] for name in _WHOLE_PER_SPLIT}
    thresholds = [float(value) for value in tree["threshold"].split()]
    if any(len(values) != n_leaves - 1 for values in fields.values()) or len(thresholds) != n_leaves - 1:
        raise ValueError("a tree with another number of splits than it says")
    if not all(0 <= feature < n_features for feature in fields["split_feature"]):
        raise ValueError("a tree that splits by a feature that is not there")
    for side in ("left_child", "right_child"):
        # Leaves are numbered from -1 downwards; a split follows its parent.
        children = enumerate(fields[side])
        if not all(-n_leaves <= child < 0 or node < child < n_leaves - 1 for node, child in children):
            raise ValueError("a tree whose branches lead elsewhere")


def _whole(text: str) -> int:
    """Return an integer in plain notation, because Python accepts notations that LightGBM does not."""
    if not re.fullmatch(r"-?[0-9]{1,10}", text) or abs(int(text)) >= 2**31:
        raise ValueError(f"{text[:20]!r} is no whole number")
    return int(text)

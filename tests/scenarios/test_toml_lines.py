"""Line numbers of keys in TOML files."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from sysgym.scenarios import list_scenarios, list_suites
from sysgym.scenarios.toml_lines import key_lines

TEXT = '''\
a = 1
b.c = 2  # dotted
"quoted key" = 3

text = """
not = a key
[not.a.table]
"""
[ table . inner ]
x = { y = 1 }
long = [
    1,
]
[[rows]]
z = 1
[rows.sub]
w = 1
[[rows]]
z = 2
'''


def test_lines() -> None:
    tomllib.loads(TEXT)
    assert key_lines(TEXT) == {
        ("a",): 1,
        ("b", "c"): 2,
        ("quoted key",): 3,
        ("text",): 5,
        ("table",): 9,
        ("table", "inner"): 9,
        ("table", "inner", "x"): 10,
        ("table", "inner", "long"): 11,
        ("rows",): 14,
        ("rows", 0): 14,
        ("rows", 0, "z"): 15,
        ("rows", 0, "sub"): 16,
        ("rows", 0, "sub", "w"): 17,
        ("rows", 1): 18,
        ("rows", 1, "z"): 19,
    }


@pytest.mark.parametrize("info", [*list_scenarios(), *list_suites()], ids=lambda info: info.name)
def test_every_key_of_the_shipped_files_is_found(info: Any) -> None:
    text = info.path.read_text()
    lines = key_lines(text)
    for path, line in lines.items():
        value: Any = tomllib.loads(text)
        for part in path:
            value = value[part]
        assert str(path[-1]) in text.splitlines()[line - 1] or isinstance(path[-1], int)
    top = {path[0] for path in lines}
    assert top == set(tomllib.loads(text))

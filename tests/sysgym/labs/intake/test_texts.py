"""Texts of strangers can be printed and stored, whatever is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sysgym.labs.intake.texts import printable, printable_name


@given(st.text(st.characters(exclude_categories=()), max_size=50))
def test_every_text_can_be_stored_and_moves_no_cursor(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert all(one.isprintable() or one == "\n" for one in shown)
    assert printable_name(text).isprintable()


@given(st.text("aä \n中😀", max_size=50))
def test_plain_texts_stay(text: str) -> None:
    assert printable(text) == text


def test_long_texts_are_cut() -> None:
    assert len(printable("x" * 10**6)) == 4000

"""Laws whose constants can be searched, by the names of their agents."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from sysgym.agents.learned.congestion.adaptive_swift.search import LAW as ADAPTIVE_SWIFT
from sysgym.agents.learned.congestion.adaptive_target.search import LAW as ADAPTIVE_TARGET
from sysgym.agents.learned.congestion.law import LARGEST_LAW_BYTES, Law
from sysgym.agents.learned.congestion.law_search.search import SearchedLaw
from sysgym.agents.learned.congestion.tuned_swift.search import LAW as TUNED_SWIFT
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.files import parse_json, read_limited

SEARCHED_LAWS = {law.form.agent: law for law in (ADAPTIVE_TARGET, ADAPTIVE_SWIFT, TUNED_SWIFT)}


def law_of_file(path: str | PathLike[str]) -> SearchedLaw:
    """Return the law to which a checkpoint belongs.

    Raises:
        SysgymError: If the file cannot be read, or is not a checkpoint of a searched law.
    """
    content = read_limited(Path(path), LARGEST_LAW_BYTES)
    try:
        data = parse_json(content)
    except ValueError as error:
        raise SysgymError(f"{path}: not a checkpoint of a law ({error}); expected a JSON file") from error
    agent = data.get("agent") if isinstance(data, dict) else None
    if agent not in SEARCHED_LAWS:
        raise SysgymError(f"{path}: agent is {agent!r}; expected a checkpoint of {', '.join(SEARCHED_LAWS)}")
    return SEARCHED_LAWS[agent]


def law_named(source: str) -> tuple[SearchedLaw, Law]:
    """Return a law with the constants of a checkpoint, or with the initial constants of a law.

    Args:
        source: Path of a checkpoint, or name of a law.

    Raises:
        SysgymError: If there is no such law or checkpoint.
    """
    if source in SEARCHED_LAWS:
        searched = SEARCHED_LAWS[source]
        return searched, Law([constant.value for constant in searched.constants], [], 0, 0, 0.0, {}, {})
    if not Path(source).exists():
        raise UnknownName("law or checkpoint", source, SEARCHED_LAWS)
    searched = law_of_file(source)
    return searched, searched.form.read(source)

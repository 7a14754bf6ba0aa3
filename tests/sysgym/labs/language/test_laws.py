"""The language of laws: what congestion control needs, and nothing that reaches further."""

from __future__ import annotations

import pytest

from sysgym.errors import SysgymError
from sysgym.labs.catalogue import get_lab
from sysgym.labs.export import solution
from sysgym.labs.intake.content import LawError
from sysgym.labs.language.laws import compiled, law_of
from sysgym.labs.links import Link, play
from sysgym.labs.sources import SubmissionError

REST = "def on_loss(flow, event):\n    pass\ndef on_timeout(flow, event):\n    pass\n"

FOREIGN = {
    "import os\ndef on_ack(flow, event):\n    os.remove('x')": "a law may use",
    "from os import system\ndef on_ack(flow, event):\n    system('ls')": "a law may use",
    "def on_ack(flow, event):\n    open('x')": "open is not defined|a law calls",
    "def on_ack(flow, event):\n    __import__('os')": "a law calls|may not begin",
    "def on_ack(flow, event):\n    flow.__class__": "flow has no field '__class__'",
    "def on_ack(flow, event):\n    on_loss.__globals__": "attributes are only those",
    "def on_ack(flow, event):\n    math.__loader__": "attributes are only those",
    "def on_ack(flow, event):\n    ().__class__": "Tuple is not part|attributes are only",
    "def on_ack(flow, event):\n    x = [1]": "List is not part",
    "def on_ack(flow, event):\n    x = lambda: 1": "Lambda is not part",
    "def on_ack(flow, event):\n    import os": "Import is not part",
    "def on_ack(flow, event):\n    def g():\n        pass": "FunctionDef is not part",
    "def on_ack(flow, event):\n    flow.una = 10**6": "flow.una cannot be set",
    "def on_ack(flow, event):\n    event.rtt_ns = 0": "fields of event cannot be set",
    "def on_ack(flow, event):\n    flow = event": "flow cannot be assigned to",
    "def on_ack(flow, event):\n    min = 1": "min cannot be assigned to",
    "def on_ack(flow, event):\n    flow.cwnd += MISSING": "MISSING is not defined",
    "def on_ack(flow, event):\n    flow.window = 1": "flow.window cannot be set|no field",
    "def on_ack(flow, event):\n    for x in flow.state:\n        pass": "loops are while",
    "def on_ack(flow, event, more=1):\n    pass": "no decorators, defaults",
    "def on_ack(flow):\n    pass": "must have the arguments",
    "@staticmethod\ndef on_ack(flow, event):\n    pass": "no decorators",
    "G = open('x')\ndef on_ack(flow, event):\n    flow.cwnd += G": "a constant of a law is a number",
    "G = 9999999999\nH = G * G\ndef on_ack(flow, event):\n    flow.cwnd += H": "64 bits at most",
    "G = 1 / 0\ndef on_ack(flow, event):\n    flow.cwnd += G": "division by zero",
    "G = 10 ** 10 ** 10\ndef on_ack(flow, event):\n    flow.cwnd += G": "a constant of a law is a number",
    "def on_ack(flow, event):\n    try:\n        pass\n    finally:\n        pass": "Try is not part",
    "def on_ack(flow, event):\n    max(1, 2, key=abs)": "no keyword arguments|keyword",
    "class on_ack:\n    pass": "a law may use",
    "def on_ack(flow, event):\n    flow.cwnd = flow.line_rate_bps": "no field 'line_rate_bps' for laws",
    "def on_ack(flow, event):\n    flow.cwnd = flow.base_rtt_ns": "no field 'base_rtt_ns' for laws",
    "def on_ack(flow, event):\n    flow.cwnd = flow.rcv_nxt": "no field 'rcv_nxt' for laws",
    "def on_ack(flow, event):\n    flow.cwnd = event.parameters": "no field 'parameters' for laws",
    "def on_ack(flow, event):\n    x = 'much' * 10**9": "only numbers",
}


@pytest.mark.parametrize("source", FOREIGN)
def test_what_is_foreign_is_refused_before_it_runs(source: str) -> None:
    with pytest.raises(SubmissionError, match=FOREIGN[source]):
        law_of(f"{source}\n{REST}")


def test_the_solution_is_in_the_language_and_keeps_the_queue_short() -> None:
    link = Link(100e6, 0.01, 500e3, 30e3)
    result = play(link, law_of(solution(get_lab(3))), duration_s=2.0)
    assert result.used > 0.97
    assert result.delay_s < 0.5 * link.rtt_s


def test_annotations_constants_and_helpers_are_part_of_it() -> None:
    law = law_of(
        "import math\nA = 2.0\nB = -A / 4 + 1\n"
        "def more(x: float) -> float:\n    return math.sqrt(x) * B\n"
        "def on_ack(flow: object, event: object) -> None:\n"
        "    grown = 0.0\n    for i in range(3):\n        grown += 0.01\n"
        "    flow.cwnd = flow.cwnd + grown + more(0.0) if not event.marked else max(flow.cwnd - 1, 2.0)\n"
        + REST
    )
    assert play(Link(10e6, 0.01, 60e3, 20e3), law, duration_s=0.5).used > 0.5


UNASSIGNED = {
    "one branch": "if event.marked:\n        x = 1.0\n    flow.cwnd += x",
    "a loop of unknown length": "for i in range(int(flow.cwnd)):\n        x = 1.0\n    flow.cwnd += x",
    "a while": "while flow.cwnd > 3.0:\n        x = 1.0\n        break\n    flow.cwnd += x",
    "an increase": "x += 1.0",
    "too late": "flow.cwnd += x\n    x = 1.0",
    "a type only": "x: float\n    flow.cwnd += x",
    "an early break": (
        "while True:\n        if event.marked:\n            break\n        x = 1.0\n        break\n"
        "    flow.cwnd += x"
    ),
    "an early continue": (
        "for i in range(3):\n        if event.marked:\n            continue\n        x = 1.0\n"
        "    flow.cwnd += x"
    ),
    "in a helper": "helped(1.0)",
}
HELPED = "def helped(a):\n    if a > 0.0:\n        x = a\n    return x\n"


@pytest.mark.parametrize("case", UNASSIGNED)
def test_a_name_that_may_have_no_value_is_refused(case: str) -> None:
    helper = HELPED if case == "in a helper" else ""
    with pytest.raises(LawError, match=r"line \d+: x may have no value here"):
        law_of(f"{helper}def on_ack(flow, event):\n    {UNASSIGNED[case]}\n{REST}")


@pytest.mark.parametrize(
    "body",
    [
        "if event.marked:\n        x = 1.0\n    else:\n        x = 2.0\n    flow.cwnd += x",
        "x = 0.0\n    if event.marked:\n        x = 1.0\n    flow.cwnd += x",
        "x = 0.0\n    while flow.cwnd < x:\n        x += 1.0\n    flow.cwnd += x",
        "for i in range(N):\n        x = 1.0 * i\n    flow.cwnd += x + i",
        "while True:\n        x = 1.0\n        if event.marked:\n            break\n    flow.cwnd += x",
        "if event.marked:\n        return\n    else:\n        x = 1.0\n    flow.cwnd += x",
        "if event.marked:\n        x = 1.0\n    elif flow.cwnd > 3:\n        x = 2.0\n"
        "    else:\n        return\n    flow.cwnd += x",
        "for i in range(int(flow.cwnd)):\n        y = 1.0\n        if i > 2:\n            continue\n"
        "        flow.cwnd += y",
        "a = b = 2.0\n    flow.cwnd += a * b * N",
    ],
)
def test_a_name_that_has_a_value_on_every_path_is_not_refused(body: str) -> None:
    law_of(f"N = 3\ndef on_ack(flow, event):\n    {body}\n{REST}")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            "reno_increase(flow)",
            r"reno_increase takes 2 arguments, not 1, as in reno_increase\(flow, event\)",
        ),
        ("helped(1.0, 2.0)", "helped takes 1 argument, not 2"),
        ("max(1.0)", "max takes at least 2 arguments, not 1"),
        ("math.sqrt(1.0, 2.0)", "math.sqrt takes 1 argument, not 2"),
        ("abs()", "abs takes 1 argument, not 0"),
    ],
)
def test_arguments_are_counted(call: str, words: str) -> None:
    helped = "def helped(a):\n    return a\n"
    with pytest.raises(LawError, match=rf"line 4: {words}$"):
        law_of(f"{helped}def on_ack(flow, event):\n    {call}\n{REST}")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "flow.cwnd += flow.state",
            "no function has these types: iadd(float64, nestedarray(float64, (40,)))",
        ),
        ("flow.cwnd = math.sqrt(flow)", "no function has these types: sqrt(a record (flow or event))"),
    ],
)
def test_why_a_law_does_not_compile_is_a_sentence(statement: str, words: str) -> None:
    law = law_of(f"def on_ack(flow, event):\n    {statement}\n{REST}")
    with pytest.raises(LawError) as caught:
        compiled(law)
    assert str(caught.value) == f"line 2: the law cannot be compiled: {words}"


@pytest.mark.parametrize("index", ["123", "-99", "10**11"])
def test_the_memory_beside_a_flow_is_not_reached_through_a_helper(index: str) -> None:
    law = law_of(
        "def poke(flow, i):\n    flow.state[i] = 1.0\n"
        f"def on_ack(flow, event):\n    poke(flow, {index})\n{REST}"
    )
    with pytest.raises(SysgymError, match=r"raised|invalid|failed"):
        play(Link(10e6, 0.01, 60e3, 20e3), law, duration_s=0.1)


def test_docstrings_are_for_readers() -> None:
    law = law_of(f'def on_ack(flow, event):\n    """Add."""\n    "more"\n    flow.cwnd += 0.1\n{REST}')
    assert play(Link(10e6, 0.01, 60e3, 20e3), law, duration_s=0.1).used > 0.0

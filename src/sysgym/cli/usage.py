"""Usage errors: what is wrong, what was expected, and an example."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from sysgym.cli.terminal import console

EXAMPLES = {
    "bench": "sysgym bench quick",
    "study distillation": "sysgym study distillation runs/mine/final.zip --out runs/students",
    "export": "sysgym export runs/mine/final.zip --out policy.onnx",
    "list": "sysgym list scenarios",
    "plot": "sysgym plot dumbbell-10g -c dctcp -c cubic --out x.png",
    "report": "sysgym report results/quick",
    "study robustness": "sysgym study robustness runs/mine/final.zip",
    "run": "sysgym run incast-32 --contender dctcp",
    "show": "sysgym show dumbbell-10g",
    "study stress": "sysgym study stress incast-32 -c dctcp -c aimd --noise 0.1",
    "study nurd-release": "sysgym study nurd-release stragglers --seeds 6",
    "train": "sysgym train ppo incast-32 --steps 100000",
    "validate": "sysgym validate results/quick",
}
"""Example of each command that needs arguments."""


def is_usage_error(error: Exception) -> bool:
    """Return whether an error comes from the parser of the command line."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def print_usage_error(error: Any) -> None:
    """Print a usage error with the command's usage and an example, or the help if there were no arguments."""
    context = getattr(error, "ctx", None)
    out = console(stderr=True)
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help())
        return
    block = Text("error: ", style="bold red")
    block.append(error.format_message(), style="default")
    out.print(block, soft_wrap=True)
    if context is None:
        return
    words = context.command_path.removeprefix("sysgym").strip()
    out.print(f"  {' '.join(context.get_usage().split())}", soft_wrap=True)
    if words in EXAMPLES:
        out.print(f"  Example: {EXAMPLES[words]}", soft_wrap=True)
    out.print(f"  More: {context.command_path} --help", soft_wrap=True)

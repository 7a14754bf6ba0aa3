"""Upload and download of checkpoints with huggingface-hub. Requires the extra ``hub``.

    from sysgym.hub import pull_checkpoint, push_checkpoint

    push_checkpoint("runs/ppo-incast-32/ppo.zip", "me/ppo-incast-32")
    path = pull_checkpoint("me/ppo-incast-32", "ppo.zip")
    agent = sysgym.agents.make_agent("ppo", checkpoint=path)

A file from a hub is untrusted. It is read like any other checkpoint (docs/trust.md): arrays and JSON are
checked, and nothing is unpickled. A checkpoint that contains code is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysgym.agents.learned.checkpoint import Checkpoint, read_checkpoint
from sysgym.errors import MissingExtra, SysgymError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["pull_checkpoint", "push_checkpoint"]

CARD = "README.md"


def push_checkpoint(
    checkpoint: str | PathLike[str],
    repository: str,
    *,
    private: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
) -> str:
    """Upload a checkpoint with a model card; create the repository if it does not exist.

    Args:
        checkpoint: Path of the file.
        repository: Name of the repository, ``OWNER/NAME``.
        private: Whether a new repository is private.
        endpoint: Address of the hub; None: the default of huggingface-hub.
        token: Access token of the owner; None: the token stored by ``hf auth login``.

    Returns:
        Commit of the upload, a valid ``revision`` for ``pull_checkpoint``.

    Raises:
        MissingExtra: If huggingface-hub is not installed.
        SysgymError: If the file is not a checkpoint or contains code, or the hub refuses it.
    """
    path = Path(checkpoint)
    found = _without_code(path)
    from_hub = _hub("push_checkpoint")
    api: HfApi = from_hub.HfApi(endpoint=endpoint, token=token)
    files = ((path.name, path.read_bytes()), (CARD, _card(found, repository).encode()))
    with _said_by_the_hub(repository):
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.create_commit(
            repository,
            operations=[
                from_hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=content)
                for name, content in files
            ],
            commit_message=f"{found.meta.agent} on {found.meta.scenario_name}",
        )
    return str(commit.oid)


def pull_checkpoint(
    repository: str,
    file: str,
    *,
    revision: str | None = None,
    endpoint: str | None = None,
    token: str | None = None,
    cache: str | PathLike[str] | None = None,
) -> Path:
    """Download a checkpoint and check it; return its path, for ``make_agent`` or a contender's name.

    Args:
        repository: Name of the repository, ``OWNER/NAME``.
        file: Name of the file in the repository.
        revision: Commit, tag or branch; None: the newest. A commit always gives the same file.
        endpoint: Address of the hub; None: the default of huggingface-hub.
        token: Access token; None: the stored token, if any.
        cache: Folder for downloaded files; None: the cache of huggingface-hub.

    Raises:
        MissingExtra: If huggingface-hub is not installed.
        SysgymError: If there is no such file, or it is not a checkpoint, or it contains code.
    """
    from_hub = _hub("pull_checkpoint")
    with _said_by_the_hub(f"{repository}, {file}"):
        path = from_hub.hf_hub_download(
            repository, file, revision=revision, endpoint=endpoint, token=token, cache_dir=cache
        )
    _without_code(Path(path))
    return Path(path)


def _without_code(path: Path) -> Checkpoint:
    found = read_checkpoint(path)
    if found.pickled:
        raise SysgymError(
            f"{path}: its policy is a pickle, which can run code; expected arrays. Train it again with this"
            " version"
        )
    return found


def _hub(what: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtra("hub", what) from error
    return huggingface_hub


@contextmanager
def _said_by_the_hub(what: str) -> Iterator[None]:
    """Convert errors of the hub's libraries into a SysgymError."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise SysgymError(f"{what}: error from the hub: {str(error).strip()}") from error


def _card(checkpoint: Checkpoint, repository: str) -> str:
    """Return the model card of a checkpoint: its use, agent, scenario, hyperparameters and versions."""
    meta = checkpoint.meta
    # The scenario and the names of the observation are long, and contained in the file anyway.
    left_out = {"scenario", "observation_index", "action_scale", "wall_s", "distilled_from"}
    facts = {name: value for name, value in asdict(meta).items() if name not in left_out}
    return f"""---
library_name: sysgym
tags: [sysgym, reinforcement-learning, {json.dumps(meta.env_id)}]
---

# {meta.agent} on {meta.scenario_name}

```python
from sysgym.agents import make_agent
from sysgym.hub import pull_checkpoint

agent = make_agent({meta.agent!r}, checkpoint=pull_checkpoint({repository!r}, {checkpoint.path.name!r}))
```

```json
{json.dumps(facts, indent=1)}
```
"""

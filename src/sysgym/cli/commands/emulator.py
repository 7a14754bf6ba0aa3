"""``sysgym emulator``: requirements of the Linux backend, its service, and cleaning up after services."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

emulator = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Linux kernel backend: check this machine, serve networks, clean up.",
)


@emulator.command()
def check(
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not try to load the eBPF programs into the kernel.")
    ] = False,
) -> None:
    """Show the requirements of the Linux backend; exit code 1 if an essential one is missing."""
    from rich.text import Text

    from sysgym.cli.terminal import console, table
    from sysgym.emulator.linux.requirements import requirements

    marks = {
        True: Text("yes", style="green"),
        False: Text("no", style="bold red"),
        None: Text("?", style="yellow"),
    }
    found = requirements(try_programs=not quick)
    rows = [
        (
            one.name,
            marks[one.present]
            if one.present or one.essential
            else Text("no" if one.present is False else "?"),
            one.found,
            one.needed_for,
            "" if one.present else one.remedy,
        )
        for one in found
    ]
    out = console()
    out.print(table("requirement", "present", "found", "needed for", "how to get it", rows=rows))
    missing = [one.name for one in found if one.essential and one.present is False]
    if missing:
        out.print(f"\nThe Linux backend cannot run here: {', '.join(missing)} missing.")
        raise typer.Exit(1)
    out.print("\nThe Linux backend can run here.")


@emulator.command()
def serve(
    user: Annotated[
        str | None,
        typer.Option(
            "--user", help="User who may use the service besides root (default: the user who called sudo)."
        ),
    ] = None,
    tcp: Annotated[
        str | None,
        typer.Option(
            "--tcp",
            metavar="HOST:PORT",
            help="Also listen on the network; only clients with a key are accepted.",
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="DIR", help="Folder of the keys for --tcp; created at the first start."
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="Folder for sockets (default: /run/sysgym)."),
    ] = None,
    sessions_per_client: Annotated[
        int,
        typer.Option(
            "--sessions-per-client",
            min=1,
            max=16,
            metavar="N",
            help="Maximum number of concurrent networks of one user or key.",
        ),
    ] = 8,
    kind: Annotated[str | None, typer.Option("--kind", hidden=True)] = None,
) -> None:
    """Serve networks to environments until Ctrl-C. Needs root; environments do not."""
    from sysgym.cli.terminal import console
    from sysgym.emulator.linux.child import FOLDER
    from sysgym.emulator.linux.service.cleaning import clean as remove_leftovers
    from sysgym.emulator.linux.service.daemon import Service
    from sysgym.emulator.linux.service.keys import make_server_keys
    from sysgym.emulator.linux.service.worlds import KERNEL
    from sysgym.errors import BackendUnavailable, SysgymError

    if kind is None and (not hasattr(os, "geteuid") or os.geteuid() != 0):
        raise BackendUnavailable("linux", "the service needs root", "sudo sysgym emulator serve")
    if (tcp is None) != (keys is None):
        raise SysgymError("--tcp HOST:PORT and --keys DIR, a folder for keys, must be given together")
    out = console(stderr=True)
    for found in remove_leftovers():
        out.print(f"removed {found.kind} {found.name}, left by service {found.sid}")
    if keys is not None:
        for path in make_server_keys(keys):
            out.print(f"created {path}; remote clients need this file")
    user_and_group = _owner(user)
    root, keys = (None if path is None else path.absolute() for path in (root, keys))
    os.chdir(FOLDER)  # child processes must not read the caller's folder
    service = Service(
        root=root,
        kind=kind or KERNEL,
        tcp=None if tcp is None else f"tcp://{tcp.removeprefix('tcp://')}",
        keys=keys,
        owner=user_and_group,
        sessions_per_client=sessions_per_client,
        say=lambda words: out.print(words, soft_wrap=True),
    )
    out.print(f"service {service.sid} listens at {service.endpoint}; press Ctrl-C to stop it", soft_wrap=True)
    service.run()
    out.print("stopped; everything was removed")


@emulator.command()
def clean() -> None:
    """Remove what killed services have left behind on this machine, and nothing else."""
    from sysgym.cli.terminal import console
    from sysgym.emulator.linux.service.cleaning import clean as remove_leftovers

    removed = remove_leftovers()
    out = console()
    for found in removed:
        out.print(f"removed {found.kind} {found.name} of service {found.sid}", soft_wrap=True)
    if not removed:
        out.print("nothing to remove")


def _owner(user: str | None) -> tuple[int, int] | None:
    """Return the user and group that own the sockets."""
    import pwd  # not available on every system, where --help must work too

    from sysgym.errors import UnknownName

    if user is not None:
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise UnknownName("user", user, [one.pw_name for one in pwd.getpwall()]) from None
        return entry.pw_uid, entry.pw_gid
    if os.geteuid() == 0 and "SUDO_UID" in os.environ:
        return int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "0"))
    return None

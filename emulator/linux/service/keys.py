"""Keys of services that listen on the network: CURVE (ZeroMQ's RFC 26), used like SSH keys.

A service's folder of keys holds ``server.key_secret``, ``server.key`` and, in ``clients/``, the public keys
of the authorized clients. A client's folder holds ``server.key`` and its own ``client.key_secret``. Without a
key in ``clients/`` no client is admitted.
"""

from __future__ import annotations

import os
from pathlib import Path

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

from sysgym.scenarios.errors import BackendUnavailable

KEYS_VARIABLE = "SYSGYM_EMULATOR_KEYS"
"""Environment variable that names a client's folder of keys."""


def make_server_keys(folder: Path) -> list[Path]:
    """Make the keys that a service's folder lacks: its own pair, and that of a first client.

    Returns:
        Files that the first client needs; empty if the service had keys already.
    """
    clients = folder / "clients"
    previous = os.umask(0o077)
    try:
        clients.mkdir(parents=True, exist_ok=True)
        if (folder / "server.key_secret").exists():
            return []
        zmq.auth.create_certificates(folder, "server")
        public, secret = zmq.auth.create_certificates(folder, "client")
        Path(public).rename(clients / "client.key")
        return [folder / "server.key", Path(secret)]
    finally:
        os.umask(previous)


def guard(socket: zmq.Socket[bytes], folder: Path) -> ThreadAuthenticator:
    """Admit only holders of the folder's keys to a socket, before it is bound; stop the result at the end."""
    public, secret = zmq.auth.load_certificate(folder / "server.key_secret")
    assert secret is not None
    authenticator = ThreadAuthenticator(socket.context)
    authenticator.start()
    authenticator.configure_curve(domain="*", location=str(folder / "clients"))
    socket.curve_server = True
    socket.curve_publickey = public
    socket.curve_secretkey = secret
    return authenticator


def introduce(socket: zmq.Socket[bytes], folder: Path | None) -> None:
    """Set a client's own keys and the service's public key on its socket, before it connects.

    Raises:
        BackendUnavailable: If a key is missing.
    """
    if folder is None:
        raise BackendUnavailable(
            "linux",
            "a service on the network wants a key",
            f"copy its server.key and your client.key_secret into a folder and name it in ${KEYS_VARIABLE}",
        )
    try:
        server, _ = zmq.auth.load_certificate(folder / "server.key")
        public, secret = zmq.auth.load_certificate(folder / "client.key_secret")
    except (OSError, ValueError) as error:
        raise BackendUnavailable(
            "linux", f"no keys in {folder}: {error}", "copy them from the service"
        ) from None
    socket.curve_serverkey = server
    socket.curve_publickey = public
    socket.curve_secretkey = secret

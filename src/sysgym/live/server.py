"""Server of live pages: one page, its files, and a WebSocket with frames and commands."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from sysgym.errors import MissingExtra, SysgymError
from sysgym.live.export import exported_page, live_page
from sysgym.live.pacing import Mailbox
from sysgym.live.session import Session

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route, WebSocketRoute
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.websockets import WebSocket, WebSocketDisconnect
except ImportError as missing:
    raise MissingExtra("live", "sysgym live") from missing

MOST_FRAMES_A_SECOND = 30.0
LARGEST_COMMAND_BYTES = 4_096
_KINDS = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "connect-src 'self'",
        "img-src data:",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
    )
)


class OnlyFrom:
    """Middleware that refuses requests for other hosts or from pages of other origins.

    Any page in the same browser can send requests to ports of this machine, and the host name of the page can
    resolve to this machine (DNS rebinding). The Host header then has that name, and so has the Origin header
    of a WebSocket.

    Args:
        app: Application to protect.
        host: Host that the server listens on.
        port: Port that the server listens on.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._app, self._host, self._port = app, host, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or refuse it with status 403."""
        if scope["type"] in ("http", "websocket"):
            headers = HTTPConnection(scope).headers
            reason = refusal(headers.get("host"), headers.get("origin"), self._host, self._port)
            if reason:
                await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def refusal(host: str | None, origin: str | None, own: str, port: int) -> str:
    """Return the reason why a request is refused; empty if it is accepted.

    Args:
        host: Host header of the request.
        origin: Origin header of the request; only browsers send one.
        own: Host that the server listens on.
        port: Port that the server listens on.
    """
    name, given = _split(f"//{host or ''}")
    if given != port or not _is_own(name, own):
        return f"Host {host!r} is not this server; open http://127.0.0.1:{port}/"
    if origin is not None:
        origin_name, origin_port = _split(origin)
        if not origin.startswith("http://") or (origin_name, origin_port) != (name, given):
            return f"Origin {origin!r} is another page; open http://127.0.0.1:{port}/"
    return ""


def _split(address: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(address)
        return parts.hostname or "", 80 if parts.port is None else parts.port
    except ValueError:
        return "", None


def _is_own(name: str, own: str) -> bool:
    """Return whether a name cannot be rebound to the server by DNS: the server's own name, or an address."""
    if name in ("localhost", own, "127.0.0.1", "::1"):
        return True
    with contextlib.suppress(ValueError):
        return not ipaddress.ip_address(own).is_loopback and bool(ipaddress.ip_address(name))
    return False


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: Address or name to listen on.
        port: Port; 0: any free one.

    Raises:
        SysgymError: The port is in use, or the host is not this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SysgymError(f"--host {host}: {error.strerror or error}; leave it out for 127.0.0.1") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(64)
    except OSError as error:
        listening.close()
        raise SysgymError(
            f"--host {host} --port {port}: {error.strerror or error}; choose another port, or --port 0 for"
            " any free one"
        ) from error
    return listening


def app_of_page(page: str, host: str, port: int) -> ASGIApp:
    """Return the application that serves one page, such as that of a recording."""

    async def index(request: Any) -> Response:
        return HTMLResponse(page)

    return OnlyFrom(Starlette(routes=[Route("/", index)]), host, port)


def app_of_session(session: Session, host: str, port: int) -> ASGIApp:
    """Return the application that serves the live page of a session."""

    async def index(request: Any) -> Response:
        return HTMLResponse(live_page(), headers={"content-security-policy": _POLICY})

    async def saved(request: Any) -> Response:
        frames = session.frames
        if not frames:
            return PlainTextResponse("there is no frame yet\n", 409)
        page = await asyncio.to_thread(exported_page, session.header, frames)
        name = f"{session.header['scenario']}.html".replace('"', "")
        return HTMLResponse(page, headers={"content-disposition": f'attachment; filename="{name}"'})

    async def live(socket: WebSocket) -> None:
        await _serve_viewer(socket, session)

    routes = [
        Route("/", index),
        Route("/saved.html", saved),
        Route("/static/{name:path}", _static),
        WebSocketRoute("/live", live),
    ]
    return OnlyFrom(Starlette(routes=routes), host, port)


async def _static(request: Any) -> Response:
    name = request.path_params["name"]
    folder = files("sysgym.live").joinpath("static")
    known = [
        *(one.name for one in folder.iterdir() if one.is_file()),
        *(f"vendor/{one.name}" for one in folder.joinpath("vendor").iterdir()),
    ]
    kind = _KINDS.get("." + name.rpartition(".")[2])
    if name not in known or kind is None:
        return PlainTextResponse("there is no such file\n", 404)
    content = folder.joinpath(*name.split("/")).read_bytes()
    return Response(content, media_type=kind, headers={"cache-control": "no-store"})


async def _serve_viewer(viewer: WebSocket, session: Session) -> None:
    """Send frames to one browser as fast as it receives them, and pass its commands to the session."""
    await viewer.accept()
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    mailbox = Mailbox(lambda: _quietly(loop, news.set))
    session.join(mailbox)

    async def send() -> None:
        while True:
            await news.wait()
            news.clear()
            for message in mailbox.take():
                await viewer.send_text(json.dumps(message, separators=(",", ":"), allow_nan=False))
            await asyncio.sleep(1.0 / MOST_FRAMES_A_SECOND)

    async def receive() -> None:
        async for text in viewer.iter_text():
            command = _command(text)
            if command is None:
                mailbox.put({"error": "a command is a JSON object of at most 4 kB"})
            else:
                session.command(command)

    try:
        tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(receive())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError, OSError):
                    await task
    finally:
        session.leave(mailbox)


def _command(text: str) -> dict[str, Any] | None:
    if len(text) > LARGEST_COMMAND_BYTES:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _quietly(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has just been closed
        loop.call_soon_threadsafe(function)


class Server:
    """Server of an application on a socket.

    Args:
        app: Application.
        listening: Socket of :func:`bound_socket`.
    """

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        self._listening = listening
        config = uvicorn.Config(
            app,
            log_level="warning",
            ws="websockets-sansio",
            ws_max_size=16 * LARGEST_COMMAND_BYTES,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def serve(self) -> None:
        """Serve until :meth:`stop` is called.

        Raises:
            KeyboardInterrupt: The user has pressed Ctrl-C.
        """
        self._server.run(sockets=[self._listening])

    def stop(self) -> None:
        """Stop :meth:`serve`; can be called from any thread."""
        self._server.should_exit = True

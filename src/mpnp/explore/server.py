"""The local server of the pages."""

import json
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from mpnp.errors import InputError, MpnpError, first_line
from mpnp.explore.answers import Answers
from mpnp.explore.document import render, render_pictures
from mpnp.explore.pictures import Pictures

__all__ = ["LOOPBACK", "address", "listen", "make_app", "make_token", "serve", "warm_up"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""

LARGEST_BODY = 200_000
"""Bytes of a request."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def make_token(host: str) -> str:
    """What the address must hold: nothing on this machine alone, a secret for whoever else can reach the server."""
    return "" if host in LOOPBACK else secrets.token_urlsafe(16)


def make_app(answers: Answers | None, pictures: Pictures | None = None, *, token: str = "") -> Starlette:
    """The page of curves at `/` and the page of images at `/images`, or at `/` if it is the only one; answers below `/api`."""

    def page(path: str, text: str) -> Route:
        async def show(request: Request) -> Response:
            _require_token(request.query_params.get("token", ""), token)
            return HTMLResponse(text, headers=HEADERS)

        return Route(path, show)

    def questions(path: str, ask: Callable[[Any], dict[str, Any]]) -> Route:
        async def answer(request: Request) -> Response:
            _require_token(request.headers.get("x-token", ""), token)
            content = _parse(await _read(request))
            return JSONResponse(await run_in_threadpool(ask, content), headers=HEADERS)

        return Route(path, answer, methods=["POST"])

    both, engine = answers is not None and pictures is not None, {"engine": {"token": token}}
    routes = []
    if answers is not None:
        other = {"other": {"path": "images", "name": "images"} if both else None}
        routes += [
            page("/", render(answers.gallery.describe() | engine | other, alone=False)),
            questions("/api/answer", answers),
        ]
    if pictures is not None:
        other = {"other": {"path": "./", "name": "curves"} if both else None}
        text = render_pictures(pictures.describe() | engine | other)
        routes += [page("/images" if both else "/", text), questions("/api/picture", pictures)]
    return Starlette(
        routes=routes,
        # Other sites may point a name of theirs at this machine; with a token they gain nothing from that.
        middleware=[]
        if token
        else [Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]", "testserver"])],
        exception_handlers={MpnpError: _refuse, HTTPException: _report, Exception: _apologise},
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 takes any that is free."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot serve at {host}, port {port}: {error.strerror}; choose another --host or --port") from None


def address(listener: socket.socket, token: str) -> str:
    """What to open in a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/" + (f"?token={token}" if token else "")


def serve(app: Starlette, listener: socket.socket) -> None:
    """Serve until interrupted."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=1))
    server.run(sockets=[listener])


def warm_up(answers: Answers | None, pictures: Pictures | None) -> None:
    """Compile what the pages ask for first, in the background."""

    def ask() -> None:
        if answers is not None:
            for name in list(answers.gallery.models)[:2]:
                request = {
                    "model": name,
                    "x": [],
                    "y": [],
                    "output": 0,
                    "grid": [0, 1, 128],
                    "band": 0.9,
                    "draws": 8,
                    "seed": 0,
                }
                for part in ("band", "draws"):
                    answers(request | {"part": part, "method": "resample"})
        if pictures is not None:
            height, width, channels = pictures.shape
            pixels = [[place] + [0] * channels for place in range(height * width // 10)]
            pictures({"model": next(iter(pictures.models)), "draws": 4, "pixels": pixels})

    threading.Thread(target=ask, daemon=True).start()


def _require_token(given: str, token: str) -> None:
    if not secrets.compare_digest(given.encode(), token.encode()) and token:
        raise HTTPException(403, "the address lacks the right token; use the one that 'mpnp explore' printed")


async def _read(request: Request) -> bytes:
    """The body, unless it is too large."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise HTTPException(415, "requests must be of type application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, f"a request may have {LARGEST_BODY:,} bytes at most")
    return bytes(body)


def _parse(body: bytes) -> Any:
    def refuse(name: str) -> None:
        raise InputError(f"numbers must be finite, got {name}")

    try:
        return json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # brackets nested too deeply are a RecursionError
        raise InputError(f"the request is not valid JSON ({first_line(error)})") from None


async def _refuse(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400, HEADERS)


async def _report(_: Request, error: Exception) -> Response:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "error")
    return JSONResponse({"error": detail}, status, HEADERS)


async def _apologise(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"unforeseen {type(error).__name__}; please report it"}, 500, HEADERS)

"""One shape for everything that goes wrong: {"error": {"code", "message", "where"}}."""

import logging
from html import escape
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

CODES = {
    400: "bad_request",
    401: "unauthorised",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    500: "internal",
}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{again}
<title>odeprocess playground</title>
<style>body {{font: 1rem/1.5 system-ui; max-width: 36rem; margin: 3rem auto; padding: 0 1rem}} h1 {{font-size: 1.25rem}}</style>
</head><body><h1>odeprocess playground</h1><p>{message}</p></body></html>
"""


class Problem(BaseModel):
    """What went wrong, in words for a program and for a person."""

    code: str
    message: str
    where: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


class Refused(Exception):
    """A request that cannot be answered, and why."""

    def __init__(self, status: int, code: str, message: str, where: str | None = None):
        super().__init__(message)
        self.status, self.code, self.message, self.where = status, code, message, where


def unknown(what: str, name: str) -> Refused:
    """There is no such thing."""
    return Refused(404, "not_found", f"There is no {what} {name!r}; it may have been deleted, or expired.", "path")


def conflict(code: str, message: str, where: str | None = None) -> Refused:
    """Well-formed, but it does not fit the series, its model, or the server as it is now."""
    return Refused(409, code, message, where)


def answer(status: int, code: str, message: str, where: str | None = None, headers: Any = None) -> JSONResponse:
    """An answer in the one shape."""
    return JSONResponse({"error": {"code": code, "message": message, "where": where}}, status, headers)


def told(
    scope: Any, status: int, code: str, message: str, where: str | None = None, headers: Any = None, again: bool = False
) -> Response:
    """The same as a page, for those who look at it in a browser; `again` lets the browser ask once more."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    if scope.get("method") != "GET" or b"text/html" not in accepted:
        return answer(status, code, message, where, headers)
    refresh = '<meta http-equiv="refresh" content="0">' if again else ""
    return HTMLResponse(PAGE.format(again=refresh, message=escape(message)), status, headers)


def install(app: FastAPI) -> None:
    """Makes the app answer every error in the one shape."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return answer(error.status, error.code, error.message, error.where)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        more = len(error.errors()) - 1
        return answer(422, "invalid", first["msg"] + (f" (and {more} more)" if more else ""), _printable(where))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        code, headers = CODES.get(error.status_code, "bad_request"), error.headers
        if error.status_code == 405:  # one path may be several routes, of which the framework names the first
            matching = [route for route in app.routes if route.matches(request.scope)[0] != Match.NONE]
            headers = {"Allow": ", ".join(sorted({m for route in matching for m in getattr(route, "methods", None) or ()}))}
        return answer(error.status_code, code, str(error.detail), None, headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        logging.getLogger("odeprocess.serving.http").error("%s %r failed", request.method, request.url.path, exc_info=error)
        return answer(500, CODES[500], "Something went wrong in the server; its log says what.")


def _printable(text: str) -> str:
    """Without lone surrogates, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode()

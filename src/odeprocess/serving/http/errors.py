"""Error responses, all of one shape: {"error": {"code", "message", "where"}}."""

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
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">{refresh}
<title>odeprocess playground</title>
<style>body {{font: 1rem/1.5 system-ui; max-width: 36rem; margin: 3rem auto; padding: 0 1rem}} h1 {{font-size: 1.25rem}}</style>
</head><body><h1>odeprocess playground</h1><p>{message}</p></body></html>
"""


class Problem(BaseModel):
    """An error: a code for programs, a message for people, and the part of the request that it is about."""

    code: str
    message: str
    where: str | None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: Problem


class ApiError(Exception):
    """An error that the client receives as a response."""

    def __init__(self, status: int, code: str, message: str, where: str | None = None):
        super().__init__(message)
        self.status, self.code, self.message, self.where = status, code, message, where


def not_found(what: str, name: str) -> ApiError:
    """The error for a series or model that does not exist."""
    return ApiError(404, "not_found", f"There is no {what} {name!r}; it may have been deleted, or expired.", "path")


def conflict(code: str, message: str, where: str | None = None) -> ApiError:
    """The error for a valid request that does not fit the series, its model, or the state of the server."""
    return ApiError(409, code, message, where)


def error_response(status: int, code: str, message: str, where: str | None = None, headers: Any = None) -> JSONResponse:
    """A JSON response for an error."""
    return JSONResponse({"error": {"code": code, "message": message, "where": where}}, status, headers)


def error_page(
    scope: Any, status: int, code: str, message: str, where: str | None = None, headers: Any = None, reload: bool = False
) -> Response:
    """An HTML page for browsers, and a JSON response for other clients; with `reload` the browser loads the page again."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    if scope.get("method") != "GET" or b"text/html" not in accepted:
        return error_response(status, code, message, where, headers)
    refresh = '<meta http-equiv="refresh" content="0">' if reload else ""
    return HTMLResponse(PAGE.format(refresh=refresh, message=escape(message)), status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Makes an application answer every error in the one shape."""

    @app.exception_handler(ApiError)
    async def answer_api_error(request: Request, error: ApiError) -> JSONResponse:
        return error_response(error.status, error.code, error.message, error.where)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        more = len(error.errors()) - 1
        message = first["msg"] + (f" (and {more} more)" if more else "")
        return error_response(422, "invalid", message, _without_surrogates(where))

    @app.exception_handler(HTTPException)
    async def answer_http_error(request: Request, error: HTTPException) -> JSONResponse:
        code, headers = CODES.get(error.status_code, "bad_request"), error.headers
        if error.status_code == 405:  # a path may have several routes, of which the framework names the first only
            matching = [route for route in app.routes if route.matches(request.scope)[0] != Match.NONE]
            headers = {"Allow": ", ".join(sorted({m for route in matching for m in getattr(route, "methods", None) or ()}))}
        return error_response(error.status_code, code, str(error.detail), None, headers)

    @app.exception_handler(Exception)
    async def answer_unexpected_error(request: Request, error: Exception) -> JSONResponse:
        logging.getLogger("odeprocess.serving.http").error("%s %r failed", request.method, request.url.path, exc_info=error)
        return error_response(500, CODES[500], "Something went wrong in the server; its log says what.")


def _without_surrogates(text: str) -> str:
    """The text without lone surrogates, which JSON may hold and UTF-8 may not."""
    return text.encode("utf-8", "replace").decode()

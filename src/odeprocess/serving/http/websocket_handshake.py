"""The check of a WebSocket's handshake (RFC 6455), before uvicorn's WebSocket protocol parses it again and may fail on it."""

import base64
import binascii
import re

import h11

MAX_LINE = 8000  # bytes of a header, and of the path; below the 8192 that the package `websockets` accepts
MAX_HEADERS = 100  # below the 128 that the package `websockets` accepts
KEY_BYTES = 16  # of Sec-WebSocket-Key, RFC 6455
TOKENS = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+(\s*,\s*[!#$%&'*+\-.^_`|~0-9A-Za-z]+)*")  # a list of tokens, RFC 9110


def handshake_error(event: h11.Request) -> str:
    """Returns what is wrong with a WebSocket's handshake, or an empty string."""
    headers = [(name.lower(), value) for name, value in event.headers]

    def values_of(name: bytes) -> list[bytes]:
        return [value for key, value in headers if key == name]

    if event.method != b"GET" or event.http_version != b"1.1":
        return "A WebSocket begins with a GET request of HTTP/1.1."
    if (
        len(headers) > MAX_HEADERS
        or len(event.target) > MAX_LINE
        or any(len(name) + len(value) > MAX_LINE for name, value in headers)
    ):
        return "The headers of the WebSocket's handshake are too long."
    has_body = any(values_of(name) for name in (b"content-length", b"transfer-encoding"))
    if values_of(b"sec-websocket-version") != [b"13"] or has_body:
        return "A WebSocket's handshake has Sec-WebSocket-Version 13, and no body."
    try:
        (key,) = values_of(b"sec-websocket-key")
        good = len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (ValueError, binascii.Error):
        good = False
    if not good:
        return "A WebSocket's handshake has one Sec-WebSocket-Key, of 16 bytes in base64."
    lists = [*values_of(b"connection"), *values_of(b"upgrade"), *values_of(b"sec-websocket-protocol")]
    are_tokens = all(TOKENS.fullmatch(value.strip()) for value in lists)
    if len(values_of(b"upgrade")) != 1 or len(values_of(b"host")) != 1 or not are_tokens:
        return "The headers Connection, Upgrade and Sec-WebSocket-Protocol of the handshake are names with commas between them."
    return ""

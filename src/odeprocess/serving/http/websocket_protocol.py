"""WebSockets: what comes after a frame that is none ends the connection, and not with a traceback."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import WebSocketException


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's, which fails where text that is no UTF-8 and the end of a connection come at once."""

    def data_received(self, data: bytes) -> None:
        """Some of a frame, or of several."""
        try:
            super().data_received(data)
        except WebSocketException:
            self.transport.abort()

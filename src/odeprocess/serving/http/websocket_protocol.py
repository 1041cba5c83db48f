"""uvicorn's WebSocket protocol, without a traceback where a client sends an invalid frame."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import WebSocketException


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which raises where invalid UTF-8 and the end of a connection arrive together; this one closes it."""

    def data_received(self, data: bytes) -> None:
        """Called with parts of frames."""
        try:
            super().data_received(data)
        except WebSocketException:
            self.transport.abort()

"""What is logged of what clients do: a line, never a traceback, and nothing of what they were let in by."""

import logging

LONGEST = 300  # characters
NOISE = ("Invalid UTF-8 sequence",)  # the client is told, by the code that its WebSocket is closed with
LOUD = ("uvicorn.error", "bokeh_fastapi.handler", "bokeh.server.contexts", "bokeh.server.protocol_handler")


class OneLine(logging.Filter):
    """Of errors that a client's message caused, the line that says which."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is logged at all; shortened, where it comes from a message of Bokeh's protocol."""
        text = record.getMessage()
        if text.startswith(NOISE):
            return False
        if record.name.startswith("bokeh"):
            cause = "" if not record.exc_info or record.exc_info[1] is None else f": {record.exc_info[1]}"
            record.msg, record.args, record.exc_info = " ".join(f"{text}{cause}".split())[:LONGEST], (), None
        return True


def quieten() -> None:
    """Lets what clients send not fill the log."""
    for name in LOUD:
        logger = logging.getLogger(name)
        if not any(isinstance(each, OneLine) for each in logger.filters):
            logger.addFilter(OneLine())

"""Keeps the log short: errors that clients cause are one line, without a traceback and without credentials."""

import logging

MAX_CHARACTERS = 300  # of a line; chosen by hand
IGNORED = ("Invalid UTF-8 sequence",)  # the client learns it from the close code of its WebSocket
FILTERED_LOGGERS = ("uvicorn.error", "bokeh_fastapi.handler", "bokeh.server.contexts", "bokeh.server.protocol_handler")


class OneLineErrors(logging.Filter):
    """Shortens errors that a client's message caused to one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether the record is logged; shortens it if it comes from Bokeh."""
        text = record.getMessage()
        if text.startswith(IGNORED):
            return False
        if record.name.startswith("bokeh"):
            cause = "" if not record.exc_info or record.exc_info[1] is None else f": {record.exc_info[1]}"
            record.msg, record.args, record.exc_info = " ".join(f"{text}{cause}".split())[:MAX_CHARACTERS], (), None
        return True


def shorten_log() -> None:
    """Adds the filter to the loggers that report clients' errors."""
    for name in FILTERED_LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, OneLineErrors) for each in logger.filters):
            logger.addFilter(OneLineErrors())

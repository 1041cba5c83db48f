"""The HTTP server: models behind a JSON API, with series that are stored in a file.

`app` puts it together; `routes` lists what clients can ask, `service` does it, `sqlite_store` keeps the series.
`access_control` is around every request; `run` starts the server.
"""

try:
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError("The server needs FastAPI and uvicorn: pip install 'odeprocess[server]'") from error

from .app import create_app as create_app
from .limits import Limits as Limits
from .served_model import ServedModel as ServedModel

__all__ = ["Limits", "ServedModel", "create_app"]

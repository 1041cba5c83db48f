"""The server: models over HTTP, with series that live as long as someone looks at them."""

try:
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError("The server needs FastAPI and uvicorn: pip install 'odeprocess[server]'") from error

from .app import create_app as create_app
from .limits import Limits as Limits
from .served_model import ServedModel as ServedModel

__all__ = ["Limits", "ServedModel", "create_app"]

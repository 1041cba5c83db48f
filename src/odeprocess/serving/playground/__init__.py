"""The playground: a page on which models are touched. Add observations and watch what a model believes.

`mount` puts it into a FastAPI application; the command `odeprocess play` starts it alone.
"""

from . import demo_models as demo_models
from .fastapi_app import alone as alone, mount as mount
from .model_menu import ModelMenu as ModelMenu
from .model_view import ModelView as ModelView, load_views as load_views
from .predictions import Prediction as Prediction, Question as Question, gaussian as gaussian, predict as predict
from .figure_download import draw as draw

"""The playground: a web page on which users add observations to a model and see its predictions change.

`mount` adds it to a FastAPI application; the command `odeprocess play` serves it alone. `page` builds the page from `widgets` and
`bokeh_plots`; `page_state` holds what it shows, without a page, so that it can be tested; `predictions` asks the models.
"""

from . import demo_models as demo_models
from .fastapi_app import create_app as create_app, mount as mount
from .figure_download import draw_figure as draw_figure
from .model_menu import ModelMenu as ModelMenu
from .model_view import ModelView as ModelView, load_views as load_views
from .predictions import (
    Prediction as Prediction,
    Question as Question,
    predict as predict,
    predict_gaussian_process as predict_gaussian_process,
)

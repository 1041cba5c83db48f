"""The playground: a page on which models are touched. Add observations and watch what a model believes.

`mount` puts it into a FastAPI application; the command `odeprocess play` starts it alone.
"""

from . import demo_models as demo_models
from .embed import alone as alone, mount as mount
from .model_menu import Gallery as Gallery
from .predictions import Outlook as Outlook, Question as Question, gaussian as gaussian, outlook as outlook
from .saved_figure import draw as draw
from .served_model import Exhibit as Exhibit, gather as gather

"""The playground: a page on which models are touched. Add observations and watch what a model believes.

`mount` puts it into a FastAPI application; the command `odeprocess play` starts it alone.
"""

from . import starters as starters
from .exhibit import Exhibit as Exhibit, gather as gather
from .gallery import Gallery as Gallery
from .outlook import Outlook as Outlook, Question as Question, gaussian as gaussian, outlook as outlook
from .picture import draw as draw
from .serving import alone as alone, mount as mount

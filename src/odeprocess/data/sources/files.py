"""Public data files: downloaded once, checked and cached; or read from a folder of the user's.

The environment variable `ODEPROCESS_DATA` names that folder, which has a folder for each data set; `ODEPROCESS_CACHE` is another
place for the cache. Files without an address can only be read from the user's folder.
"""

import dataclasses
import hashlib
import os
from pathlib import Path

from odeprocess.common import checks


@dataclasses.dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes:
        folder: the data set.
        name: of the file.
        sha256: of its content.
        homes: addresses to download it from, in the order in which they are tried.
        member: its name inside a zip archive, where the address has one; `sha256` is then that of the archive.
        stand_ins: names and checksums of files that may take its place in the user's folder.
        source: a description of its source, if it has no address.
    """

    folder: str
    name: str
    sha256: str
    homes: tuple[str, ...]
    member: str | None = None
    stand_ins: tuple[tuple[str, str], ...] = ()
    source: str = ""

    def path(self) -> Path:
        """The path of the file on this machine, after a download if necessary.

        Raises:
            FileNotFoundError: where the user's folder does not contain it.
            ValueError: where its checksum is wrong.
            OSError: where no address could be reached.
        """
        own = os.environ.get("ODEPROCESS_DATA")
        return self._own(Path(own) / self.folder) if own else self._cached()

    @property
    def origin(self) -> str:
        """The source of the file, for messages."""
        return self.homes[0] if self.homes else self.source

    def _own(self, folder: Path) -> Path:
        known = (*self.stand_ins, (self.name, "" if self.member else self.sha256))
        for name, sha256 in known:
            path = folder / name
            if path.exists():
                checks.require(
                    not sha256 or hashlib.sha256(path.read_bytes()).hexdigest() == sha256,
                    f"{path} is damaged: its checksum is not that of the published file. Fetch it again from {self.origin}.",
                )
                return path
        raise FileNotFoundError(
            f"{folder / self.name} is not there. ODEPROCESS_DATA names your own folder of data: put the file there "
            f"(from {self.origin}){', or unset the variable to have it downloaded' if self.homes else ''}."
        )

    def _cached(self) -> Path:
        if not self.homes:
            raise FileNotFoundError(
                f"{self.name} cannot be downloaded. Put it in a folder <data>/{self.folder} (from {self.origin}) and set "
                "ODEPROCESS_DATA=<data>."
            )
        try:
            import pooch
        except ImportError:
            raise ImportError(
                "Downloads need pooch: pip install 'odeprocess[experiments]', or name a folder with ODEPROCESS_DATA."
            ) from None
        import requests

        cache = Path(os.environ.get("ODEPROCESS_CACHE") or pooch.os_cache("odeprocess")) / self.folder
        processor = pooch.Unzip(members=[self.member]) if self.member else None
        reasons = []
        for home in self.homes:
            name = f"{self.name}.zip" if self.member else self.name
            try:
                found = pooch.retrieve(home, f"sha256:{self.sha256}", fname=name, path=cache, processor=processor)
                return Path(found[0] if isinstance(found, list) else found)
            except (requests.exceptions.RequestException, OSError) as error:
                reasons.append(f"{home}: {type(error).__name__}")
            except ValueError:
                reasons.append(f"{home}: the file does not have the published checksum")
        raise OSError(
            f"{self.name} could not be downloaded ({'; '.join(reasons)}). Try again later, or put it in a folder "
            f"<data>/{self.folder} and set ODEPROCESS_DATA=<data>."
        )


_MNIST_HOMES = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def _mnist(name: str, sha256: str) -> DataFile:
    return DataFile("mnist", name, sha256, tuple(home + name for home in _MNIST_HOMES))


MNIST = {
    ("train", "images"): _mnist("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    ("train", "labels"): _mnist("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ("test", "images"): _mnist("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    ("test", "labels"): _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
}
CHARACTERS = DataFile(
    "character_trajectories",
    "mixoutALL_shifted.mat",
    "5d2db017ef0d8cf0e65ed060c9e90399f78eb9f1e3cb63e22ca8c3ef4ba67d52",
    ("https://archive.ics.uci.edu/static/public/175/character+trajectories.zip",),
    member="mixoutALL_shifted.mat",
    # The same arrays in another order, gathered from a public copy.
    stand_ins=(("mixoutALL_shifted.rebuilt.mat", "dae7086d7d8b6c7373ae63d71ff43cf9c2d556830a04efbe18096b8b099814db"),),
)


def _table(folder: str, name: str, sha256: str, source: str) -> DataFile:
    return DataFile(folder, f"{name}.csv.gz", sha256, (), source=source)


TABLES = {
    "theophylline": _table(
        "pharmacokinetics",
        "theophylline",
        "ecc93797641fabd953725e3bd731505c24e41cc83aca76b43afb897e780be81b",
        "R's data set Theoph, columns series, t, y1 (mg/l), dose and wt",
    ),
    "chick-weight": _table(
        "growth",
        "chick_weight",
        "17cdb5751003db91e5ee0bca32685cca09a6e0951ca0d72fd7956e00bb5078a8",
        "R's data set ChickWeight, columns series, t (days), y1 (g) and diet",
    ),
    "hare-lynx": _table(
        "lynx_hare",
        "lynx_hare",
        "d1f84bf108784a80561a480691515fd733f356a624ccae47481d8ffd9e85e151",
        "the Hudson Bay Company's pelts 1900 to 1920, columns series, t, y1 (hares) and y2 (lynxes)",
    ),
    "measles": _table(
        "measles_uk20",
        "measles_uk20",
        "b92cb0a0c9534190c0da54f3c0e3b0a5f3380a54df2a23800a98e09c2ed4142c",
        "the data set twentymeas of R's package tsiR, columns series, t, y1, births and pop",
    ),
    "brusselator": _table(
        "brusselator",
        "brusselator",
        "264c033f4c7cefc5ca8d5b944a1e63d849d94cb981ee5d8dbf810f29c749f471",
        "BXLator.csv of the repository edebrouwer/gru_ode_bayes, gzipped",
    ),
}


def table_path(name: str) -> Path:
    """The path of a public long table on this machine, a gzipped CSV file.

    Arguments:
        name: `"theophylline"`, `"chick-weight"`, `"hare-lynx"`, `"measles"` or `"brusselator"`.
    """
    checks.choice("name", name, tuple(TABLES))
    return TABLES[name].path()

"""Where to get the data that do not come with the package, for those who want to run more rows."""

from __future__ import annotations

import os
import pathlib

from mmcopt.datasets.public_sets import PUBLISHED

CORA = "cora-classify.tar.gz of A. McCallum's data page at UMass, one subfield a set"
WEBKB = "the WebKB archive of CMU (www.cs.cmu.edu/~WebKB), one university a set"
SHAPES = "the clustering basic benchmark of P. Franti (cs.joensuu.fi/sipu/datasets)"
UNTOLD = {  # rows of a paper of which no set of ours is one
    **{f"Cora-{part}": CORA for part in ("DS", "HA", "ML", "OS", "PL")},
    **{f"WK-{part}": WEBKB for part in ("TX", "WT", "WC")},
    "RCVI": "fetch_rcv1() of scikit-learn, the rows with one of CCAT, ECAT, GCAT and MCAT",
    "svmguide1-a": "mmcopt data fetch svmguide1, 1000 of its rows",
    "D31": SHAPES, "Pathbased": SHAPES,
    "Coil 5-8": "COIL-20 of Columbia University, objects 5 to 8",
    "USPS 5-8": "mmcopt data fetch usps, 500 rows of its digits 4 to 7",
}
NAMED = {  # sets in a folder of files that cannot be fetched, and what they are made of
    "ringnorm_1000": "openml:ringnorm (id 1496), 1000 of its rows",
    "coil20": "COIL-20 of Columbia University, as 32 x 32 pixels",
    "coil_1to4": "COIL-20 of Columbia University, objects 1 to 4, as 32 x 32 pixels",
    "news_rec": "the topic rec of fetch_20newsgroups() of scikit-learn, as counts of words",
    "webkb_cl": WEBKB.replace("one university a set", "Cornell, as counts of words"),
}


def untold(row: str) -> str:
    """Why a row has no data of ours, and where they are."""
    return f"its data are not ours; get them from {UNTOLD[row]}"


def absent(name: str) -> str | None:
    """Why a data set is not there, and how to get it; None where that is not the reason."""
    base, folder = name.partition(":")[0], os.environ.get("MMCOPT_DATA", "")
    fetched = base in PUBLISHED and PUBLISHED[base].files
    if not fetched and base not in NAMED or (
            folder and pathlib.Path(folder, f"{base}.npz").exists()):
        return None
    return f"there is no {base}.npz in the folder that MMCOPT_DATA names; " + (
        f"mmcopt data fetch {base} gets it" if fetched else f"make it of {NAMED[base]}")

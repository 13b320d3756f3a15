"""Where to get the data that do not come with the package, for those who want to run more rows."""

from __future__ import annotations

import os
import pathlib

CORA = "cora-classify.tar.gz of A. McCallum's data page at UMass, one subfield a set"
WEBKB = "the WebKB archive of CMU (www.cs.cmu.edu/~WebKB), one university a set"
SHAPES = "the clustering basic benchmark of P. Franti (cs.joensuu.fi/sipu/datasets)"
UNTOLD = {  # rows of a paper of which no set of ours is one
    **{f"Cora-{part}": CORA for part in ("DS", "HA", "ML", "OS", "PL")},
    **{f"WK-{part}": WEBKB for part in ("TX", "WT", "WC")},
    "RCVI": "fetch_rcv1() of scikit-learn, the rows with one of CCAT, ECAT, GCAT and MCAT",
    "svmguide1-a": "svmguide1 of the LIBSVM data page, 1000 of its rows",
    "D31": SHAPES, "Pathbased": SHAPES,
    "Coil 5-8": "COIL-20 of Columbia University, objects 5 to 8",
    "USPS 5-8": "openml:USPS (id 41082), 500 rows of its classes 5 to 8",
}
NAMED = {  # names that `mmcopt.datasets.load` knows in a folder of files
    "ionosphere": "openml:ionosphere (id 59; UCI Ionosphere)",
    "letter_AvB": "openml:letter (id 6; UCI Letter Recognition), its classes A and B",
    "letter_ABCD_500": "openml:letter (id 6; UCI Letter Recognition), 500 rows of A to D",
    "satellite_1v2": "openml:satimage (id 182; UCI Statlog Landsat Satellite), its classes 1 and 2",
    "ringnorm_1000": "openml:ringnorm (id 1496), 1000 of its rows",
    "mnist": "openml:mnist_784 (id 554)",
    "usps_0123_500": "openml:USPS (id 41082), 500 rows of its classes 1 to 4",
    "coil20": "COIL-20 of Columbia University, as 32 x 32 pixels",
    "coil_1to4": "COIL-20 of Columbia University, objects 1 to 4, as 32 x 32 pixels",
    "news_rec": "the topic rec of fetch_20newsgroups() of scikit-learn, as counts of words",
    "webkb_cl": WEBKB.replace("one university a set", "Cornell, as counts of words"),
    "glass": "openml:glass (id 41; UCI Glass Identification)",
    "breast_wbc": "openml:breast-w (id 15; UCI Breast Cancer Wisconsin, original)",
    **dict.fromkeys(("aggregation", "compound", "flame", "jain", "r15", "spiral"), SHAPES),
}


def untold(row: str) -> str:
    """Why a row has no data of ours, and where they are."""
    return f"its data are not ours; get them from {UNTOLD[row]}"


def absent(name: str) -> str | None:
    """Why a data set is not there, and where to get it; None where that is not the reason."""
    base, folder = name.partition(":")[0], os.environ.get("MMCOPT_DATA", "")
    if base not in NAMED or (folder and pathlib.Path(folder, f"{base}.npz").exists()):
        return None
    return f"there is no {base}.npz in the folder that MMCOPT_DATA names; make it of {NAMED[base]}"

"""Public data sets of the papers: where they are published, their hashes, licences and forms.

A hash stands here only where several projects state the same for the file, or where the file is
kept under the hash of a commit, and where a copy of the file was found to have it. Sets whose
files have none can be fetched as well, and then it is said that nothing verified them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mmcopt.datasets import raw_files
from mmcopt.datasets.table import Table

UCI = "https://archive.ics.uci.edu"
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
ESL = "https://hastie.su.domains/ElemStatLearn"
BENCHMARKS = "https://raw.githubusercontent.com/gagolews/clustering-data-v1"
COMMIT = "27ac73a6fd331fb18181419838d2e753dd1b5f80"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
NOT_STATED = "not stated"
CC_BY = "CC BY 4.0"
RESEARCH = "for research"
SEED = 0  # of the rows that are drawn from some sets


@dataclass(frozen=True)
class RawFile:
    """A file as it is published, and where: the second address is asked where the first fails.

    ``#name`` at the end of an address is a member of a zip file.
    """

    name: str
    addresses: tuple[str, ...]
    sha256: str | None = None


@dataclass(frozen=True)
class Published:
    """A public set: where it comes from, and how its files become samples and classes.

    ``keep`` chooses classes by the names that they have in the source, in the order of its rows,
    and ``draw`` so many of these rows at random, always the same. Where there are no ``files``,
    ``by_hand`` says what to do. ``openml`` is what has the same rows there: its satimage lacks five
    of 6435, and its breast-w has 16 with gaps.
    """

    name: str
    shape: tuple[int, int]
    n_classes: int
    home: str
    licence: str
    files: tuple[RawFile, ...] = ()
    read: Callable[[Sequence[bytes]], Table] = raw_files.columns
    dtype: type = np.float32
    keep: tuple[str, ...] = ()
    draw: int | None = None
    openml: str = ""
    by_hand: str = ""

    @property
    def verified(self) -> bool:
        """Whether the hashes of all its files are known."""
        return bool(self.files) and all(file.sha256 for file in self.files)

    def table(self, raw: Sequence[bytes]) -> Table:
        """The samples and classes that its files hold, or those of them that are chosen."""
        table = self.read([raw_files.unpacked(file.name, data)
                           for file, data in zip(self.files, raw, strict=True)])
        X, y, classes = table.X, np.asarray(table.y), list(table.classes)
        if self.keep:
            codes = [classes.index(name) for name in self.keep]
            rows = np.flatnonzero(np.isin(y, codes))
            if self.draw is not None:
                order = np.random.default_rng(SEED).permutation(len(rows))
                rows = rows[np.sort(order[:self.draw])]
            place = np.full(len(classes), -1)
            place[codes] = range(len(codes))
            X, y, classes = X[rows], place[y[rows]], list(self.keep)
        return Table(np.asarray(X, dtype=self.dtype), y.astype(np.int64), classes)


def _uci(number: int, title: str, folder: str, files: Sequence[tuple[str, str]],
         **rest: Any) -> dict[str, Any]:
    """What sets of the UCI repository share: files in one zip file, and in a folder of old."""
    return {"home": f"{UCI}/dataset/{number}", "licence": CC_BY, **rest, "files": tuple(
        RawFile(name, (f"{UCI}/static/public/{number}/{title}.zip#{name}",
                       f"{UCI}/ml/machine-learning-databases/{folder}/{name}"), sha256)
        for name, sha256 in files)}


def _shape(name: str, n: int, k: int, data: str, labels: str) -> Published:
    """A set in the plane, of the benchmarks that M. Gagolewski edits."""
    folder = f"{BENCHMARKS}/{COMMIT}/sipu"
    return Published(
        name, (n, 2), k, "https://clustering-benchmarks.gagolewski.com", RESEARCH,
        (RawFile(f"{name}.data.gz", (f"{folder}/{name}.data.gz",), data),
         RawFile(f"{name}.labels0.gz", (f"{folder}/{name}.labels0.gz",), labels)),
        raw_files.numbers_and_classes, np.float64)


_LETTER = Published("letter", (20000, 16), 26, **_uci(
    59, "letter+recognition", "letter-recognition", [
        ("letter-recognition.data",
         "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2")],
    read=partial(raw_files.columns, label=0), openml="letter"))
_SATELLITE = Published("satellite", (6435, 36), 6, **_uci(
    146, "statlog+landsat+satellite", "statlog/satimage", [
        ("sat.trn", "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613"),
        ("sat.tst", "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479")],
    read=partial(raw_files.columns, separator=None, classes={
        "1": "1 red soil", "2": "2 cotton crop", "3": "3 grey soil", "4": "4 damp grey soil",
        "5": "5 vegetation stubble", "7": "7 very damp grey soil"})))
_USPS = Published(
    "usps", (9298, 256), 10, f"{ESL}/data.html", NOT_STATED,
    (RawFile("zip.train.gz", (f"{ESL}/datasets/zip.train.gz",),
             "66ebf231ab51f2cf6ac1a892d0f98ccffee1079d7a5db638c1f11f366046ca16"),
     RawFile("zip.test.gz", (f"{ESL}/datasets/zip.test.gz",),
             "8dacc3c6e136af6c3488de9e5113a7daf140c8c2f1f0b61c54ee02f03f1a962f")),
    partial(raw_files.columns, separator=None, label=0, classes={
        f"{digit}.0000": str(digit) for digit in range(10)}), openml="USPS")
_MNIST = Published(
    "mnist", (70000, 784), 10, "http://yann.lecun.com/exdb/mnist", NOT_STATED, tuple(
        RawFile(name, (f"{MNIST}/{name}", f"{MIRROR}/{name}"), sha256) for name, sha256 in (
            ("train-images-idx3-ubyte.gz",
             "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            ("train-labels-idx1-ubyte.gz",
             "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            ("t10k-images-idx3-ubyte.gz",
             "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            ("t10k-labels-idx1-ubyte.gz",
             "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"))),
    raw_files.pictures, np.uint8, openml="mnist_784")

_SETS = (
    Published("ionosphere", (351, 34), 2, **_uci(52, "ionosphere", "ionosphere", [
        ("ionosphere.data", "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd")],
        read=partial(raw_files.columns, classes={"b": "bad", "g": "good"}), openml="ionosphere")),
    _LETTER,
    dataclasses.replace(_LETTER, name="letter_AvB", shape=(1555, 16), n_classes=2,
                        keep=("A", "B"), openml=""),
    dataclasses.replace(_LETTER, name="letter_ABCD_500", shape=(500, 16), n_classes=4,
                        keep=("A", "B", "C", "D"), draw=500, openml=""),
    _SATELLITE,
    dataclasses.replace(_SATELLITE, name="satellite_1v2", shape=(2236, 36), n_classes=2,
                        keep=("1 red soil", "2 cotton crop")),
    Published("glass", (214, 9), 6, **_uci(42, "glass+identification", "glass", [
        ("glass.data", "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d")],
        read=partial(raw_files.columns, left_out=(0,)), dtype=np.float64, openml="glass")),
    Published("breast_wbc", (683, 9), 2, **_uci(
        15, "breast+cancer+wisconsin+original", "breast-cancer-wisconsin", [
        ("breast-cancer-wisconsin.data",
         "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64")],
        read=partial(raw_files.columns, left_out=(0,),
                     classes={"2": "benign", "4": "malignant"}))),
    _MNIST,
    _USPS,
    dataclasses.replace(_USPS, name="usps_0123_500", shape=(500, 256), n_classes=4,
                        keep=("0", "1", "2", "3"), draw=500, openml=""),
    _shape("aggregation", 788, 7,
           "59ddd9d8f2c66541074aa3dc3469a00c0465245c201ddb73e324353ba4e918e2",
           "f12a35f339e700b7b8ea6c78277649dad2fd08c5c35843f518c9f3422873a57e"),
    _shape("compound", 399, 6,
           "2ad70540bc2b47aaa03e78d72ab8e4d0c06fa9e1f7b96a8184a13e4ec28c666a",
           "e9fc72b1ddf6f8762e1d7efad2604f06b970bcf5a7fb3290ae2d3cc9a42e748c"),
    _shape("flame", 240, 2,
           "b00a1c205d7d97f6276c158355a3544d383cde50d0cfbc20052e36ee4afa624a",
           "1336bd7243f5dd7f4e65d55185fad01ae646c1c41276ebd5b3331c394ab19207"),
    _shape("jain", 373, 2,
           "4aa73f6547938f9860b50ed3b4288027afa779927d1447eba39ccde8ada8fe7f",
           "faeedfb17db3a7518c347a3a24f1dcac76f2fc7ff1c366ad0157c0d95fc0549c"),
    _shape("r15", 600, 15,
           "3b939dd0880262b4eaee2fb866bdb84afd37fe1fc43b91a642209c87c56dbae7",
           "5e62f29725804f7bbae4ea2d6a6703f34791d0e5da90b12cd1a17af17d02a96b"),
    _shape("spiral", 312, 3,
           "ad55d304b08979778e27cf3f5d8a9bf82ec5d0c8b658ea53f8a63990a2a9bfc1",
           "6a47fdca489242cf14b31d8de50b49b2e4e8b8c56f92eeee94456b685bdc19e4"),
    Published("svmguide1", (3089, 4), 2, f"{LIBSVM}/binary.html", NOT_STATED,
              (RawFile("svmguide1", (f"{LIBSVM}/binary/svmguide1",)),), raw_files.libsvm,
              np.float64),
    Published("coil20", (1440, 1024), 20,
              "https://www.cs.columbia.edu/CAVE/software/softlib/coil-20.php", RESEARCH,
              by_hand="unpack its processed pictures, shrink each to 32 x 32 grey values"),
    Published("ringnorm_1000", (1000, 20), 2, "https://www.openml.org/d/1496", NOT_STATED,
              openml="ringnorm", by_hand="draw 1000 of its 7400 rows"),
    Published("news_rec", (3970, 7995), 4, "http://qwone.com/~jason/20Newsgroups", NOT_STATED,
              by_hand="count the words of the groups rec.* of 20news-bydate"),
    Published("webkb_cl", (867, 4748), 7, "http://www.cs.cmu.edu/~webkb", NOT_STATED,
              by_hand="count the words of the pages of Cornell"),
)
PUBLISHED = {one.name: one for one in _SETS}

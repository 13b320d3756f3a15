"""Articles sorted by topic: CPM3C on tf-idf rows, which stay sparse from beginning to end.

What it teaches: a sparse matrix goes in as it is. Centring is an offset of products with it, so
nothing of the size articles x words is ever made, and the weights of a class, one a word, say in
words what the class is about. Start four classes from k-means, with a floor on their sizes. The
topics of the articles are looked at for the column ``accuracy`` alone.

With the set news_rec in the folder that MMCOPT_DATA names these are four groups of 20-newsgroups;
without it, articles made up here.
"""

import os
import pathlib
import tracemalloc

import numpy as np
from scipy.sparse import issparse
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

import mmcopt as mm
from mmcopt.formulations import CPM3C
from mmcopt.solvers import CuttingPlane

TOPICS = ("car engine dealer ford price oil miles toyota brakes tires transmission drivers",
          "bike ride helmet rider dod bmw motorcycle riding honda lane gear wheelie",
          "baseball pitcher hit runs inning braves mets bat league catcher sox umpire",
          "hockey nhl goal playoffs puck leafs bruins cup wings ice goalie rangers")


def made_up(n):
    """Articles of some 55 words: a few of their own topic, five of any, the rest of none."""
    rng = np.random.default_rng(0)
    topics = np.array([topic.split() for topic in TOPICS])
    common = np.array([f"word{i}" for i in range(5000)])
    zipf = 1.0 / np.arange(10, 10 + len(common))
    y = np.arange(n) % len(topics)
    articles = [" ".join([*rng.choice(topics[own], rng.integers(1, 13)),
                          *rng.choice(topics.ravel(), 5),
                          *rng.choice(common, 43, p=zipf / zipf.sum())]) for own in y]
    print(f"{n} articles made up in this script; news_rec in the folder MMCOPT_DATA has real ones")
    tfidf = TfidfVectorizer(sublinear_tf=True, min_df=2)
    return tfidf.fit_transform(articles), y, tfidf.get_feature_names_out()


def read(path):
    """Counts of words in articles of 20-newsgroups as tf-idf, their groups, and the words."""
    counts, y = mm.datasets.load(path)
    print(f"{len(y)} articles of four groups of 20-newsgroups")
    words = np.load(path).get("vocab", np.arange(counts.shape[1]).astype(str))
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts), y, words


def row(name, labels, problem, y):
    """One line of the table: the best weights for some labels, which are a convex problem."""
    fitted = mm.solve(problem.restrict(labels), CuttingPlane(epsilon=1e-4), seed=0)
    print(f"{name:9}{fitted.objective:11.5f}{fitted.lower_bound:10.5f}{100 * fitted.gap:7.2f}%"
          f"{100 * mm.metrics.accuracy(y, labels):10.1f}%   {np.bincount(labels).tolist()}")


def main():
    path = pathlib.Path(os.environ.get("MMCOPT_DATA", ""), "news_rec.npz")
    X, y, words = read(path) if path.is_file() else made_up(2000)
    problem = CPM3C(X, 4, size_floor=0.8)
    print(f"\n{problem}\n")

    print(f"{'labels of':9}{'objective':>11}{'bound':>10}{'gap':>8}{'accuracy':>11}   class sizes")
    row("k-means", KMeans(4, n_init=5, random_state=0).fit(X).labels_, problem, y)
    tracemalloc.start()
    result = mm.solve(problem, CuttingPlane(epsilon=1e-3), init="kmeans", restarts=5, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row("CPM3C", result.labels, problem, y)
    print("\nBound and gap are those of the weights once the labels are given, a convex problem. "
          f"For labels that\nare free, as they were to CPM3C, nothing is known but the bound "
          f"{result.lower_bound:g}: other labels may be better.\n")

    weights = problem.weights(result.point)
    for h, w in enumerate(weights):
        print(f"class {h}: {', '.join(words[np.argsort(-w)[:9]])}")

    n, d = X.shape
    held = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    print(f"\n{n} x {d} tf-idf values, of which {100 * X.nnz / (n * d):.1f} % are not 0: "
          f"{held / 2**20:.1f} MB as {type(problem.X).__name__}, {8 * n * d / 2**20:.0f} MB if "
          f"dense.\nSparse in the problem: {issparse(problem.X)}; the most that the five fits held "
          f"at a time: {peak / 2**20:.1f} MB.")


if __name__ == "__main__":
    main()

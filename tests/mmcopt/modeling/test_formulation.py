"""`Formulation`: frozen, replaceable, printed as mathematics, and told apart by fingerprints."""

import gc
import hashlib
import pickle
import threading
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import mmcopt as mm
from mmcopt import registry
from mmcopt.capabilities import LabelQuadratic
from mmcopt.constraints import Known, MustLink, Sizes
from mmcopt.errors import IncompatibleError, ParameterError
from mmcopt.formulations import LeastSquares
from mmcopt.kernels import Gaussian, Linear
from mmcopt.modeling import Formulation, Statement
from mmcopt.modeling import formulation as modeling

X = np.random.default_rng(0).standard_normal((30, 2))
F = LeastSquares(X, 3, kernel=Gaussian(width=0.5))


def test_a_problem_is_frozen():
    with pytest.raises(ParameterError) as e:
        F.lam = 2.0
    assert str(e.value) == ("LeastSquares is frozen; use problem.replace(lam=...) to get a changed "
                            "copy.")
    with pytest.raises(ValueError, match="read-only"):
        F.X[0, 0] = 1.0
    with pytest.raises(AttributeError, match="LeastSquares has no attribute 'lamda'"):
        F.lamda  # noqa: B018


def test_replace_gives_a_changed_copy_that_shares_what_still_holds():
    F.W.dense()
    other = F.replace(lam=0.7)
    assert (other.lam, F.lam) == (0.7, 0.1) and other.X is not None
    assert other.K is F.K and other.fitted is F.fitted
    assert other.W is not F.W
    assert F.replace(sizes=0.2).W is F.W
    assert F.replace(n_clusters=2).W is F.W
    assert F.replace(kernel=Linear()).fitted is not F.fitted
    labels = np.arange(30) % 3
    for changes in ({"lam": 0.7}, {"center": False}, {"scaling": "mean"}, {"sizes": 0.1},
                    {"kernel": Linear()}, {"must_link": [(0, 3)]}):
        fresh = LeastSquares(**{**F.params(), **changes})
        changed = F.replace(**changes)
        assert changed.objective(labels) == pytest.approx(fresh.objective(labels), rel=1e-12)
        assert changed.offer(mm.LabelQuadratic).n == fresh.offer(mm.LabelQuadratic).n
        assert changed.fingerprint == fresh.fingerprint != F.fingerprint


def test_replacing_what_is_not_there_is_refused_in_words():
    with pytest.raises(ParameterError) as e:
        F.replace(lamb=1.0)
    assert str(e.value) == ("LeastSquares has no parameter 'lamb'; it has X, n_clusters, kernel, "
                            "lam, center, scaling, sizes, known, must_link, cannot_link.")


def test_a_path_gives_the_same_problems_as_one_by_one():
    labels = np.arange(30) % 3
    for lams in ([0.1, 1.0], [2.0**-i for i in range(8)]):
        for lam, g in zip(lams, F.path(lams), strict=True):
            assert g.lam == lam
            fresh = LeastSquares(**{**F.params(), "lam": lam})
            assert g.objective(labels) == pytest.approx(fresh.objective(labels), rel=1e-9)


def test_equality_is_identity_and_fingerprints_compare():
    twin = LeastSquares(X.copy(), 3, kernel=Gaussian(width=0.5))
    assert twin != F and twin.fingerprint == F.fingerprint
    assert len(F.fingerprint) == 64
    assert LeastSquares(X, 3, kernel=Gaussian(width=0.5), lam=np.float64(0.1)).fingerprint == \
        F.fingerprint


def variants():
    yield F
    for options in ({"lam": 0.2}, {"n_clusters": 2}, {"center": False}, {"scaling": "mean"},
                    {"kernel": Gaussian(width=0.6)}, {"kernel": Gaussian(gamma=0.5)},
                    {"kernel": 2.0 * Gaussian(width=0.5)}, {"sizes": 0.2}, {"sizes": (2, 20)},
                    {"sizes": Sizes(low=2)}, {"sizes": Sizes(exact=[5, 12, 13])},
                    {"sizes": Sizes(exact=[5, 13, 12])}, {"known": {0: 1}}, {"known": {1: 0}},
                    {"known": {0: 1, 1: 2}}, {"known": {10: 1}}, {"must_link": [(1, 23)]},
                    {"must_link": [(12, 3)]}, {"must_link": [(1, 2), (3, 4)]},
                    {"must_link": [(1, 2)], "cannot_link": [(3, 4)]}, {"cannot_link": [(1, 23)]},
                    {"cannot_link": [(3, 4)]}, {"must_link": [(1, 3), (2, 4)]}):
        yield F.replace(**options)
    yield F.replace(X=X + 1e-15)
    yield F.replace(X=X.astype(np.float32))
    yield F.replace(X=sp.csr_matrix(X))


def test_different_problems_never_share_a_fingerprint():
    prints = [g.fingerprint for g in variants()]
    assert len(set(prints)) == len(prints)


def test_values_that_print_alike_have_different_digests():
    values = [[[1], [2]], [[1, 2]], [1, 2], [12], [[], 1, 2], {1: 2}, {"1": 2}, "12", ["1", "2"],
              {1: {2: 3}, 4: 5}, {1: {2: 3, 4: 5}}, None, [None], "None", 1, 1.0, True]
    prints = []
    for value in values:
        digest = hashlib.sha256()
        modeling._digest(digest, value)
        prints.append(digest.hexdigest())
    assert len(set(prints)) == len(values)


def test_the_same_rule_in_other_types_has_the_same_fingerprint():
    for one, two in [({"known": {0: 1}}, {"known": {np.int64(0): np.int32(1)}}),
                     ({"known": {0: 1, 5: 2}}, {"known": Known({5: 2, 0: 1})}),
                     ({"must_link": [(0, 1)]}, {"must_link": np.array([[0, 1]])}),
                     ({"must_link": [(0, 1)]}, {"must_link": MustLink([[0, np.int64(1)]])}),
                     ({"sizes": Sizes(low=2)}, {"sizes": Sizes(low=np.int64(2))}),
                     ({"sizes": Sizes(exact=[10] * 3)}, {"sizes": Sizes(exact=np.full(3, 10))})]:
        assert F.replace(**one).fingerprint == F.replace(**two).fingerprint


def test_caches_are_dropped_on_pickling():
    F.W.dense()
    again = pickle.loads(pickle.dumps(F))
    assert "_cache" in F.__dict__ and "_cache" not in again.__dict__
    assert again.fingerprint == F.fingerprint
    labels = np.arange(30) % 3
    assert again.objective(labels) == pytest.approx(F.objective(labels), rel=1e-12)


def test_a_problem_prints_as_mathematics():
    text = str(F.replace(sizes=0.2, known={0: 1}, must_link=[(1, 2)]))
    for piece in ("LeastSquares: 30 samples, 3 clusters", "minimise", "Q(c) = sum_h min_f",
                  "k n + 1 1'R1 - 4 sum_h z_h'R z_h", "8 <= |cluster h| <= 12, 1 known labels, "
                  "1 must-links", "R = K (K + lam I)^-1, lam = 0.1, K centred", "non-convex"):
        assert piece in text
    latex = F._repr_latex_()
    assert latex.startswith("$$\\begin{aligned}") and r"\lambda" in latex
    assert repr(F).startswith("LeastSquares(X=<30 x 2>, n_clusters=3, kernel=Gaussian(width=0.5)")
    mean = str(F.replace(scaling="mean", center=False))
    assert "lam n" in mean and "(1/n)" in mean and "not centred" in mean


def test_every_example_prints_in_lines_that_fit():
    for cls in registry.formulations().values():
        for f in cls.examples():
            assert f.statement().title in str(f)
            assert "$$" in f._repr_latex_()


def test_a_statement_aligns_its_rows():
    s = Statement("T", (("a", "x\ny", "u"), ("long", "z", "")))
    assert str(s) == "T\n  a     x\n        y\n  long  z"
    assert s.latex() == "$$\\begin{aligned}\n\\text{a}\\quad & u\n\\end{aligned}$$"


def test_what_is_not_offered_is_said():
    class _Bare(Formulation):
        def __init__(self, n=3):
            self.n = n

        def statement(self):
            return Statement("bare", (("a", "b", ""),))

        objective = violation = labels = reference = lambda self, point=None: 0.0

        @classmethod
        def examples(cls):
            return [cls()]

    bare = _Bare()
    assert "_Bare" not in registry.formulations()  # underscored classes are not registered
    assert bare.offer(mm.LabelQuadratic) is None and bare.embedding() is None
    with pytest.raises(IncompatibleError, match="_Bare gives no decision function"):
        bare.decision_function(None, X)
    with pytest.raises(IncompatibleError, match="Shaking cannot solve _Bare: it needs Label"):
        mm.solve(bare, "Shaking")
    with pytest.raises(TypeError, match="abstract"):
        Formulation()


class _Graph(Formulation):
    """A cut that names no number of clusters and makes its offer anew whenever it is asked."""

    default_solver = "Memetic"

    def __init__(self, A):
        self.A, self.n = np.asarray(A, dtype=float), len(A)

    def offer(self, kind):
        return mm.LabelQuadratic(self.A, const=50.0, k=3) if kind is mm.LabelQuadratic else None

    def objective(self, point):
        return float(50.0 - self.A[np.equal.outer(point, point)].sum())

    def violation(self, point):
        return float(3 - len(np.unique(point)))

    def labels(self, point):
        return point

    def statement(self):
        return Statement("Graph", (("minimise", "a cut", ""),))

    def reference(self, labels=None):
        raise NotImplementedError

    @classmethod
    def examples(cls):
        return []


@pytest.fixture
def graph():
    A = np.random.default_rng(3).standard_normal((12, 12))
    return _Graph(A + A.T)


def test_an_offer_is_made_once(graph):
    assert graph.offer(mm.LabelQuadratic) is graph.offer(mm.LabelQuadratic)
    again = pickle.loads(pickle.dumps(F))
    assert again.offer(mm.LabelQuadratic) is not F.offer(mm.LabelQuadratic)
    assert graph.replace(A=2 * graph.A).offer(mm.LabelQuadratic).matrix.dense()[0, 1] \
        == 2 * graph.A[0, 1]


def test_clusters_are_those_of_the_offer_where_a_problem_names_none(graph):
    assert graph.n_clusters == 3 and "n_clusters" not in vars(graph)
    best = mm.solve(graph, seed=0)
    assert best.verify() and best.lower_bound <= best.objective
    judged = mm.evaluate(graph, list("abc" * 4))
    assert judged.objective >= best.objective and judged.lower_bound is not None
    relaxed = mm.solve(graph.relax("partition"), seed=0)
    assert relaxed.lower_bound <= best.objective + 1e-9
    with pytest.raises(AttributeError, match="_Asks has no attribute 'n_clusters'"):
        _Asks(graph.A).n_clusters  # noqa: B018


class _Asks(_Graph):
    def offer(self, kind):
        return mm.LabelQuadratic(self.A, k=self.n_clusters)


# ---------------------------------------------------------------- what is kept


@pytest.mark.filterwarnings("ignore:.*(lost all samples|has collapsed)")
@pytest.mark.parametrize("name", registry.formulations())
def test_a_problem_goes_with_the_last_that_holds_it(name):
    mm.solve(registry.formulation(name).examples()[0], seed=0, max_iter=2)  # compiling holds some
    gc.disable()  # matrices must not wait for it
    try:
        f = registry.formulation(name).examples()[0]
        result = mm.solve(f, seed=0, max_iter=2)
        problem, fitted = weakref.ref(f), weakref.ref(f._keeper)
        del f, result
        assert problem() is None and fitted() is None
    finally:
        gc.enable()


def test_an_offer_outlives_its_problem():
    f = LeastSquares(X, 3)
    value, kept = f.objective(np.arange(30) % 3), f.offer(LabelQuadratic)
    alone = LeastSquares(X, 3).offer(LabelQuadratic)
    assert kept is f.offer(LabelQuadratic)
    assert alone.value(np.arange(30) % 3) == pytest.approx(value, rel=1e-12)
    assert alone.kernel() is not None


def test_all_threads_share_one_keeper():
    for _ in range(20):
        f, seen = LeastSquares(X, 3), []
        threads = [threading.Thread(target=lambda f=f, seen=seen: seen.append((f._keeper, f.K)))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(keeper) for keeper, _ in seen}) == 1 == len({id(K) for _, K in seen})
        assert f._keeper._keeper is f._keeper and f.K is seen[0][1]

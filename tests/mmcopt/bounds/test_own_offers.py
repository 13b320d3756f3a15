"""Problems of one's own that offer a capability and nothing else: every bound of it is theirs."""

import numpy as np
import pytest

import mmcopt as mm
from mmcopt import capabilities, registry
from mmcopt.capabilities import LabelQuadratic
from mmcopt.errors import DataError
from mmcopt.formulations import CPM3C, MKC, KernelKMeans, LeastSquares
from mmcopt.kernels import Gaussian, Linear
from mmcopt.modeling import Formulation

X = np.random.default_rng(2).standard_normal((8, 2)) + 3.0 * (np.arange(8) % 2)[:, None]
FAR = np.vstack([X[:7] / 10.0, [[30.0, 30.0]]])  # a sample that is a class of its own
KERNELS = [Linear(), Gaussian(width=0.5)]
LABELS = ["eig", "sdp", "sdp+cuts", "partition", "partition+cuts", "diffrac", "peng-wei"]
LIFTED = ["gmmc", "lifted", "mmc", "joint", "lg", "xu-schuurmans"]
OFFERS = [("LabelQuadratic", LeastSquares(X, 2), LABELS),
          ("LabelQuadratic", LeastSquares(X, 3, must_link=[(0, 4)]),
           [kind for kind in LABELS if not kind.startswith("sdp")]),
          ("LabelRatio", KernelKMeans(X, 3, must_link=[(0, 4)]), ["peng-wei", "peng-wei+cuts"]),
          ("LiftedMargin", CPM3C(X, 2, beta=0.2), LIFTED),
          ("LiftedMargin", CPM3C(X, 3, beta=0.2, size_floor=0.8),
           ["gmmc", "lifted", "xu-schuurmans"]),
          ("KernelMargin", MKC(X, 2, kernels=KERNELS, C=5.0, size_floor=0.5), ["mkc"])]
PROTOCOL = {*dir(Formulation), *Formulation.__annotations__}
OWN = {"what_is_inside", "name_of_the_offer"}
TYPE = {"tocsr", "as_dict"}  # by which a fingerprint asks any value what it is


@pytest.fixture
def bare():
    """A class of problems that are known by one offer alone; it is forgotten afterwards."""
    before = registry.formulations()

    class Bare(Formulation):
        """Another problem, of which only the protocol and one offer are to be seen."""

        def __init__(self, what_is_inside, name_of_the_offer):
            self.n, self.n_clusters = what_is_inside.n, what_is_inside.n_clusters
            self.what_is_inside, self.name_of_the_offer = what_is_inside, name_of_the_offer

        def __getattribute__(self, name):
            if name not in PROTOCOL | OWN | TYPE:  # no AttributeError, which hasattr would hide
                raise RuntimeError(f"nothing but the offer may be asked, and {name} was")
            return super().__getattribute__(name)

        def offer(self, kind):
            wanted = getattr(capabilities, self.name_of_the_offer)
            return self.what_is_inside.offer(kind) if kind is wanted else None

        def objective(self, point):
            return self.what_is_inside.objective(point)

        def violation(self, point):
            return self.what_is_inside.violation(point)

        def labels(self, point):
            return self.what_is_inside.labels(point)

        def from_labels(self, labels):
            return self.what_is_inside.from_labels(labels)

        def statement(self):
            return mm.Statement("Bare", (("minimise", "what is inside", ""),))

        def reference(self, labels=None):
            raise NotImplementedError

        @classmethod
        def examples(cls):
            return []

    yield Bare
    registry._formulations.clear()
    registry._formulations.update(before)


@pytest.mark.parametrize("name, inside, kinds", OFFERS)
def test_an_offer_is_all_that_bounds_need(bare, name, inside, kinds):
    f = bare(inside, name)
    assert f.relaxations().kinds == kinds
    best = mm.solve(inside, seed=0).objective
    for kind in kinds:
        relaxed, known = f.relax(kind), inside.relax(kind)
        assert "Bare" in str(relaxed)
        result = mm.solve(relaxed, seed=0, max_iter=200)
        assert result.verify() and result.lower_bound is not None
        assert f.violation(f.from_labels(result.labels)) == 0.0
        assert relaxed.bound(result.certificate.duals) == known.bound(result.certificate.duals)
        if relaxed.bounds_problem:
            assert result.lower_bound <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("name, inside, kinds", OFFERS)
def test_a_climb_asks_for_no_more(bare, name, inside, kinds):
    f = bare(inside, name)
    labels = np.arange(8) % inside.n_clusters
    labels[4] = labels[0]
    result = mm.certify(f, labels)
    assert result.verify() and result.lower_bound <= result.objective
    known = mm.certify(inside, labels).lower_bound
    assert result.lower_bound <= known * (1 + 1e-4)
    if name == "LiftedMargin":  # the tree of labels needs more than that, relaxations do not
        known = max(mm.solve(inside.relax(kind)).lower_bound for kind in ("lifted", "joint")
                    if kind in kinds)
    assert result.lower_bound == pytest.approx(known, rel=1e-4)


@pytest.mark.parametrize("name, cls, kind", [("LiftedMargin", CPM3C, "lifted"),
                                             ("LiftedMargin", CPM3C, "mmc"),
                                             ("KernelMargin", MKC, "mkc")])
def test_the_floor_of_an_offer_holds_for_labels_that_are_read_off(bare, name, cls, kind):
    sizes = []
    for floor in (0.0, 0.75):
        f = bare(cls(FAR, 2, size_floor=floor), name)
        relaxed = f.relax(kind)
        labels = relaxed.recover(relaxed.from_labels((np.arange(8) == 7).astype(int)))
        sizes.append(np.bincount(labels, minlength=2).min())
    assert sizes == [1, 3]


def test_a_kernel_is_what_k_means_needs_of_an_offer(bare):
    class Kernel(bare):
        def offer(self, kind):
            made = self.what_is_inside
            return LabelQuadratic(X @ X.T, kernel=lambda: made) if kind is LabelQuadratic \
                else None

        def __init__(self, what_is_inside):
            self.n, self.n_clusters, self.what_is_inside = 8, 2, what_is_inside

    K = X @ X.T
    relaxed = Kernel(K).relax("peng-wei")
    result = mm.solve(relaxed)
    assert result.lower_bound <= relaxed.kmeans_cost(result.labels) + 1e-9 and result.verify()
    assert "K is the kernel matrix of Kernel: as given" in str(relaxed)
    with pytest.raises(DataError, match=r"must have shape \(8, 8\), one row a sample; got \(8, 2"):
        Kernel(X).relax("peng-wei").bound({})
    lq = Kernel(K).offer(LabelQuadratic)
    merged = np.array([0, 0, 1, 2, 3, 4, 5, 6])
    assert lq.contract(merged).kernel is None and lq.subset(np.arange(4)).kernel is None
    assert lq.smooth(2.0).kernel is lq.kernel  # still that of the same points

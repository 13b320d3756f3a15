"""scikit-learn estimators: the same problems and solvers behind ``fit`` and ``predict``.

It may import every room but the front doors `mmcopt.cli` and `mmcopt.reproduce`. Public are the
classes below, one file a family.
"""

from mmcopt.estimators.certified_kmeans import CertifiedKMeans
from mmcopt.estimators.domains import SupportVectorClustering
from mmcopt.estimators.least_squares import LeastSquaresClustering
from mmcopt.estimators.margins import MaxMarginClustering, MultipleKernelClustering

__all__ = ["CertifiedKMeans", "LeastSquaresClustering", "MaxMarginClustering",
           "MultipleKernelClustering", "SupportVectorClustering"]

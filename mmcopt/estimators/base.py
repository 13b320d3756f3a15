"""What the estimators share."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClusterMixin


class Clustering(ClusterMixin, BaseEstimator):
    """A clustering of samples that may be sparse."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

"""Bounds: lifted problems, the base of relaxations, certificates and their trees, and rounding.

It may import modeling and what is below it; no bound needs a solver, and `verify` none of any kind.
Public are `evaluate` and `verify`, and `proof_tree`, which prints a tree of decisions.
"""

from mmcopt.bounds.certificates import evaluate
from mmcopt.bounds.proofs import ProofTree, proof_tree
from mmcopt.bounds.verification import trivial_of, verify

__all__ = ["ProofTree", "evaluate", "proof_tree", "trivial_of", "verify"]

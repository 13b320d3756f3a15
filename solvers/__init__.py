"""The methods: one file each. A class registers itself when its file is imported."""

from mmcopt.solvers.alternating import Alternating
from mmcopt.solvers.annealing import Annealing
from mmcopt.solvers.branch_and_bound import BranchAndBound
from mmcopt.solvers.brute_force import BruteForce
from mmcopt.solvers.class_tree import ClassTree
from mmcopt.solvers.conic import Conic
from mmcopt.solvers.continuation import Continuation
from mmcopt.solvers.cutting_plane import CuttingPlane
from mmcopt.solvers.direct import Direct
from mmcopt.solvers.dual_coordinate import DualCoordinate
from mmcopt.solvers.evolutionary import Evolutionary
from mmcopt.solvers.factor_dual import FactorDual
from mmcopt.solvers.hartigan import Hartigan
from mmcopt.solvers.interior_point import InteriorPoint
from mmcopt.solvers.joint_dual import JointDual
from mmcopt.solvers.kernel_barrier import KernelBarrier
from mmcopt.solvers.kernel_tree import KernelTree
from mmcopt.solvers.kernighan_lin import KernighanLin
from mmcopt.solvers.label_generation import LabelGeneration
from mmcopt.solvers.libsvm import Libsvm
from mmcopt.solvers.lloyd import Lloyd
from mmcopt.solvers.low_rank import LowRank
from mmcopt.solvers.margin_barrier import MarginBarrier
from mmcopt.solvers.margin_search import MarginSearch
from mmcopt.solvers.margin_tree import MarginTree
from mmcopt.solvers.memetic import Memetic
from mmcopt.solvers.regularized_dual import RegularizedDual
from mmcopt.solvers.sgd import SGD
from mmcopt.solvers.shaking import Shaking
from mmcopt.solvers.splitting import Splitting
from mmcopt.solvers.steepest_descent import SteepestDescent
from mmcopt.solvers.stochastic_descent import StochasticDescent
from mmcopt.solvers.tabu import Tabu

__all__ = ["Alternating", "Annealing", "BranchAndBound", "BruteForce", "ClassTree", "Conic",
           "Continuation", "CuttingPlane", "Direct", "DualCoordinate", "Evolutionary", "FactorDual",
           "Hartigan", "InteriorPoint", "JointDual", "KernelBarrier", "KernelTree", "KernighanLin",
           "LabelGeneration", "Libsvm", "Lloyd", "LowRank", "MarginBarrier", "MarginSearch",
           "MarginTree", "Memetic", "RegularizedDual", "SGD", "Shaking", "Splitting",
           "SteepestDescent", "StochasticDescent", "Tabu"]

"""Convex programs by the conic solvers that cvxpy calls: Clarabel, SCS, CVXOPT and ECOS."""

from __future__ import annotations

import functools
import threading
import time
import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np

from mmcopt.capabilities import Bounded, Capability, ConvexProgram, Program
from mmcopt.checks import Rule, hyper, integer, listed, optional, real, require_memory
from mmcopt.errors import BackendError, InfeasibleError
from mmcopt.modeling.result import Status
from mmcopt.solving import Progress, Solver
from mmcopt.tables import human


@dataclass(frozen=True)
class Backend:
    """What differs between the back ends.

    ``tols`` are its names for the tolerance, ``tol`` what it reaches reliably; with the options
    ``retry`` it is slower and fails less. A semidefinite cone of order m has N = m (m + 1) / 2
    entries; solving takes about ``per_pair`` N^2 + ``per_entry`` N bytes (measured on max-cut
    relaxations, m = 50 to 200).
    """

    name: str
    tols: tuple[str, ...]
    tol: float = 1e-8
    options: tuple[tuple[str, Any], ...] = ()
    retry: tuple[tuple[str, Any], ...] = ()
    semidefinite: bool = True
    per_pair: float = 0.0
    per_entry: float = 0.0

    def memory(self, orders: list[int]) -> float:
        """Bytes that semidefinite cones of these orders take, about."""
        sizes = [m * (m + 1) / 2 for m in orders]
        return sum(self.per_pair * N * N + self.per_entry * N for N in sizes)


BACKENDS = {b.name.lower(): b for b in (
    Backend("Clarabel", ("tol_gap_abs", "tol_gap_rel", "tol_feas"), per_pair=56.0),
    Backend("SCS", ("eps_abs", "eps_rel"), options=(("max_iters", 20_000),), per_entry=4000.0),
    Backend("CVXOPT", ("abstol", "reltol", "feastol"), tol=1e-7, per_pair=32.0,
            retry=(("kktsolver", "robust"),)),
    Backend("ECOS", ("abstol", "reltol", "feastol"), semidefinite=False),
)}
NAMES = tuple(b.name for b in BACKENDS.values())
BACKEND = Rule("one of " + ", ".join(NAMES) + " in any case",
               lambda v: isinstance(v, str) and v.lower() in BACKENDS)

# What a cvxpy status means for the run; all others are failures of the back end.
ACCEPTED = {"optimal": Status.CONVERGED, "optimal_inaccurate": Status.CONVERGED,
            "user_limit": Status.ITERATION_LIMIT}
LOOSER = (1.0, 1.0, 10.0, 100.0)  # than ``tol``, one try after another of a back end that gives up
SCS_INTERRUPTED = -5  # SCS takes Ctrl-C for itself

# cvxpy is not thread-safe, formulations share compiled programs, and CVXOPT's options are global.
_lock = threading.RLock()


@dataclass
class _Rounds:
    """The cuts of the next solve, how many solves there were, and the end once it is known."""

    cuts: Any = None
    solves: int = 0
    end: Status | None = None


@dataclass(frozen=True, kw_only=True)
class Conic(Solver):
    """Solve a convex program in cvxpy by Clarabel, SCS, CVXOPT or ECOS.

    A step is one solve of the whole program with the cuts found so far; it ends when its point
    violates no further cut. The point is optimal up to ``tol`` as the back end measures it. The
    bound does not rest on that: the formulation proves it from the dual values, whatever they are,
    so solutions that the back end calls inaccurate (``inaccurate`` in the history) are accepted,
    and a back end that gives up, as they do near programs without interior, is asked again: in its
    most robust way, then for 10 and 100 times ``tol``, which counts as inaccurate.
    The start is the point of all zeros, which need not be feasible; no back end uses it.

    Of the interior-point back ends, Clarabel and CVXOPT hold dense systems over the m (m + 1) / 2
    entries of a semidefinite matrix: about 1 GB and half a minute for m = 100, where SCS, of first
    order, takes 2 s and 15 MB. ECOS has no semidefinite cone. Nothing interrupts a back end within
    a step. A path of problems made by ``replace`` is compiled once.

    Examples
    --------
    >>> import mmcopt as mm
    >>> from mmcopt.solvers.conic import Conic
    >>> X, y = mm.datasets.load("gaussians:n=12,distance=2,seed=0")
    >>> relaxed = mm.formulations.LeastSquares(X, lam=0.5).relax("sdp")
    >>> result = mm.solve(relaxed, Conic("SCS"))
    >>> bool(result.lower_bound <= relaxed.problem.objective(result.labels))
    True
    """

    needs: ClassVar[tuple[type[Capability], ...]] = (ConvexProgram,)
    promised_gap: ClassVar[float] = 1e-6
    keeps_last: ClassVar[bool] = True

    backend: str = field(default="Clarabel", kw_only=False,
                         metadata={"rule": BACKEND, "doc": "the conic solver behind cvxpy"})
    tol: float | None = hyper(None, optional(real(0, open_low=True)),
                              "tolerance on gap and feasibility, as the back end measures them; "
                              "None takes 1e-8, and 1e-7 for CVXOPT")
    max_rounds: int = hyper(50, integer(1), "solves, each with more cuts, after which it gives up")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "backend", BACKENDS[self.backend.lower()].name)

    @property
    def _backend(self) -> Backend:
        return BACKENDS[self.backend.lower()]

    @property
    def _tol(self) -> float:
        return self._backend.tol if self.tol is None else self.tol

    def refuses(self, f: Any) -> str | None:
        reason = super().refuses(f)
        if reason is not None:
            return reason
        installed = _installed()
        if self.backend not in installed:
            return (f"the back end {self.backend} is not installed; pip install "
                    f"{self.backend.lower()}, or use one that is: {listed(installed)}.")
        if not self._backend.semidefinite and semidefinite_orders(_built(f, None).problem):
            able = [b.name for b in BACKENDS.values() if b.semidefinite]
            return (f"{self.backend} has no semidefinite cone, which this {type(f).__name__} "
                    f"needs; these have: {', '.join(able)}.")
        return None

    def begin(self, f: Any, init: Any, rng: np.random.Generator) -> Progress:
        with _lock:
            program = _built(f, None)
            self._require_memory(program.problem)
            if init is None:
                for v in program.problem.variables():
                    v.value = v.project(np.zeros(v.shape))
                init = program.point()
        return Progress(_Rounds(), init, f.objective(init))

    def step(self, f: Any, state: _Rounds, rng: np.random.Generator) -> Progress:
        with _lock:  # the point and the duals are read before another thread solves
            program = _built(f, state.cuts)
            compiling, solving, looser = self._solve(f, program.problem)
            point, duals, status = program.point(), program.duals(), program.problem.status
        extras = {"cuts": 0.0 if state.cuts is None else float(len(state.cuts)),
                  "compile_seconds": compiling, "backend_seconds": solving,
                  "inaccurate": float(status != "optimal" or looser > 1.0)}
        state.solves += 1
        separate = f.offer(ConvexProgram).separate
        more = None if separate is None else separate(point, state.cuts)
        if more is None or status == "user_limit":
            state.end = ACCEPTED[status]
        elif state.solves >= self.max_rounds:
            state.end = Status.ITERATION_LIMIT
        else:
            state.cuts = more
        bounded = f.offer(Bounded)
        bound = None if bounded is None else bounded.bound(duals)
        return Progress(state, point, f.objective(point), bound, extras,
                        None if bounded is None else duals)

    def outcome(self, f: Any, state: _Rounds) -> Status | None:
        return state.end

    # ------------------------------------------------------------ the back end

    def _require_memory(self, problem: Any) -> None:
        orders = semidefinite_orders(problem)
        if not orders:
            return
        least = min((b for b in BACKENDS.values() if b.semidefinite),
                    key=lambda b: b.memory([1000]))
        other = "" if least is self._backend else \
            f"Conic({least.name!r}) needs {human(least.memory(orders))}; "
        require_memory(self._backend.memory(orders),
                       f"{self.backend} on a semidefinite cone of order {max(orders)}",
                       f"{other}InteriorPoint and RegularizedDual need little, and relax('eig') "
                       "least.")

    def _solve(self, f: Any, problem: Any) -> tuple[float, float, float]:
        """Solve; the seconds of compiling and of the back end, and how much looser than asked for.

        Failures become errors.
        """
        import cvxpy as cp

        tried: list[dict[str, Any]] = []
        cause: Exception | None = None
        status, looser = "solver_error", 1.0
        compiling = solving = 0.0
        for i, looser in enumerate(LOOSER):
            options = {**dict.fromkeys(self._backend.tols, looser * self._tol),
                       **dict(self._backend.options), **dict(self._backend.retry if i else ())}
            if options in tried:
                continue
            tried.append(options)
            try:
                seconds = self._try(problem, dict(options))
                compiling, solving = compiling + seconds[0], solving + seconds[1]
                status = problem.status
            except (cp.SolverError, ArithmeticError) as e:
                cause, status = e, "solver_error"
            if status != "solver_error":
                break
        if status not in ACCEPTED:
            self._fail(f, problem, status, looser, cause)
        return compiling, solving, looser

    def _try(self, problem: Any, options: dict[str, Any]) -> tuple[float, float]:
        """Solve once; the seconds of compiling and of the back end."""
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": the history says so
            data, chain, inverse = problem.get_problem_data(self.backend.upper(),
                                                            solver_opts=options)
            compiled = time.perf_counter()
            # A warm start would make the answer depend on what was solved before.
            answer = chain.solve_via_data(problem, data, False, False, options)
            solved = time.perf_counter()
            if self.backend == "SCS" and answer["info"]["status_val"] == SCS_INTERRUPTED:
                raise KeyboardInterrupt
            problem.unpack_results(answer, chain, inverse)
        return compiled - started, solved - compiled

    def _fail(self, f: Any, problem: Any, status: str, looser: float,
              cause: Exception | None) -> NoReturn:
        name = type(f).__name__
        if status == "infeasible":
            raise InfeasibleError(f"{self.backend} finds that no point meets the constraints of "
                                  f"this {name} (cvxpy status 'infeasible'); loosen sizes, known "
                                  "labels or links.")
        semidefinite = bool(semidefinite_orders(problem))
        others = [b.name for b in BACKENDS.values()
                  if b.name != self.backend and (b.semidefinite or not semidefinite)]
        raise BackendError(f"{self.backend} could not solve this {name} (cvxpy status {status!r}); "
                           f"try a larger tol than {looser * self._tol:g}, or another back end: "
                           f"{', '.join(others)}.") from cause


@functools.cache
def _installed() -> list[str]:
    """The back ends that are there: looked for once, as that takes 10 ms."""
    import cvxpy as cp

    return [name for name in NAMES if name.upper() in cp.installed_solvers()]


def _built(f: Any, cuts: Any) -> Program:
    """The program with its parameters set, which formulations may share."""
    with _lock:
        program: Program = f.offer(ConvexProgram).build(cuts)
        return program


def semidefinite_orders(problem: Any) -> list[int]:
    """Orders of the semidefinite cones of a cvxpy problem, read off without compiling it.

    Atoms such as lambda_max count as one cone of the longest side of a variable.
    """
    from cvxpy.atoms import PSD_ATOMS
    from cvxpy.constraints.psd import PSD

    orders = [int(c.args[0].shape[0]) for c in problem.constraints if isinstance(c, PSD)]
    orders += [int(v.shape[0]) for v in problem.variables() if v.is_psd() or v.is_nsd()]
    if any(atom in PSD_ATOMS for atom in problem.atoms()):
        orders.append(max((int(max(v.shape, default=1)) for v in problem.variables()), default=1))
    return orders

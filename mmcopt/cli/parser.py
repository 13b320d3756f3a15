"""The command `mmcopt`: parsing, help, and exit codes; `mmcopt.cli.commands` does the work."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from mmcopt import __version__
from mmcopt.cli.exit_codes import BAD_INPUT, DONE, INTERRUPTED, SOLVER_FAILED, TERMINATED
from mmcopt.compiled.compiling import hush
from mmcopt.errors import BackendError, MMCError, by_ctrl_c

LATER, MOST = 0.05, 200  # seconds until a signal comes again, and how often it does
ABOUT = """\
Maximum-margin clustering as optimisation: declare a problem, solve it with any solver that fits,
and know how far from optimal the answer can be."""

EPILOG = """\
start here
  mmcopt demo                                   solvers race on digits, a proof, a picture
  mmcopt solve iris --kernel gaussian:width=0.5 cluster a data set
  mmcopt compare moons --solvers shaking,tabu   solvers side by side, each from five seeds
  mmcopt solve moons --certify 20               ... and see the lower bound climb
  mmcopt solve digits:1,7 --formulation CPM3C   the same by margins; also MKC, with several kernels
  mmcopt solve moons:n=300,noise=.05 --formulation OneClassHinge      clusters of any shape
  mmcopt solve graph.mc --formulation MaxCut    a graph's largest cut; also QUBO
  mmcopt describe                               what there is: problems, relaxations, solvers, data
  mmcopt COMMAND --help                         options and more examples

reading the numbers
  objective    what is minimised; lower is better
  lower bound  no labelling (no solution) at all can have a lower objective: proved, and checked
               again
  gap          (objective - bound) / |objective|: how far from optimal the answer can be at most
  level        a step of the ladder that raises the bound: eig (an eigenvalue), sdp and partition
               (semidefinite relaxations), +cuts, branch-and-bound, enumeration; of margins lifted
               joint and margin-tree; what each brought is shown while it climbs and in a table

times
  --time-limit SECONDS ends what takes long, in every command; what was found by then is shown

exit codes: 0 done, 1 a solver failed, 2 bad input, 130 interrupted (what was done is printed)
"""

DATA = """\
DATA is iris, wine, breast_cancer, digits (or some classes: digits:3,8); generated:
moons:n=500,noise=.1, circles, blobs:k=3, gaussians:n=40,distance=4; a file: my.csv, my.tsv,
my.npz, my.libsvm; openml:NAME; or NAME for NAME.npz in the folder that MMCOPT_DATA names.
Graphs and matrices, for MaxCut and QUBO: g05:n=80,seed=0, pm1s, pm1d, w, ising, bqp, be; my.mc,
my.rud, my.sparse, and my.txt, which is my.txt:instance=3 where it holds several."""

KERNEL = """\
kernels: linear, cosine, gaussian:width=0.5 (of the largest distance; or gamma=, sigma=),
laplacian:gamma=1, polynomial:degree=2,coef0=1, neighbors:10 (clusters of any shape); sums
and products with numbers: gaussian:width=1+0.3*linear; suffixes: .nystroem:300 for large
data, .pca:0.95 and .cholesky:0.99 for the leading directions, .unit for samples of length 1"""

FAMILIES = """\
problems, and the options they take (mmcopt describe NAME prints their mathematics)
  labels      LeastSquares  --lam, --kernel, --sizes, --scaling, --no-center   (the default)
              Diffrac       --kappa, --kernel, --sizes: give sizes, or one cluster is largest
              all of labels: --known, --must-link, --cannot-link
              KernelKMeans  --kernel, --sizes: k-means, without --kernel in the space of the data
              DiscriminativeKMeans --lam, --kernel, --sizes, --no-center: by fits of its means
  margins     CPM3C         --beta, --kernel, --loss, --size-floor, --balance, --no-center,
                            --no-normalize
              MKC           --C, --p, and --kernel once for each kernel; the others as CPM3C
  domains     OneClassHinge --C, --kernel; -k is the number of clusters read from the domain,
                            without it there are as many as the domain has parts
              Hypersphere   the same by a smallest sphere
  matrices    MaxCut        -- no options: the sides of a graph between which the edges weigh most
              QUBO          -- no options: x'Qx of numbers that are 0 or 1, at its least
Margins begin at 10 starts. For three clusters and more these are k-means, and no class may fall
below .8 of its share. Domains without --kernel take gamma and C from distances between samples."""

SOLVE = f"""\
examples
  mmcopt solve iris --kernel gaussian:width=0.5
  mmcopt solve digits:3,8 --sizes 0.2 --time-limit 5 --out labels.csv
  mmcopt solve moons --formulation KernelKMeans --kernel neighbors.unit
  mmcopt solve moons --known 0:1,5:0 --must-link 3-8 --cannot-link links.txt
  mmcopt solve my.csv -k 4 --kernel '0.3*linear+gaussian:width=1' --save run.npz --certify 30
  mmcopt solve moons --solver shaking,polish=false --restarts 10 --json
  mmcopt solve gaussians:n=60,distance=2 --solver BranchAndBound    a proof
  mmcopt solve digits:3,8 --formulation CPM3C --beta 0.1 --certify 20
  mmcopt solve iris --formulation CPM3C --kernel gaussian:width=0.5 --loss squared-hinge
  mmcopt solve digits:1,7 --formulation MKC --kernel linear --kernel gaussian:width=0.5 --C 50
  mmcopt solve moons:n=300,noise=.05 --formulation OneClassHinge --plot domain.png
  mmcopt solve iris --formulation OneClassHinge -k 3
  mmcopt solve moons --formulation Hypersphere --kernel gaussian:gamma=20 --C 10 --solver Libsvm
  mmcopt solve graph.mc --formulation MaxCut --solver BranchAndBound

{FAMILIES}

--certify climbs the ladder of bounds: eigenvalue, semidefinite relaxations, cuts, branch and bound;
margins have relaxations of their own, and the solvers of domains prove the optimum by themselves.
Ctrl-C ends the climb and keeps the best so far.

{DATA}

{KERNEL}
"""

COMPARE = f"""\
examples
  mmcopt compare iris --kernel gaussian:width=0.5
  mmcopt compare digits:3,8 --solvers shaking,tabu,memetic --seeds 10 --time-limit 2
  mmcopt compare digits:3,8 --solvers shaking,tabu,kmeans,ward --budget 2
  mmcopt compare moons --solvers tabu,length=5,tabu,length=50 --save table.md --certify 30
  mmcopt compare digits:1,7 --formulation CPM3C
  mmcopt compare iris --formulation CPM3C --size-floor 0 --solvers cuttingplane,sgd
  mmcopt compare moons --formulation OneClassHinge --solvers dualcoordinate,sgd

Kernels, matrices and compiled loops are made before the clocks start. --certify raises the bound of
the problem once, from the best labels found; it holds for the labels of all solvers.

{FAMILIES}

{DATA}

{KERNEL}
"""


CERTIFY = """\
examples
  mmcopt solve iris --save run.npz
  mmcopt certify run.npz --time-limit 60 --save tighter.npz --plot ladder.png

The levels, from cheap to dear: an eigenvalue; semidefinite relaxations (max-cut for two clusters,
partition for more); the same with cuts; branch and bound; enumeration where the labelings are few.
Margins have levels of their own: lifted, and margin-tree (branching on labels), or joint within an
active balance. Domains are convex: their solvers prove the bound.
The bound is shown as it climbs, and in a table with a row for each level. Ctrl-C keeps the best.
"""


COMPLETION = """\
examples
  eval "$(mmcopt completion bash)"      for this shell alone
  mmcopt completion bash > ~/.local/share/bash-completion/completions/mmcopt
  mmcopt completion zsh > ~/.zfunc/_mmcopt      with fpath=(~/.zfunc $fpath) before compinit
  mmcopt completion fish > ~/.config/fish/completions/mmcopt.fish
"""


MATHEMATICS = "the problem as mathematics, timings, and tracebacks"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as our own texts."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **{"max_help_position": 30, "width": 98, **kwargs})


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which says what may have been meant."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"mmcopt: {message} ({self.prog} --help shows what is allowed)\n")
        raise SystemExit(BAD_INPUT)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from mmcopt.cli.parse import unknown

            self.error(unknown("command", str(value), action.choices))

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Say that there are too many words, or options that do not exist."""
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
        close = difflib.get_close_matches(option, self._option_string_actions, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")


def _add(commands: Any, name: str, about: str, epilog: str = "", *, verbose: str = "tracebacks"
         ) -> Any:
    """The parser of a command; ``verbose`` says what -v prints beside the rest."""
    parser = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".",
                                 epilog=epilog, allow_abbrev=False, formatter_class=_Help)
    parser.set_defaults(command=name, parser=parser)
    parser.add_argument("-v", "--verbose", action="store_true", help=f"also print {verbose}")
    return parser


def _seconds(text: str) -> float:
    """A limit of time."""
    return _at_least(text, "a number of seconds", float, 0)


def _starts(text: str) -> int:
    return int(_at_least(text, "a whole number", int, 1))


def _at_least(text: str, what: str, kind: Callable[[str], float], low: float) -> float:
    with contextlib.suppress(ValueError):
        if low <= (value := kind(text)) < float("inf"):
            return value
    raise argparse.ArgumentTypeError(f"must be {what}, at least {low}; got {text!r}")


def _time_limit_option(parser: Any, what: str, *more: str, **kwargs: Any) -> None:
    """The option --time-limit, under which all commands limit what takes long."""
    parser.add_argument("--time-limit", *more, type=_seconds, metavar="SECONDS",
                        help=f"{what} (default: {kwargs.get('default', 'none')})", **kwargs)


def _problem_options(parser: Any) -> None:
    """Options of all problems; without a default, so that those of other problems are refused."""
    parser.add_argument("data", metavar="DATA", help="data set; see below")
    group = parser.add_argument_group("data: columns of a .csv or .tsv file")
    group.add_argument("--labels", metavar="COLUMN",
                       help="heading or number of the column of the classes (default: one that is "
                       "called label, class, target or y)")
    group.add_argument("--no-labels", action="store_true", help="there are no classes")
    group.add_argument("--columns", metavar="A,B,...",
                       help="headings or numbers of the features (default: all others but those "
                       "that name the rows: id, index, key)")
    group = parser.add_argument_group("problem")
    group.add_argument("--formulation", default="LeastSquares", metavar="NAME",
                       help="LeastSquares (the default), Diffrac, KernelKMeans, "
                       "DiscriminativeKMeans, CPM3C, MKC, OneClassHinge, Hypersphere, MaxCut or "
                       "QUBO; see below")
    group.add_argument("-k", "--clusters", type=int, metavar="K",
                       help="number of clusters (default: number of classes if known, else 2; of "
                       "domains as many as they have parts)")
    group.add_argument("--kernel", action="append", metavar="EXPR",
                       help="kernel expression; see below (default: gaussian:width=1; CPM3C: the "
                       "features; MKC: linear, polynomial:2, gaussian:width=0.5; domains: chosen)")
    group.add_argument("--C", type=float, metavar="C", help="weight of the losses: MKC (default: "
                       "50) and domains (default: chosen with the kernel; beside --kernel 100, "
                       "Hypersphere 10)")
    group.add_argument("--no-center", action="store_true", default=None,
                       help="do not centre the kernel or the features")
    group = parser.add_argument_group("labels: LeastSquares, Diffrac, KernelKMeans and its kin")
    group.add_argument("--lam", type=float, metavar="L",
                       help="regularisation of LeastSquares (default: 0.1)")
    group.add_argument("--kappa", type=float, metavar="K",
                       help="regularisation of Diffrac (default: 0.001)")
    group.add_argument("--sizes", metavar="A|LOW:HIGH",
                       help="cluster sizes: 0.2 is within 20 %% of equal, 10:40 from 10 to 40")
    group.add_argument("--known", metavar="I:CLUSTER,...|FILE",
                       help="clusters of samples that are known, counted from 0: 0:1,5:0; or a "
                       "file with one a line")
    group.add_argument("--must-link", metavar="I-J,...|FILE",
                       help="pairs of samples of one cluster: 3-8,4-9; or a file, a pair a line")
    group.add_argument("--cannot-link", metavar="I-J,...|FILE",
                       help="pairs of samples of two clusters")
    group.add_argument("--scaling", metavar="sum|mean",
                       help="of the loss of LeastSquares (default: sum)")
    group = parser.add_argument_group("margins: CPM3C, MKC")
    group.add_argument("--beta", type=float, metavar="B",
                       help="regularisation of CPM3C (default: 0.03)")
    group.add_argument("--p", type=float, metavar="P",
                       help="norm of the kernel weights of MKC (default: 2; 1 leaves kernels out)")
    group.add_argument("--loss", metavar="NAME",
                       help="hinge (the default), squared-hinge or logistic")
    group.add_argument("--size-floor", type=float, metavar="S",
                       help="share of n / K that each class must have (default: 0 for two, 0.8 "
                       "for more where the solvers take it)")
    group.add_argument("--balance", type=float, metavar="L",
                       help="limit on differences of summed scores; beside --no-center or --bias, "
                       "since it holds by itself on centred features")
    group.add_argument("--bias", type=float, metavar="B",
                       help="value of a constant feature, which asks for --balance (default: none)")
    group.add_argument("--no-normalize", action="store_true", default=None,
                       help="do not scale features, or kernels, to a mean square of 1")


def _checkpoint_option(parser: Any, what: str) -> None:
    parser.add_argument("--checkpoint", metavar="FILE",
                        help=f"write the {what} there about once a second; the same command goes "
                        "on where a killed one was")


def _output_options(parser: Any) -> None:
    parser.add_argument("--certify", type=_seconds, metavar="SECONDS",
                        help="raise the lower bound for this long, and show how it climbs")
    parser.add_argument("--plot", metavar="FILE", help="write a picture (.png, .pdf, .svg)")
    parser.add_argument("--html", metavar="FILE.html",
                        help="write a page with tables, pictures and what is proved")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object to standard output and nothing else")


def _executor_option(group: Any, what: str, threads: str = "threads (the default of --jobs)"
                     ) -> None:
    group.add_argument("--executor", metavar="WHERE", help=f"where {what} are done: {threads}, "
                       "processes, or tcp://HOST:PORT, the scheduler of a Dask cluster")


def _solve_parser(commands: Any) -> None:
    p = _add(commands, "solve", "cluster a data set", SOLVE, verbose=MATHEMATICS)
    _problem_options(p)
    run = p.add_argument_group("search")
    run.add_argument("--solver", metavar="NAME[,PARAM=VALUE...]",
                     help="default: what the problem recommends")
    run.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    run.add_argument("--restarts", type=_starts, metavar="N",
                     help="starts of which the best is kept (default: 1; of margins 10)")
    run.add_argument("--init", metavar="NAME", help="random, kmeans, spectral or sdp (default: "
                     "random; kmeans for margins of three clusters and more)")
    _time_limit_option(run, "of the search, all starts together; --certify comes on top")
    run.add_argument("--jobs", type=int, metavar="N", help="restarts at once, -1: all cores")
    _executor_option(run, "restarts, and nodes of branch and bound,")
    _checkpoint_option(run, "search and the climb of --certify")
    out = p.add_argument_group("output")
    out.add_argument("--out", metavar="FILE.csv", help="write the clusters, one a line")
    out.add_argument("--save", metavar="RUN.npz", help="write everything, for mmcopt certify")
    _output_options(out)


def _compare_parser(commands: Any) -> None:
    p = _add(commands, "compare", "solvers side by side on a data set", COMPARE,
             verbose=MATHEMATICS)
    _problem_options(p)
    run = p.add_argument_group("search")
    run.add_argument("--solvers", metavar="A,B[,PARAM=VALUE]...",
                     help="default: Shaking,Evolutionary,Tabu,Memetic for problems of labels, "
                     "those that fit for the others; also kmeans, spectral, gmm and ward, which "
                     "see the samples and not the problem, and OneClassSVM for OneClassHinge")
    run.add_argument("--seeds", type=int, default=5, metavar="N",
                     help="runs of each solver (default: %(default)s)")
    clock = run.add_mutually_exclusive_group()
    _time_limit_option(clock, "of each run; --certify comes on top")
    clock.add_argument("--budget", type=_seconds, metavar="SECONDS",
                       help="in place of it: restart every solver until each run has had as much, "
                       "and take its best; also prints who won against whom")
    run.add_argument("--jobs", type=int, metavar="N", help="runs at once, -1: all cores")
    _executor_option(run, "runs")
    _checkpoint_option(run, "comparison")
    out = p.add_argument_group("output")
    out.add_argument("--save", metavar="FILE", help="write .csv, .json or .md")
    _output_options(out)


def _data_parser(commands: Any) -> None:
    p = _add(commands, "data", "public data sets: which there are, and fetching them",
             "examples\n  mmcopt data\n  mmcopt data fetch ionosphere glass\n"
             "  mmcopt data fetch satellite --to ~/sets --time-limit 60\n"
             "  mmcopt data fetch ionosphere --from ~/Downloads/ionosphere.data")
    _json_option(p)
    p.set_defaults(action=None)
    f = _add(p.add_subparsers(metavar="fetch", title="to fetch some"), "fetch",
             "download public sets, compare them with known hashes, and write NAME.npz",
             "examples\n  mmcopt data fetch ionosphere glass\n"
             "  mmcopt data fetch mnist --to ~/sets")
    f.set_defaults(command="data", action="fetch")
    f.add_argument("names", nargs="+", metavar="NAME", help="sets that mmcopt data lists")
    f.add_argument("--to", metavar="DIR", help="where to write (default: where MMCOPT_DATA says)")
    f.add_argument("--again", action="store_true", help="fetch what is there already anew")
    f.add_argument("--from", dest="source", metavar="FILE|DIR",
                   help="what you downloaded yourself: the published file, or a folder of them")
    _time_limit_option(f, "of each set")
    _json_option(f)


def _json_option(parser: Any) -> None:
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object to standard output and nothing else")


def _other_parsers(commands: Any) -> None:
    p = _add(commands, "describe", "what a problem, a relaxation, a solver or a data set is",
             "examples\n  mmcopt describe\n  mmcopt describe LeastSquares\n"
             "  mmcopt describe CPM3C\n"
             "  mmcopt describe sdp+cuts\n  mmcopt describe shaking\n"
             "  mmcopt describe digits:3,8\n\n" + DATA)
    p.add_argument("name", nargs="?", metavar="FORMULATION|KIND|SOLVER|DATA",
                   help="without it: what there is")

    p = _add(commands, "certify", "check a saved run again and raise its bound",
             CERTIFY)
    p.add_argument("run", metavar="RUN.npz", help="written by mmcopt solve --save")
    _time_limit_option(p, "of the climb", "--seconds", default=60.0)
    p.add_argument("--save", metavar="FILE.npz", help="write the run with its new bound")
    _checkpoint_option(p, "climb")
    _executor_option(p, "nodes of branch and bound", "threads")
    p.add_argument("--plot", metavar="FILE",
                   help="draw the bounds against time (.png, .pdf, .svg)")
    p.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    _data_parser(commands)

    p = _add(commands, "warmup", "compile what solvers run, so that no first solve waits for it",
             "examples\n  mmcopt warmup\n  mmcopt warmup LeastSquares CPM3C --jobs 1\n"
             "  mmcopt warmup --time-limit 60")
    p.add_argument("names", nargs="*", metavar="FORMULATION", help="without them: all")
    p.add_argument("--jobs", type=int, default=2, metavar="N",
                   help="processes at once (default: %(default)s)")
    _time_limit_option(p, "after which nothing more is begun; the next time goes on")

    p = _add(commands, "doctor", "versions, threads, compiled loops and back ends of this machine",
             "examples\n  mmcopt doctor\n  mmcopt doctor --json")
    p.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    p = _add(commands, "completion", "a script for a shell to complete commands, options and names",
             COMPLETION)
    p.add_argument("shell", metavar="bash|zsh|fish", help="the shell")

    p = _add(commands, "reproduce", "the tables of a paper beside ours",
             "examples\n  mmcopt reproduce\n  mmcopt reproduce umc-rls --quick\n"
             "  mmcopt reproduce evommc --table 1 --out tables/")
    p.add_argument("paper", nargs="?", metavar="PAPER", help="without it: the list of papers")
    p.add_argument("--table", type=int, metavar="N", help="only this table")
    p.add_argument("--quick", action="store_true", help="fewer runs, less than two minutes")
    p.add_argument("--out", metavar="DIR", help="write Markdown and JSON there")
    _time_limit_option(p, "of all rows; those so far are printed when it is over")
    _executor_option(p, "rows of the tables", "threads")
    _checkpoint_option(p, "cells that are done")
    p.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(prog="mmcopt", description=ABOUT, epilog=EPILOG, allow_abbrev=False,
                     formatter_class=_Help)
    parser.add_argument("--version", action="version", version=f"mmcopt {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    p = _add(commands, "demo", "solvers race on the digits 3 and 8, and what is best is proved",
             "examples\n  mmcopt demo\n  mmcopt demo --time-limit 20 --out pictures/",
             verbose=MATHEMATICS)
    _time_limit_option(p, "of the race and the proof, which may end sooner; preparation comes on "
                       "top", "--seconds", default=10.0)
    p.add_argument("--no-plot", action="store_true", help="write no picture")
    p.add_argument("--out", default=".", metavar="DIR", help="folder of mmcopt-demo.png")
    _solve_parser(commands)
    _compare_parser(commands)
    _other_parsers(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; SIGTERM ends it as Ctrl-C does."""
    with _heeding() as came:
        try:
            code = _run(argv, came)
        except KeyboardInterrupt:  # while what there was to print was printed
            code = INTERRUPTED
    if code == INTERRUPTED:
        # Where Ctrl-C fell into a string of code (classes are made so), Python would take note of
        # it and end by the signal, whatever code we return; running another makes it forget.
        exec("")
    return TERMINATED if signal.SIGTERM in came and code == INTERRUPTED else code


def command() -> int:
    """Run the command line as a process, which ends by its exit code whatever signal comes then."""
    code = main()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return code


@contextlib.contextmanager
def _heeding() -> Iterator[list[int]]:
    """Let SIGTERM interrupt what runs as SIGINT does, and list which came.

    A second one does what it would have done. Handlers of others, and ignored signals, stay. One
    that comes while a module is imported comes again a little later: what it raised there would
    be lost, or come out as another error.
    """
    came: list[int] = []
    later: list[threading.Timer] = []
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler,
                             signal.SIGTERM: signal.SIG_DFL}
    main_thread = threading.current_thread() is threading.main_thread()
    ours = [s for s, handler in usual.items() if main_thread and signal.getsignal(s) is handler]

    def restore() -> None:
        for number in ours:
            signal.signal(number, usual[number])

    def stop(number: int, frame: Any) -> None:
        if _importing(frame) and len(later) < MOST:
            later.append(threading.Timer(LATER, os.kill, (os.getpid(), number)))
            later[-1].daemon = True
            later[-1].start()
            return
        came.append(number)
        restore()
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, stop)
    try:
        yield came
    finally:
        for timer in later:
            timer.cancel()
        restore()


def _importing(frame: Any) -> bool:
    """Whether a frame of Python lies within an import."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _run(argv: Sequence[str] | None, came: Sequence[int]) -> int:
    parser = build_parser()
    try:
        args, rest = parser.parse_known_args(argv)
        if rest:
            taker: Any = getattr(args, "parser", parser)
            taker.refuse(rest)
    except SystemExit as e:
        return int(e.code or 0)
    if not hasattr(args, "command"):
        parser.print_help()
        return DONE
    alone = args.command in ("completion", "data", "demo", "describe", "doctor", "warmup")
    module = f"mmcopt.cli.{args.command if alone else 'commands'}"
    hush(getattr(args, "json", False))
    try:
        return int(getattr(importlib.import_module(module), args.command)(args))
    except KeyboardInterrupt:
        return _failed(args, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except BackendError as e:
        return _failed(args, e, SOLVER_FAILED)
    except (MMCError, OSError) as e:
        return _failed(args, e, BAD_INPUT)
    except ImportError as e:  # what some extensions make of Ctrl-C while they are loaded
        if not came and not by_ctrl_c(e):
            raise
        return _failed(args, "interrupted", INTERRUPTED)


def _failed(args: argparse.Namespace, error: object, code: int) -> int:
    """Print one line; with -v the traceback as well."""
    if args.verbose and isinstance(error, BaseException):
        import traceback

        traceback.print_exception(error)
    sys.stderr.write(f"mmcopt: {' '.join(str(error).split())}\n")
    return code

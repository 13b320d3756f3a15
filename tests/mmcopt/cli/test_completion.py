"""`mmcopt completion`: the scripts hold the whole parser, and do their work in real shells."""

import contextlib
import os
import pathlib
import re
import select
import shutil
import subprocess

import pytest

from mmcopt import registry
from mmcopt.cli.completion import commands
from mmcopt.cli.parse import KERNELS
from mmcopt.cli.parser import build_parser
from mmcopt.cli.shell_scripts import SCRIPTS
from mmcopt.datasets.public_sets import PUBLISHED

# A line whose last word is not finished, and the only word that can be meant.
UNIQUE = [
    ("mmcopt so", "solve"), ("mmcopt solve --form", "--formulation"),
    ("mmcopt solve --formulation least", "LeastSquares"), ("mmcopt solve --kernel ga", "gaussian"),
    ("mmcopt solve iri", "iris"), ("mmcopt solve iris --solver mem", "Memetic"),
    ("mmcopt solve iris --loss squ", "squared-hinge"), ("mmcopt describe sdp+", "sdp+cuts"),
    ("mmcopt data f", "fetch"), ("mmcopt data --js", "--json"),
    ("mmcopt data fetch io", "ionosphere"), ("mmcopt data fetch glass io", "ionosphere"),
    ("mmcopt data fetch --ag", "--again"), ("mmcopt reproduce ev", "evommc"),
    ("mmcopt completion z", "zsh"), ("mmcopt warmup cpm", "CPM3C"),
    ("mmcopt certify run", "run.npz"), ("mmcopt solve my", "my.csv"),
    ("mmcopt solve iris --plot picture.", "picture.png"), ("mmcopt demo --out pict", "pictures/"),
]
LIST = "mmcopt compare iris --solvers sha,tab", "sha,Tabu"
IDS = [line for line, _ in UNIQUE]


def in_path(shell):
    if shell != "bash" and shutil.which(shell) is None:  # bash is what the checks run in
        pytest.skip(f"there is no {shell} on this machine")


@pytest.fixture(scope="session")
def scripts(tmp_path_factory):
    """The scripts, in a folder with the files that some lines mean."""
    folder = tmp_path_factory.mktemp("completion")
    for name, write in SCRIPTS.items():
        (folder / f"script.{name}").write_text(write(commands(build_parser())))
    for name in ("run.npz", "my.csv", "picture.png"):
        (folder / name).touch()
    (folder / "pictures").mkdir()
    return folder


# ---------------------------------------------------------------- what is in them


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_script_holds_the_whole_parser(run, shell):
    code, out, _ = run("completion", shell)
    assert code == 0
    for command in commands(build_parser()):
        assert command.words[-1] in out
        for option in command.options:
            for name in option.names:
                bare = name.lstrip("-") if shell == "fish" else name
                assert re.search(rf"(?<![\w-]){re.escape(bare)}(?![\w-])", out) \
                    or (shell == "bash" and len(name) == 2), name
    for word in (*registry.formulations(), *registry.solvers(), *registry.relaxations(), *KERNELS,
                 *PUBLISHED):
        assert word in out


def test_commands_are_those_of_the_parser():
    found = {c.words: c for c in commands(build_parser())}
    assert ("data", "fetch") in found and ("solve",) in found
    kinds = {n: o.value.kind for o in found["solve",].options for n in o.names if o.value}
    assert kinds["--solver"] == "list" and kinds["--plot"] == "files" == kinds["--save"]
    assert kinds["--seed"] == "nothing" and kinds["--formulation"] == "words"
    assert "--json" not in kinds
    assert found["demo",].argument is None and found["data",].argument.words == ("fetch",)
    assert {n: o.value for o in found["demo",].options for n in o.names}["--out"].kind == "folders"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_names_that_a_shell_would_run_or_part_are_left_out(run, monkeypatch, tmp_path, shell):
    """Names of data sets are those of files in a folder, which may come from anybody."""
    for name in ("$(touch ran)", "`touch ran`", '";touch ran;"', "a b", "it's", "new\nline", "*"):
        (tmp_path / f"{name}.npz").touch()
    (tmp_path / "my-set.1.npz").touch()
    monkeypatch.setenv("MMCOPT_DATA", str(tmp_path))
    out = run("completion", shell)[1]
    assert "my-set.1" in out and "touch" not in out and "it's" not in out
    found = {c.words: c for c in commands(build_parser())}["solve",].argument.words
    assert "my-set.1" in found and not {"a b", "*", "new\nline"} & set(found)


def test_other_shells_are_refused(run):
    code, _, err = run("completion", "tcsh")
    assert code == 2 and "completion is for bash, zsh, fish; got 'tcsh'" in err
    assert run("completion", "ZSH")[1].startswith("#compdef mmcopt")


# ---------------------------------------------------------------- bash


def bash(folder, *words):
    """What bash offers for the last of some words, split as it splits them."""
    script = 'source script.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mmcopt; ' \
        'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], cwd=folder,
                          capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(("line", "word"), UNIQUE, ids=IDS)
def test_bash_finds_the_only_word(scripts, line, word):
    in_path("bash")
    assert bash(scripts, *line.split()) == [word.rstrip("/")]


def test_bash_offers_all_where_nothing_is_typed_and_nothing_for_numbers(scripts):
    in_path("bash")
    assert "certify" in bash(scripts, "mmcopt", "")
    assert {"Shaking", "Tabu"} <= set(bash(scripts, "mmcopt", "solve", "--solver", ""))
    assert bash(scripts, "mmcopt", "solve", "--seed", "") == []
    assert {"iris", "my.csv"} <= set(bash(scripts, "mmcopt", "solve", ""))
    assert bash(scripts, "mmcopt", "describe", "sdp") == ["sdp", "sdp+cuts"]


def test_bash_lists_equals_signs_and_colons(scripts):
    in_path("bash")
    line, word = LIST
    assert bash(scripts, *line.split()) == [word]
    assert bash(scripts, "mmcopt", "solve", "--kernel", "=", "lap") == ["laplacian"]
    assert len(bash(scripts, "mmcopt", "solve", "--kernel", "=")) == len(KERNELS)
    assert bash(scripts, "mmcopt", "solve", "digits", ":", "3") == []
    assert bash(scripts, "mmcopt", "solve", "--kernel", "gaussian", ":", "wi") == []


def test_bash_uses_it_for_the_command_and_keeps_its_own_settings(scripts):
    in_path("bash")
    script = "source script.bash; complete -p mmcopt; COMP_WORDS=(mmcopt so); COMP_CWORD=1; " \
        "_mmcopt; shopt nocasematch; shopt -s nocasematch; _mmcopt; shopt nocasematch"
    out = subprocess.run(["bash", "--norc", "-c", script], cwd=scripts, capture_output=True,
                         text=True, check=False).stdout
    assert out.split() == ["complete", "-F", "_mmcopt", "mmcopt", "nocasematch", "off",
                           "nocasematch", "on"]


# ---------------------------------------------------------------- fish


def test_fish_finds_the_only_words(scripts):
    in_path("fish")
    lines = [line for line, _ in (*UNIQUE, LIST)]
    script = "source script.fish; for line in $argv; echo :$line; complete -C $line; end"
    out = subprocess.run(["fish", "--no-config", "-c", script, *lines], cwd=scripts,
                         capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        if line.startswith(":"):
            found[line[1:]] = offers = []
        else:
            offers.append(line.partition("\t")[0])
    assert found == {line: [word] for line, word in (*UNIQUE, LIST)}


# ---------------------------------------------------------------- zsh

BEGIN = r"""
PS1=
unset zle_bracketed_paste
autoload -Uz compinit; compinit -u -D
source ./script.zsh
report() { print; print -r -- "<$BUFFER>"; BUFFER=; zle -R }
zle -N report
bindkey '^I' complete-word
bindkey '^G' report
print rea''dy
"""


class Terminal:
    """A shell at a terminal, which is waited for by what it prints."""

    def __init__(self, folder: pathlib.Path, *argv: str) -> None:
        self.terminal, end = pytest.importorskip("pty").openpty()
        self.process = subprocess.Popen(argv, cwd=folder, stdin=end, stdout=end, stderr=end,
                                        env={**os.environ, "TERM": "dumb"},
                                        start_new_session=True)
        os.close(end)

    def ask(self, text: str, end: str) -> str:
        """Type some text, and read until a pattern comes."""
        os.write(self.terminal, text.encode())
        seen = ""
        while re.search(end, seen) is None:
            assert select.select([self.terminal], [], [], 60)[0], f"nothing came after {seen!r}"
            seen += os.read(self.terminal, 65536).decode(errors="replace")
        return re.search(end, seen)[1]

    def close(self) -> None:
        os.close(self.terminal)
        self.process.kill()
        self.process.wait()


def test_zsh_finds_the_only_words(scripts):
    in_path("zsh")
    (scripts / "begin").write_text(BEGIN)
    with contextlib.closing(Terminal(scripts, "zsh", "-f", "-i")) as shell:
        shell.ask("source ./begin\n", "(ready)\r")
        found = {line: shell.ask(f"{line}\t\a", "\n<(.*)>\r").rstrip(" ,")
                 for line, _ in (*UNIQUE, LIST)}
    assert found == {line: f"{line.rpartition(' ')[0]} {word}" for line, word in (*UNIQUE, LIST)}

"""Scripts that complete the words of `mmcopt` in bash, zsh and fish, from lists of its commands.

Words are completed whatever their case, since `mmcopt` takes them in any.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

MADE = "# made by `mmcopt completion {}`; make it again after an update of mmcopt"
BASH = """
# Words that begin like the second argument, each after the third.
_mmcopt_words() {
    local word before
    before=$(shopt -p nocasematch)
    shopt -s nocasematch
    for word in $1; do
        [[ $word == "$2"* ]] && COMPREPLY+=("$3$word")
    done
    eval "$before"
}

# The last of words with commas between them.
_mmcopt_list() {
    local before=
    [[ $2 == *,* ]] && before=${2%,*},
    _mmcopt_words "$1" "${2##*,}" "$before"
}

_mmcopt_files() {
    local IFS=$'\\n'
    compopt -o filenames 2> /dev/null
    COMPREPLY+=($(compgen "$1" -- "$2"))
}

_mmcopt() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]}
    COMPREPLY=()
    if [[ $current == "=" ]]; then
        current=
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    [[ $current == ":" || $before == ":" ]] && return
    if (( COMP_CWORD == 1 )); then
        _mmcopt_words "@COMMANDS@" "$current"
        return
    fi
    if (( COMP_CWORD > 2 )); then
        case "$command ${COMP_WORDS[2]}" in
@INNER@
        esac
    fi
    case "$command $before" in
@VALUES@
    esac
    if [[ $current == -* ]]; then
        case $command in
@OPTIONS@
        esac
        return
    fi
    case $command in
@ARGUMENTS@
    esac
}

complete -F _mmcopt mmcopt
"""
ZSH = """
# Words, whatever their case; those of a list have commas between them.
_mmcopt_words() { compadd -M 'm:{a-zA-Z}={A-Za-z}' - "$@" }
_mmcopt_list() { _sequence compadd -M 'm:{a-zA-Z}={A-Za-z}' - "$@" }

_mmcopt() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    if (( CURRENT == 2 )); then
        local -a commands=(
@COMMANDS@
        )
        _describe 'command' commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
@CASES@
    esac
}

if [[ $funcstack[1] == _mmcopt ]]; then
    _mmcopt "$@"
else
    compdef _mmcopt mmcopt
fi
"""
FISH = """
# Whether the words before the cursor begin with a command.
function __mmcopt_in
    set -l words (commandline -opc)
    test (count $words) -gt (count $argv)
    and test "$words[2..$(math 1 + (count $argv))]" = "$argv"
end

# Words, after those that stand before the last comma.
function __mmcopt_list
    set -l typed (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l before (string match -r '.*,' -- $typed)
    set -q before[1]
    or set before ''
    printf '%s\n' $before$argv
end

complete -c mmcopt -f
"""


def _indented(lines: Iterable[str], depth: int) -> str:
    return "\n".join(" " * depth + line for line in lines)


def _filled(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template.lstrip()


def _inner(commands: Sequence[Any]) -> list[Any]:
    return [c for c in commands if len(c.words) > 1]


# ---------------------------------------------------------------- bash


def bash(commands: Sequence[Any]) -> str:
    """The script for bash, which takes no part in what other completions set."""
    values = []
    for c in commands:
        for value, names in _by_value(c.options).items():
            if value is not None:
                where = " | ".join(f'"{" ".join(c.words)} {name}"' for name in names)
                values.append(f"{where}) {'; '.join([*_bash_value(value), 'return'])} ;;")
    options = [f'"{" ".join(c.words)}") _mmcopt_words "{" ".join(_names(c.options))}" '
               '"$current" ;;' for c in commands]
    arguments = [f'"{" ".join(c.words)}") {"; ".join(_bash_value(c.argument))} ;;'
                 for c in commands if c.argument is not None and _bash_value(c.argument)]
    inner = [f'"{" ".join(c.words)}") command="{" ".join(c.words)}" ;;' for c in _inner(commands)]
    return "\n".join([MADE.format("bash"), "", _filled(
        BASH, COMMANDS=" ".join(c.words[0] for c in commands if len(c.words) == 1),
        INNER=_indented(inner, 12), VALUES=_indented(values, 8), OPTIONS=_indented(options, 12),
        ARGUMENTS=_indented(arguments, 8))])


def _by_value(options: Sequence[Any]) -> dict[Any, list[str]]:
    """The names of options by what they take."""
    found: dict[Any, list[str]] = {}
    for option in options:
        found.setdefault(option.value, []).extend(option.names)
    return found


def _names(options: Sequence[Any]) -> list[str]:
    """The long names of options, and short ones that have no other."""
    return [max(option.names, key=len) for option in options]


def _calls(value: Any, words: str, files: str, folders: str) -> list[str]:
    """Commands that complete a value, by what a shell takes for each kind."""
    calls = []
    if value.words:
        calls.append(f"{'_mmcopt_list' if value.kind == 'list' else '_mmcopt_words'} {words}")
    if value.kind == "files" or value.files:
        calls.append(files)
    if value.kind == "folders":
        calls.append(folders)
    return calls


def _bash_value(value: Any) -> list[str]:
    return _calls(value, f'"{" ".join(value.words)}" "$current"', '_mmcopt_files -f "$current"',
                  '_mmcopt_files -d "$current"')


# ---------------------------------------------------------------- zsh


def zsh(commands: Sequence[Any]) -> str:
    """The script for zsh: a file ``_mmcopt`` of its path of functions, or one to be sourced."""
    top = [c for c in commands if len(c.words) == 1]
    cases = [line for c in top for line in _zsh_case(c, commands)]
    head = f"#compdef mmcopt\n{MADE.format('zsh')}\n\n"
    return head + _filled(ZSH, CASES=_indented(cases, 4), COMMANDS=_indented(
        [shlex.quote(f"{c.words[0]}:{c.about}") for c in top], 12))


def _zsh_case(command: Any, commands: Sequence[Any]) -> list[str]:
    """What follows a command; the commands within it have cases of their own."""
    lines = [f"{command.words[-1]})"]
    inner = [c for c in commands
             if len(c.words) > len(command.words) and c.words[0] == command.words[0]]
    if inner:
        lines += ["    if (( CURRENT > 2 )); then", "        case $words[2] in",
                  *(f"        {line}" for c in inner for line in _zsh_arguments(c, shifted=True)),
                  "        esac", "    fi"]
    return [*lines, *_zsh_arguments(command)[1:]]


def _zsh_arguments(command: Any, *, shifted: bool = False) -> list[str]:
    specs = []
    for option in command.options:
        for name in option.names:
            about = _zsh_escaped(option.about, "[]:")
            value = "" if option.value is None else \
                f":{_zsh_escaped(option.value.called, ':')}:{_zsh_value(option.value)}"
            specs.append(shlex.quote(f"*{name}[{about}]{value}"))
    if command.argument is not None:
        called = _zsh_escaped(command.argument.called, ":")
        specs.append(shlex.quote(f"*:{called}:{_zsh_value(command.argument)}"))
    step = ["    shift words", "    (( CURRENT-- ))"] if shifted else []
    return [f"{command.words[-1]})", *step, "    _arguments \\",
            *(f"        {spec} \\" for spec in specs[:-1]), f"        {specs[-1]}",
            *(["    return"] if shifted else []), "    ;;"]


def _zsh_escaped(text: str, marks: str) -> str:
    return "".join(f"\\{c}" if c in marks else c for c in text)


def _zsh_value(value: Any) -> str:
    calls = _calls(value, " ".join(map(shlex.quote, value.words)), "_files", "_files -/")
    return "{" + "; ".join(calls) + "}" if calls else " "


# ---------------------------------------------------------------- fish


def fish(commands: Sequence[Any]) -> str:
    """The script for fish."""
    lines = []
    first = "test (count (commandline -opc)) -eq 1"
    for c in commands:
        inner = [i for i in _inner(commands) if i.words[0] == c.words[0]]
        where = f"__mmcopt_in {' '.join(c.words)}"
        if len(c.words) == 1:
            lines += ["", _fish(first, "-a", c.words[0], c.about)]
            where += "".join(f"; and not __mmcopt_in {' '.join(i.words)}" for i in inner)
        for option in c.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}"
                             for n in option.names)
            value = "" if option.value is None else _fish_value(option.value, required=True)
            lines.append(_fish(where, f"{names} {value}".rstrip(), None, option.about))
        if c.argument is not None and (value := _fish_value(c.argument)):
            lines.append(_fish(where, value, None, ""))
    return f"{MADE.format('fish')}\n" + FISH + "\n".join(lines) + "\n"


def _fish(where: str, what: str, word: str | None, about: str) -> str:
    parts = ["complete -c mmcopt -n", _fish_quoted(where), what]
    if word is not None:
        parts.append(_fish_quoted(word))
    if about:
        parts += ["-d", _fish_quoted(about)]
    return " ".join(parts)


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _fish_value(value: Any, *, required: bool = False) -> str:
    """What completes a value: words, files, or nothing that is known."""
    words = " ".join(value.words)
    files = value.kind == "files" or value.files
    out = ["-F"] if files else []
    if required:
        out.insert(0, "-r" if files else "-x")
    if value.kind == "folders":
        out.append("-a '(__fish_complete_directories)'")
    if words:
        listed = f"(__mmcopt_list {words})" if value.kind == "list" else words
        out.append(f"-a {_fish_quoted(listed)}")
    return " ".join(out)


SCRIPTS: dict[str, Callable[[Sequence[Any]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}

"""All commands of the program, this repository's and the installed ones, and their completion in shells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

GROUP = "xuanzang.commands"
"""Group of entry points; each is a function of the arguments from the command's name on, and returns the exit code."""

Main = Callable[[Sequence[str]], int]


class Known(NamedTuple):
    """Description of a command, available without importing it."""

    package: str
    """Distribution that has it, with the extra that it needs."""
    summary: str


SECTIONS: Mapping[str, Mapping[str, Known]] = {
    "use a server": {
        "translate": Known("xuanzang", "Translate texts, a file or standard input"),
        "documents": Known(
            "xuanzang[documents]", "Translate documents: Markdown, HTML, Word, subtitles, tables and others"
        ),
        "models": Known("xuanzang", "List the models that a server offers"),
        "detect": Known("xuanzang", "Detect the language of texts"),
        "explain": Known("xuanzang", "Show how a translation was found"),
        "glossaries": Known("xuanzang", "Create, list, show and delete glossaries of a server"),
        "replay": Known("xuanzang", "Send the requests of a capsule again and compare the answers"),
        "loadtest": Known("xuanzang[loadtest]", "Put open and closed loads on a server and measure its answers"),
    },
    "run servers": {
        "serve": Known("xuanzang-server", "Serve models over gRPC"),
        "keys": Known("xuanzang-server", "Add, list and revoke API keys"),
        "admin": Known("xuanzang", "Show and change the models of a running server"),
        "gateway": Known("xuanzang-gateway", "Serve HTTP and the page in front of a server"),
    },
    "translate corpora": {
        "batch": Known("xuanzang-server[batch]", "Translate a corpus, in one process or on Ray"),
    },
    "get models": {
        "models available": Known("xuanzang-server[hub]", "List published models that can be pulled"),
        "pull": Known("xuanzang-server[hub]", "Bring a published model here, by its name on the hub"),
        "push": Known("xuanzang-server[hub]", "Publish a bundle on the hub"),
    },
    "make models": {
        "prepare": Known("xuanzang-model", "Filter pairs, train the tokeniser, write what train reads"),
        "train": Known("xuanzang-model", "Train a Transformer, or go on training it"),
        "evaluate": Known("xuanzang-model", "Score a checkpoint's translations of a file of pairs"),
        "try": Known("xuanzang-model", "Translate texts with a checkpoint, in torch"),
        "shortlist": Known("xuanzang-model", "Learn which target pieces a source suggests"),
        "shrink": Known("xuanzang-model", "Write a checkpoint at half its size"),
        "attention": Known("xuanzang-model", "Show which tokens attend to which"),
        "import": Known(
            "xuanzang-model", "Make a checkpoint of a MarianMT, NLLB-200, M2M-100, SMaLL-100 or mBART model"
        ),
        "export": Known("xuanzang-export[checkpoints]", "Turn a checkpoint into a bundle that the server loads"),
        "restore": Known("xuanzang-export[checkpoints]", "Turn a bundle back into a checkpoint"),
    },
}
"""By the heading under which help lists them. A command may be of two words."""

KNOWN: Mapping[str, Known] = {name: known for section in SECTIONS.values() for name, known in section.items()}


def installed() -> dict[str, EntryPoint]:
    """Return the commands that are installed, by name; nothing of them is imported."""
    return {each.name: each for each in entry_points(group=GROUP)}


def distribution_of(command: EntryPoint) -> str:
    """Return the name of the distribution that has a command."""
    return command.dist.name if command.dist else KNOWN[command.name].package.partition("[")[0]


SHELLS = ("bash", "zsh")

_BASH = r"""# In ~/.bashrc: source <(xuanzang completion bash); in ~/.zshrc: source <(xuanzang completion zsh)
# Sets `offered` to the words that may follow a command. Its help says which, and is asked once in a shell.
_xuanzang_offer() {
    local path="$*" name
    name="_xuanzang_after_${path//[^a-z]/_}"
    eval "offered=\${$name-}"
    if [[ -n $offered ]]; then return; fi
    case "$path" in
@commands@
        *)
            offered=$(xuanzang "$@" --help 2>/dev/null | awk '
                /^  -/ {sub(/^  /, ""); sub(/  .*/, ""); n = split($0, words, /[ ,]+/)
                        for (i = 1; i <= n; i++) if (words[i] ~ /^--/) print words[i]}
                /^    [a-z]/ {print $1}' | tr '\n' ' ')
            @extra@
            ;;
    esac
    eval "$name=\$offered"
}
_xuanzang() {
    local word=${COMP_WORDS[COMP_CWORD]} offered each
    local path=()
    _xuanzang_offer
    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case " $offered " in *" $each "*)
            if [[ $each != -* ]]; then path+=("$each"); _xuanzang_offer "${path[@]}"; fi ;;
        esac
    done
    COMPREPLY=($(compgen -W "$offered" -- "$word"))
    if [[ ${#COMPREPLY[@]} == 0 && $word != -* ]]; then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -o filenames -F _xuanzang xuanzang
"""
_ZSH = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"


def script(shell: str) -> str:
    """Return the script that a shell reads."""
    names = [*installed(), "completion"]
    seconds = [name.split() for name in names if " " in name]
    first = dict.fromkeys(name.split()[0] for name in names)
    cases = [_case("", [*first, "--help", "--version"]), _case("completion", SHELLS)]
    extra = "\n            ".join(f'if [[ $path == {one} ]]; then offered="$offered {two}"; fi' for one, two in seconds)
    written = _BASH.replace("@commands@", "\n".join(cases)).replace("@extra@", extra or ":")
    return (_ZSH if shell == "zsh" else "") + written


def _case(path: str, words: Iterable[str]) -> str:
    return f'        "{path}") offered="{" ".join(words)}" ;;'

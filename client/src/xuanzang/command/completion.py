"""Completion of commands and flags in bash, and in zsh by its emulation of bash."""

from __future__ import annotations

from collections.abc import Iterable

from xuanzang.command.commands import installed

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

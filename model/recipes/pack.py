r"""Pack training files, test sets, tokenisers and recipes into one archive that travels, for `gpu.sh`.

    xuanzang restore server/models/zh-en/3 bundled
    python model/recipes/pack.py PAIRS corpora.tar.xz --tokenizers bundled \
        --test valid=valid.tsv.gz --test newstest2017=newstest2017.tsv.gz

Of a file that every recipe uses less than once an epoch, the archive has that share of the pairs, the same ones each
time, and recipes whose weights are as much higher. It is the same, byte for byte, for the same files.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

from xuanzang.model.data.corpus import read_lines
from xuanzang.model.data.metadata import SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE

FOLDER = Path(__file__).parent
DIRECTIONS = ("zh-en", "en-zh")
LIMIT = 40 * 10**6
"""Bytes of an archive, above which a line warns."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack and print the packed files.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status, 0.
    """
    flags = _parser().parse_args(arguments)
    recipes = {name: (FOLDER / name / "small.toml").read_text(encoding="utf-8") for name in DIRECTIONS}
    files = {file.name.partition(".")[0]: file for file in sorted(flags.pairs.glob("*.tsv*"))}
    shares = {name: share(name, recipes.values()) for name in files}
    pairs = 0
    with tarfile.open(flags.archive, "w:xz", preset=6) as archive:
        for name, recipe in recipes.items():
            _add(archive, f"{name}.toml", reweighted(recipe, shares).encode())
        for name in (SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE):
            _add(archive, f"tokenizers/{name}", (flags.tokenizers / name).read_bytes())
        for name, path in flags.test:
            _add(archive, f"tests/{name}.tsv", _joined(read_lines(path)))
        for name, file in files.items():
            lines = list(sampled(read_lines(file), shares[name]))
            pairs += len(lines)
            if lines:
                _add(archive, f"pairs/{name}.tsv", _joined(lines))
    size = flags.archive.stat().st_size
    print(f"{flags.archive}: {pairs:,} pairs of {len(files)} files, {size / 1e6:.1f} MB")
    if size > LIMIT:
        print(f"more than {LIMIT / 1e6:.0f} MB", file=sys.stderr)
    return 0


def share(corpus: str, recipes: Iterable[str]) -> float:
    """Return the share of a corpus's pairs to pack: its highest weight, at most all of them."""
    weights = [tomllib.loads(recipe)["prepare"]["weight"].get(corpus, 1.0) for recipe in recipes]
    return float(min(1.0, max(weights)))


def sampled(lines: Iterable[str], kept: float) -> Iterator[str]:
    """Yield a share of lines, the same ones each time."""
    return (line for line in lines if crc32(line.encode()) < kept * 2**32)


def reweighted(recipe: str, shares: Mapping[str, float]) -> str:
    """Return a recipe for a kept share of pairs; weights of corpora that were not packed are left out."""

    def line(match: re.Match[str]) -> str:
        name, weight = match.groups()
        return f"{name} = {float(weight) / shares[name]:g}" if shares.get(name) else ""

    head, table, weights = recipe.partition("[prepare.weight]\n")
    weights, train, rest = weights.partition("[train]\n")
    return head + table + re.sub(r"^(\w+) = ([\d.]+)$", line, weights, flags=re.MULTILINE) + train + rest


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pairs", type=Path, help="folder of zh<TAB>en files, .tsv or .tsv.gz")
    parser.add_argument("archive", type=Path, help="file to write, .tar.xz")
    parser.add_argument("--tokenizers", type=Path, required=True, help="folder of a checkpoint or of prepared data")
    parser.add_argument(
        "--test",
        type=lambda text: (text.partition("=")[0], Path(text.partition("=")[2])),
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="pairs to measure with and to keep out of training; `valid` is one of them",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

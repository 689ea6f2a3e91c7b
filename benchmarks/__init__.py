"""Measurements of engine and server: what is in `docs/lab/` and on other pages, by command.

Each module that is a script says in its first lines what it measures, how it is run from the root of the repository,
and what it prints. None is a test, and no test but those of `tests/unit/benchmarks` imports one.
"""

import sys
from pathlib import Path

# What benchmarks share with tests: servers that are killed and replaced, Envoy, the conversion to CTranslate2.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

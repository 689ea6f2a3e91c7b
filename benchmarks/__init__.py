"""Measurements of engine and server for `docs/lab/` and other pages, by command.

The first lines of each script state what it measures, how it is run from the root of the repository,
and what it prints. None is a test, and no test but those of `tests/unit/benchmarks` imports one.
"""

import sys
from pathlib import Path

# Modules shared with tests: servers that are killed and replaced, Envoy, the conversion to CTranslate2.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

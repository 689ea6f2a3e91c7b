"""Models on demand under Zipf traffic: share of requests that waited for a load, latencies, and memory.

    python -m benchmarks.on_demand --models 100 --memory 600MB --seconds 60

A server has copies of the bundled zh-en under other names, as hard links. Callers in a closed loop choose the model of
each call by Zipf's law and send one sentence. Prints the share of calls that waited, the latencies of the calls that
did and of those that did not, loads and evictions, and the largest resident memory. The first start tries all bundles.
"""

from __future__ import annotations

import argparse
import random
import re
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np

from benchmarks.cost_curves import repository
from benchmarks.harness.bundled_model import sentences, single_sentences
from benchmarks.harness.processes import ServerProcess, free_address, request_of
from xuanzang.client import TranslationClient

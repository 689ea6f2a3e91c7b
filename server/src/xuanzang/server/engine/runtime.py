"""The graphs of a bundle in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.errors import EngineError
from xuanzang.server.engine.search import Candidates

Values = dict[str, onnxruntime.OrtValue]
"""Tensors by the name of the graph input that takes them."""

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class ProviderUnavailableError(EngineError):
    """What should run the graphs is not part of the onnxruntime that is installed."""


def resolve_provider(wanted: str) -> str:
    """Return "cpu" or "cuda" for a setting that may be "auto".

    Raises:
        ProviderUnavailableError: If cuda is wanted and not there.
    """
    available = {name for name, provider in _PROVIDERS.items() if provider in onnxruntime.get_available_providers()}
    if wanted == "auto":
        return "cuda" if "cuda" in available else "cpu"
    if wanted not in available:
        raise ProviderUnavailableError(
            f"provider {wanted} is not available in onnxruntime {onnxruntime.__version__}, which has "
            f"{', '.join(sorted(available))}; for cuda install xuanzang-server[gpu] in place of [cpu]"
        )
    return wanted


class Runtime:
    """Encoder and decoder of one bundle. Belongs to one thread."""

    def __init__(self, bundle: Bundle, *, provider: str, intra_op_threads: int) -> None:
        """Open the graphs.

        Args:
            bundle: Verified.
            provider: "cpu", "cuda" or "auto".
            intra_op_threads: Threads inside one operation.

        Raises:
            ProviderUnavailableError: If cuda is wanted and not there.
            BundleError: If a graph cannot be opened, or its inputs and outputs are not those of the manifest.
        """
        self._device = resolve_provider(provider)
        manifest = bundle.manifest
        self.dimensions, self.special_ids = manifest.dimensions, manifest.special_ids
        self._encoder, self._decoder = (
            _open(bundle.directory / graph.file, self._device, intra_op_threads)
            for graph in (manifest.encoder, manifest.decoder)
        )
        faults = [
            f"{graph.file} has other inputs or outputs than the manifest says"
            for session, graph in ((self._encoder, manifest.encoder), (self._decoder, manifest.decoder))
            if [value.name for value in (*session.get_inputs(), *session.get_outputs())]
            != [tensor.name for tensor in (*graph.inputs, *graph.outputs)]
        ]
        if faults:
            raise BundleError(bundle.directory, faults)
        # Asking a session for its outputs costs as much as a small operation.
        self._output_names = {
            self._encoder: [tensor.name for tensor in manifest.encoder.outputs],
            self._decoder: [tensor.name for tensor in manifest.decoder.outputs],
        }
        self._past = [tensor.name for tensor in manifest.decoder.inputs if tensor.name.startswith("past_key_values.")]

    def encode(self, source_ids: npt.NDArray[np.int64], source_lengths: npt.NDArray[np.int64]) -> Values:
        """Run the encoder.

        Args:
            source_ids: Padded, [batch, source].
            source_lengths: Real tokens of each, [batch].

        Returns:
            What every decoder step of these sentences is given: cross keys and values, and the source mask.
        """
        feed = {"source_ids": value(source_ids), "source_lengths": value(source_lengths)}
        return self._run(self._encoder, feed)

    def empty_past(self, batch: int) -> Values:
        """Return the history of hypotheses that have no token yet."""
        heads = self.dimensions.num_heads
        empty = np.zeros((batch, heads, 0, self.dimensions.d_model // heads), dtype=np.float32)
        return dict.fromkeys(self._past, value(empty))

    def step(self, feed: Mapping[str, onnxruntime.OrtValue]) -> tuple[Candidates, Values]:
        """Run one decoder step.

        Args:
            feed: Every input of the decoder graph.

        Returns:
            The candidates, and the past of the next step.
        """
        outputs = self._run(self._decoder, feed)
        candidates = Candidates(*(outputs.pop(f"candidate_{name}").numpy() for name in Candidates._fields))
        return candidates, {name.replace("present", "past", 1): tensor for name, tensor in outputs.items()}

    def _run(self, session: onnxruntime.InferenceSession, feed: Mapping[str, onnxruntime.OrtValue]) -> Values:
        binding = session.io_binding()
        for name, tensor in feed.items():
            binding.bind_ortvalue_input(name, tensor)
        names = self._output_names[session]
        for name in names:
            # The cache stays where it was computed; the few candidates come to the host.
            binding.bind_output(name, "cpu" if name.startswith("candidate_") else self._device)
        session.run_with_iobinding(binding)
        return dict(zip(names, binding.get_outputs(), strict=True))


def value(array: npt.NDArray[np.generic]) -> onnxruntime.OrtValue:
    """Wrap an array for a graph; the array is not copied and must not be changed while the value is in use."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))


def _open(path: Path, device: str, intra_op_threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = intra_op_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    providers = [_PROVIDERS[device], *([] if device == "cpu" else [_PROVIDERS["cpu"]])]
    try:
        return onnxruntime.InferenceSession(
            str(path),
            options,
            providers=providers,
            # On CPU the fused residual + norm kernel is four times slower than the two it replaces.
            disabled_optimizers=["SkipLayerNormFusion"] if device == "cpu" else [],
        )
    except Exception as error:  # onnxruntime's errors have no base class of their own
        raise BundleError(path.parent, [f"{path.name} cannot be opened: {error}"]) from error

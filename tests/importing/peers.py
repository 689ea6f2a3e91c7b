"""The same model in transformers and in this project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from decoded import decoded
from search_options import search_options

from xuanzang.model.checkpoint import Checkpoint
from xuanzang.model.data.dataset import pad_sentences
from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import SearchRules, Sentence, TargetHypothesis
from xuanzang.server.engine.runtime.sessions import Sessions

UNTIL_FIRST = SearchRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """A model of transformers and what the import makes of it."""

    theirs: Any
    ours: Checkpoint
    words: tuple[int, int]
    """First source id of a sentence's tokens, and the one after the last."""

    def sentences(self, count: int) -> list[list[int]]:
        """Return random sentences of 2 to 20 tokens, and the ids that name the languages."""
        generator = torch.Generator().manual_seed(7)
        lengths = torch.randint(1, 20, (count,), generator=generator).tolist()
        framed = self.ours.source_ids("")
        end = framed.index(self.ours.model.config.eos_id)
        words = [torch.randint(*self.words, (length,), generator=generator).tolist() for length in lengths]
        return [[*framed[:end], *ids, *framed[end:]] for ids in words]

    @torch.inference_mode()
    def require_same_logits(self, target: torch.Tensor, kept: list[int]) -> None:
        """Compare the states of the encoder and the logits of some pieces, of whole targets and step by step."""
        model = self.ours.model
        source, mask = pad_sentences(self.sentences(len(target)), model.config.pad_id)
        target[:, 0] = model.config.bos_id
        expected = self.theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target)
        memory = model.encode(source, mask)
        torch.testing.assert_close(memory[mask], expected.encoder_last_hidden_state[mask], atol=1e-4, rtol=0)
        theirs, whole = expected.logits[..., kept], model.decode(target, memory, mask)[..., kept]
        torch.testing.assert_close(whole, theirs, atol=1e-4, rtol=0)
        cache = model.start(memory, mask)
        for position in range(target.size(1)):
            logits, cache = model.step(target[:, position], cache)
            torch.testing.assert_close(logits[:, kept], theirs[:, position], atol=1e-4, rtol=0)

    def generated(
        self,
        sentences: Sequence[list[int]],
        *,
        limit: int,
        beam_size: int,
        length_penalty: float = 1.0,
        rules: SearchRules = UNTIL_FIRST,
    ) -> list[list[int]]:
        """Return the translations of transformers under the same rules, without end token."""
        config = self.ours.model.config
        source, mask = pad_sentences(sentences, config.pad_id)
        options: dict[str, Any] = {"forced_eos_token_id": config.eos_id} if rules.forces_end else {}
        if beam_size > 1:
            options |= {"length_penalty": length_penalty, "early_stopping": not rules.none_better}
        if forced := self.ours.target_prefix_ids:
            options["forced_bos_token_id"] = forced[0]
        sequences = self.theirs.generate(
            input_ids=source,
            attention_mask=mask.long(),
            max_new_tokens=limit,
            num_beams=beam_size,
            do_sample=False,
            **options,
        )
        rows = [row[1:].tolist() for row in sequences]
        return [row[: row.index(config.eos_id)] if config.eos_id in row else row for row in rows]

    def decoded(
        self,
        runtime: Sessions,
        sentences: Sequence[list[int]],
        *,
        limit: int,
        beam_size: int,
        length_penalty: float = 1.0,
        rules: SearchRules = UNTIL_FIRST,
    ) -> list[TargetHypothesis]:
        """Return the best translations by the server's engine."""
        options = search_options(
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_target_length=limit,
            prefix_ids=tuple(self.ours.target_prefix_ids),
            rules=rules,
        )
        tasks = [Sentence(source_ids=ids, options=options) for ids in sentences]
        found = decoded(Decoder(runtime), [(0, task) for task in tasks])
        return [found[task][0] for task in tasks]

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.data.dataset import Batch, epoch_batches
from xuanzang.model.network.config import ConfigError
from xuanzang.model.stored_checkpoint import CheckpointError
from xuanzang.model.training import trainer as trainer_module
from xuanzang.model.training.settings import TrainingSettings, model_config
from xuanzang.model.training.trainer import DivergedError, Trainer
from xuanzang.model.translation import translate_texts


class RecordingTrainer(Trainer):
    """A trainer that keeps the losses and can stop after some steps."""

    def __init__(self, settings: TrainingSettings, stop_after: int | None = None) -> None:
        super().__init__(settings)
        self.losses: list[float] = []
        self.stop, self.stop_after = threading.Event(), stop_after

    def update(self, batches: list[Batch]) -> object:  # type: ignore[override]
        update = super().update(batches)
        self.losses.append(update.loss.item())
        if len(self.losses) == self.stop_after:
            self.stop.set()
        return update

    def train(self) -> list[float]:
        self.run(self.stop)
        return self.losses


def files(folder: Path) -> dict[str, dict[str, Tensor]]:
    return {path.name: load_file(path) for path in sorted(folder.glob("*.safetensors"))}


def change(settings: TrainingSettings, **fields: object) -> TrainingSettings:
    return settings.model_copy(update=fields)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"accumulate": 3}, marks=pytest.mark.slow),
        pytest.param({"bf16": True}, marks=pytest.mark.slow),
        pytest.param({"accumulate": 3, "bf16": True}, marks=pytest.mark.slow),
        {"optimizer": "muon", "bf16": True},
    ],
)
def test_a_stopped_and_resumed_run_equals_an_unbroken_one_bit_by_bit(
    settings: TrainingSettings, tmp_path: Path, options: dict[str, object]
) -> None:
    # Long enough to pass the end of an epoch, with dropout, and validations on either side of the stop.
    settings = change(settings, max_steps=30, batch_tokens=400, dropout=0.2, validate_every=10, **options)
    straight = RecordingTrainer(change(settings, output=tmp_path / "straight"))
    losses = straight.train()
    assert straight.progress.epoch > 0
    broken = change(settings, output=tmp_path / "broken")
    first, second = RecordingTrainer(broken, 7).train(), RecordingTrainer(broken, 17).train()
    assert first + second + RecordingTrainer(broken).train() == losses
    for name, tensors in files(tmp_path / "straight" / "last").items():
        other = load_file(tmp_path / "broken" / "last" / name)
        assert tensors.keys() == other.keys()
        assert all(torch.equal(tensors[key], other[key]) for key in tensors), name
    states = [json.loads((tmp_path / run / "last" / "state.json").read_text()) for run in ("straight", "broken")]
    assert all(state.pop("seconds") > 0 for state in states)
    assert states[0] == states[1]


def test_the_toy_language_is_learnt_and_translated(settings: TrainingSettings) -> None:
    settings = change(
        settings,
        max_steps=260,
        batch_tokens=400,
        dropout=0.0,
        label_smoothing=0.0,
        learning_rate=4e-3,
        warmup_steps=40,
        average_decay=0.9,
        validate_every=130,
        schedule="linear",
    )
    trainer = RecordingTrainer(settings)
    losses = trainer.train()
    assert losses[0] > 4
    assert trainer.progress.best_loss < 0.05
    checkpoint = load_checkpoint(settings.output / "best")
    assert [found[0][0] for found in translate_texts(checkpoint, ["猫狗", "鱼马鸟", "猪"])] == [
        "dog cat",
        "bird horse fish",
        "pig",
    ]
    rows = [json.loads(line) for line in (settings.output / "validations.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [130, 260]
    assert rows[1]["chrf"] > 99
    assert checkpoint.training["settings"]["preset"] == "tiny"
    assert list((settings.output / "tensorboard").iterdir())


def test_a_model_of_another_kind_trains(settings: TrainingSettings) -> None:
    losses = RecordingTrainer(change(settings, norm="post", positions="learned", max_steps=25)).train()
    assert losses[-1] < losses[0] - 1


def test_accumulated_batches_count_as_one_large_batch(settings: TrainingSettings, tmp_path: Path) -> None:
    trainers = [Trainer(change(settings, output=tmp_path / name, dropout=0.0)) for name in ("parts", "whole")]
    parts = [list(range(8)), list(range(8, 20)), list(range(20, 25))]
    for trainer, groups in zip(trainers, (parts, [list(range(25))]), strict=True):
        trainer.progress.step = 1
        trainer.update([trainer.train_split.batch(group) for group in groups])
    for name, parameter in trainers[0].model.named_parameters():
        torch.testing.assert_close(parameter, trainers[1].model.get_parameter(name), atol=1e-5, rtol=1e-3)


def test_the_average_remembers_the_weights_of_all_steps(settings: TrainingSettings) -> None:
    trainer = Trainer(change(settings, average_decay=0.5))
    expected = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    for step in range(1, 4):
        trainer.progress.step = step
        trainer.update([trainer.train_split.batch(range(10))])
        decay = min(0.5, step / (step + 10))
        for name, parameter in trainer.model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * parameter.detach()
    for name, average in trainer.state.average.weights.items():
        torch.testing.assert_close(average, expected[name])
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    with trainer.state.average.in_use():
        assert torch.equal(
            trainer.model.get_parameter("encoder_norm.weight"), trainer.state.average.weights["encoder_norm.weight"]
        )
    assert all(torch.equal(parameter, before[name]) for name, parameter in trainer.model.named_parameters())


def test_a_run_without_progress_stops_early_and_does_not_start_again(settings: TrainingSettings) -> None:
    # So small a learning rate changes no float32 weight, and so no validation loss.
    settings = change(settings, learning_rate=1e-30, max_steps=100, validate_every=2, patience=3)
    assert len(RecordingTrainer(settings).train()) == 8
    assert RecordingTrainer(settings).train() == []


def test_a_run_by_the_clock_ends_with_its_time_and_leaves_its_best(
    settings: TrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock by which every step takes 50 seconds.
    monkeypatch.setattr(trainer_module, "perf_counter", itertools.count(step=50).__next__)
    settings = change(settings, max_minutes=30.0, max_steps=3)
    assert len(RecordingTrainer(settings, stop_after=10).train()) == 10
    assert len(RecordingTrainer(settings).train()) == 26
    validations = [json.loads(line) for line in (settings.output / "validations.jsonl").read_text().splitlines()]
    assert [row["step"] for row in validations] == [12, 24, 36]
    assert load_checkpoint(settings.output / "best").training["settings"]["max_minutes"] == 30
    assert RecordingTrainer(settings).train() == []
    assert len(RecordingTrainer(change(settings, max_minutes=31.0)).train()) == 2


def test_fine_tuning_starts_from_the_weights_of_a_checkpoint(settings: TrainingSettings, tmp_path: Path) -> None:
    RecordingTrainer(settings).train()
    best = load_checkpoint(settings.output / "best").model
    tuned = change(settings, output=tmp_path / "tuned", init_from=settings.output / "best", seed=1)
    trainer = Trainer(tuned)
    without = TrainingSettings(data=settings.data, output=tmp_path / "other", init_from=settings.output / "best")
    assert Trainer(without).model.config == best.config
    assert all(torch.equal(p, best.get_parameter(name)) for name, p in trainer.model.named_parameters())
    with pytest.raises(CheckpointError, match=r"has 2 \+ 2 blocks of width \d+, 3 \+ 2 blocks of width \d+ asked"):
        Trainer(change(tuned, encoder_layers=3))
    spm = settings.output / "best" / "target.spm"
    spm.write_bytes(spm.read_bytes() + b"\0")
    with pytest.raises(CheckpointError, match=r"target\.spm is not the tokeniser of"):
        Trainer(tuned)


def test_an_infinite_loss_ends_the_run_and_keeps_what_was_saved(settings: TrainingSettings) -> None:
    with pytest.raises(DivergedError, match=r"at step \d+; lower|after step \d+; what was saved before stays: lower"):
        RecordingTrainer(change(settings, learning_rate=1e30, save_every=1)).train()
    saved = files(settings.output / "last")
    assert all(tensor.isfinite().all() for tensors in saved.values() for tensor in tensors.values())


def spoil_weights(trainer: Trainer) -> None:
    next(trainer.model.parameters()).data.view(-1)[0] = torch.inf


def spoil_average(trainer: Trainer) -> None:
    next(iter(trainer.state.average.weights.values())).view(-1)[0] = torch.nan


def spoil_moments(trainer: Trainer) -> None:
    next(tensor for tensor in trainer.state.optimizers.state().values() if tensor.dim()).view(-1)[0] = torch.nan


@pytest.mark.parametrize(
    ("spoil", "at_step_5"),
    [
        (spoil_weights, {}),
        (spoil_average, {}),
        (spoil_moments, {}),
        (spoil_moments, {"save_every": 5}),
        (spoil_average, {"validate_every": 5}),
    ],
)
def test_a_state_that_is_not_finite_never_replaces_a_good_one(
    settings: TrainingSettings, spoil: Callable[[Trainer], None], at_step_5: dict[str, int]
) -> None:
    class SpoilingTrainer(RecordingTrainer):
        def update(self, batches: list[Batch]) -> object:  # type: ignore[override]
            update = super().update(batches)
            if len(self.losses) == 2:
                spoil(self)
            return update

    settings = change(settings, max_steps=30)
    RecordingTrainer(change(settings, validate_every=3), 3).train()
    before = {path: path.read_bytes() for path in settings.output.glob("[bl]*st/*")}
    with pytest.raises(DivergedError, match="infinite or no numbers after step 5; what was saved before stays"):
        SpoilingTrainer(change(settings, **at_step_5), 2).train()
    assert {path: path.read_bytes() for path in settings.output.glob("[bl]*st/*")} == before
    assert len(before) > 8
    assert len(RecordingTrainer(settings, 4).train()) == 4, "and the run goes on from it"


def test_a_run_with_a_damaged_file_or_a_nan_in_it_is_not_resumed(settings: TrainingSettings) -> None:
    RecordingTrainer(settings, 2).train()
    for name in ("model", "average", "optimizer"):
        path = settings.output / "last" / f"{name}.safetensors"
        tensors, whole = load_file(path), path.read_bytes()
        spoilt = next(key for key in sorted(tensors) if tensors[key].dim())
        tensors[spoilt].view(-1)[0] = torch.nan
        save_file(tensors, path)
        with pytest.raises(CheckpointError, match=rf"{name}\.safetensors: {spoilt} has values that are infinite or no"):
            Trainer(settings).run()
        path.write_bytes(whole[:-9])
        with pytest.raises(CheckpointError, match=rf"{name}\.safetensors"):
            Trainer(settings).run()
        path.write_bytes(whole)


def test_a_run_of_another_shape_or_other_data_is_refused(settings: TrainingSettings) -> None:
    RecordingTrainer(settings).train()
    for option, difference in (
        ({"encoder_layers": 3}, "encoder_layers unset → 3"),
        ({"preset": "small"}, "preset tiny → small"),
        ({"optimizer": "muon"}, "optimizer adam → muon"),
    ):
        with pytest.raises(CheckpointError) as refused:
            Trainer(change(settings, **option)).run()
        assert str(refused.value) == (
            f"{settings.output}: this run is of another shape ({difference}); give the new run another output folder"
        )
    path = settings.output / "last" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data_sha256": "0"}))
    with pytest.raises(CheckpointError, match="trained on other data"):
        Trainer(settings).run()


def test_validations_count_the_target_tokens_seen(settings: TrainingSettings) -> None:
    settings = change(settings, max_steps=4, validate_every=2)
    RecordingTrainer(settings, 3).train()
    trainer = RecordingTrainer(settings)
    trainer.train()
    rows = [json.loads(line) for line in (settings.output / "validations.jsonl").read_text().splitlines()]
    assert [row["target_tokens"] for row in rows] == sorted(row["target_tokens"] for row in rows)
    assert rows[-1]["target_tokens"] == trainer.progress.target_tokens
    order = epoch_batches(trainer.train_split, trainer.metadata.weights, settings.batch_tokens, settings.seed, 0)
    expected = sum(trainer.train_split.batch(indices).target_tokens for indices in order[:4])
    assert trainer.progress.target_tokens == expected


def test_a_resume_with_other_settings_says_which(settings: TrainingSettings, caplog: pytest.LogCaptureFixture) -> None:
    RecordingTrainer(settings, 3).train()
    settings = change(settings, batch_tokens=128, learning_rate=5e-4, schedule="linear", save_every=1)
    with caplog.at_level("INFO"):
        assert len(RecordingTrainer(settings, 1).train()) == 1
    expected = "batch_tokens 256 → 128, schedule inverse_sqrt → linear, learning_rate 0.001 → 0.0005"
    assert f"resuming after step 3 with {expected}" in caplog.messages
    with caplog.at_level("INFO"):
        RecordingTrainer(settings).train()
    assert "resuming after step 4" in caplog.messages


def test_a_resume_that_forgets_a_setting_is_refused(settings: TrainingSettings) -> None:
    RecordingTrainer(change(settings, learning_rate=5e-4, save_every=2, patience=7), 3).train()
    given = settings.model_dump(exclude_unset=True, exclude={"batch_tokens"})
    with pytest.raises(CheckpointError) as refused:
        Trainer(TrainingSettings.model_validate(given)).run()
    assert str(refused.value) == (
        f"{settings.output}: this run has other settings (batch_tokens 256 → 4096, learning_rate 0.0005 → 0.001): "
        "repeat its command, or give --batch-tokens --learning-rate to change them"
    )


def test_a_run_that_an_older_version_saved_is_resumed(settings: TrainingSettings) -> None:
    RecordingTrainer(settings, 3).train()
    path = settings.output / "last" / "state.json"
    state = json.loads(path.read_text())
    del state["settings"], state["threads"], state["data_sha256"]
    path.write_text(json.dumps(state))
    assert len(RecordingTrainer(change(settings, batch_tokens=128)).train()) == 3
    assert json.loads(path.read_text())["settings"]["batch_tokens"] == 128


@pytest.fixture
def _two_threads_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "usable_threads", lambda: 2)


@pytest.mark.usefixtures("_two_threads_usable")
def test_trial_steps_leave_the_run_as_it_was(settings: TrainingSettings, tmp_path: Path) -> None:
    losses = RecordingTrainer(change(settings, output=tmp_path / "plain")).train()
    trainer = RecordingTrainer(settings)
    trainer.set_threads()
    torch.set_num_threads(1)
    assert trainer.train() == losses


@pytest.mark.usefixtures("_two_threads_usable")
def test_a_resumed_run_keeps_its_threads_and_a_flag_sets_others(
    settings: TrainingSettings, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = RecordingTrainer(settings, 1)
    trainer.set_threads(2)
    trainer.train()
    torch.set_num_threads(1)
    with caplog.at_level("INFO"):
        Trainer(settings).set_threads()
    assert torch.get_num_threads() == 2
    assert "training with 2 of 2 CPU threads: as this run began (--threads sets another)" in caplog.messages
    Trainer(settings).set_threads(1)
    assert torch.get_num_threads() == 1


def test_an_epoch_too_small_for_one_step_is_refused(settings: TrainingSettings) -> None:
    with pytest.raises(ConfigError, match=r"an epoch has \d+ batches and a step takes 1000"):
        Trainer(change(settings, accumulate=1000)).run()


def test_settings_choose_the_shape(settings: TrainingSettings) -> None:
    metadata = Trainer(settings).metadata
    config = model_config(change(settings, encoder_layers=5, decoder_layers=1, dropout=0.25, norm="post"), metadata)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.dropout, config.norm) == (5, 1, 0.25, "post")
    assert model_config(change(settings, preset="big"), metadata).dropout == 0.3

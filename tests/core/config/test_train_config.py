import dataclasses
import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.config.presets import PRESETS, preset_named, preset_of
from core.config.text import format_value, parse_value, parse_values, with_texts
from core.config.train_config import TrainConfig, field_kind, settings
from core.errors import ConfigError


def test_defaults_and_presets_are_usable():
    assert TrainConfig().problems() == {}
    for name, preset in PRESETS.items():
        assert preset.config.problems() == {}, name
        assert "\n" not in preset.reason
        assert preset_of(preset.config) == name


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("learning_rate", float("nan"), "finite"),
        ("learning_rate", math.inf, "finite"),
        ("learning_rate", 0.0, "greater than 0"),
        ("learning_rate", -1.0, "-1"),
        ("learning_rate", "fast", "a number"),
        ("epochs", 0, "between 1 and 1,000"),
        ("epochs", True, "whole number"),
        ("epochs", 1.5, "whole number"),
        ("seed", -1, "between 0"),
        ("seed", 2**32, "between 0"),
        ("batch_size", 55_001, "at most the number of training digits"),
        ("model", "resnet", "one of"),
        ("device", "gpu", "cuda"),
        ("device", "cuda:x", "cuda"),
        ("dropout", 1.0, "0.95"),
        ("validation_size", 50_001, "50,000"),
        ("workers", 2, "dataloader"),
        ("warmup_steps", 999_999, "number of steps"),
        ("validations_per_epoch", 0, None),
        ("train_size", None, None),
        ("dropout", None, "empty"),
    ],
)
def test_each_problem_is_told_beside_its_field(field, value, word):
    found = dataclasses.replace(TrainConfig(), **{field: value}).problems()
    if word is None:
        assert found == {}
    else:
        assert set(found) == {field}
        assert word in found[field]


def test_all_problems_are_told_together():
    with pytest.raises(ConfigError) as caught:
        TrainConfig(epochs=0, learning_rate=-1.0, model="x").validate()
    assert set(caught.value.problems) == {"epochs", "learning_rate", "model"}
    assert all(field in str(caught.value) for field in ("epochs", "learning_rate", "model"))


def test_a_batchnorm_batch_of_one_is_refused_with_its_reason():
    found = TrainConfig(model="cnn_batchnorm", batch_size=1).problems()
    assert "BatchNorm" in found["batch_size"]
    assert TrainConfig(model="simple_cnn", batch_size=1).problems() == {}


def test_settings_that_would_never_act_are_refused():
    assert "below 1" in TrainConfig(schedule="plateau", schedule_factor=1.0).problems()["schedule_factor"]
    for changes in ({"schedule": "plateau"}, {"early_stopping_patience": 2}):
        assert "needs validations" in TrainConfig(validations_per_epoch=0, **changes).problems()["validations_per_epoch"]


def test_splits_that_do_not_fit_are_refused():
    assert "too many" in TrainConfig(train_size=56_000).problems()["train_size"]
    assert TrainConfig(train_size=55_000).problems() == {}
    assert "too few are left" in TrainConfig(dataset="mnist_sample", validation_size=5_000).problems()["validation_size"]


def _values(name: str):
    setting, kind = settings()[name], field_kind(name)
    if setting.choices:
        made = st.sampled_from(tuple(setting.choices))
    elif kind is bool:
        made = st.booleans()
    elif kind is int:
        made = st.integers(int(setting.low or 0), int(setting.high or 100))
    elif kind is float:
        made = st.floats(1e-12 if setting.low is None else setting.low, setting.high or 1.0)
    else:
        made = st.sampled_from(["auto", "cpu", "cuda", "cuda:3"])
    return made | st.none() if setting.empty is not None else made


@given(st.fixed_dictionaries({name: _values(name) for name in settings()}))
def test_json_and_text_give_back_the_same_settings(values):
    config = TrainConfig(**values)
    assert parse_values({name: format_value(value) for name, value in values.items()}) == (values, {})
    if not config.problems():
        assert TrainConfig.from_json(config.to_json()) == config


def test_unknown_keys_and_broken_json_are_refused():
    with pytest.raises(ConfigError, match="momentum"):
        TrainConfig.from_dict({"momentum": 0.9})
    with pytest.raises(ConfigError, match="JSON"):
        TrainConfig.from_json("{epochs: 3")
    with pytest.raises(ConfigError, match="object"):
        TrainConfig.from_json("[1, 2]")
    assert json.loads(TrainConfig().to_json())["epochs"] == 10


@pytest.mark.parametrize(
    ("value", "text"), [(1e-5, "1e-5"), (0.001, "0.001"), (1e-3 / 3, repr(1e-3 / 3)), (2.0, "2"), (None, "")]
)
def test_numbers_are_shown_as_people_write_them(value, text):
    assert format_value(value) == text


def test_typed_text_is_used_exactly_or_refused():
    assert parse_value("learning_rate", " 1e-5 ") == 1e-5
    assert parse_value("train_size", "60,000") == 60_000
    assert parse_value("gradient_clip", "off") is None
    for text in ("0,001", "abc", "1e", ""):
        with pytest.raises(ConfigError, match="learning_rate"):
            parse_value("learning_rate", text)
    with pytest.raises(ConfigError, match="no such setting"):
        parse_value("lr", "0.1")
    with pytest.raises(ConfigError, match="tutorial"):
        preset_named("best")


@given(
    train=st.integers(10, 3000),
    batch=st.integers(1, 600),
    groups=st.integers(1, 7),
    model=st.sampled_from(["simple_cnn", "cnn_batchnorm"]),
)
def test_steps_agree_with_the_batches_that_are_made(train, batch, groups, model):
    from core.data.batches import batch_bounds

    config = TrainConfig(train_size=train, batch_size=batch, accumulation_steps=groups, model=model)
    assume("batch_size" not in config.problems())
    bounds = batch_bounds(config)
    assert len(bounds) == config.batches_per_epoch()
    assert config.steps_per_epoch() == math.ceil(len(bounds) / groups)
    assert [start for start, _ in bounds] == [0, *(end for _, end in bounds[:-1])]
    assert bounds[-1][1] == train
    if model == "cnn_batchnorm":
        assert min(end - start for start, end in bounds) > 1


@given(st.integers(1, 60_000))
def test_whole_numbers_are_read_in_every_usual_form(number):
    forms = [str(number), f"{number:,}", f"{number:_}", f" {number} ", f"+{number}"]
    if number % 1000 == 0:
        forms += [f"{number // 1000}e3", f"{number / 1000:g}E+3"]
    assert {parse_value("batch_size", text) for text in forms} == {number}


@pytest.mark.parametrize("text", ["2.5", "1e-3", "1,5", "12,34", "0x10", "1e400", "nan", "9" * 5000, "", "1 000", "--1"])
def test_what_is_no_whole_number_is_refused_in_words(text):
    with pytest.raises(ConfigError) as caught:
        parse_value("batch_size", text)
    assert len(str(caught.value)) < 300


def test_all_that_is_unusable_in_a_form_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        with_texts(TrainConfig(), {"epochs": "many", "batch_size": "0", "learning_rate": "1e-3", "dropout": "2"})
    assert set(caught.value.problems) == {"epochs", "batch_size", "dropout"}
    assert with_texts(TrainConfig(), {"epochs": "3", "batch_size": "1e2"}).batch_size == 100

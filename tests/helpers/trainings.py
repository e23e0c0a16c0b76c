"""Small settings of every kind, and trainings followed step by step."""

import dataclasses

import numpy as np
import torch

from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.events import StepDone, StepsEnded, StoppedEarly, Tested, Validated
from core.training.loop import train
from core.training.reporting import take_pending

SAMPLE = TrainConfig(dataset="mnist_sample", train_size=640, validation_size=200, epochs=2, threads=1, device="cpu")

SMALL = dataclasses.replace(SAMPLE, model="lab_cnn", dropout=0.3, train_size=320, validation_size=100, batch_size=32)
CONFIGS = {
    "plain": SMALL,
    "sgd": dataclasses.replace(SMALL, optimizer="sgd", learning_rate=0.05),
    "sgd with momentum": dataclasses.replace(SMALL, optimizer="sgd_momentum", learning_rate=0.01),
    "adamw": dataclasses.replace(SMALL, optimizer="adamw", weight_decay=0.05),
    "rmsprop": dataclasses.replace(SMALL, optimizer="rmsprop"),
    "step": dataclasses.replace(SMALL, schedule="step", schedule_epochs=1, schedule_factor=0.5),
    "cosine with warm-up": dataclasses.replace(SMALL, schedule="cosine", warmup_steps=7),
    "one-cycle": dataclasses.replace(SMALL, schedule="one_cycle", learning_rate=0.01),
    "plateau": dataclasses.replace(
        SMALL,
        schedule="plateau",
        schedule_epochs=1,
        schedule_factor=0.5,
        validations_per_epoch=4,
        learning_rate=0.02,
        warmup_steps=5,
    ),
    "augmented": dataclasses.replace(SMALL, augment_shift=2, augment_rotation=10.0, augment_scale=0.1),
    "accumulated": dataclasses.replace(SMALL, batch_size=24, accumulation_steps=3),
    "early stopping": dataclasses.replace(SMALL, early_stopping_patience=2, validations_per_epoch=5, learning_rate=0.05),
    "many validations": dataclasses.replace(SMALL, validations_per_epoch=9),
    "no validations": dataclasses.replace(SMALL, validations_per_epoch=0),
    "clipped and smoothed": dataclasses.replace(SMALL, gradient_clip=0.5, label_smoothing=0.1),
    "momentum none": dataclasses.replace(SMALL, batchnorm_momentum=None),
    "bfloat16": dataclasses.replace(SMALL, precision="bfloat16"),
    "dataloader": dataclasses.replace(SMALL, pipeline="dataloader", augment_shift=1),
    "sorted": dataclasses.replace(SMALL, order="by_class"),
    "mlp": dataclasses.replace(SMALL, model="mlp"),
    "lone last digit": dataclasses.replace(SMALL, train_size=321),
    "two threads": dataclasses.replace(SMALL, threads=2),
}


def followed(state, splits, until=None):
    """(events that carry values, whether the end was reached); stops at the first event once `until` steps are made."""
    batches, events = make_batches(state.config, splits.train, state.device), []
    torch.set_num_threads(state.threads)
    for event in train(state, batches, splits.validation, splits.test):
        if not isinstance(event, StepDone):
            events.append(event)
        if until is not None and state.step >= until[0] and (isinstance(event, StepDone) or until[1]):
            return [*events, *([report] if (report := take_pending(state)) else [])], False
    return events, True


def losses(events):
    return np.concatenate([one.steps["loss"] for one in events if isinstance(one, StepsEnded)])


def scores(events):
    kept = [one for one in events if isinstance(one, Validated | Tested | StoppedEarly)]
    return [
        dataclasses.replace(one, evaluation=dataclasses.replace(one.evaluation, seconds=0))
        if hasattr(one, "evaluation")
        else one
        for one in kept
    ]

"""`python -m core prove`: train the first steps twice, or in two parts, and compare every bit."""

import argparse
from dataclasses import asdict

from core.commands.given import config_from, print_json
from core.config.train_config import TrainConfig
from core.data.sources import data_root


def prove_run(given: argparse.Namespace) -> int:
    """Prove one configuration; 0 when every bit was equal."""
    from core.preflight.repeatability import Proof, prove, words_of

    config = TrainConfig.from_json(given.config) if given.config else config_from(given.preset or "tutorial", given.set)
    holds = False
    for one in prove(given.kind, config, given.data or data_root(), steps=max(1, given.steps)):
        if isinstance(one, Proof):
            holds = one.holds
        if given.json:
            print_json({"proof" if isinstance(one, Proof) else "progress": asdict(one)})
        elif isinstance(one, Proof):
            print(words_of(one))
    # As JSON the answer is in the line; the exit status then only says whether there is one.
    return 0 if holds or given.json else 1

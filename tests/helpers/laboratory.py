"""The laboratory of the train/eval page without the page."""

from core.data.sources import load_sample
from core.model.predictor import load_predictor
from core.modes.copies import mode_layers, some_digits
from core.runs.folder import RunFolder
from core.runs.info import read_info
from dashboard.models.model_session import Chosen
from dashboard.modes.content import EXPERIMENTS
from dashboard.modes.lab import Lab

NAMES = tuple(EXPERIMENTS)


def lab_of(runs, run_id):
    """What the page gives to its experiments, made without a page."""
    predictor = load_predictor(RunFolder(runs / run_id).best)
    pool, test = load_sample()
    return Lab(
        Chosen(read_info(runs / run_id), "best", predictor),
        predictor,
        some_digits(test, 2000),
        some_digits(pool, 3000),
        mode_layers(predictor.model),
    )

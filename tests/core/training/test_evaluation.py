import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from core.data.batches import normalise
from core.training.evaluation import evaluate

CPU = torch.device("cpu")


@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_scores_do_not_depend_on_the_evaluation_batch(lab, batch_size):
    """Invariant 5: each digit weighs the same, in a last small batch too."""
    model, test, _ = lab
    score = evaluate(model, test, CPU, batch_size)
    with torch.no_grad():
        logits = model(normalise(torch.tensor(test.images)))
    labels = torch.tensor(test.labels)
    assert score.loss == pytest.approx(F.cross_entropy(logits, labels).item(), abs=1e-5)
    assert score.accuracy == (logits.argmax(1) == labels).double().mean().item()
    confusion = np.array(score.confusion)
    assert confusion.sum(1).tolist() == [50] * 10
    assert confusion.diagonal().sum() == round(score.accuracy * 500)


def test_mistakes_are_real_and_sorted_by_confidence(lab):
    model, test, _ = lab
    mistakes = evaluate(model, test, CPU).mistakes
    assert mistakes
    assert all(one.label != one.predicted and test.labels[one.index] == one.label for one in mistakes)
    assert [one.probability for one in mistakes] == sorted((one.probability for one in mistakes), reverse=True)
    assert mistakes[0].image == test.images[mistakes[0].index].tobytes()


def test_evaluating_leaves_the_model_as_it_was(lab):
    model, test, _ = copy.deepcopy(lab)
    before = copy.deepcopy(model.state_dict())
    for mode in (True, False):
        model.train(mode)
        evaluate(model, test, CPU)
        assert model.training is mode
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

"""What a network answers: one rule, for arrays and tensors alike. Numbers that are not finite are no answer."""

import math
from typing import Any

NO_ANSWER = -1


def answers_of(scores: Any) -> Any:
    """The digit with the largest score, row by row.

    Args:
        scores: (n, 10) logits or probabilities, a NumPy array or a tensor.

    Returns:
        int64 (n,), of the same kind: 0 to 9, or NO_ANSWER where a score is NaN or infinite. Without this rule argmax would take
        the first NaN for a sure answer. Compared with labels, what is not answered is wrong.
    """
    answers = scores.argmax(-1)
    answers[~(abs(scores) < math.inf).all(-1)] = NO_ANSWER
    return answers

"""What the parts of a script ask about, and lines that know what they do in a training."""

from enum import StrEnum

from core.config.train_config import TrainConfig
from core.events import RunStarted
from core.model.networks import Dropout, outline


class Does(StrEnum):
    """What a line of the training loop does; "" for all others. The page ties each to what it caused."""

    NOTHING = ""
    DATA = "data"
    DROPOUT = "dropout"
    SCHEDULE = "schedule"
    ZERO_GRAD = "zero_grad"
    FORWARD = "forward"
    BACKWARD = "backward"
    CLIP = "clip"
    OPTIMIZER = "optimizer"
    LOSS = "loss"
    VALIDATION = "validation"
    TEST = "test"


class Code(str):
    """Lines of a script that do one thing."""

    does: Does

    def __new__(cls, text: str, does: Does) -> "Code":
        """`does` beside the text."""
        code = super().__new__(cls, text)
        code.does = does
        return code


class Scripted:
    """What the sections ask about."""

    def __init__(self, run_id: str, config: TrainConfig, started: RunStarted) -> None:
        self.run_id, self.config, self.started = run_id, config, started
        self.loader = config.pipeline == "dataloader"
        self.scheduled = config.schedule != "constant" or config.warmup_steps > 0
        self.plateau = config.schedule == "plateau"
        self.per_epoch, self.total = config.steps_per_epoch(), config.total_steps()
        self.train_size, self.validation_size, _ = config.split_sizes()
        self.model = outline(config)
        self.drops = any(isinstance(module, Dropout) and module.p for module in self.model.modules())

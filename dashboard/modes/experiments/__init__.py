"""One experiment a file: its question, controls, work, figure, sentence and PyTorch lines.

batch_size.py          How many digits must share a batch?
company.py             Does it matter who else is in the batch?
distribution_shift.py  Which mode minds darker, paler or noisier images?
dropout_passes.py      What do many passes with different masks say together?
during_training.py     How much of the gap between train and validation is the mode's?
eval_or_no_grad.py     Is model.eval() the same as torch.no_grad()?
inside_layer.py        What does BatchNorm compute in each mode?
one_switch.py          What does forgetting model.eval() cost?
poisoning.py           Can merely looking at a model spoil it?
warming_up.py          How do the running statistics find their values?
with_and_without.py    What do BatchNorm and Dropout change in training?
"""

"""The experiments of train and eval mode: one file a question.

batch_mates.py         The images that share a batch with the one that is looked at.
batch_size.py          How accuracy in train mode depends on how many digits share a batch, and what a batch of one does to
company.py             One image's answer in train mode beside different kinds of images.
copies.py              Train mode and eval mode side by side, always on a deep copy: what BatchNorm and Dropout do to an answer.
distribution_shift.py  Images that differ from those of the training, and what each mode makes of them.
dropout_passes.py      Dropout on one image: many passes as a spread, and how scaling by 1 / (1 - p) keeps their mean at eval
during_training.py     What the gap between train and validation loss is made of, each part measured by changing one thing at a
eval_or_no_grad.py     model.eval() against torch.no_grad(): two switches for two different things, measured on the spot.
inside_layer.py        What one BatchNorm layer computes in each mode, channel by channel.
norm_layers.py         BatchNorm layers of a network, and what is wrong with their statistics.
one_switch.py          The same weights asked in both modes: what forgetting eval() costs.
poisoning.py           Running statistics spoiled by forward passes alone, and recalibrated.
warming_up.py          Running statistics from their first values, step by step.
with_and_without.py    Twins that differ in BatchNorm or Dropout alone.
"""

"""MNIST and its sample: files, splits, batches.

batches.py        Two ways of feeding a training: the whole split as one tensor on the device, or a DataLoader with transforms.
download.py       Fetch MNIST from torchvision's mirrors: visible progress, no half-written file, one download at a time.
drawn_batches.py  Batches in which a share of the digits are drawings that a person wants learned.
run_batches.py    The batches of a run, as its training took them and as often as somebody wants to see them again.
sources.py        Where digits come from: MNIST's files, verified when they are read, or the sample that is always there.
"""

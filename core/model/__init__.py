"""Networks, their weights on disk, and answers.

checkpoint_file.py  Weights on disk: plain values only, written beside and renamed, with a digest over everything that was
fit.py              Do weights belong to a network, and are they fit for use? One answer for files of ours and from elsewhere.
layers.py           What each layer makes of a digit: shape, parameters, arithmetic, memory, how much of the image it sees.
networks.py         The networks: one dict from name to builder.
predictor.py        A trained model that answers for images.
source.py           A network as Python lines of its own: a class, or the very code of its builder; nothing of this project.
weights.py          A network's weights on disk: written beside, checked, renamed; read with a digest and without code.
"""

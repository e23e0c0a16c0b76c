"""Why a network answers as it does.

attribution.py   Where a model looks: occlusion, the answer under shifts, feature maps.
disagreement.py  Two models on the same test digits: what each gets right, and the digits on which they disagree.
hard_digits.py   Test digits that a model gets wrong, or is in doubt about, found at random.
looking_back.py  A run at every step whose weights it kept: what it got wrong then, its first layer, what it said of drawings.
nearest.py       The training digits most like an image, and whether it is like any of them.
time_travel.py   What a network said of a picture along its training, by the weights it kept on the way.
"""

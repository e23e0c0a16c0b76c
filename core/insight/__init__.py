"""Why a network answers as it does.

attribution.py   Where a model looks: occlusion, the answer under shifts, feature maps, and the training digits most like an
disagreement.py  Two models on the same test digits: what each gets right, and the digits on which they disagree.
looking_back.py  A run at every step whose weights it kept: what it got wrong then, its first layer, what it said of drawings.
time_travel.py   What a network said of a picture along its training, by the weights it kept on the way.
"""

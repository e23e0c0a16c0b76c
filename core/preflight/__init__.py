"""What can be known before a long run.

repeatability.py  Does a run repeat, and does it go on after a stop? Tried out on the spot, step by step, bit by bit.
speed.py          How fast a configuration trains here, measured by training it for a moment.
"""

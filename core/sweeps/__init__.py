"""Many runs that differ in a few settings.

local.py   A sweep on this machine: its runs one after the other, within a budget.
search.py  Which configurations a sweep trains: a grid, or random points.
"""

"""Digit Lab's engine: training, data, runs. It knows no user interface."""

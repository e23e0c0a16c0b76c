"""Figures of speed and memory, each as a ratio within one run: `python -m tests.benchmarks.NAME [--data DIR] [--json]`."""

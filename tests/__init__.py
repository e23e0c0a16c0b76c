"""Tests: behaviour of core and dashboard, real files, real threads, a real browser."""

"""The Environment page.

page.py     Environment: is the installation sound, and what does it compute with?
session.py  The Environment page's check, run as a job.
"""

"""The form of settings.

form_session.py   The settings form of a browser session: presets, links, what is unusable, and what a run would take.
settings_form.py  The settings of the run to come: one widget a field, made from core.config.train_config, each with its
"""

"""What tests look for on a page under AppTest."""

import core.execution.process


def button(app, label):
    return next(one for one in app.button if one.label == label)


def texts(app) -> str:
    return "\n".join(
        one.value for kind in (app.markdown, app.caption, app.error, app.warning, app.info, app.success) for one in kind
    )


def session_is_warm():
    return (job := core.execution.process.get_jobs().get("warm-up")) is not None and not job.status.is_active

"""The Draw page under AppTest."""

from tests.helpers.shapes import as_canvas
from tests.helpers.waits import wait_for_job


def opened(app, drawn=None):
    """The Draw page, PyTorch imported, with a drawing on the canvas."""
    if drawn is not None:
        app.session_state["draw_content"] = as_canvas(drawn)
    app.run()
    wait_for_job("warm-up")
    app.switch_page("draw/page.py").run()
    wait_for_job("digits-mnist_sample", begun=False)
    app.run()
    assert not app.exception
    return app


def answer(app) -> int | None:
    """The large digit."""
    for one in app.get("html"):
        body = one.proto.body
        if "digit-lab-answer" in body:
            return int(body.partition("The answer is ")[2][0])
    return None


def upload(app, content, name="digit.png"):
    app.get_by_key("draw_source").set_value("picture").run()
    app.file_uploader(key="draw_upload_0").upload(name, content).run()
    assert not app.exception
    return app

"""What all pages share: which run, who may control, whether PyTorch is there.

pictures.py        Small grey images as pictures within the page. No Streamlit here.
policy.py          The password of this server's controls, and how often it may be tried.
policy_row.py      On a server with a password: what one may do, and the way to the controls.
policy_session.py  Who may start, stop and delete.
refresh.py         How often pages refresh themselves, by how many watch.
run_session.py     Which run this browser looks at: the address, the choice, or the newest.
start_session.py   Starting a run from any page, and what went wrong when it did not start.
torch_ready.py     PyTorch is imported once in the background; pages ask here whether it is there yet.
torch_row.py       What a page says while PyTorch is imported, and when it cannot be.
uploads.py         How much of what visitors upload this server holds: without it a locked page would take any number of large
widget_session.py  What Streamlit does not say of a widget: whether a person has just changed it.
"""

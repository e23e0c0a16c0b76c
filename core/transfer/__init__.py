"""What comes from elsewhere and what leaves.

imported.py       A file with weights becomes a run of its own, so that every page can ask it.
metrics_files.py  A run's metrics for other programs: CSV, Parquet and TensorBoard's event files.
run_zip.py        A whole run as one zip, to be taken to another machine, and back in: checked like any file from elsewhere.
script/           A run as one Python file of its own.
weights_in.py     Weights as files for other programs, and files from elsewhere as weights: nothing in them is executed.
weights_out.py    Weights that leave: as a state_dict, a whole model or safetensors, with lines that load them.
"""

"""Files: written so that a kill leaves the old or the new one, and read so that nothing in them runs.

archives.py     A zip that anybody may have made, read once: what is checked here is what everybody else gets.
atomic.py       Files that are replaced whole, so that a reader sees the old one or the new one, and a crash leaves one of them.
disk_use.py     What runs take on the disk, and whether there is room for another one.
records.py      Frozen dataclasses from JSON that anybody may have written: every value's kind and range is checked before it
torch_files.py  Read a file of torch.save that anybody may have made: nothing in it is executed, and it takes no more memory
"""

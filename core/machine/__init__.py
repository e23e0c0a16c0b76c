"""What this machine is and can do. No torch at import.

check.py         Looks at the machine and at a configuration before a person trusts a long run to them.
contention.py    Who has the processor's cores: the threads that train, the pages of the same process, and every other program.
gpu_check.py     GPUs as the check sees them: the driver, the platform that torch was built for, and what a device computes.
hardware.py      The machine: device choice, threads, precision.
installation.py  Python, its environment, the packages and the system under them: what is installed, against what was tested
memory.py        Memory of the machine and of its devices: how much there is, what says that it ran out, and giving it back.
"""

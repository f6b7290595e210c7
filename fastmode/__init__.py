"""The front door: the command line and everything that starts, watches and stops processes on one machine.

Nothing of ours imports this package; it alone may start the others.
"""

from importlib.metadata import version

__version__ = version("fastmode")

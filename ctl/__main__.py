"""Lets people start the program as ``python -m ctl``."""

from ctl.cli import start

if __name__ == "__main__":
    start()

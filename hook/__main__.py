"""Lets the image and people start the program as ``python -m hook``."""

from hook.cli import main

if __name__ == "__main__":
    main()
